//! The one error enum.

use std::fmt::Display;

use crate::HipError;

/// What can keep a kernel from running.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No libamdhip64 is mapped into the process or installed.
    #[error("no HIP runtime: libamdhip64 is neither loaded nor installed (tried {tried})")]
    NoRuntime {
        /// What was tried.
        tried: String,
    },
    /// The runtime finds no GPU.
    #[error("no GPU: the HIP runtime {library} finds no device")]
    NoGpu {
        /// Path of the runtime.
        library: String,
    },
    /// The GPU is none that kernels were compiled for.
    #[error("architecture {found} is not shipped; this build has {}", listed(.shipped))]
    ArchitectureNotShipped {
        /// What the GPU calls itself.
        found: String,
        /// What the kernels were compiled for.
        shipped: Vec<&'static str>,
    },
    /// An argument is out of range.
    #[error("{name} is {value}; expected {expected}")]
    Argument {
        /// Which.
        name: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A kernel of that name is in no code object.
    #[error("kernel {0} is not shipped")]
    UnknownKernel(String),
    /// The runtime lacks a function that the launcher needs.
    #[error("{library} has no {symbol}")]
    MissingSymbol {
        /// Path of the runtime.
        library: String,
        /// The function.
        symbol: &'static str,
    },
    /// The runtime refused a call.
    #[error("{call} failed: {error}")]
    Hip {
        /// The function called.
        call: &'static str,
        /// Why.
        error: HipError,
    },
}

fn listed(architectures: &[&str]) -> String {
    if architectures.is_empty() {
        "none (it was built with SPECVERIFY_HIP=off)".into()
    } else {
        architectures.join(", ")
    }
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// [`Error::Argument`], unless all is well.
pub(crate) fn check(ok: bool, name: &'static str, value: impl Display, expected: &'static str) -> Result<()> {
    if ok { Ok(()) } else { Err(Error::Argument { name, value: value.to_string(), expected }) }
}
