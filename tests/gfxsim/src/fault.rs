//! What a run can end with.

/// Why a kernel could not be read or run on, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}{}", place(*.line, *.wave, *.lane))]
pub struct Fault {
    /// What went wrong.
    pub kind: Kind,
    /// Line of the assembly text, from 1; 0 when there is none.
    pub line: usize,
    /// Wave of the workgroup.
    pub wave: Option<usize>,
    /// Lane of the wave.
    pub lane: Option<usize>,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Kind {
    /// The simulator does not know the instruction or one of its operands.
    #[error("unknown instruction `{0}`")]
    Unknown(String),
    /// The text or the launch is malformed.
    #[error("{0}")]
    Malformed(String),
    /// An address outside every buffer.
    #[error("{what} of {bytes} bytes at {address:#x}: outside every buffer{near}")]
    OutOfBounds {
        /// load or store.
        what: &'static str,
        /// Address.
        address: u64,
        /// Width of the access.
        bytes: usize,
        /// The nearest buffer, in words.
        near: String,
    },
    /// Bytes of a buffer that nobody wrote, or that were poisoned.
    #[error("load of {bytes} bytes at offset {offset} of `{buffer}`: {why}")]
    Uninitialised {
        /// Name of the buffer.
        buffer: String,
        /// Offset of the access.
        offset: usize,
        /// Width of the access.
        bytes: usize,
        /// Never written, or poisoned.
        why: &'static str,
    },
    /// A store to a buffer of inputs.
    #[error("store to `{0}`, which is read-only")]
    ReadOnly(String),
    /// A register that nobody wrote reaches memory, a branch or a matrix instruction.
    #[error("{register} is used by {by} before it was written")]
    UnwrittenRegister {
        /// The register.
        register: String,
        /// Who uses it.
        by: &'static str,
    },
    /// A register is used while a load into it may still be under way: a `s_waitcnt` is missing.
    #[error("{register} is used before the wait for the load into it")]
    MissingWait {
        /// The register.
        register: String,
    },
    /// LDS bytes outside the allocation.
    #[error("LDS access at {address} of {bytes} bytes: the workgroup has {size}")]
    LdsOutOfBounds {
        /// Byte address.
        address: usize,
        /// Width of the access.
        bytes: usize,
        /// Bytes allocated.
        size: usize,
    },
    /// LDS bytes that nobody wrote.
    #[error("LDS load at {0}: never written")]
    LdsUninitialised(usize),
    /// Two waves touch the same LDS bytes, one writing, without a barrier (and the waits before it) between them.
    #[error("LDS race at byte {address}: wave {first} {did}, then wave {second}, without a barrier between")]
    LdsRace {
        /// Byte address.
        address: usize,
        /// The earlier wave.
        first: usize,
        /// What it did.
        did: &'static str,
        /// The later wave.
        second: usize,
    },
    /// Waves wait at a barrier that others left the kernel without reaching.
    #[error("barrier: some waves wait, others have ended")]
    Barrier,
    /// More instructions than any kernel of this project needs: an endless loop.
    #[error("more than {0} instructions in one wave")]
    Endless(u64),
}

impl Fault {
    pub(crate) fn malformed(text: impl Into<String>) -> Self {
        Kind::Malformed(text.into()).into()
    }

    pub(crate) fn at(mut self, line: usize, wave: usize) -> Self {
        (self.line, self.wave) = (line, Some(wave));
        self
    }

    pub(crate) fn on_lane(mut self, lane: usize) -> Self {
        self.lane = Some(lane);
        self
    }
}

impl From<Kind> for Fault {
    fn from(kind: Kind) -> Self {
        Self { kind, line: 0, wave: None, lane: None }
    }
}

impl From<std::num::ParseIntError> for Fault {
    fn from(error: std::num::ParseIntError) -> Self {
        Self::malformed(format!("not a number: {error}"))
    }
}

fn place(line: usize, wave: Option<usize>, lane: Option<usize>) -> String {
    let mut text = String::new();
    if line > 0 {
        text += &format!(" (line {line}");
        for (name, value) in [("wave", wave), ("lane", lane)] {
            if let Some(value) = value {
                text += &format!(", {name} {value}");
            }
        }
        text += ")";
    }
    text
}

/// A result of the simulator.
pub type Result<T> = std::result::Result<T, Fault>;
