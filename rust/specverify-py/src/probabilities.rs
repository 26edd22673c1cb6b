//! `probabilities`.

use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use specverify::Topology;
use specverify::rows::{Context, TargetRows};
use specverify::verify::{Row, Target};

use crate::args::{optional, optional_token_ids};
use crate::arrays::{Holds, View};
use crate::errors::OrRaise;
use crate::params::SamplingParams;

/// What the rules see of logits: the distribution of each row after the sampling parameters.
///
/// A drafter whose draws a ratio rule is to verify gets its q here: the same parameters, applied in the same order.
///
/// Parameters
/// ----------
/// logits : array or tensor of float32, float16 or bfloat16
///     [n + 1, V], read in place.
/// sampling : SamplingParams
///     The request's.
/// tree : DraftTree, optional
///     Of n nodes; penalties count the tokens on a row's path. By default the tree without nodes, whose logits are one row.
/// prompt_token_ids, output_token_ids, stop_token_ids : sequence of int, default ()
///     As in `verify`.
///
/// Returns
/// -------
/// ndarray of float64
///     [n + 1, V]; one-hot at temperature 0.
///
/// Raises
/// ------
/// RowError
///     A row holds NaN, +inf or no usable mass.
///
/// Examples
/// --------
/// >>> import numpy as np
/// >>> import specverify as sv
/// >>> logits = np.log(np.array([[0.1, 0.2, 0.3, 0.4]], np.float32))
/// >>> sv.probabilities(logits, sampling=sv.SamplingParams(top_k=2)).round(3).tolist()
/// [[0.0, 0.0, 0.429, 0.571]]
#[pyfunction]
#[pyo3(
    signature = (logits, *, sampling, tree=None, prompt_token_ids=None, output_token_ids=None, stop_token_ids=None),
    text_signature = "(logits, *, sampling, tree=None, prompt_token_ids=(), output_token_ids=(), stop_token_ids=())"
)]
pub fn probabilities<'py>(
    py: Python<'py>,
    logits: Bound<'py, PyAny>,
    sampling: Bound<'py, PyAny>,
    tree: Option<Bound<'py, PyAny>>,
    prompt_token_ids: Option<Bound<'py, PyAny>>,
    output_token_ids: Option<Bound<'py, PyAny>>,
    stop_token_ids: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let view = View::matrix("logits", &logits, Holds::Logits, "[n + 1, V]")?;
    let params = SamplingParams::of("sampling", &sampling)?;
    let tree = optional(&tree).map(|tree| crate::tree::one("tree", tree)).transpose()?;
    let nothing = Topology::new(Vec::new(), Vec::new()).or_raise(py)?;
    let topology = tree.as_ref().map_or(&nothing, |tree| tree.get().tree.topology());
    let prompt = optional_token_ids("prompt_token_ids", &prompt_token_ids)?;
    let output = optional_token_ids("output_token_ids", &output_token_ids)?;
    let stop = optional_token_ids("stop_token_ids", &stop_token_ids)?;
    let (rows, vocab) = (view.rows(), view.columns());
    topology.check_vocab(vocab).or_raise(py)?;
    let context = Context {
        params: &params.get().0,
        // The race draws from these distributions; it does not change them.
        seed: 0,
        position: 0,
        prompt: &prompt,
        output: &output,
        stop_token_ids: &stop,
        tree: topology,
    };
    let matrix = view.slice(py, 0, rows)?;
    let read = || -> specverify::Result<Vec<f64>> {
        let mut target = TargetRows::new(matrix, context)?;
        let mut all = vec![0.0; rows * vocab];
        for (r, out) in all.chunks_exact_mut(vocab).enumerate() {
            target.row(r)?.read(0, out);
        }
        Ok(all)
    };
    let all = py.detach(read).or_raise(py)?;
    PyArray1::from_vec(py, all).reshape([rows, vocab])
}
