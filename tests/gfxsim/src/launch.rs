//! Runs the workgroups of a launch, one after the other, the waves of one in turns from barrier to barrier.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::decode::{Class, Env, Instruction, Step, decode};
use crate::fault::{Fault, Kind, Result};
use crate::lds::Lds;
use crate::memory::Memory;
use crate::parse::{Kernel, Metadata, Text};
use crate::wave::Wave;

/// A wave that runs longer than this is taken to never end.
const ENDLESS: u64 = 50_000_000;

/// What to run.
#[derive(Debug, Clone, Copy)]
pub struct Launch<'a> {
    /// Name of the kernel.
    pub kernel: &'a str,
    /// Workgroups.
    pub grid: [u32; 3],
    /// Work-items of a workgroup.
    pub block: [u32; 3],
    /// LDS beside that of the kernel itself, in bytes.
    pub dynamic_lds: usize,
    /// The arguments, packed as the compiler lays them out.
    pub kernarg: &'a [u8],
}

/// What a launch did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Instructions of waves.
    pub instructions: u64,
    /// The same by class.
    pub by_class: BTreeMap<Class, u64>,
    /// LDS instructions.
    pub lds_accesses: u64,
    /// Bytes that their lanes asked for or gave.
    pub lds_bytes: u64,
    /// Cycles that LDS instructions lost to bank conflicts.
    pub lds_conflict_cycles: u64,
    /// Operations of matrix instructions.
    pub matrix_flops: u64,
    /// The same for each of a compute unit's four SIMDs, to which a workgroup's waves are dealt in turn.
    pub simds: [Issued; 4],
}

/// What the waves of one SIMD ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Issued {
    /// Instructions, but for waits and hints.
    pub instructions: u64,
    /// Those of [`Class::Vector`].
    pub vector: u64,
    /// Those of [`Class::Transcendental`].
    pub transcendental: u64,
    /// Operations of matrix instructions.
    pub matrix_flops: u64,
}

/// The kernels of one assembly text, decoded.
#[derive(Clone)]
pub struct Program {
    text: Arc<Text>,
    code: Arc<[std::result::Result<Instruction, Fault>]>,
    /// Index of an instruction that is passed over; past the end of a text that is run as it is.
    omitted: usize,
}

impl Program {
    /// Reads the text that `clang -S` prints for gfx942 or gfx950.
    ///
    /// # Errors
    /// [`Kind::Malformed`]. An instruction that the simulator does not know is an error only when it is reached.
    pub fn parse(text: &str) -> Result<Self> {
        let text = Text::parse(text)?;
        if !["gfx942", "gfx950"].contains(&text.arch.as_str()) {
            return Err(Fault::malformed(format!("architecture is {:?}; expected gfx942 or gfx950", text.arch)));
        }
        let code = text.lines.iter().map(|line| decode(line, &text)).collect();
        Ok(Self { text: Arc::new(text), code, omitted: usize::MAX })
    }

    /// The architecture.
    pub fn arch(&self) -> &str {
        &self.text.arch
    }

    /// The names of the kernels.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.text.kernels.keys().map(String::as_str)
    }

    /// What the compiler says of a kernel.
    ///
    /// # Errors
    /// [`Kind::Malformed`] when there is none of that name.
    pub fn metadata(&self, kernel: &str) -> Result<&Metadata> {
        Ok(&self.kernel(kernel)?.metadata)
    }

    /// The mnemonics of a kernel's instructions, with their lines.
    ///
    /// # Errors
    /// As [`Program::metadata`].
    pub fn mnemonics(&self, kernel: &str) -> Result<impl Iterator<Item = (&str, usize)>> {
        let kernel = self.kernel(kernel)?;
        Ok(self.text.lines[kernel.entry..kernel.end].iter().map(|line| (line.mnemonic.as_str(), line.number)))
    }

    /// Instructions that the simulator does not know, of all kernels.
    pub fn unknown(&self) -> impl Iterator<Item = &Fault> {
        self.code.iter().filter_map(|decoded| decoded.as_ref().err())
    }

    /// This program with the instruction of a line left out: a mutant that tests should notice.
    ///
    /// # Errors
    /// [`Kind::Malformed`] when the line holds no instruction.
    pub fn without(&self, line: usize) -> Result<Self> {
        let index = self.text.lines.iter().position(|other| other.number == line);
        let omitted = index.ok_or_else(|| Fault::malformed(format!("no instruction in line {line}")))?;
        Ok(Self { omitted, ..self.clone() })
    }

    pub(crate) fn text(&self) -> &Text {
        &self.text
    }

    pub(crate) fn omitted(&self) -> Option<usize> {
        (self.omitted != usize::MAX).then_some(self.omitted)
    }

    pub(crate) fn kernel(&self, name: &str) -> Result<&Kernel> {
        self.text.kernels.get(name).ok_or_else(|| Fault::malformed(format!("no kernel {name:?}")))
    }

    /// Runs a launch to its end.
    ///
    /// # Errors
    /// The first fault that any wave meets.
    pub fn launch(&self, launch: &Launch<'_>, memory: &mut Memory) -> Result<Report> {
        let kernel = self.kernel(launch.kernel)?;
        if launch.kernarg.len()
            != kernel.metadata.arguments.last().map_or(0, |&(offset, size)| (offset + size) as usize)
        {
            return Err(Fault::malformed(format!(
                "kernarg of {} has {} bytes; expected {:?}",
                launch.kernel,
                launch.kernarg.len(),
                kernel.metadata.arguments
            )));
        }
        for name in ["user_sgpr_dispatch_ptr", "user_sgpr_queue_ptr", "user_sgpr_dispatch_id", "enable_private_segment"]
        {
            if kernel.directive(name) != 0 {
                return Err(Fault::malformed(format!(
                    "{} needs {name}, which the simulator does not give",
                    launch.kernel
                )));
            }
        }
        if ["32", "16_64"].iter().any(|bits| kernel.directive(&format!("float_denorm_mode_{bits}")) != 3) {
            return Err(Fault::malformed(format!("{} flushes denormals, which the simulator does not", launch.kernel)));
        }
        if ["32", "16_64"].iter().any(|bits| kernel.directive(&format!("float_round_mode_{bits}")) != 0) {
            return Err(Fault::malformed(format!("{} does not round to even, as the simulator does", launch.kernel)));
        }
        let arguments = with_hidden_arguments(launch, kernel.metadata.kernarg as usize);
        let kernarg = memory.add_read_only("kernarg", &arguments).address();
        let lds_bytes = kernel.metadata.lds as usize + launch.dynamic_lds;
        let banks = if self.arch() == "gfx950" { 64 } else { 32 };
        let mut run = Run { program: self, report: Report::default(), lds: Lds::new(lds_bytes, banks) };
        let mut waves = Vec::new();
        for z in 0..launch.grid[2] {
            for y in 0..launch.grid[1] {
                for x in 0..launch.grid[0] {
                    dispatch(&mut waves, launch, kernel, kernarg, &arguments, [x, y, z])?;
                    run.workgroup(&mut waves, memory)?;
                }
            }
        }
        let Run { mut report, lds, .. } = run;
        (report.lds_accesses, report.lds_bytes) = (lds.accesses, lds.bytes);
        report.lds_conflict_cycles = lds.conflict_cycles;
        Ok(report)
    }
}

/// The arguments with the hidden ones of code object version 5 that describe the launch.
fn with_hidden_arguments(launch: &Launch<'_>, size: usize) -> Vec<u8> {
    let mut bytes = launch.kernarg.to_vec();
    bytes.resize(launch.kernarg.len().next_multiple_of(8), 0);
    launch.grid.iter().for_each(|count| bytes.extend(count.to_le_bytes()));
    launch.block.iter().for_each(|count| bytes.extend((*count as u16).to_le_bytes()));
    bytes.resize(bytes.len().max(size) + 64, 0);
    bytes
}

/// Makes the waves of a workgroup as the dispatcher sets them up, out of those of the last one.
fn dispatch(
    waves: &mut Vec<Wave>,
    launch: &Launch<'_>,
    kernel: &Kernel,
    kernarg: u64,
    arguments: &[u8],
    group: [u32; 3],
) -> Result<()> {
    let directive = |name: &str| kernel.directive(name);
    let items = launch.block.iter().product::<u32>() as usize;
    for number in 0..items.div_ceil(64) {
        let lanes = items - 64 * number;
        match waves.get_mut(number) {
            Some(wave) => wave.restart(kernel.entry, lanes),
            None => waves.push(Wave::new(number, kernel.entry, lanes)),
        }
        let wave = &mut waves[number];
        let mut next = 0;
        if directive("user_sgpr_kernarg_segment_ptr") != 0 {
            wave.set_pair(0, kernarg)?;
            next = 2;
        }
        let preloaded = directive("user_sgpr_kernarg_preload_length") as usize;
        let from = directive("user_sgpr_kernarg_preload_offset") as usize;
        for word in arguments.as_chunks::<4>().0.iter().skip(from).take(preloaded) {
            wave.set_scalar(next, u32::from_le_bytes(*word))?;
            next += 1;
        }
        next = next.max(directive("user_sgpr_count") as usize);
        for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
            if directive(&format!("system_sgpr_workgroup_id_{name}")) != 0 {
                wave.set_scalar(next, group[axis])?;
                next += 1;
            }
        }
        let mut ids = [0; 64];
        for (lane, id) in ids.iter_mut().enumerate() {
            let item = (64 * number + lane) as u32;
            let [width, height, _] = launch.block;
            let (x, y, z) = (item % width, item / width % height, item / width / height);
            *id = x | y << 10 | z << 20;
        }
        wave.set_vector(0, &ids, u64::MAX, u64::MAX)?;
    }
    Ok(())
}

struct Run<'a> {
    program: &'a Program,
    report: Report,
    lds: Lds,
}

impl Run<'_> {
    fn workgroup(&mut self, waves: &mut [Wave], memory: &mut Memory) -> Result<()> {
        self.lds.restart();
        loop {
            let mut waiting = 0;
            for wave in waves.iter_mut().filter(|wave| !wave.done) {
                waiting += usize::from(self.run_to_barrier(wave, memory)?);
            }
            if waiting == 0 {
                break;
            }
            if waves.iter().any(|wave| wave.done) {
                let waits = waves.iter().find(|wave| !wave.done).map_or((0, 0), |wave| (wave.pc - 1, wave.number));
                return Err(Fault::from(Kind::Barrier).at(self.program.text.lines[waits.0].number, waits.1));
            }
            for wave in waves.iter() {
                for access in wave.unfinished_lds() {
                    self.lds.outlive_barrier(&access.addresses, access.by, wave.number);
                }
            }
            self.lds.epoch += 1;
        }
        Ok(())
    }

    /// Runs a wave until it waits at a barrier (true) or ends (false).
    fn run_to_barrier(&mut self, wave: &mut Wave, memory: &mut Memory) -> Result<bool> {
        let mut classes = [0_u64; Class::ALL.len()];
        let mut flops = 0;
        let mut env = Env { memory, lds: &mut self.lds, flops: &mut flops };
        let outcome = loop {
            let Some(decoded) = self.program.code.get(wave.pc) else {
                break Err(Fault::malformed("the program ran past its end"));
            };
            if wave.pc == self.program.omitted {
                wave.pc += 1;
                continue;
            }
            let instruction = match decoded {
                Ok(instruction) => instruction,
                Err(fault) => break Err(fault.clone().at(self.program.text.lines[wave.pc].number, wave.number)),
            };
            wave.pc += 1;
            wave.executed += 1;
            classes[instruction.class as usize] += 1;
            if wave.executed > ENDLESS {
                break Err(Fault::from(Kind::Endless(ENDLESS)).at(instruction.line, wave.number));
            }
            match &instruction.step {
                Step::Run(action) => {
                    if let Err(fault) = action(wave, &mut env) {
                        break Err(fault.at(instruction.line, wave.number));
                    }
                }
                Step::Barrier => break Ok(true),
                Step::End => {
                    wave.done = true;
                    break Ok(false);
                }
            }
        };
        for class in Class::ALL {
            let count = classes[class as usize];
            self.report.instructions += count;
            *self.report.by_class.entry(class).or_default() += count;
        }
        self.report.matrix_flops += flops;
        let simd = &mut self.report.simds[wave.number % 4];
        let unissued = classes[Class::Wait as usize] + classes[Class::Other as usize];
        simd.instructions += classes.iter().sum::<u64>() - unissued;
        simd.vector += classes[Class::Vector as usize];
        simd.transcendental += classes[Class::Transcendental as usize];
        simd.matrix_flops += flops;
        outcome
    }
}
