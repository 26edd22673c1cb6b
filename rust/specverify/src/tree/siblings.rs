//! A chain with alternatives beside it: the best candidate of each depth continues, the others are leaves.

use super::candidates::{Candidates, check_nodes};
use super::scored::best;
use super::{ROOT, Scored};
use crate::error::Result;

/// The best candidate of each depth as a chain, with the other candidates of that depth as its siblings; of all these the `nodes`
/// of largest cumulative log-probability, best first.
///
/// A chain drafter gives such a tree for nothing: the alternatives come from rows it has computed anyway, given the chain so far.
/// `candidates` is `[depth, k]`; a depth without candidates ends the chain.
///
/// # Errors
/// [`crate::Error::Argument`] for `nodes` = 0.
pub fn siblings(candidates: &Candidates<'_>, nodes: usize) -> Result<Scored> {
    check_nodes(nodes)?;
    struct Guess {
        score: f64,
        token: u32,
        depth: usize,
        continues: bool,
    }
    let mut guesses = Vec::with_capacity(candidates.depth() * candidates.k());
    let mut above = 0.0;
    for (depth, row) in candidates.ranked().chunks_exact(candidates.k()).enumerate() {
        for (rank, &(token, logprob)) in row.iter().enumerate().take_while(|(_, c)| c.1 > f32::NEG_INFINITY) {
            guesses.push(Guess { score: above + f64::from(logprob), token, depth, continues: rank == 0 });
        }
        if row[0].1 == f32::NEG_INFINITY {
            break;
        }
        above += f64::from(row[0].1);
    }
    let best = best(guesses.iter().map(|g| g.score), nodes);
    let mut chain = Vec::with_capacity(candidates.depth());
    let mut parents = Vec::with_capacity(best.len());
    for (id, &g) in best.iter().enumerate() {
        let Guess { depth, continues, .. } = guesses[g];
        parents.push(if depth == 0 { ROOT } else { chain[depth - 1] });
        if continues {
            chain.push(id as i32);
        }
    }
    let tokens = best.iter().map(|&g| guesses[g].token).collect();
    Scored::new(tokens, parents, best.iter().map(|&g| guesses[g].score).collect())
}
