//! Beam tree: expand the likeliest nodes depth by depth, rerank all of them, keep the best (EAGLE-2, arXiv 2406.16858).

use super::candidates::{check_distinct, check_logprobs, check_nodes};
use super::scored::best;
use super::{ROOT, Scored};
use crate::error::{Error, Result};

/// A beam tree under construction.
///
/// The drafter runs one pass a depth over the [`Beam::frontier`] and gives each of its nodes a few children; the `width` best new nodes
/// are the next frontier. In the end [`Beam::finish`] reranks every node, deep ones against wide ones.
///
/// ```
/// use specverify::tree::Beam;
/// let mut beam = Beam::new(2)?;
/// beam.expand(&[5, 6], &[-0.1, -2.0])?;                          // children of the root
/// beam.expand(&[7, 8, 9, 7], &[-0.2, -3.0, -0.5, -0.6])?;         // two children of each
/// let scored = beam.finish(3)?;
/// assert_eq!(scored.tree.tokens(), [5, 7, 6]);
/// assert_eq!(scored.tree.parents(), [-1, 0, -1]);
/// # Ok::<(), specverify::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Beam {
    width: usize,
    tokens: Vec<u32>,
    parents: Vec<i32>,
    scores: Vec<f64>,
    frontier: Vec<i32>,
}

impl Beam {
    /// An empty tree whose frontier is the root; each later frontier has at most `width` nodes.
    ///
    /// # Errors
    /// [`Error::Argument`] for `width` = 0.
    pub fn new(width: usize) -> Result<Self> {
        if width == 0 {
            return Err(Error::argument("width", width, "at least 1 node to expand a depth"));
        }
        Ok(Self { width, tokens: Vec::new(), parents: Vec::new(), scores: Vec::new(), frontier: vec![ROOT] })
    }

    /// Nodes to expand next, best first, -1 for the root. Ids count nodes in the order of expansion and index [`Beam::tokens`]
    /// and [`Beam::parents`].
    pub fn frontier(&self) -> &[i32] {
        &self.frontier
    }

    /// Tokens of all nodes so far.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Parents of all nodes so far.
    pub fn parents(&self) -> &[i32] {
        &self.parents
    }

    /// Gives the frontier its children: `tokens` and `logprobs` (given the parent) are `[frontier, k]`, row-major, for any k. A
    /// log-probability of -inf marks an empty place. When nothing is added the frontier is empty.
    ///
    /// # Errors
    /// [`Error::Shape`] for arrays that are empty, ragged or differ in length, or when the frontier is empty; [`Error::Tree`] for a NaN
    /// or positive log-probability and for equal siblings. The beam is unchanged then.
    pub fn expand(&mut self, tokens: &[u32], logprobs: &[f32]) -> Result<()> {
        let rows = self.frontier.len();
        if rows == 0 {
            return Err(Error::shape("frontier", 0, "a node left to expand"));
        }
        if tokens.is_empty() || !tokens.len().is_multiple_of(rows) {
            return Err(Error::shape(
                "tokens",
                tokens.len(),
                format!("frontier x k with {rows} frontier nodes, k >= 1"),
            ));
        }
        if logprobs.len() != tokens.len() {
            return Err(Error::shape("logprobs", logprobs.len(), format!("{} (one a token)", tokens.len())));
        }
        let k = tokens.len() / rows;
        check_logprobs(logprobs, |i| format!("logprobs[{}][{}]", i / k, i % k))?;
        for (row, (row_tokens, row_logprobs)) in tokens.chunks_exact(k).zip(logprobs.chunks_exact(k)).enumerate() {
            check_distinct(row, row_tokens, row_logprobs)?;
        }
        let first = self.tokens.len();
        for (i, (&token, &logprob)) in tokens.iter().zip(logprobs).enumerate() {
            if logprob > f32::NEG_INFINITY {
                let parent = self.frontier[i / k];
                let above = if parent == ROOT { 0.0 } else { self.scores[parent as usize] };
                self.tokens.push(token);
                self.parents.push(parent);
                self.scores.push(above + f64::from(logprob));
            }
        }
        let next = best(self.scores[first..].iter().copied(), self.width);
        self.frontier = next.into_iter().map(|i| (first + i) as i32).collect();
        Ok(())
    }

    /// The `nodes` nodes of largest cumulative log-probability, best first. A node's ancestors are among them: they score no less
    /// and, on ties, were added before it.
    ///
    /// # Errors
    /// [`Error::Argument`] for `nodes` = 0.
    pub fn finish(self, nodes: usize) -> Result<Scored> {
        check_nodes(nodes)?;
        let order = best(self.scores.iter().copied(), nodes);
        let mut id_of = vec![ROOT; self.tokens.len()];
        let mut parents = Vec::with_capacity(order.len());
        for (id, &node) in order.iter().enumerate() {
            id_of[node] = id as i32;
            let parent = self.parents[node];
            parents.push(if parent == ROOT { ROOT } else { id_of[parent as usize] });
        }
        let tokens = order.iter().map(|&node| self.tokens[node]).collect();
        let scores = order.iter().map(|&node| self.scores[node]).collect();
        Scored::new(tokens, parents, scores)
    }
}
