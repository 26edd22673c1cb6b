//! Product tree: the likeliest nodes when positions are guessed independently of each other.

use super::Scored;
use super::best_first::{Ranking, best_first};
use super::candidates::{Candidates, check_nodes};
use crate::error::Result;

struct Product {
    ranked: Vec<(u32, f32)>,
    k: usize,
}

impl Ranking for Product {
    fn next(&self, depth: usize, _parent: usize, after: Option<usize>) -> Option<(usize, f32)> {
        let candidate = after.map_or(0, |a| a + 1);
        let &(_, logprob) = self.ranked.get(depth * self.k + candidate)?;
        (candidate < self.k && logprob > f32::NEG_INFINITY).then_some((candidate, logprob))
    }

    fn token(&self, depth: usize, candidate: usize) -> u32 {
        self.ranked[depth * self.k + candidate].0
    }
}

/// The `nodes` nodes of largest cumulative log-probability under per-position marginals, best first, as DDTree
/// (arXiv 2604.12989) builds them from a block drafter's one pass. Any prefix of the result is the best tree of its size.
///
/// `candidates` is `[depth, k]`; fewer nodes come back where the candidates give no more.
///
/// # Errors
/// [`crate::Error::Argument`] for `nodes` = 0.
pub fn product(candidates: &Candidates<'_>, nodes: usize) -> Result<Scored> {
    check_nodes(nodes)?;
    best_first(nodes, &Product { ranked: candidates.ranked(), k: candidates.k() })
}
