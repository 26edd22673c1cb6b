//! Recursive (multi-round) verification of a tree: siblings are tried one after another.

use super::residual::Residual;
use super::{Chooser, Decision, Drafted, Target, bonus, last_row};
use crate::coins::Stream;
use crate::error::Result;
use crate::tree::{DraftTree, Sampled};

/// Multi-round speculative sampling: SpecInfer (Miao et al., arXiv 2305.09781, algorithm 2) for independent siblings, equal ones
/// included, and recursive rejection sampling (Jeon et al., arXiv 2402.14160) for siblings drawn without replacement.
///
/// At a row, with `m = p`: child x stands with probability `min(1, m(x) / q(x))`, and the walk goes on below it. A rejection leaves
/// `m <- (m - q)+`, normalised, and without replacement `q <- q(. | not x)`. After the last child the next token is drawn from m.
///
/// # Errors
/// [`crate::Error::Row`] of a row that is reached; [`crate::Error::Argument`] when q of a drafted token is 0.
pub fn verify<T: Target, Q: Drafted, D: Sampled>(
    target: &mut T,
    drafted: &Q,
    tree: &DraftTree<D>,
    chooser: &mut impl Chooser,
) -> Result<Decision> {
    let mut path = Vec::new();
    'rows: loop {
        let row = last_row(&path);
        if tree.children(row).is_empty() {
            let next = bonus(target, row, chooser)?;
            return Ok(Decision { path, next });
        }
        let mut residual = Residual::new(row, 1.0, D::WITHOUT_REPLACEMENT);
        for &child in tree.children(row) {
            let token = tree.tokens()[child as usize];
            residual.settle(target, drafted)?;
            let stands = residual.child_weight(target, drafted, token)?;
            if chooser.accept(Stream::Accept, child, stands) {
                path.push(child);
                continue 'rows;
            }
            residual.subtract(token);
        }
        let next = residual.pick(target, drafted, chooser)?;
        return Ok(Decision { path, next });
    }
}
