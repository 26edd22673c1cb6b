//! The nodes of largest cumulative log-probability, best first, off a heap (Algorithm 1 of DDTree, arXiv 2604.12989).
//!
//! A heap entry is the best guess not yet emitted among the children of one node. Emitting it puts at most two entries in its place:
//! its next-best sibling and its own best child. Neither is likelier than the guess itself, so what comes off the heap comes in
//! order, parents before children, and the heap holds at most one entry more than the tree has nodes.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::{DraftTree, Scored};
use crate::error::Result;

/// Children of a guess, best first.
pub(super) trait Ranking {
    /// The candidate that follows `after` (the best one, if `None`) among the children at `depth` (from 0) of candidate `parent` of
    /// the depth before, with its log-probability given that parent.
    fn next(&self, depth: usize, parent: usize, after: Option<usize>) -> Option<(usize, f32)>;
    /// The token of a candidate.
    fn token(&self, depth: usize, candidate: usize) -> u32;
}

#[derive(Clone, Copy)]
struct Guess {
    score: f64,
    /// Score of the parent, to which the next sibling adds its own.
    above: f64,
    parent: i32,
    depth: u32,
    candidate: u32,
    parent_candidate: u32,
}

impl Ord for Guess {
    /// Greatest is best; ties go to the shallower guess, then to the earlier parent.
    fn cmp(&self, other: &Self) -> Ordering {
        let ties = || (other.depth, other.parent).cmp(&(self.depth, self.parent));
        self.score.total_cmp(&other.score).then_with(ties)
    }
}

impl PartialOrd for Guess {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Guess {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Guess {}

/// The `nodes` likeliest nodes, or all there are.
pub(super) fn best_first(nodes: usize, ranking: &impl Ranking) -> Result<Scored> {
    // `nodes` is the caller's wish, not a size to trust: the vectors grow when it is large.
    let capacity = nodes.min(256);
    let (mut tokens, mut parents, mut scores) =
        (Vec::with_capacity(capacity), Vec::with_capacity(capacity), Vec::with_capacity(capacity));
    let mut heap = BinaryHeap::with_capacity(capacity + 1);
    let first = ranking.next(0, 0, None).map(|(candidate, logprob)| Guess {
        score: 0.0 + f64::from(logprob),
        above: 0.0,
        parent: super::ROOT,
        depth: 0,
        candidate: candidate as u32,
        parent_candidate: 0,
    });
    heap.extend(first);
    while tokens.len() < nodes
        && let Some(guess) = heap.pop()
    {
        let (depth, candidate) = (guess.depth as usize, guess.candidate as usize);
        let id = tokens.len() as i32;
        tokens.push(ranking.token(depth, candidate));
        parents.push(guess.parent);
        scores.push(guess.score);
        if let Some((next, logprob)) = ranking.next(depth, guess.parent_candidate as usize, Some(candidate)) {
            heap.push(Guess { score: guess.above + f64::from(logprob), candidate: next as u32, ..guess });
        }
        if let Some((child, logprob)) = ranking.next(depth + 1, candidate, None) {
            heap.push(Guess {
                score: guess.score + f64::from(logprob),
                above: guess.score,
                parent: id,
                depth: guess.depth + 1,
                candidate: child as u32,
                parent_candidate: guess.candidate,
            });
        }
    }
    Ok(Scored { tree: DraftTree::new(tokens, parents)?, scores })
}
