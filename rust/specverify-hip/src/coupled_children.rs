//! The first finishers of a drafter's rows: which kernels run, and what their arguments may be.

use crate::abi::CoupledChildrenArgs;
use crate::error::check;
use crate::logit_rows::{self, Logits, Pass, addresses, finish};
use crate::{Device, Result, Stream};

/// Children of a row.
pub const MAX_PLACES: i32 = 64;

/// What a call launches. Depends on shapes, and on which arguments are null, alone, so that a captured graph may be replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// One after the other.
    pub passes: Vec<Pass>,
}

impl Plan {
    /// Checks what can be checked on the host.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::Error::Argument) names what is out of range.
    pub fn new(logits: Logits, arguments: &CoupledChildrenArgs) -> Result<Self> {
        let a = arguments;
        let mut passes = logit_rows::passes(logits, &a.rows)?;
        check((1..=MAX_PLACES).contains(&a.places), "places", a.places, "1 to 64")?;
        addresses([("tokens", a.tokens, 4), ("scores", a.scores, 4), ("status", a.status, 4)], a.rows.rows > 0)?;
        let kernel = logits.pick(["coupled_children_f32", "coupled_children_bf16", "coupled_children_f16"]);
        passes.push(finish("coupled_children", kernel, a.rows.rows));
        Ok(Self { passes })
    }

    /// Puts the call on a stream and returns at once.
    ///
    /// # Errors
    /// As [`Device::function`] and [`Device::launch`].
    ///
    /// # Safety
    /// As [`Device::launch`]: the addresses must be valid on the device, with the shapes that `hip/abi.h` states, and the arguments those
    /// that the plan was made of.
    pub unsafe fn launch(&self, device: &Device, stream: Stream, arguments: &CoupledChildrenArgs) -> Result<()> {
        // SAFETY: the caller answers for the addresses.
        unsafe { logit_rows::launch(&self.passes, device, stream, &arguments.rows, arguments) }
    }
}
