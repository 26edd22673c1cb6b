//! Verification by the target's own draws: drafts only guess them.

use super::{Decision, Target, walk};
use crate::error::Result;
use crate::tree::Topology;

/// Walks the tree while a child holds the token that the target draws at the row's position.
///
/// The target's token is the winner of an exponential race, `argmax_i p_i / E_i` with `E` a pure function of seed, position and
/// id, so it is fixed before anything is drafted: the emitted text does not depend on the drafts at all (drafter invariance,
/// Daliri et al., arXiv 2408.07978). Lossless for any tree; q is never read.
///
/// # Errors
/// [`crate::Error::Row`] of a row that is reached.
pub fn verify<T: Target>(target: &mut T, tree: &Topology) -> Result<Decision> {
    walk(tree, |row| target.token(row))
}
