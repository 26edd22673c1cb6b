//! From a line of text to something that runs.

use crate::fault::{Kind, Result};
use crate::lds::Lds;
use crate::memory::Memory;
use crate::parse::{Line, Operands, Text};
use crate::wave::Wave;
use crate::{access, mfma, scalar, vector, waits};

/// What a running instruction may touch besides its wave.
pub(crate) struct Env<'a> {
    pub memory: &'a mut Memory,
    pub lds: &'a mut Lds,
    pub flops: &'a mut u64,
}

/// A decoded instruction.
pub(crate) type Action = Box<dyn Fn(&mut Wave, &mut Env<'_>) -> Result<()> + Send + Sync>;

/// What kind of work an instruction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Vector arithmetic.
    Vector,
    /// Exponentials, logarithms, reciprocals and roots, which take the hardware longer.
    Transcendental,
    /// Matrix arithmetic.
    Matrix,
    /// Scalar arithmetic and branches.
    Scalar,
    /// Scalar loads.
    ScalarLoad,
    /// Loads and stores of global memory.
    Global,
    /// LDS and cross-lane traffic through it.
    Local,
    /// s_waitcnt.
    Wait,
    /// s_barrier.
    Barrier,
    /// Hints and no-operations.
    Other,
}

impl Class {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Vector,
        Self::Transcendental,
        Self::Matrix,
        Self::Scalar,
        Self::ScalarLoad,
        Self::Global,
        Self::Local,
        Self::Wait,
        Self::Barrier,
        Self::Other,
    ];
}

/// What happens when an instruction is reached.
pub(crate) enum Step {
    Run(Action),
    Barrier,
    End,
}

/// A decoded line.
pub(crate) struct Instruction {
    pub step: Step,
    pub class: Class,
    pub line: usize,
}

/// Instructions that say something to the hardware that a simulator in program order need not hear. The `s_nop`s and their like that
/// hazards need are the compiler's to insert and not checked.
const HINTS: &[&str] = &[
    "s_nop",
    "s_setprio",
    "s_sleep",
    "s_sched_barrier",
    "s_sched_group_barrier",
    "s_icache_inv",
    "s_code_end",
    "s_inst_prefetch",
    "buffer_inv",
    "buffer_wbl2",
    "s_dcache_wb",
    "s_clause",
];

const TRANSCENDENTAL: &[&str] = &["v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_", "v_sin_", "v_cos_"];

/// Decodes one line.
pub(crate) fn decode(line: &Line, text: &Text) -> Result<Instruction> {
    let name = line.mnemonic.as_str();
    let operands = Operands::parse(&line.rest);
    let done = |class, step| Ok(Instruction { step, class, line: line.number });
    match name {
        "s_endpgm" => return done(Class::Other, Step::End),
        "s_barrier" => return done(Class::Barrier, Step::Barrier),
        "s_waitcnt" => return done(Class::Wait, Step::Run(wait(&line.rest)?)),
        _ if HINTS.contains(&name) => return done(Class::Other, Step::Run(Box::new(|_, _| Ok(())))),
        _ => {}
    }
    let fp8_is_fnuz = text.arch == "gfx942";
    let (class, action) = if name.starts_with("s_load_dword") {
        (Class::ScalarLoad, access::scalar_load(name, &operands)?)
    } else if name.starts_with("s_") {
        (Class::Scalar, scalar::decode(name, &operands, &text.labels)?)
    } else if name.starts_with("global_") || name.starts_with("flat_") {
        (Class::Global, access::global(name, &operands)?)
    } else if name.starts_with("ds_") {
        (Class::Local, access::local(name, &operands)?)
    } else if name.starts_with("v_mfma_") {
        (Class::Matrix, mfma::decode(name, &operands, fp8_is_fnuz)?)
    } else if TRANSCENDENTAL.iter().any(|prefix| name.starts_with(prefix)) {
        (Class::Transcendental, vector::decode(name, &operands, fp8_is_fnuz)?)
    } else if name.starts_with("v_") {
        (Class::Vector, vector::decode(name, &operands, fp8_is_fnuz)?)
    } else {
        return Err(Kind::Unknown(name.to_owned()).into());
    };
    done(class, Step::Run(action))
}

fn wait(rest: &str) -> Result<Action> {
    let [vector, local] = waits::counts(rest)?;
    Ok(Box::new(move |wave, _| {
        vector.into_iter().for_each(|left| wave.wait_vector(left));
        local.into_iter().for_each(|left| wave.wait_local(left));
        Ok(())
    }))
}
