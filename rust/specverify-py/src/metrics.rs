//! `AcceptanceStats`.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::args::{integer, integers, optional, refuse};
use crate::errors::OrRaise;

/// How much was drafted, how much of it stood, and how deep.
///
/// A step counts when it had drafts and something was sampled. Padding is no draft. Counts of requests, ranks or runs can be
/// kept apart and merged; they can be pickled.
///
/// Examples
/// --------
/// >>> import specverify as sv
/// >>> stats = sv.AcceptanceStats()
/// >>> stats.record_chain([5, -1, -1], 1)
/// >>> stats.drafted, stats.accepted, stats.acceptance_rate, stats.mean_accepted_length
/// (1, 1, 1.0, 2.0)
#[pyclass(eq, module = "specverify")]
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AcceptanceStats(specverify::metrics::AcceptanceStats);

fn accepted(value: &Option<Bound<'_, PyAny>>) -> PyResult<Option<usize>> {
    optional(value).map(|count| integer("accepted", count, "a number of drafts, or None")).transpose()
}

#[pymethods]
impl AcceptanceStats {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Count a step whose drafts were a chain.
    ///
    /// Parameters
    /// ----------
    /// draft_token_ids : sequence of int
    ///     Negative ids are padding.
    /// accepted : int or None
    ///     Drafts that stood; None when nothing was sampled, in which case nothing is counted.
    #[pyo3(signature = (draft_token_ids, accepted))]
    fn record_chain(&mut self, draft_token_ids: Bound<'_, PyAny>, accepted: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let ids: Vec<i64> = integers("draft_token_ids", &draft_token_ids, "an int; negative for padding")?;
        self.0.record_chain(&ids, self::accepted(&accepted)?).or_raise(draft_token_ids.py())
    }

    /// Count a step whose drafts were a tree.
    ///
    /// Parameters
    /// ----------
    /// tree : DraftTree
    ///     What was drafted.
    /// accepted : int or None
    ///     Length of the accepted path; None when nothing was sampled, in which case nothing is counted.
    #[pyo3(signature = (tree, accepted))]
    fn record_tree(&mut self, tree: Bound<'_, PyAny>, accepted: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let (py, tree) = (tree.py(), crate::tree::one("tree", &tree)?);
        self.0.record_tree(tree.get().tree.topology(), self::accepted(&accepted)?).or_raise(py)
    }

    /// Add the counts of another one.
    ///
    /// Parameters
    /// ----------
    /// other : AcceptanceStats
    fn merge(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        // Cloned first, so that statistics can be merged with themselves.
        let counts = match other.cast::<Self>() {
            Ok(other) => other.borrow().0.clone(),
            Err(_) => return Err(refuse("other", other, "an AcceptanceStats")),
        };
        slf.borrow_mut().0.merge(&counts);
        Ok(())
    }

    /// Steps that had drafts.
    #[getter]
    fn drafts(&self) -> u64 {
        self.0.drafts()
    }

    /// Drafted tokens; for trees, nodes.
    #[getter]
    fn drafted(&self) -> u64 {
        self.0.drafted()
    }

    /// Accepted tokens.
    #[getter]
    fn accepted(&self) -> u64 {
        self.0.accepted()
    }

    /// Drafted tokens (nodes) at each depth, depth 1 first.
    #[getter]
    fn drafted_per_depth(&self) -> Vec<u64> {
        self.0.drafted_per_depth().to_vec()
    }

    /// Steps whose accepted path reached each depth, depth 1 first.
    #[getter]
    fn accepted_per_depth(&self) -> Vec<u64> {
        self.0.accepted_per_depth().to_vec()
    }

    /// Share of all steps with drafts whose accepted path reached each depth; its sum is MAL - 1.
    #[getter]
    fn survival(&self) -> Vec<f64> {
        self.0.survival()
    }

    /// MAL: tokens a step emits, 1 + accepted / drafts; None before the first draft.
    #[getter]
    fn mean_accepted_length(&self) -> Option<f64> {
        self.0.mean_accepted_length()
    }

    /// AR: accepted / drafted; None before the first draft.
    #[getter]
    fn acceptance_rate(&self) -> Option<f64> {
        self.0.acceptance_rate()
    }

    #[staticmethod]
    fn _from_counts(py: Python<'_>, drafts: u64, drafted: Vec<u64>, accepted: Vec<u64>) -> PyResult<Self> {
        specverify::metrics::AcceptanceStats::from_counts(drafts, drafted, accepted).or_raise(py).map(Self)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let stats = slf.borrow();
        let counts = (stats.drafts(), stats.drafted_per_depth(), stats.accepted_per_depth());
        (slf.get_type().getattr("_from_counts")?, counts).into_pyobject(slf.py())
    }

    fn __repr__(&self) -> String {
        format!(
            "AcceptanceStats(drafts={}, drafted={:?}, accepted={:?})",
            self.0.drafts(),
            self.0.drafted_per_depth(),
            self.0.accepted_per_depth()
        )
    }
}
