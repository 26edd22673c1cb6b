//! A step's bookkeeping on flat arrays in host memory, for the CPU side of `specverify.ops`.

use numpy::{Element, PyArray1, PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;
use specverify::Error;
use specverify::cache::Layout;
use specverify::flat_rows::{FlatRows, Wanted};
use specverify::rows::LogprobsMode;
use specverify::walk::Batch;

use crate::arrays::{Holds, View};
use crate::errors::{OrRaise, exception};

/// Elements of an array that `specverify.ops` has made one-dimensional and contiguous.
fn slice<'a, T: Element>(name: &str, array: &'a PyReadonlyArray1<'_, T>) -> PyResult<&'a [T]> {
    array.as_slice().map_err(|_| {
        exception(array.py(), &Error::shape(name, "that is not contiguous", "a contiguous array: pass a copy"))
    })
}

/// Walks a batch of trees; returns path, emitted, accepted, counts, last_token and status, flat.
#[pyfunction]
#[pyo3(signature = (cu_nodes, tokens, parents, target_tokens, row_status, stop_offsets, stop_ids, max_path))]
#[expect(clippy::too_many_arguments, reason = "a batch has as many parts")]
pub fn tree_walk<'py>(
    py: Python<'py>,
    cu_nodes: PyReadonlyArray1<'py, i32>,
    tokens: PyReadonlyArray1<'py, i32>,
    parents: PyReadonlyArray1<'py, i32>,
    target_tokens: PyReadonlyArray1<'py, i32>,
    row_status: Option<PyReadonlyArray1<'py, i32>>,
    stop_offsets: Option<PyReadonlyArray1<'py, i32>>,
    stop_ids: Option<PyReadonlyArray1<'py, i32>>,
    max_path: usize,
) -> PyResult<Vec<Bound<'py, PyArray1<i32>>>> {
    let stops = match (&stop_offsets, &stop_ids) {
        (Some(offsets), Some(ids)) => Some((slice("stop_offsets", offsets)?, slice("stop_ids", ids)?)),
        _ => None,
    };
    let batch = Batch {
        cu_nodes: slice("cu_nodes", &cu_nodes)?,
        tokens: slice("tokens", &tokens)?,
        parents: slice("parents", &parents)?,
        target_tokens: slice("target_tokens", &target_tokens)?,
        row_status: row_status.as_ref().map(|status| slice("row_status", status)).transpose()?,
        stops,
        max_path,
    };
    let walked = py.detach(|| batch.walk()).or_raise(py)?;
    let arrays = [walked.path, walked.emitted, walked.accepted, walked.counts, walked.last_token, walked.status];
    Ok(arrays.map(|array| PyArray1::from_vec(py, array)).into())
}

/// Moves of accepted paths between slots, as `kv_compact` makes them.
#[pyfunction]
pub fn path_moves(
    py: Python<'_>,
    path: PyReadonlyArray1<'_, i32>,
    accepted: PyReadonlyArray1<'_, i32>,
    context_lens: PyReadonlyArray1<'_, i32>,
    block_table: PyReadonlyArray1<'_, i32>,
    page_size: usize,
) -> PyResult<Vec<(u64, u64)>> {
    let (path, accepted) = (slice("path", &path)?, slice("accepted", &accepted)?);
    let (context_lens, block_table) = (slice("context_lens", &context_lens)?, slice("block_table", &block_table)?);
    specverify::cache::path_moves(path, accepted, context_lens, block_table, page_size).or_raise(py)
}

/// Makes moves in one pool: `pool` is its memory from the first slot's first byte to the last slot's last, strides are bytes.
#[pyfunction]
#[pyo3(signature = (pool, moves, *, page_stride, token_stride, head_stride, heads, head_bytes, page_size))]
#[expect(clippy::too_many_arguments, reason = "the layout of a pool has as many parts")]
pub fn move_slots(
    py: Python<'_>,
    mut pool: PyReadwriteArray1<'_, u8>,
    moves: Vec<(u64, u64)>,
    page_stride: usize,
    token_stride: usize,
    head_stride: usize,
    heads: usize,
    head_bytes: usize,
    page_size: usize,
) -> PyResult<()> {
    let layout = Layout { page_stride, token_stride, head_stride, heads, head_bytes, page_size };
    let bytes = pool
        .as_slice_mut()
        .map_err(|_| exception(py, &Error::shape("pool", "that is not contiguous", "the bytes of a whole pool")))?;
    py.detach(|| layout.apply(&moves, bytes)).or_raise(py)
}

/// What rows of logits depend on: the arrays of a [`FlatRows`], by name.
#[derive(FromPyObject)]
pub struct RowArrays<'py> {
    #[pyo3(item)]
    requests: PyReadonlyArray1<'py, i32>,
    #[pyo3(item)]
    positions: PyReadonlyArray1<'py, i32>,
    #[pyo3(item)]
    seeds: PyReadonlyArray1<'py, i64>,
    #[pyo3(item)]
    temperatures: PyReadonlyArray1<'py, f32>,
    #[pyo3(item)]
    top_k: Option<PyReadonlyArray1<'py, i32>>,
    #[pyo3(item)]
    top_p: Option<PyReadonlyArray1<'py, f32>>,
    #[pyo3(item)]
    min_p: Option<PyReadonlyArray1<'py, f32>>,
    #[pyo3(item)]
    bias_offsets: Option<PyReadonlyArray1<'py, i32>>,
    #[pyo3(item)]
    bias_ids: Option<PyReadonlyArray1<'py, i32>>,
    #[pyo3(item)]
    bias_values: Option<PyReadonlyArray1<'py, f32>>,
    #[pyo3(item)]
    allowed: Option<PyReadonlyArray1<'py, i32>>,
    #[pyo3(item)]
    allowed_stride: usize,
}

impl RowArrays<'_> {
    fn flat(&self) -> PyResult<FlatRows<'_>> {
        let bias = match (&self.bias_offsets, &self.bias_ids, &self.bias_values) {
            (Some(offsets), Some(ids), Some(values)) => {
                Some((slice("bias_offsets", offsets)?, slice("bias_ids", ids)?, slice("bias_values", values)?))
            }
            _ => None,
        };
        Ok(FlatRows {
            requests: slice("requests", &self.requests)?,
            positions: slice("positions", &self.positions)?,
            seeds: slice("seeds", &self.seeds)?,
            temperatures: slice("temperatures", &self.temperatures)?,
            top_k: self.top_k.as_ref().map(|values| slice("top_k", values)).transpose()?,
            top_p: self.top_p.as_ref().map(|values| slice("top_p", values)).transpose()?,
            min_p: self.min_p.as_ref().map(|values| slice("min_p", values)).transpose()?,
            bias,
            allowed: match &self.allowed {
                Some(bits) => Some((slice("allowed", bits)?, self.allowed_stride)),
                None => None,
            },
        })
    }
}

/// Tokens, scores and status, flat.
type Finished<'py> = (Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<f32>>, Bound<'py, PyArray1<i32>>);

/// First finishers of each row's race: tokens and scores [rows, places] and status [rows], flat.
#[pyfunction]
pub fn race_rows<'py>(
    py: Python<'py>,
    logits: Bound<'py, PyAny>,
    rows: RowArrays<'py>,
    places: usize,
) -> PyResult<Finished<'py>> {
    let view = View::matrix("logits", &logits, Holds::Logits, "[rows, V]")?;
    let (rows, matrix) = (rows.flat()?, view.slice(py, 0, view.rows())?);
    let found = py.detach(|| rows.finishers(matrix, places)).or_raise(py)?;
    Ok((
        PyArray1::from_vec(py, found.tokens),
        PyArray1::from_vec(py, found.scores),
        PyArray1::from_vec(py, found.status),
    ))
}

/// Tokens, status, top_ids; logprobs, top_logprobs, child_probs, flat.
type Likely<'py> = ([Bound<'py, PyArray1<i32>>; 3], [Bound<'py, PyArray1<f32>>; 3]);

/// The token of each row, and how likely it, the most likely ones and children are.
#[pyfunction]
pub fn likely_rows<'py>(
    py: Python<'py>,
    logits: Bound<'py, PyAny>,
    rows: RowArrays<'py>,
    top: usize,
    raw: bool,
    child_offsets: PyReadonlyArray1<'py, i32>,
    child_ids: PyReadonlyArray1<'py, i32>,
) -> PyResult<Likely<'py>> {
    let view = View::matrix("logits", &logits, Holds::Logits, "[rows, V]")?;
    let (rows, matrix) = (rows.flat()?, view.slice(py, 0, view.rows())?);
    let children = (slice("child_offsets", &child_offsets)?, slice("child_ids", &child_ids)?);
    let wanted = Wanted { top, mode: if raw { LogprobsMode::Raw } else { LogprobsMode::Processed }, children };
    let found = py.detach(|| rows.likely(matrix, &wanted)).or_raise(py)?;
    Ok((
        [found.tokens, found.status, found.top_ids].map(|array| PyArray1::from_vec(py, array)),
        [found.logprobs, found.top_logprobs, found.child_probs].map(|array| PyArray1::from_vec(py, array)),
    ))
}
