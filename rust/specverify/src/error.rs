//! The one error type of the crate. Every message names the argument, its value and what was expected.

use std::fmt;

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong. Each variant maps to one Python exception class.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument has a value outside its domain.
    #[error("{argument} is {value}; expected {expected}")]
    Argument {
        /// Name of the argument as the caller wrote it.
        argument: String,
        /// The offending value.
        value: String,
        /// What would have been accepted.
        expected: String,
    },
    /// An array has the wrong number of elements or dimensions.
    #[error("{argument} has {} {value}; expected {expected}", measure(value))]
    Shape {
        /// Name of the argument.
        argument: String,
        /// The offending shape, in brackets, or length.
        value: String,
        /// The expected one.
        expected: String,
    },
    /// An array has an element type that is not read.
    #[error("{argument} has dtype {value}; expected {expected}")]
    Dtype {
        /// Name of the argument.
        argument: String,
        /// The offending dtype.
        value: String,
        /// The expected dtypes.
        expected: String,
    },
    /// The draft tree is malformed: missing parents, a cycle, equal siblings where they can't be, NaN scores.
    #[error("draft tree: {argument} is {value}; expected {expected}")]
    Tree {
        /// What was looked at, e.g. `parents[3]`.
        argument: String,
        /// The offending value.
        value: String,
        /// What would have been accepted.
        expected: String,
    },
    /// The rule is not proved for the way the drafts were drawn.
    #[error("rule {rule:?} can't verify {draws}; expected {expected}")]
    Pairing {
        /// The rule asked for.
        rule: String,
        /// How the drafts were drawn.
        draws: String,
        /// What the rule is proved for.
        expected: String,
    },
    /// A row that was reached holds no usable distribution.
    #[error("{argument} row {row} {fault}; expected {}", usable(argument))]
    Row {
        /// `logits` or `draft_probs`.
        argument: String,
        /// Row index within the request.
        row: usize,
        /// What is wrong with it.
        fault: RowFault,
    },
}

/// What a [`Error::Shape`] speaks of.
fn measure(value: &str) -> &'static str {
    if value.starts_with('[') { "shape" } else { "length" }
}

/// What a row may hold.
fn usable(argument: &str) -> &'static str {
    match argument {
        "draft_probs" => "finite probabilities >= 0, with some mass",
        _ => "finite values or -inf, with some mass left",
    }
}

/// What is wrong with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowFault {
    /// A NaN.
    Nan,
    /// +inf.
    PosInf,
    /// A negative probability.
    Negative,
    /// Nothing is left that could be drawn.
    NoMass,
}

impl fmt::Display for RowFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RowFault::Nan => "contains NaN",
            RowFault::PosInf => "contains +inf",
            RowFault::Negative => "contains a negative probability",
            RowFault::NoMass => "has no usable mass",
        })
    }
}

impl Error {
    /// An [`Error::Argument`].
    pub fn argument(argument: impl Into<String>, value: impl fmt::Display, expected: impl Into<String>) -> Self {
        Error::Argument { argument: argument.into(), value: value.to_string(), expected: expected.into() }
    }

    /// An [`Error::Shape`].
    pub fn shape(argument: impl Into<String>, value: impl fmt::Display, expected: impl Into<String>) -> Self {
        Error::Shape { argument: argument.into(), value: value.to_string(), expected: expected.into() }
    }

    /// An [`Error::Tree`].
    pub fn tree(argument: impl Into<String>, value: impl fmt::Display, expected: impl Into<String>) -> Self {
        Error::Tree { argument: argument.into(), value: value.to_string(), expected: expected.into() }
    }

    /// An [`Error::Row`] of the target's logits.
    pub fn row(row: usize, fault: RowFault) -> Self {
        Error::Row { argument: "logits".into(), row, fault }
    }
}
