//! Traversal verification of a tree: from the leaves up.

use super::residual::Residual;
use super::{Chooser, Decision, Drafted, Target, bonus};
use crate::coins::Stream;
use crate::error::Result;
use crate::tree::{DraftTree, Sampled};

/// Traversal verification (Weng et al., arXiv 2505.12398), for both ways of drawing siblings.
///
/// The root has weight 1. A row of weight w and measure `m = w p` gives its child x the weight `min(1, m(x) / q(x))`. Leaves come
/// first, in draw order: a node stands with its weight, and then its whole path is accepted and the next token is drawn from what is
/// left of its m. A node that falls leaves its parent, with `S = sum (m - q)+`, `m <- (m - q)+ / (S + 1 - w)` and
/// `w <- S / (S + 1 - w)` (and without replacement `q <- q(. | not x)`), before the parent's next child is looked at; a parent
/// whose children have all fallen is tried as a leaf. On a chain it is block verification.
///
/// # Errors
/// [`crate::Error::Row`] of a row that is reached; [`crate::Error::Argument`] when q of a drafted token is 0.
pub fn verify<T: Target, Q: Drafted, D: Sampled>(
    target: &mut T,
    drafted: &Q,
    tree: &DraftTree<D>,
    chooser: &mut impl Chooser,
) -> Result<Decision> {
    let mut path = vec![Visit::new::<D>(0, 1.0)];
    loop {
        // The root's visit stays, so there is always a last one.
        let depth = path.len() - 1;
        let visit = &mut path[depth];
        let row = visit.residual.row();
        let children = tree.children(row);
        if let Some(&child) = children.get(visit.tried) {
            let token = tree.tokens()[child as usize];
            visit.residual.settle(target, drafted)?;
            visit.tried += 1;
            let weight = visit.residual.child_weight(target, drafted, token)?;
            if weight > 0.0 {
                path.push(Visit::new::<D>(child as usize + 1, weight));
            } else {
                // Nothing below it can stand either.
                visit.residual.subtract(token);
            }
            continue;
        }
        let bound = visit.residual.weight();
        let stands = row == 0
            || chooser
                .accept_below(Stream::Accept, row as u32 - 1, bound, &mut || visit.residual.stands(target, drafted))?;
        if stands {
            let next = match children {
                [] => bonus(target, row, chooser)?,
                _ => visit.residual.pick(target, drafted, chooser)?,
            };
            let path = path[1..].iter().map(|visit| visit.residual.row() as u32 - 1).collect();
            return Ok(Decision { path, next });
        }
        path.pop();
        path[depth - 1].residual.subtract(tree.tokens()[row - 1]);
    }
}

/// A row on the way from the root to the node that is looked at.
struct Visit {
    residual: Residual,
    /// Children that were looked at.
    tried: usize,
}

impl Visit {
    fn new<D: Sampled>(row: usize, weight: f64) -> Self {
        Self { residual: Residual::new(row, weight, D::WITHOUT_REPLACEMENT), tried: 0 }
    }
}
