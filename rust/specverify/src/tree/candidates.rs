//! What a drafter says of the next positions: a few tokens a depth, each with a log-probability.

use super::twins;
use crate::error::{Error, Result};

/// `[depth, k]` candidate tokens and their log-probabilities, row-major, borrowed from the drafter.
///
/// Row d holds guesses for the token at depth d + 1, in any order. A log-probability of -inf marks an empty place, so that depths
/// may hold fewer than k.
#[derive(Debug, Clone, Copy)]
pub struct Candidates<'a> {
    tokens: &'a [u32],
    logprobs: &'a [f32],
    k: usize,
}

impl<'a> Candidates<'a> {
    /// Checks the shapes, the log-probabilities and that no depth holds a token twice.
    ///
    /// # Errors
    /// [`Error::Shape`] when the arrays are empty, differ in length or are ragged; [`Error::Argument`] for k = 0;
    /// [`Error::Tree`] for a NaN or positive log-probability and for a token that stands twice in a depth (its nodes would be
    /// equal siblings).
    pub fn new(tokens: &'a [u32], logprobs: &'a [f32], k: usize) -> Result<Self> {
        if k == 0 {
            return Err(Error::argument("k", k, "at least 1 candidate a depth"));
        }
        if tokens.is_empty() || !tokens.len().is_multiple_of(k) {
            return Err(Error::shape("tokens", tokens.len(), format!("depth x k with k = {k} and at least one depth")));
        }
        if logprobs.len() != tokens.len() {
            return Err(Error::shape("logprobs", logprobs.len(), format!("{} (one a token)", tokens.len())));
        }
        check_logprobs(logprobs, |i| format!("logprobs[{}][{}]", i / k, i % k))?;
        let candidates = Self { tokens, logprobs, k };
        for depth in 0..candidates.depth() {
            let (row, row_logprobs) = candidates.row(depth);
            check_distinct(depth, row, row_logprobs)?;
        }
        Ok(candidates)
    }

    /// Number of positions guessed.
    pub fn depth(&self) -> usize {
        self.tokens.len() / self.k
    }

    /// Candidates a position.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Tokens and log-probabilities of depth `depth + 1`.
    pub(super) fn row(&self, depth: usize) -> (&'a [u32], &'a [f32]) {
        let range = depth * self.k..(depth + 1) * self.k;
        (&self.tokens[range.clone()], &self.logprobs[range])
    }

    /// `[depth, k]` candidates, each depth's best first, ties in the caller's order, empty places last.
    pub(super) fn ranked(&self) -> Vec<(u32, f32)> {
        let mut ranked: Vec<_> = self.tokens.iter().copied().zip(self.logprobs.iter().copied()).collect();
        for row in ranked.chunks_exact_mut(self.k) {
            row.sort_by(|a, b| b.1.total_cmp(&a.1));
        }
        ranked
    }
}

/// Log-probabilities are at most 0: a child is then never likelier than its parent, which is what keeps best-first trees closed
/// under ancestors. `place` names an entry by its index.
pub(super) fn check_logprobs(logprobs: &[f32], place: impl Fn(usize) -> String) -> Result<()> {
    match logprobs.iter().position(|x| x.is_nan() || *x > 0.0) {
        None => Ok(()),
        Some(i) => Err(Error::tree(place(i), logprobs[i], "a log-probability: at most 0, no NaN")),
    }
}

/// No token twice among the places of a row that are in use.
pub(super) fn check_distinct(row: usize, tokens: &[u32], logprobs: &[f32]) -> Result<()> {
    let used = (0..tokens.len()).filter(|&j| logprobs[j] > f32::NEG_INFINITY);
    match twins(tokens.len(), used.map(|j| (j as u32, tokens[j]))) {
        None => Ok(()),
        Some((i, j)) => Err(Error::tree(
            format!("tokens[{row}][{j}]"),
            tokens[j as usize],
            format!("a token that candidate {i} of the row does not hold: siblings differ"),
        )),
    }
}

/// A tree of no nodes is never built by accident.
pub(super) fn check_nodes(nodes: usize) -> Result<()> {
    if nodes == 0 || nodes > i32::MAX as usize {
        return Err(Error::argument("nodes", nodes, "at least 1 node and fewer than 2^31"));
    }
    Ok(())
}
