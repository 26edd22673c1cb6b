//! The target's token of each row of logits: which kernels run, and what their arguments may be.

use crate::abi::TargetTokensArgs;
use crate::error::check;
use crate::logit_rows::{self, Logits, Pass, addresses, finish};
use crate::{Device, Result, Stream};

const SOURCE: &str = "target_tokens";
/// Log-probabilities of a row.
pub const MAX_TOP: i32 = 64;

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
    pub fn new(logits: Logits, arguments: &TargetTokensArgs) -> Result<Self> {
        let a = arguments;
        let mut passes = logit_rows::passes(logits, &a.rows)?;
        addresses([("tokens", a.tokens, 4), ("status", a.status, 4)], a.rows.rows > 0)?;
        check((0..=MAX_TOP).contains(&a.top), "top", a.top, "0 to 64")?;
        check((0..=1).contains(&a.raw), "raw", a.raw, "0 or 1")?;
        let top = [("top_ids", a.top_ids, 4), ("top_logprobs", a.top_logprobs, 4)];
        addresses(top, a.rows.rows > 0 && a.top > 0)?;
        let of_children = [
            ("child_offsets", a.child_offsets, 4),
            ("child_ids", a.child_ids, 4),
            ("child_probabilities", a.child_probabilities, 4),
            ("token_logprobs", a.token_logprobs, 4),
        ];
        addresses(of_children, false)?;
        let children = a.child_offsets != 0;
        for (name, address) in [("child_ids", a.child_ids), ("child_probabilities", a.child_probabilities)] {
            check(children || address == 0, name, format_args!("{address:#x}"), "null without child_offsets")?;
        }
        let logprobs = a.token_logprobs != 0 || a.top > 0;
        let weighs = children || (logprobs && a.raw == 0);
        check(a.rows.totals == 1 || !weighs, "totals", a.rows.totals, "1 with child_offsets or log-probabilities")?;
        check(
            a.rows.raw_maxima != 0 || !(logprobs && a.raw == 1),
            "raw_maxima",
            "null",
            "an address with log-probabilities and raw",
        )?;
        let kernel = logits.pick(["target_tokens_f32", "target_tokens_bf16", "target_tokens_f16"]);
        passes.push(finish(SOURCE, kernel, a.rows.rows));
        if children || logprobs {
            let kernel = logits.pick(["target_logprobs_f32", "target_logprobs_bf16", "target_logprobs_f16"]);
            passes.push(finish(SOURCE, kernel, a.rows.rows));
        }
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
    pub unsafe fn launch(&self, device: &Device, stream: Stream, arguments: &TargetTokensArgs) -> Result<()> {
        // SAFETY: the caller answers for the addresses.
        unsafe { logit_rows::launch(&self.passes, device, stream, &arguments.rows, arguments) }
    }
}
