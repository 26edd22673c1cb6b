//! Trees of chosen nodes with scores, and the one order of nodes by score.

use super::{Deterministic, DraftTree, Topology};
use crate::error::Result;

/// A tree of chosen nodes, best first, with the cumulative log-probability of each. A child scores no more than its parent, so the first
/// m nodes are a tree too, and the best of that size: a scheduler that has fewer slots cuts the tail.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The tree.
    pub tree: DraftTree<Deterministic>,
    /// One score a node, in node order, none above 0, not increasing.
    pub scores: Vec<f64>,
}

impl Scored {
    /// For builders, whose siblings differ because the candidates they come from do.
    pub(super) fn new(tokens: Vec<u32>, parents: Vec<i32>, scores: Vec<f64>) -> Result<Self> {
        let topology = Topology::new(tokens, parents)?;
        debug_assert_eq!(topology.equal_siblings(), None);
        Ok(Self { tree: DraftTree { topology, draws: Deterministic }, scores })
    }
}

/// Sorts by larger score, then by smaller place. Scores are at most 0 and no NaN, so the bits of their magnitude order them, and
/// comparing integers is what makes the sorts and the heap fast.
pub(super) fn order(score: f64, place: usize) -> (u64, usize) {
    (score.abs().to_bits(), place)
}

/// Places of the `count` best scores, best first, ties to the earlier.
pub(super) fn best(scores: impl Iterator<Item = f64>, count: usize) -> Vec<usize> {
    let mut keys: Vec<_> = scores.enumerate().map(|(place, score)| order(score, place)).collect();
    if count < keys.len() {
        keys.select_nth_unstable(count);
        keys.truncate(count);
    }
    keys.sort_unstable();
    keys.into_iter().map(|(_, place)| place).collect()
}
