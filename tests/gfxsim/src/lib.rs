#![doc = include_str!("../README.md")]

mod access;
mod decode;
mod fault;
mod float;
mod lanes;
mod launch;
mod lds;
mod memory;
mod mfma;
mod operand;
mod parse;
mod scalar;
mod vector;
mod waits;
mod wave;

pub use decode::Class;
pub use fault::{Fault, Kind, Result};
pub use launch::{Issued, Launch, Program, Report};
pub use memory::{Buffer, Memory, Traffic};
pub use parse::Metadata;
pub use waits::{Hazard, Redundant};
