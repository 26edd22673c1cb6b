//! Block verification of a chain: the longest prefix that stands is accepted as a whole.

use super::residual::Residual;
use super::{Chooser, Decision, Drafted, Target, bonus, last_row};
use crate::coins::Stream;
use crate::error::Result;
use crate::tree::{Chain, Topology};

/// Block verification (Sun et al., arXiv 2403.10444).
///
/// With weights `w_0 = 1`, `w_i = min(1, w_{i-1} p_{i-1}(x_i) / q_{i-1}(x_i))` and `S_i = sum (w_i p_i - q_i)+`, the prefix of length
/// i < n stands with probability `S_i / (S_i + 1 - w_i)` and the whole chain with `w_n`; each prefix has a coin of its own, and the
/// longest that stands is accepted. The next token is drawn from `(w_i p_i - q_i)+`, or from p_n after the whole chain. No rule that
/// is lossless for a chain accepts more tokens on average.
///
/// Prefixes are tried from the longest down, so the sums `S_i` are computed only where no longer prefix stands and the coin lies
/// below `w_i`, the bound of that probability.
///
/// # Errors
/// [`crate::Error::Row`] of a row that is reached; [`crate::Error::Argument`] when q of a drafted token is 0.
pub fn verify<T: Target, Q: Drafted>(
    target: &mut T,
    drafted: &Q,
    chain: Chain<'_>,
    chooser: &mut impl Chooser,
) -> Result<Decision> {
    let nodes: Vec<u32> = (0..chain.len() as u32).collect();
    verify_path(target, drafted, &chain, nodes, chooser)
}

/// Block verification of one path of a tree, given as node ids from the root down, against the law it was drawn from.
pub(super) fn verify_path<T: Target, Q: Drafted>(
    target: &mut T,
    drafted: &Q,
    tree: &Topology,
    mut path: Vec<u32>,
    chooser: &mut impl Chooser,
) -> Result<Decision> {
    let token = |node: u32| tree.tokens()[node as usize];
    let mut weights = vec![1.0];
    let mut row = 0;
    for &node in &path {
        let weight = weights[weights.len() - 1];
        // Below a weight of 0 nothing can stand.
        let below = if weight > 0.0 {
            Residual::new(row, weight, false).child_weight(target, drafted, token(node))?
        } else {
            0.0
        };
        weights.push(below);
        row = node as usize + 1;
    }
    if path.is_empty() || chooser.accept(Stream::Accept, path[path.len() - 1], weights[path.len()]) {
        let next = bonus(target, row, chooser)?;
        return Ok(Decision { path, next });
    }
    loop {
        let rejected = path.pop().map_or(0, token);
        let weight = weights[path.len()];
        let row = last_row(&path);
        let mut residual = Residual::new(row, weight, false);
        residual.subtract(rejected);
        let stands = match path.last() {
            None => true,
            Some(&node) => {
                chooser.accept_below(Stream::Accept, node, weight, &mut || residual.stands(target, drafted))?
            }
        };
        if stands {
            let next = residual.pick(target, drafted, chooser)?;
            return Ok(Decision { path, next });
        }
    }
}
