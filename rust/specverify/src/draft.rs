//! Model-free drafters: they guess the next tokens from text that was seen before.
//!
//! [`NgramDrafter`] looks the last few tokens up in the request's own text (prompt lookup); [`SuffixDrafter`] matches a
//! suffix of any length, in the request and, on request, in a corpus of earlier outputs. Both are incremental: text is
//! appended as it is emitted, and a draft costs no search. What they draft is chosen, not drawn, so the trees are
//! [`Deterministic`] and the rules `greedy`, `target_only` and `lossy_typical` may verify them.
//!
//! Requests are named by the caller. A name is free again once [`stop`](SuffixDrafter::stop) or
//! [`abort`](SuffixDrafter::abort) was called, and nothing of the former request is left under it.

mod automaton;
mod corpus;
mod ngram;
mod suffix;

use hashbrown::HashMap;

pub use ngram::{NgramConfig, NgramDrafter, Occurrence};
pub use suffix::{SuffixConfig, SuffixDrafter};

use crate::error::{Error, Result};
use crate::tree::{Deterministic, DraftTree};

/// Drafted nodes, best score first, siblings distinct; any prefix is a tree.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Draft {
    /// Tokens, one a node.
    pub tokens: Vec<u32>,
    /// Parents, one a node; -1 for children of the root.
    pub parents: Vec<i32>,
    /// One a node, never above the parent's: the product, along the node's path, of the frequencies with which its tokens
    /// followed what stands before them. 1 where only one continuation was seen.
    pub scores: Vec<f32>,
    /// Tokens of the text's end that were found again; 0 when nothing was drafted.
    pub match_len: usize,
}

impl Draft {
    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether nothing was drafted.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The sum of the scores: how many tokens would be accepted if frequencies were probabilities.
    pub fn total_score(&self) -> f32 {
        self.scores.iter().sum()
    }

    /// The nodes as a tree.
    ///
    /// # Errors
    /// None for what a drafter returned; [`Error::Tree`] when the public fields were changed into something else.
    pub fn into_tree(self) -> Result<DraftTree<Deterministic>> {
        DraftTree::<Deterministic>::new(self.tokens, self.parents)
    }

    fn push(&mut self, token: u32, parent: i32, score: f32) -> i32 {
        self.tokens.push(token);
        self.parents.push(parent);
        self.scores.push(score);
        self.tokens.len() as i32 - 1
    }
}

/// The live requests of a drafter.
#[derive(Debug, Clone)]
struct Requests<T>(HashMap<String, T>);

impl<T> Default for Requests<T> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<T> Requests<T> {
    fn check_free(&self, id: &str) -> Result<()> {
        match self.0.contains_key(id) {
            true => Err(Error::argument(
                "request_id",
                format!("{id:?}"),
                "an id that is not in use: stop that request first",
            )),
            false => Ok(()),
        }
    }

    fn insert(&mut self, id: &str, request: T) {
        self.0.insert(id.to_owned(), request);
    }

    fn get(&self, id: &str) -> Result<&T> {
        self.0.get(id).ok_or_else(|| unknown(id))
    }

    fn get_mut(&mut self, id: &str) -> Result<&mut T> {
        self.0.get_mut(id).ok_or_else(|| unknown(id))
    }

    fn remove(&mut self, id: &str) -> Result<T> {
        self.0.remove(id).ok_or_else(|| unknown(id))
    }
}

fn unknown(id: &str) -> Error {
    Error::argument("request_id", format!("{id:?}"), "the id of a request that was started and not stopped")
}
