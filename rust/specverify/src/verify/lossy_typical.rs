//! Typical acceptance: lossy, and says so in its name.

use super::residual::sum;
use super::{BLOCK, Decision, Row, Target, last_row};
use crate::error::Result;
use crate::tree::Topology;

/// Typical acceptance (Medusa, Cai et al., arXiv 2401.10774). **Lossy**: the law of the text is not the target's.
///
/// Node x stands when its parent does and `p(x) >= min(epsilon, delta exp(-H(p)))`, with p and its entropy H taken at the parent's
/// row. The longest path that stands is accepted (of equals the one whose last node comes first), and the target draws the next token
/// itself, as in [`super::target_only`]. A token of probability 0 never stands.
///
/// # Errors
/// [`crate::Error::Row`] of a row that is reached.
pub fn verify<T: Target>(target: &mut T, tree: &Topology, epsilon: f64, delta: f64) -> Result<Decision> {
    let mut stands = vec![false; tree.rows()];
    stands[0] = true;
    let mut longest = 0;
    for row in 0..tree.rows() {
        if !stands[row] {
            continue;
        }
        if tree.row_depth(row) > tree.row_depth(longest) {
            longest = row;
        }
        if tree.children(row).is_empty() {
            continue;
        }
        let p = target.row(row)?;
        let threshold = epsilon.min(delta * (-entropy(&p)).exp());
        for &child in tree.children(row) {
            let probability = p.get(tree.tokens()[child as usize]);
            stands[child as usize + 1] = probability > 0.0 && probability >= threshold;
        }
    }
    let path = tree.path(longest);
    let next = target.token(last_row(&path))?;
    Ok(Decision { path, next })
}

/// Shannon entropy in nats.
fn entropy(p: &impl Row) -> f64 {
    let mut block = [0.0; BLOCK];
    let mut total = 0.0;
    for start in (0..p.vocab()).step_by(BLOCK) {
        let block = &mut block[..BLOCK.min(p.vocab() - start)];
        p.read(start, block);
        block.iter_mut().for_each(|x| *x = if *x > 0.0 { -*x * x.ln() } else { 0.0 });
        total += sum(block);
    }
    total
}
