//! `SuffixDrafter`, `NgramDrafter` and the `Draft` they return.

use std::sync::{Mutex, PoisonError, TryLockError};

use pyo3::prelude::*;
use pyo3::types::PyString;
use specverify::draft::{NgramConfig, Occurrence, SuffixConfig};
use specverify::verify::AnyTree;

use crate::args::{float, integer, optional, refuse, token_ids, word};
use crate::errors::OrRaise;
use crate::tree::DraftTree;

const COUNT: &str = "an int in [0, 2^64)";

fn count(name: &str, value: &Option<Bound<'_, PyAny>>, default: usize) -> PyResult<usize> {
    optional(value).map_or(Ok(default), |value| integer(name, value, COUNT))
}

fn real(name: &str, value: &Option<Bound<'_, PyAny>>, default: f32) -> PyResult<f32> {
    optional(value).map_or(Ok(default), |value| Ok(float(name, value, "a number")? as f32))
}

/// A request's name.
fn name<'a>(request_id: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    let text = request_id.cast::<PyString>().ok().and_then(|text| text.to_str().ok());
    text.ok_or_else(|| refuse("request_id", request_id, "a str of Unicode characters"))
}

/// Works on a drafter. Threads take turns, and who waits does so without the GIL.
fn with<D: Send, T: Send>(py: Python<'_>, drafter: &Mutex<D>, work: impl FnOnce(&mut D) -> T + Send) -> T {
    match drafter.try_lock() {
        Ok(mut drafter) => work(&mut drafter),
        Err(TryLockError::Poisoned(poisoned)) => work(&mut poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => unlocked(py, drafter, work),
    }
}

/// The same without the GIL from the start: for what takes long.
fn unlocked<D: Send, T: Send>(py: Python<'_>, drafter: &Mutex<D>, work: impl FnOnce(&mut D) -> T + Send) -> T {
    py.detach(|| work(&mut drafter.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Drafted nodes, best score first: any prefix is itself a tree.
///
/// Attributes
/// ----------
/// tokens, parents : list of int
///     One a node; -1 is the root.
/// scores : list of float
///     One a node: the product, along its path, of the frequencies with which its tokens followed what stands before them.
/// match_len : int
///     Tokens of the text's end that were found again; 0 when nothing was drafted.
/// tree : DraftTree
///     The nodes as a tree, draws 'deterministic'.
#[pyclass(frozen, eq, module = "specverify")]
#[derive(Debug, Clone, PartialEq)]
pub struct Draft(specverify::draft::Draft);

#[pymethods]
impl Draft {
    #[getter]
    fn tokens(&self) -> Vec<u32> {
        self.0.tokens.clone()
    }

    #[getter]
    fn parents(&self) -> Vec<i32> {
        self.0.parents.clone()
    }

    #[getter]
    fn scores(&self) -> Vec<f32> {
        self.0.scores.clone()
    }

    #[getter]
    fn match_len(&self) -> usize {
        self.0.match_len
    }

    #[getter]
    fn tree(&self, py: Python<'_>) -> PyResult<DraftTree> {
        Ok(AnyTree::Deterministic(self.0.clone().into_tree().or_raise(py)?).into())
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __repr__(&self) -> String {
        format!("Draft(tokens={:?}, parents={:?}, scores={:?})", self.0.tokens, self.0.parents, self.0.scores)
    }
}

/// Drafts what followed the longest suffix of the text that was seen before (SuffixDecoding, 2411.04975).
///
/// Each request has an index of its prompt and output that grows as tokens are emitted. A draft follows the most frequent
/// continuations of the longest match; its tree is 'deterministic', for the rules `greedy`, `target_only` and
/// `lossy_typical`.
///
/// Parameters
/// ----------
/// max_depth : int, default 64
///     Longest string counted, match and draft together; at most half of it is drafted.
/// min_match : int, default 2
///     Matches of fewer tokens draft nothing.
/// max_spec_factor : float, default 4.0
///     A match of m tokens drafts at most ``max_spec_factor * m + max_spec_offset`` tokens deep.
/// max_spec_offset : float, default 0.0
///     See `max_spec_factor`.
/// min_token_prob : float, default 0.1
///     A node is drafted while its score is at least this.
/// corpus_bytes : int, default 0
///     Bytes for outputs of finished requests, from which later requests draft; 0 keeps none. Shared between tenants: whoever
///     can time or count accepted drafts can learn what others were told. The oldest outputs are dropped first.
///
/// Raises
/// ------
/// ArgumentError
///     A value is out of range.
///
/// Examples
/// --------
/// >>> import specverify as sv
/// >>> drafter = sv.SuffixDrafter()
/// >>> drafter.start("request", [1, 2, 7, 9, 1, 2, 8, 9, 1, 2, 7, 4])
/// >>> drafter.extend("request", [1, 2])
/// >>> drafter.draft("request", max_tokens=4).tokens
/// [7, 4, 1, 2]
/// >>> drafter.draft_tree("request", max_nodes=4).tree
/// DraftTree([7, 8, 4, 9], [-1, -1, 0, 0], draws='deterministic')
/// >>> drafter.stop("request")
#[pyclass(frozen, module = "specverify")]
pub struct SuffixDrafter(Mutex<specverify::draft::SuffixDrafter>);

#[pymethods]
impl SuffixDrafter {
    #[new]
    #[pyo3(
        signature = (*, max_depth=None, min_match=None, max_spec_factor=None, max_spec_offset=None, min_token_prob=None, corpus_bytes=None),
        text_signature = "(*, max_depth=64, min_match=2, max_spec_factor=4.0, max_spec_offset=0.0, min_token_prob=0.1, corpus_bytes=0)"
    )]
    fn new(
        py: Python<'_>,
        max_depth: Option<Bound<'_, PyAny>>,
        min_match: Option<Bound<'_, PyAny>>,
        max_spec_factor: Option<Bound<'_, PyAny>>,
        max_spec_offset: Option<Bound<'_, PyAny>>,
        min_token_prob: Option<Bound<'_, PyAny>>,
        corpus_bytes: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let default = SuffixConfig::default();
        let config = SuffixConfig {
            max_depth: count("max_depth", &max_depth, default.max_depth)?,
            min_match: count("min_match", &min_match, default.min_match)?,
            max_spec_factor: real("max_spec_factor", &max_spec_factor, default.max_spec_factor)?,
            max_spec_offset: real("max_spec_offset", &max_spec_offset, default.max_spec_offset)?,
            min_token_prob: real("min_token_prob", &min_token_prob, default.min_token_prob)?,
            corpus_bytes: count("corpus_bytes", &corpus_bytes, default.corpus_bytes)?,
        };
        specverify::draft::SuffixDrafter::new(config).or_raise(py).map(|drafter| Self(Mutex::new(drafter)))
    }

    /// Start a request.
    ///
    /// Parameters
    /// ----------
    /// request_id : str
    ///     A name that no live request has.
    /// prompt_token_ids : sequence of int
    ///     May be empty; also a 1-d array or tensor.
    fn start(&self, request_id: Bound<'_, PyAny>, prompt_token_ids: Bound<'_, PyAny>) -> PyResult<()> {
        let ids = token_ids("prompt_token_ids", &prompt_token_ids)?;
        let (py, id) = (prompt_token_ids.py(), name(&request_id)?);
        unlocked(py, &self.0, |drafter| drafter.start(id, &ids)).or_raise(py)
    }

    /// Append tokens that a request has emitted.
    ///
    /// Parameters
    /// ----------
    /// request_id : str
    ///     A live request.
    /// token_ids : sequence of int
    ///     In the order they were emitted.
    fn extend(&self, request_id: Bound<'_, PyAny>, token_ids: Bound<'_, PyAny>) -> PyResult<()> {
        let ids = crate::args::token_ids("token_ids", &token_ids)?;
        let (py, id) = (token_ids.py(), name(&request_id)?);
        with(py, &self.0, |drafter| drafter.extend(id, &ids)).or_raise(py)
    }

    /// Draft a chain: at each step the most frequent continuation.
    ///
    /// Parameters
    /// ----------
    /// request_id : str
    ///     A live request.
    /// max_tokens : int, default 8
    ///     Drafts are shorter where the match is short or the continuations are many.
    ///
    /// Returns
    /// -------
    /// Draft
    #[pyo3(signature = (request_id, max_tokens=None), text_signature = "($self, request_id, max_tokens=8)")]
    fn draft(
        &self,
        py: Python<'_>,
        request_id: Bound<'_, PyAny>,
        max_tokens: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Draft> {
        let (id, tokens) = (name(&request_id)?, count("max_tokens", &max_tokens, 8)?);
        with(py, &self.0, |drafter| drafter.draft(id, tokens)).or_raise(py).map(Draft)
    }

    /// Draft a tree of the continuations, highest score first.
    ///
    /// Parameters
    /// ----------
    /// request_id : str
    ///     A live request.
    /// max_nodes : int, default 16
    ///     Size of the tree.
    /// max_depth : int, default 8
    ///     Levels of the tree.
    ///
    /// Returns
    /// -------
    /// Draft
    #[pyo3(signature = (request_id, max_nodes=None, max_depth=None), text_signature = "($self, request_id, max_nodes=16, max_depth=8)")]
    fn draft_tree(
        &self,
        py: Python<'_>,
        request_id: Bound<'_, PyAny>,
        max_nodes: Option<Bound<'_, PyAny>>,
        max_depth: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Draft> {
        let (nodes, depth) = (count("max_nodes", &max_nodes, 16)?, count("max_depth", &max_depth, 8)?);
        let id = name(&request_id)?;
        with(py, &self.0, |drafter| drafter.draft_tree(id, nodes, depth)).or_raise(py).map(Draft)
    }

    /// End a finished request. Its output goes to the corpus if there is one; its id may be used again.
    ///
    /// Parameters
    /// ----------
    /// request_id : str
    ///     A live request.
    fn stop(&self, py: Python<'_>, request_id: Bound<'_, PyAny>) -> PyResult<()> {
        let id = name(&request_id)?;
        with(py, &self.0, |drafter| drafter.stop(id)).or_raise(py)
    }

    /// Drop a request and all that it said. Its id may be used again.
    ///
    /// Parameters
    /// ----------
    /// request_id : str
    ///     A live request.
    fn abort(&self, py: Python<'_>, request_id: Bound<'_, PyAny>) -> PyResult<()> {
        let id = name(&request_id)?;
        with(py, &self.0, |drafter| drafter.abort(id)).or_raise(py)
    }

    /// Bytes on the heap for one request.
    ///
    /// Parameters
    /// ----------
    /// request_id : str
    ///     A live request.
    ///
    /// Returns
    /// -------
    /// int
    fn request_bytes(&self, py: Python<'_>, request_id: Bound<'_, PyAny>) -> PyResult<usize> {
        let id = name(&request_id)?;
        with(py, &self.0, |drafter| drafter.request_bytes(id)).or_raise(py)
    }

    /// Bytes on the heap for the corpus.
    #[getter]
    fn corpus_bytes(&self, py: Python<'_>) -> usize {
        with(py, &self.0, |drafter| drafter.corpus_bytes())
    }

    fn __contains__(&self, request_id: Bound<'_, PyAny>) -> bool {
        // As a dict has it: what is no name is the name of no request.
        name(&request_id).is_ok_and(|id| with(request_id.py(), &self.0, |drafter| drafter.is_active(id)))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        with(py, &self.0, |drafter| drafter.active())
    }
}

/// Drafts what followed the last n tokens where they stood before: prompt lookup, as vLLM's n-gram proposer.
///
/// The longest n in ``[min_n, max_n]`` that was seen before is matched. Its tree is 'deterministic', for the rules `greedy`,
/// `target_only` and `lossy_typical`.
///
/// Parameters
/// ----------
/// max_n : int, default 5
///     Longest n-gram looked up (vLLM's ``prompt_lookup_max``).
/// min_n : int, default 2
///     Shortest n-gram looked up (vLLM's ``prompt_lookup_min``).
/// occurrence : {'earliest', 'latest'}, default 'earliest'
///     Which occurrence a chain follows; vLLM's is the earliest.
///
/// Raises
/// ------
/// ArgumentError
///     A value is out of range.
///
/// Examples
/// --------
/// >>> import specverify as sv
/// >>> drafter = sv.NgramDrafter()
/// >>> drafter.start("request", [1, 2, 7, 9, 1, 2, 8, 5, 1, 2])
/// >>> drafter.draft("request", max_tokens=3).tokens
/// [7, 9, 1]
/// >>> drafter.draft_tree("request", max_nodes=2).scores
/// [0.5, 0.5]
#[pyclass(frozen, module = "specverify")]
pub struct NgramDrafter(Mutex<specverify::draft::NgramDrafter>);

#[pymethods]
impl NgramDrafter {
    #[new]
    #[pyo3(
        signature = (*, max_n=None, min_n=None, occurrence=None),
        text_signature = "(*, max_n=5, min_n=2, occurrence='earliest')"
    )]
    fn new(
        py: Python<'_>,
        max_n: Option<Bound<'_, PyAny>>,
        min_n: Option<Bound<'_, PyAny>>,
        occurrence: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let default = NgramConfig::default();
        let words = [("earliest", Occurrence::Earliest), ("latest", Occurrence::Latest)];
        let config = NgramConfig {
            max_n: count("max_n", &max_n, default.max_n)?,
            min_n: count("min_n", &min_n, default.min_n)?,
            occurrence: optional(&occurrence)
                .map_or(Ok(default.occurrence), |value| word("occurrence", value, &words))?,
        };
        specverify::draft::NgramDrafter::new(config).or_raise(py).map(|drafter| Self(Mutex::new(drafter)))
    }

    /// Start a request.
    ///
    /// Parameters
    /// ----------
    /// request_id : str
    ///     A name that no live request has.
    /// prompt_token_ids : sequence of int
    ///     May be empty; also a 1-d array or tensor.
    fn start(&self, request_id: Bound<'_, PyAny>, prompt_token_ids: Bound<'_, PyAny>) -> PyResult<()> {
        let ids = token_ids("prompt_token_ids", &prompt_token_ids)?;
        let (py, id) = (prompt_token_ids.py(), name(&request_id)?);
        unlocked(py, &self.0, |drafter| drafter.start(id, &ids)).or_raise(py)
    }

    /// Append tokens that a request has emitted.
    ///
    /// Parameters
    /// ----------
    /// request_id : str
    ///     A live request.
    /// token_ids : sequence of int
    ///     In the order they were emitted.
    fn extend(&self, request_id: Bound<'_, PyAny>, token_ids: Bound<'_, PyAny>) -> PyResult<()> {
        let ids = crate::args::token_ids("token_ids", &token_ids)?;
        let (py, id) = (token_ids.py(), name(&request_id)?);
        with(py, &self.0, |drafter| drafter.extend(id, &ids)).or_raise(py)
    }

    /// Draft a chain: the tokens after the chosen occurrence.
    ///
    /// Parameters
    /// ----------
    /// request_id : str
    ///     A live request.
    /// max_tokens : int, default 8
    ///     Drafts are shorter where the text ends.
    ///
    /// Returns
    /// -------
    /// Draft
    #[pyo3(signature = (request_id, max_tokens=None), text_signature = "($self, request_id, max_tokens=8)")]
    fn draft(
        &self,
        py: Python<'_>,
        request_id: Bound<'_, PyAny>,
        max_tokens: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Draft> {
        let (id, tokens) = (name(&request_id)?, count("max_tokens", &max_tokens, 8)?);
        with(py, &self.0, |drafter| drafter.draft(id, tokens)).or_raise(py).map(Draft)
    }

    /// Draft a tree of the different continuations of the latest 64 occurrences, the most frequent first.
    ///
    /// Parameters
    /// ----------
    /// request_id : str
    ///     A live request.
    /// max_nodes : int, default 16
    ///     Size of the tree.
    /// max_depth : int, default 8
    ///     Levels of the tree.
    ///
    /// Returns
    /// -------
    /// Draft
    #[pyo3(signature = (request_id, max_nodes=None, max_depth=None), text_signature = "($self, request_id, max_nodes=16, max_depth=8)")]
    fn draft_tree(
        &self,
        py: Python<'_>,
        request_id: Bound<'_, PyAny>,
        max_nodes: Option<Bound<'_, PyAny>>,
        max_depth: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Draft> {
        let (nodes, depth) = (count("max_nodes", &max_nodes, 16)?, count("max_depth", &max_depth, 8)?);
        let id = name(&request_id)?;
        with(py, &self.0, |drafter| drafter.draft_tree(id, nodes, depth)).or_raise(py).map(Draft)
    }

    /// Drop a request. Its id may be used again.
    ///
    /// Parameters
    /// ----------
    /// request_id : str
    ///     A live request.
    fn stop(&self, py: Python<'_>, request_id: Bound<'_, PyAny>) -> PyResult<()> {
        let id = name(&request_id)?;
        with(py, &self.0, |drafter| drafter.stop(id)).or_raise(py)
    }

    /// Bytes on the heap for one request.
    ///
    /// Parameters
    /// ----------
    /// request_id : str
    ///     A live request.
    ///
    /// Returns
    /// -------
    /// int
    fn request_bytes(&self, py: Python<'_>, request_id: Bound<'_, PyAny>) -> PyResult<usize> {
        let id = name(&request_id)?;
        with(py, &self.0, |drafter| drafter.request_bytes(id)).or_raise(py)
    }

    fn __contains__(&self, request_id: Bound<'_, PyAny>) -> bool {
        // As a dict has it: what is no name is the name of no request.
        name(&request_id).is_ok_and(|id| with(request_id.py(), &self.0, |drafter| drafter.is_active(id)))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        with(py, &self.0, |drafter| drafter.active())
    }
}
