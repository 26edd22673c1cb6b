//! The nodes of largest cumulative log-probability, best first, off a heap (Algorithm 1 of DDTree, arXiv 2604.12989).
//!
//! A heap entry is the best guess not yet emitted among the children of one node. Emitting it puts at most two entries in its place:
//! its next-best sibling and its own best child. Neither is likelier than the guess itself, so what comes off the heap comes in
//! order, parents before children, and the heap holds at most one entry more than the tree has nodes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::scored::order;
use super::{ROOT, Scored};
use crate::error::Result;

/// Children of a guess, best first.
pub(super) trait Ranking {
    /// The candidate that follows `after` (the best one, if `None`) among the children at `depth` (from 0) of candidate `parent` of
    /// the depth before, with its log-probability given that parent.
    fn next(&self, depth: usize, parent: usize, after: Option<usize>) -> Option<(usize, f32)>;
    /// The token of a candidate.
    fn token(&self, depth: usize, candidate: usize) -> u32;
}

/// A node that may come next.
struct Guess {
    score: f64,
    /// Score of the parent, to which the next sibling adds its own.
    above: f64,
    parent: i32,
    depth: u32,
    candidate: u32,
    parent_candidate: u32,
}

/// The `nodes` likeliest nodes, or all there are.
pub(super) fn best_first(nodes: usize, ranking: &impl Ranking) -> Result<Scored> {
    // `nodes` is the caller's wish, not a size to trust: the vectors grow when it is large.
    let capacity = nodes.min(256);
    let (mut tokens, mut parents, mut scores) =
        (Vec::with_capacity(capacity), Vec::with_capacity(capacity), Vec::with_capacity(capacity));
    let mut guesses: Vec<Guess> = Vec::with_capacity(2 * capacity + 1);
    // Places in `guesses` by their order: small entries, compared as integers.
    let mut heap = BinaryHeap::with_capacity(capacity + 1);
    let push = |guess: Guess, heap: &mut BinaryHeap<_>, guesses: &mut Vec<Guess>| {
        heap.push(Reverse(order(guess.score, guesses.len())));
        guesses.push(guess);
    };
    if let Some((candidate, logprob)) = ranking.next(0, 0, None) {
        let guess = Guess {
            score: f64::from(logprob),
            above: 0.0,
            parent: ROOT,
            depth: 0,
            candidate: candidate as u32,
            parent_candidate: 0,
        };
        push(guess, &mut heap, &mut guesses);
    }
    while tokens.len() < nodes
        && let Some(Reverse((_, place))) = heap.pop()
    {
        let Guess { score, above, parent, depth, candidate, parent_candidate } = guesses[place];
        let (level, chosen) = (depth as usize, candidate as usize);
        let id = tokens.len() as i32;
        tokens.push(ranking.token(level, chosen));
        parents.push(parent);
        scores.push(score);
        if let Some((next, logprob)) = ranking.next(level, parent_candidate as usize, Some(chosen)) {
            let score = above + f64::from(logprob);
            let sibling = Guess { score, above, parent, depth, candidate: next as u32, parent_candidate };
            push(sibling, &mut heap, &mut guesses);
        }
        if let Some((child, logprob)) = ranking.next(level + 1, chosen, None) {
            let child = Guess {
                score: score + f64::from(logprob),
                above: score,
                parent: id,
                depth: depth + 1,
                candidate: child as u32,
                parent_candidate: candidate,
            };
            push(child, &mut heap, &mut guesses);
        }
    }
    Scored::new(tokens, parents, scores)
}
