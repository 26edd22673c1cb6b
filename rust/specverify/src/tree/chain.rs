//! A chain: every node is its predecessor's child, `parents = [-1, 0, 1, ...]`.

use super::{Deterministic, DraftTree, Independent, Topology};
use crate::error::Result;

impl Topology {
    /// The tokens as a chain, the first one a child of the root.
    ///
    /// # Errors
    /// As [`Topology::new`].
    pub fn chain(tokens: Vec<u32>) -> Result<Self> {
        let parents = (0..tokens.len()).map(|i| i as i32 - 1).collect();
        Self::new(tokens, parents)
    }
}

impl DraftTree<Deterministic> {
    /// A chain of chosen tokens, as n-gram, suffix and greedy drafters give it.
    ///
    /// # Errors
    /// As [`Topology::new`].
    pub fn chain(tokens: Vec<u32>) -> Result<Self> {
        Ok(Self { topology: Topology::chain(tokens)?, draws: Deterministic })
    }
}

impl DraftTree<Independent> {
    /// A chain of which each token was drawn from the q of its row.
    ///
    /// # Errors
    /// As [`Topology::new`].
    pub fn independent_chain(tokens: Vec<u32>) -> Result<Self> {
        Ok(Self { topology: Topology::chain(tokens)?, draws: Independent })
    }
}
