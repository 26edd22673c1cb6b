//! A chain with alternatives beside it: the best candidate of each depth continues, the others are leaves.

use super::candidates::{Candidates, check_nodes};
use super::{DraftTree, ROOT, Scored};
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
    // (score, depth, whether it continues the chain), depth-major and best first within a depth.
    let mut guesses = Vec::with_capacity(candidates.depth() * candidates.k());
    let mut above = 0.0;
    for (depth, row) in candidates.ranked().into_iter().enumerate() {
        let Some(&(_, best)) = row.first() else { break };
        guesses.extend(row.iter().enumerate().map(|(r, &(token, x))| (above + f64::from(x), depth, r == 0, token)));
        above += f64::from(best);
    }
    // Stable: a node ties with its parent only from behind it.
    guesses.sort_by(|a, b| b.0.total_cmp(&a.0));
    guesses.truncate(nodes);
    let mut chain = Vec::with_capacity(candidates.depth());
    let (mut tokens, mut parents, mut scores) = (Vec::new(), Vec::new(), Vec::new());
    for (i, &(score, depth, continues, token)) in guesses.iter().enumerate() {
        parents.push(if depth == 0 { ROOT } else { chain[depth - 1] });
        if continues {
            chain.push(i as i32);
        }
        tokens.push(token);
        scores.push(score);
    }
    Ok(Scored { tree: DraftTree::new(tokens, parents)?, scores })
}
