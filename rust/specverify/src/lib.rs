//! The verification half of speculative decoding: draft trees, acceptance rules and the bookkeeping around them.
#![forbid(unsafe_op_in_unsafe_fn)]

pub mod attention;
pub mod cache;
pub mod coins;
pub mod couple;
pub mod draft;
pub mod error;
pub mod flat_rows;
pub mod metrics;
pub mod oracle;
pub mod params;
mod pool;
pub mod request;
pub mod rows;
pub mod tree;
pub mod verify;
pub mod walk;

pub use error::{Error, Result};
pub use params::SamplingParams;
pub use tree::{Deterministic, DraftTree, Independent, Paths, Topology, WithoutReplacement};
