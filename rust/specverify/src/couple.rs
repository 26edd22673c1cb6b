//! Coupled drafting: a drafter runs the target's own race on its own row, and proposes the first finishers.
//!
//! The drafter that knows the seed and the position knows the noise of the target's race (drafter-invariant speculation, 2408.07978;
//! Gumbel top-k, 1903.06059). For one child the probability that it holds the target's token is
//! `sum_i 1 / sum_j max(p_j / p_i, q_j / q_i)`, at least (1 - TV) / (1 + TV). The children are a function of the row and the seed:
//! deterministic, never draws that a ratio rule could verify.

use crate::coins::Coins;
use crate::error::{Error, Result};
use crate::params::SamplingParams;
use crate::rows::{Edits, Element, Matrix, Prepared, Race, Request, Simd, Support, Values, View, kept_first, with_row};

/// What a drafter's row depends on besides its logits: the request as the target sees it.
#[derive(Debug, Clone, Copy)]
pub struct Drafting<'a> {
    /// Validated sampling parameters.
    pub params: &'a SamplingParams,
    /// Seed of the noise: the target's.
    pub seed: u64,
    /// Position of the drafted token.
    pub position: u32,
    /// Prompt, for the repetition penalty.
    pub prompt: &'a [u32],
    /// Tokens emitted before this step.
    pub output: &'a [u32],
    /// Tokens drafted between the root and this row.
    pub path: &'a [u32],
    /// Banned until `min_tokens` stand.
    pub stop_token_ids: &'a [u32],
    /// The target's id of each of the drafter's ids, when their vocabularies differ.
    pub target_ids: Option<&'a [u32]>,
}

/// Children of a node: distinct, best first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Children {
    /// Token ids of the target.
    pub tokens: Vec<u32>,
    /// Their scores in the race; at T = 0 their logits.
    pub scores: Vec<f32>,
}

/// The first `k` finishers of the target's race, run on a drafter's row `[1, vocab]`; the `k` greatest logits at T = 0. Fewer when
/// the parameters leave fewer ids. The same inputs give the same children.
///
/// # Errors
/// [`Error::Shape`] when `row` is not one row or `target_ids` not one id a column; [`Error::Argument`] when two of the drafter's
/// ids map to one, or a parameter names an id outside the target's vocabulary as far as it is known (without a map, the row's);
/// [`Error::Row`] when the row is NaN, +inf or without mass.
pub fn coupled_children(row: Matrix<'_>, k: usize, drafting: &Drafting<'_>) -> Result<Children> {
    children(row, k, drafting, Simd::detect()?)
}

fn children(row: Matrix<'_>, k: usize, drafting: &Drafting<'_>, simd: Simd) -> Result<Children> {
    row.check_logits()?;
    if row.rows() != 1 {
        return Err(Error::shape("logits", format!("[{}, {}]", row.rows(), row.vocab()), "one row"));
    }
    let finishers = match drafting.target_ids {
        None => with_row!(row.row(0)?, raw => finishers(raw, k, drafting, simd))?,
        Some(ids) => finishers(&scatter(row.row(0)?, ids)?, k, drafting, simd)?,
    };
    let (scores, tokens) = finishers.into_iter().unzip();
    Ok(Children { tokens, scores })
}

/// A drafter's row spread over the target's ids: noise and parameters belong to these. The others are -inf.
fn scatter(row: Values<'_>, target_ids: &[u32]) -> Result<Vec<f32>> {
    let vocab = with_row!(row, raw => raw.len());
    if target_ids.len() != vocab {
        return Err(Error::shape("target_ids", target_ids.len(), format!("{vocab}, one a column of the row")));
    }
    let last = target_ids.iter().copied().max().unwrap_or(0);
    if last >= 1 << 31 {
        return Err(Error::argument("target_ids", last, "ids below 2^31"));
    }
    let mut spread = vec![f32::NEG_INFINITY; last as usize + 1];
    let mut taken = vec![false; spread.len()];
    with_row!(row, raw => for (&id, x) in target_ids.iter().zip(raw) {
        if std::mem::replace(&mut taken[id as usize], true) {
            return Err(Error::argument("target_ids", id, "each id once"));
        }
        spread[id as usize] = x.f32();
    });
    Ok(spread)
}

fn finishers<E: Element>(row: &[E], k: usize, drafting: &Drafting<'_>, simd: Simd) -> Result<Vec<(f32, u32)>> {
    let Drafting { params, prompt, output, stop_token_ids, path, position, .. } = *drafting;
    let request = Request::new(params, prompt, output, stop_token_ids, row.len())?;
    let edits: Edits = request.edits(row, path);
    let prepared = Prepared::new(simd, row, edits, params.temperature).map_err(|fault| Error::row(0, fault))?;
    let view = View { row, prepared: &prepared };
    if params.temperature == 0.0 {
        let mut head = if k == 0 { Vec::new() } else { view.head(k) };
        head.sort_unstable_by(kept_first);
        head.truncate(k);
        return Ok(head);
    }
    let support = Support::of(simd, view, params);
    Ok(simd.run(Race { view, support, coins: Coins::new(drafting.seed), position, places: k.min(row.len()) }))
}
