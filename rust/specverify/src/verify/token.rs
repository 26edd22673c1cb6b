//! Token-level verification of a chain: speculative sampling.

use super::residual::Residual;
use super::{Chooser, Decision, Drafted, Target, bonus};
use crate::coins::Stream;
use crate::error::Result;
use crate::tree::Chain;

/// Speculative sampling (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318).
///
/// Draft token x of row i stands with probability `min(1, p_i(x) / q_i(x))`. The first that does not is replaced by a draw from
/// `(p_i - q_i)+`, normalised; after a chain that stands whole, a draw from p of the last row is added.
///
/// # Errors
/// [`crate::Error::Row`] of a row that is reached; [`crate::Error::Argument`] when q of a drafted token is 0.
pub fn verify<T: Target, Q: Drafted>(
    target: &mut T,
    drafted: &Q,
    chain: Chain<'_>,
    chooser: &mut impl Chooser,
) -> Result<Decision> {
    let mut path = Vec::with_capacity(chain.len());
    for (row, &token) in chain.tokens().iter().enumerate() {
        let mut residual = Residual::new(row, 1.0, false);
        let stands = residual.child_weight(target, drafted, token)?;
        if !chooser.accept(Stream::Accept, row as u32, stands) {
            residual.subtract(token);
            let next = residual.pick(target, drafted, chooser)?;
            return Ok(Decision { path, next });
        }
        path.push(row as u32);
    }
    let next = bonus(target, chain.len(), chooser)?;
    Ok(Decision { path, next })
}
