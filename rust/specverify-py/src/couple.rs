//! `coupled_children`.

use pyo3::prelude::*;
use specverify::couple::Drafting;

use crate::args::{integer, optional, optional_token_ids, token_ids};
use crate::arrays::View;
use crate::errors::{OrRaise, exception};
use crate::params::SamplingParams;

/// Children of a node, best first: `tokens` and their `scores` in the race.
#[pyclass(frozen, eq, module = "specverify")]
#[derive(Debug, PartialEq)]
pub struct Children(specverify::couple::Children);

#[pymethods]
impl Children {
    /// Token ids of the target.
    #[getter]
    fn tokens(&self) -> Vec<u32> {
        self.0.tokens.clone()
    }

    /// Their scores in the race; at temperature 0 their logits.
    #[getter]
    fn scores(&self) -> Vec<f32> {
        self.0.scores.clone()
    }

    fn __len__(&self) -> usize {
        self.0.tokens.len()
    }

    fn __repr__(&self) -> String {
        format!("Children(tokens={:?}, scores={:?})", self.0.tokens, self.0.scores)
    }
}

/// The first k finishers of the target's own race, run on a drafter's row.
///
/// They agree with the target's token more often than the k likeliest do (arXiv 2408.07978). They are 'deterministic' draws:
/// verify them with 'target_only' (or 'greedy'), never with a ratio rule.
///
/// Parameters
/// ----------
/// logits_row : array or tensor of float32, float16 or bfloat16
///     [V] logits of the drafter, read in place.
/// k : int
///     Children wanted; fewer come back where the parameters leave fewer ids.
/// sampling : SamplingParams
///     The request's. It must hold the seed that the target will be verified with, unless its temperature is 0.
/// position : int
///     Position of the drafted token.
/// prompt_token_ids, output_token_ids, stop_token_ids : sequence of int, default ()
///     As in `verify`.
/// path : sequence of int, default ()
///     Tokens drafted between the root and this row.
/// target_ids : sequence of int, optional
///     The target's id of each column, when the drafter's vocabulary differs.
///
/// Returns
/// -------
/// Children
///     `tokens` and `scores`, best first, no token twice.
///
/// Raises
/// ------
/// RowError
///     The row holds NaN, +inf or no usable mass.
///
/// Examples
/// --------
/// >>> import numpy as np
/// >>> import specverify as sv
/// >>> row = np.log(np.array([0.1, 0.2, 0.3, 0.4], np.float32))
/// >>> sv.coupled_children(row, 2, sampling=sv.SamplingParams(temperature=0), position=5).tokens
/// [3, 2]
#[pyfunction]
#[pyo3(
    signature = (logits_row, k, *, sampling, position, prompt_token_ids=None, output_token_ids=None, stop_token_ids=None, path=None, target_ids=None),
    text_signature = "(logits_row, k, *, sampling, position, prompt_token_ids=(), output_token_ids=(), \
                      stop_token_ids=(), path=(), target_ids=None)"
)]
#[expect(clippy::too_many_arguments, reason = "a request has as many parts")]
pub fn coupled_children(
    py: Python<'_>,
    logits_row: Bound<'_, PyAny>,
    k: Bound<'_, PyAny>,
    sampling: Bound<'_, PyAny>,
    position: Bound<'_, PyAny>,
    prompt_token_ids: Option<Bound<'_, PyAny>>,
    output_token_ids: Option<Bound<'_, PyAny>>,
    stop_token_ids: Option<Bound<'_, PyAny>>,
    path: Option<Bound<'_, PyAny>>,
    target_ids: Option<Bound<'_, PyAny>>,
) -> PyResult<Children> {
    let view = View::row("logits_row", &logits_row)?;
    let k = integer("k", &k, "a number of children: an int >= 0")?;
    let params = SamplingParams::of("sampling", &sampling)?;
    let position = integer("position", &position, POSITION)?;
    let prompt = optional_token_ids("prompt_token_ids", &prompt_token_ids)?;
    let output = optional_token_ids("output_token_ids", &output_token_ids)?;
    let stop = optional_token_ids("stop_token_ids", &stop_token_ids)?;
    let path = optional_token_ids("path", &path)?;
    let target_ids = optional(&target_ids).map(|ids| token_ids("target_ids", ids)).transpose()?;
    let params = &params.get().0;
    let seed = match params.seed {
        Some(seed) => seed,
        None if params.temperature == 0.0 => 0,
        None => {
            let expected = "a seed, the one that the target is verified with: coupling is agreeing on the noise";
            return Err(exception(py, &specverify::Error::argument("sampling.seed", "None", expected)));
        }
    };
    let drafting = Drafting {
        params,
        seed,
        position,
        prompt: &prompt,
        output: &output,
        path: &path,
        stop_token_ids: &stop,
        target_ids: target_ids.as_deref(),
    };
    let row = view.slice(py, 0, 1)?;
    py.detach(|| specverify::couple::coupled_children(row, k, &drafting)).or_raise(py).map(Children)
}

/// What a position may be.
pub const POSITION: &str = "a position: an int in [0, 2^32)";
