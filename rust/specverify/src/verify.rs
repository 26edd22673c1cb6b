//! Verification rules, one file each, generic over rows and over the chooser that flips their coins.
//!
//! The shipped rule with a chooser of coins is the product; the same rule with a branching chooser is the oracle.

use crate::coins::Stream;
use crate::error::Result;

/// A distribution over the vocabulary, read on demand and in blocks so that no f64 copy of a row is needed.
pub trait Row {
    /// Size of the vocabulary.
    fn vocab(&self) -> usize;
    /// Probability of one token.
    fn get(&self, token: u32) -> f64;
    /// Probabilities of ids `start..start + out.len()`.
    fn read(&self, start: usize, out: &mut [f64]);
}

/// The target: rows of one request with its sampling parameters applied. A rule never sees logits.
pub trait Target {
    /// A processed row.
    type Row<'a>: Row
    where
        Self: 'a;
    /// The target's own token of a row: argmax at T=0, else the winner of the race at the row's position.
    ///
    /// # Errors
    /// [`crate::Error::Row`].
    fn token(&mut self, row: usize) -> Result<u32>;
    /// The most likely token of a row, whatever the temperature.
    ///
    /// # Errors
    /// [`crate::Error::Row`].
    fn argmax(&mut self, row: usize) -> Result<u32>;
    /// The processed distribution of a row (one-hot on the argmax at T=0).
    ///
    /// # Errors
    /// [`crate::Error::Row`].
    fn row(&mut self, row: usize) -> Result<Self::Row<'_>>;
}

/// The drafter's distributions: row r is what the children of row r were drawn from.
pub trait Drafted {
    /// One distribution.
    type Row<'a>: Row
    where
        Self: 'a;
    /// q of the children of a row.
    ///
    /// # Errors
    /// [`crate::Error::Row`].
    fn row(&self, row: usize) -> Result<Self::Row<'_>>;
}

/// Flips a rule's coins. Each (stream, node) is asked at most once a step.
pub trait Chooser {
    /// True with probability `a` (clamped to [0, 1]); never true for `a <= 0`, always for `a >= 1`.
    fn accept(&mut self, stream: Stream, node: u32, a: f64) -> bool;
    /// An index drawn with probability proportional to its weight, of which `total` is the sum; never an index of weight 0.
    /// `weights(start, out)` fills the weights of ids `start..start + out.len()`. `None` when `total` is not positive.
    fn pick(
        &mut self,
        stream: Stream,
        node: u32,
        vocab: usize,
        total: f64,
        weights: &mut dyn FnMut(usize, &mut [f64]),
    ) -> Option<u32>;
}

/// What a rule decided: the accepted nodes, root first, and one more token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Node ids of the accepted path.
    pub path: Vec<u32>,
    /// The token after the path: bonus or residual.
    pub next: u32,
}
