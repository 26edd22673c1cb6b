//! Verification rules, one file each, generic over rows and over the chooser that flips their coins.
//!
//! The shipped rule with a chooser of coins is the product; the same rule with a branching chooser is the oracle
//! ([`crate::oracle`]). What each rule may verify is in its signature: [`token`] and [`block`] take a [`crate::tree::Chain`],
//! [`recursive`] and [`traversal`] a tree of [`crate::tree::Sampled`] draws, [`multipath`] a tree of [`crate::tree::Paths`]. The
//! others never read q and take any tree. So a wrong pairing does not compile:
//!
//! ```
//! # use specverify::verify::{block, multipath, recursive, token, traversal, Chooser, Drafted, Target};
//! # use specverify::{DraftTree, Independent, Paths, Result, WithoutReplacement};
//! fn right<T: Target, Q: Drafted>(p: &mut T, q: &Q, coins: &mut impl Chooser) -> Result<()> {
//!     let chain: DraftTree<Independent> = DraftTree::independent(vec![1, 2], vec![-1, 0])?;
//!     token::verify(p, q, chain.as_chain()?, coins)?;
//!     block::verify(p, q, chain.as_chain()?, coins)?;
//!     recursive::verify(p, q, &chain, coins)?;
//!     let tree: DraftTree<WithoutReplacement> = DraftTree::without_replacement(vec![1, 2], vec![-1, -1])?;
//!     traversal::verify(p, q, &tree, coins)?;
//!     let paths: DraftTree<Paths> = DraftTree::from_paths(&[1, 2, 1, 3], 2)?;
//!     multipath::verify(p, q, &paths, coins)?;
//!     Ok(())
//! }
//! ```
//! Chosen nodes are no draws, so no ratio rule takes them:
//! ```compile_fail,E0277
//! # use specverify::verify::{traversal, Chooser, Drafted, Target};
//! # use specverify::{DraftTree, Result};
//! fn wrong<T: Target, Q: Drafted>(p: &mut T, q: &Q, coins: &mut impl Chooser) -> Result<()> {
//!     let top_k = DraftTree::new(vec![1, 2], vec![-1, -1])?;
//!     traversal::verify(p, q, &top_k, coins)?;
//!     Ok(())
//! }
//! ```
//! ```compile_fail,E0277
//! # use specverify::verify::{recursive, Chooser, Drafted, Target};
//! # use specverify::{DraftTree, Result};
//! fn wrong<T: Target, Q: Drafted>(p: &mut T, q: &Q, coins: &mut impl Chooser) -> Result<()> {
//!     let merged = DraftTree::from_paths(&[1, 2, 1, 3], 2)?;
//!     recursive::verify(p, q, &merged, coins)?;
//!     Ok(())
//! }
//! ```
//! ```compile_fail,E0599
//! # use specverify::verify::{block, Chooser, Drafted, Target};
//! # use specverify::{DraftTree, Result};
//! fn wrong<T: Target, Q: Drafted>(p: &mut T, q: &Q, coins: &mut impl Chooser) -> Result<()> {
//!     let n_gram = DraftTree::new(vec![1, 2], vec![-1, 0])?;
//!     block::verify(p, q, n_gram.as_chain()?, coins)?;
//!     Ok(())
//! }
//! ```
//! ```compile_fail,E0308
//! # use specverify::verify::{multipath, Chooser, Drafted, Target};
//! # use specverify::{DraftTree, Result};
//! fn wrong<T: Target, Q: Drafted>(p: &mut T, q: &Q, coins: &mut impl Chooser) -> Result<()> {
//!     let siblings = DraftTree::independent(vec![1, 2], vec![-1, -1])?;
//!     multipath::verify(p, q, &siblings, coins)?;
//!     Ok(())
//! }
//! ```

pub mod block;
mod coin_chooser;
pub mod greedy;
pub mod lossy_typical;
pub mod multipath;
mod pairing;
pub mod recursive;
mod residual;
pub mod target_only;
pub mod token;
pub mod traversal;

use crate::coins::Stream;
use crate::error::Result;
use crate::tree::Topology;

pub use coin_chooser::CoinChooser;
pub use pairing::{AnyTree, NAMES, Rule, decide};

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

/// Fills the weights of ids `start..start + out.len()`.
pub type Weights<'a> = dyn FnMut(usize, &mut [f64]) + 'a;

/// Flips a rule's coins. Each (stream, node) is asked at most once a step.
pub trait Chooser {
    /// True with probability `a` (clamped to [0, 1]); never true for `a <= 0`, always for `a >= 1`.
    fn accept(&mut self, stream: Stream, node: u32, a: f64) -> bool;

    /// As [`Chooser::accept`] of `a()`, of which `bound` is known to be an upper bound: a coin above the bound decides without
    /// `a`, which costs a pass over the vocabulary.
    ///
    /// # Errors
    /// Those of `a`.
    fn accept_below(
        &mut self,
        stream: Stream,
        node: u32,
        bound: f64,
        a: &mut dyn FnMut() -> Result<f64>,
    ) -> Result<bool> {
        let _ = bound;
        let a = a()?;
        Ok(self.accept(stream, node, a))
    }

    /// An id below `vocab` drawn with probability proportional to its weight; never one of weight 0. `None`, and no coin used, when
    /// no weight is positive. `weights` is asked for blocks in ascending order; a block may be asked again.
    fn pick(&mut self, stream: Stream, node: u32, vocab: usize, weights: &mut Weights<'_>) -> Option<u32>;

    /// [`Chooser::pick`] where the sums of the blocks of [`BLOCK`] weights are known already, which saves a pass over the row.
    fn pick_summed(
        &mut self,
        stream: Stream,
        node: u32,
        vocab: usize,
        sums: Vec<f64>,
        weights: &mut Weights<'_>,
    ) -> Option<u32> {
        let _ = sums;
        self.pick(stream, node, vocab, weights)
    }
}

/// What a rule decided: the accepted nodes, root first, and one more token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Node ids of the accepted path.
    pub path: Vec<u32>,
    /// The token after the path: bonus or residual.
    pub next: u32,
}

/// Ids a block: 8 KiB of f64 on the stack.
pub const BLOCK: usize = 1024;

/// The row whose children follow a path.
fn last_row(path: &[u32]) -> usize {
    path.last().map_or(0, |&node| node as usize + 1)
}

/// Follows the tree from the root for as long as a child holds the token that `next` names for the row.
fn walk(tree: &Topology, mut next: impl FnMut(usize) -> Result<u32>) -> Result<Decision> {
    let mut path = Vec::new();
    loop {
        let row = last_row(&path);
        let token = next(row)?;
        match tree.child_with(row, token) {
            Some(child) => path.push(child),
            None => return Ok(Decision { path, next: token }),
        }
    }
}

/// Draws from the target's row after a path that was accepted to its end.
fn bonus<T: Target>(target: &mut T, row: usize, chooser: &mut impl Chooser) -> Result<u32> {
    let p = target.row(row)?;
    chooser
        .pick(Stream::Bonus, row as u32, p.vocab(), &mut |start, out| p.read(start, out))
        .ok_or_else(|| crate::Error::row(row, crate::error::RowFault::NoMass))
}
