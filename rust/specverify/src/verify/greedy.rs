//! Greedy verification: the argmax of each row, whatever the temperature.

use super::{Decision, Target, walk};
use crate::error::Result;
use crate::tree::Topology;

/// Walks the tree while a child holds the argmax of the row (ties to the lower id), and ends with the argmax that no child holds.
///
/// The emitted text is `x_t = argmax_x p(x | x_<t)`: what greedy decoding without drafts emits, for any tree.
///
/// # Errors
/// [`crate::Error::Row`] of a row that is reached.
pub fn verify<T: Target>(target: &mut T, tree: &Topology) -> Result<Decision> {
    walk(tree, |row| target.argmax(row))
}
