//! Launches on the simulator.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod elements;
pub mod logits;
pub mod request;

use std::sync::OnceLock;

use gfxsim::{Buffer, Fault, Launch, Memory, Program, Report};
use specverify_hip::abi::Arguments;
use specverify_hip::kernels::{CODE_OBJECTS, code_object};

/// Both architectures.
pub const ARCHITECTURES: [&str; 2] = ["gfx942", "gfx950"];

/// The assembly text of a source.
pub fn assembly(source: &str, arch: &str) -> &'static str {
    code_object(source, arch).unwrap_or_else(|| panic!("no code object {source} for {arch}")).assembly
}

/// The kernels of a source, decoded once a process.
pub fn program(source: &str, arch: &str) -> &'static Program {
    static PROGRAMS: OnceLock<Vec<OnceLock<Program>>> = OnceLock::new();
    let programs = PROGRAMS.get_or_init(|| CODE_OBJECTS.iter().map(|_| OnceLock::new()).collect());
    let index = CODE_OBJECTS.iter().position(|object| object.source == source && object.arch == arch).unwrap();
    programs[index].get_or_init(|| Program::parse(CODE_OBJECTS[index].assembly).unwrap())
}

/// Runs a launch.
pub fn launch<A: Arguments>(
    program: &Program,
    kernel: &str,
    grid: [u32; 3],
    block: u32,
    arguments: &A,
    memory: &mut Memory,
) -> Result<Report, Fault> {
    let launch = Launch { kernel, grid, block: [block, 1, 1], dynamic_lds: 0, kernarg: arguments.bytes() };
    program.launch(&launch, memory)
}

/// A number as it lies in memory.
pub trait Number: Copy {
    /// Appends its bytes.
    fn append(self, to: &mut Vec<u8>);
}

macro_rules! numbers {
    ($($number:ty)*) => {
        $(impl Number for $number {
            fn append(self, to: &mut Vec<u8>) {
                to.extend(self.to_le_bytes());
            }
        })*
    };
}

numbers! { u16 i32 u64 i64 f32 }

/// A buffer of numbers that kernels only read.
pub fn input<T: Number>(memory: &mut Memory, name: &str, values: &[T]) -> Buffer {
    let mut bytes = Vec::with_capacity(size_of_val(values));
    values.iter().for_each(|value| value.append(&mut bytes));
    memory.add_read_only(name, &bytes)
}

/// The same with places between that kernels must not read.
pub fn padded_input<T: Number>(memory: &mut Memory, name: &str, values: &[Option<T>]) -> Buffer {
    let mut bytes = Vec::with_capacity(size_of::<T>() * values.len());
    values.iter().for_each(|value| match value {
        Some(value) => value.append(&mut bytes),
        None => bytes.resize(bytes.len() + size_of::<T>(), 0xFF),
    });
    let buffer = memory.add_read_only(name, &bytes);
    for (i, _) in values.iter().enumerate().filter(|(_, value)| value.is_none()) {
        memory.poison(buffer, i * size_of::<T>()..(i + 1) * size_of::<T>());
    }
    buffer
}

/// A buffer as i32.
pub fn read_i32(memory: &Memory, buffer: Buffer) -> Vec<i32> {
    memory.bytes(buffer).as_chunks::<4>().0.iter().map(|word| i32::from_le_bytes(*word)).collect()
}

/// A small generator, so that every case is the same on every machine.
pub struct Numbers(pub u64);

impl Numbers {
    /// 32 random bits.
    pub fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    /// A number below a bound.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u64::from(self.word()) * bound as u64) >> 32) as usize
    }
}
