//! HIP kernels of the verification pass. They are compiled for gfx942 (MI300X, MI325X) and gfx950 (MI355X) when this crate is built; the
//! launcher finds the HIP runtime of the process when it is first asked. Without a GPU nothing fails: [`Device::open`] says so.

pub mod abi;
pub mod coupled_children;
mod error;
mod hip_error;
pub mod kernels;
pub mod kv_compact;
pub mod logit_rows;
pub mod mla_tree_attention;
mod runtime;
pub mod target_tokens;
pub mod tree_attention;
pub mod tree_walk;

pub use error::{Error, Result};
pub use hip_error::HipError;
pub use runtime::{Device, Function, Geometry, Stream};
