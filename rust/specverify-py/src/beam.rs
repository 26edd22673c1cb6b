//! `Beam`.

use pyo3::prelude::*;

use crate::args::{floats, integer, rows, token_ids};
use crate::errors::OrRaise;
use crate::tree::DraftTree;

/// A beam tree under construction (EAGLE-2, arXiv 2406.16858): expand depth by depth, rerank all nodes, keep the best.
///
/// Parameters
/// ----------
/// width : int
///     The most nodes that are expanded at a depth.
///
/// Examples
/// --------
/// >>> import specverify as sv
/// >>> beam = sv.Beam(2)
/// >>> beam.expand([[5, 6]], [[-0.1, -2.0]])
/// >>> beam.expand([[7, 8], [9, 7]], [[-0.2, -3.0], [-0.5, -0.6]])
/// >>> beam.finish(3)
/// DraftTree([5, 7, 6], [-1, 0, -1], draws='deterministic')
#[pyclass(module = "specverify")]
pub struct Beam(specverify::tree::Beam);

#[pymethods]
impl Beam {
    #[new]
    fn new(width: Bound<'_, PyAny>) -> PyResult<Self> {
        let nodes = integer("width", &width, "a number of nodes: an int, at least 1")?;
        specverify::tree::Beam::new(nodes).or_raise(width.py()).map(Self)
    }

    /// Nodes to expand next, best first, -1 for the root. They index `tokens` and `parents`.
    #[getter]
    fn frontier(&self) -> Vec<i32> {
        self.0.frontier().to_vec()
    }

    /// Tokens of all nodes so far.
    #[getter]
    fn tokens(&self) -> Vec<u32> {
        self.0.tokens().to_vec()
    }

    /// Parents of all nodes so far.
    #[getter]
    fn parents(&self) -> Vec<i32> {
        self.0.parents().to_vec()
    }

    /// Give the frontier its children; the `width` best of them are the next frontier.
    ///
    /// Parameters
    /// ----------
    /// tokens : array_like of int
    ///     [frontier, k] token ids.
    /// logprobs : array_like of float
    ///     [frontier, k] log-probabilities given the parent; -inf marks an empty place.
    fn expand(&mut self, tokens: Bound<'_, PyAny>, logprobs: Bound<'_, PyAny>) -> PyResult<()> {
        let (ids, _) = rows("tokens", &tokens, token_ids)?;
        let (weights, _) = rows("logprobs", &logprobs, floats)?;
        self.0.expand(&ids, &weights).or_raise(tokens.py())
    }

    /// Rerank every node and keep the best. The beam itself stays as it is.
    ///
    /// Parameters
    /// ----------
    /// nodes : int
    ///     The most nodes wanted.
    ///
    /// Returns
    /// -------
    /// DraftTree
    ///     Best node first, with `scores`.
    fn finish(&self, nodes: Bound<'_, PyAny>) -> PyResult<DraftTree> {
        let count = integer("nodes", &nodes, "a number of nodes: an int in [1, 2^31)")?;
        self.0.clone().finish(count).or_raise(nodes.py()).map(DraftTree::from)
    }
}
