//! Lattice tree: the likeliest nodes when a position's guess depends on the one before it.

use super::Scored;
use super::best_first::{Ranking, best_first};
use super::candidates::{Candidates, check_logprobs, check_nodes};
use crate::error::{Error, Result};

struct Lattice<'a> {
    candidates: &'a Candidates<'a>,
    transitions: &'a [f32],
}

impl Lattice<'_> {
    /// Log-probabilities of the candidates of `depth` given candidate `parent` of the depth before.
    fn row(&self, depth: usize, parent: usize) -> &[f32] {
        match depth {
            0 => self.candidates.row(0).1,
            _ => {
                let k = self.candidates.k();
                &self.transitions[((depth - 1) * k + parent) * k..][..k]
            }
        }
    }
}

impl Ranking for Lattice<'_> {
    /// A scan of the row: k is small, and most rows are never asked for more than their first few. Log-probabilities are at most 0, so
    /// the bits of their magnitude, then the index, order candidates as one integer and the scan needs no branch.
    fn next(&self, depth: usize, parent: usize, after: Option<usize>) -> Option<(usize, f32)> {
        if depth >= self.candidates.depth() {
            return None;
        }
        let (row, own) = (self.row(depth, parent), self.candidates.row(depth).1);
        let key = |j: usize, logprob: f32| (u64::from(logprob.abs().to_bits()) << 32) | j as u64;
        let empty = key(0, f32::NEG_INFINITY);
        let least = after.map_or(0, |a| key(a, row[a]) + 1);
        let best = row.iter().zip(own).enumerate().fold(empty, |best, (j, (&logprob, &own))| {
            let key = key(j, logprob);
            let better = (key >= least) & (key < best) & (own > f32::NEG_INFINITY);
            if better { key } else { best }
        });
        let j = best as u32 as usize;
        (best < empty).then(|| (j, row[j]))
    }

    fn token(&self, depth: usize, candidate: usize) -> u32 {
        self.candidates.row(depth).0[candidate]
    }
}

/// The `nodes` nodes of largest cumulative log-probability under first-order transitions, best first: what DSpark's Markov head and
/// DFlash2's selector score.
///
/// `candidates` is `[depth, k]`. The log-probabilities of its first row start the paths; those of later rows only say which
/// places are in use (not -inf). `transitions` is `[depth - 1, k, k]`: entry (d, i, j) is the log-probability of
/// candidate j of row d + 1 after candidate i of row d, -inf where it can't follow.
///
/// # Errors
/// [`Error::Argument`] for `nodes` = 0, [`Error::Shape`] when `transitions` has another size, [`Error::Tree`] for a NaN or positive
/// transition.
pub fn lattice(candidates: &Candidates<'_>, transitions: &[f32], nodes: usize) -> Result<Scored> {
    check_nodes(nodes)?;
    let (depth, k) = (candidates.depth(), candidates.k());
    let expected = (depth - 1) * k * k;
    if transitions.len() != expected {
        return Err(Error::shape(
            "transitions",
            transitions.len(),
            format!("{expected} = (depth - 1) x k x k with depth = {depth} and k = {k}"),
        ));
    }
    check_logprobs(transitions, |i| format!("transitions[{}][{}][{}]", i / (k * k), i / k % k, i % k))?;
    best_first(nodes, &Lattice { candidates, transitions })
}
