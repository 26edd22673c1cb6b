//! The kernels for `specverify.ops`: names and numbers in, launches out. Addresses are taken at the caller's word, so that this is an FFI
//! file like `arrays.rs`; shapes, dtypes and devices are checked in `specverify.ops`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat};
use specverify_hip::abi::{
    CoupledChildrenArgs, KvCompactArgs, KvMoveArgs, LogitRowsArgs, MlaTreeAttentionArgs, Number, TargetTokensArgs,
    TreeAttentionArgs, TreeWalkArgs,
};
use specverify_hip::logit_rows::{self, Logits};
use specverify_hip::tree_attention::{Cache, Plan, Query};
use specverify_hip::{Device, Stream, coupled_children, kv_compact, mla_tree_attention, target_tokens, tree_walk};

use crate::args::{refuse, word};
use crate::errors::hip_exception;

const QUERIES: [(&str, Query); 2] = [("bf16", Query::Bf16), ("f16", Query::F16)];
const LOGITS: [(&str, Logits); 3] = [("f32", Logits::F32), ("bf16", Logits::Bf16), ("f16", Logits::F16)];

/// The GPU of that index, which the caller has made the current one.
fn device(py: Python<'_>, index: usize) -> PyResult<Arc<Device>> {
    static DEVICES: Mutex<Option<HashMap<usize, Arc<Device>>>> = Mutex::new(None);
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    let devices = devices.get_or_insert_default();
    if let Some(device) = devices.get(&index) {
        return Ok(Arc::clone(device));
    }
    let opened = py.detach(Device::open).map_err(|error| hip_exception(py, &error))?;
    Ok(Arc::clone(devices.entry(index).or_insert(Arc::new(opened))))
}

/// Fields of an argument struct from a dict.
fn fill(values: &Bound<'_, PyDict>, mut set: impl FnMut(&str, Number) -> specverify_hip::Result<()>) -> PyResult<()> {
    for (name, value) in values {
        let name: String = name.extract()?;
        let number = if value.is_instance_of::<PyFloat>() {
            Number::Float(value.extract()?)
        } else {
            Number::Integer(value.extract().map_err(|_| refuse(&name, &value, "an int or a float"))?)
        };
        set(&name, number).map_err(|error| hip_exception(values.py(), &error))?;
    }
    Ok(())
}

/// Architectures that kernels were compiled for.
#[pyfunction]
pub fn hip_architectures() -> Vec<&'static str> {
    specverify_hip::kernels::architectures()
}

/// Architecture of the GPU that is current, and the path of its runtime; raises HipError where there is none that can be used.
#[pyfunction]
pub fn hip_device(py: Python<'_>, index: usize) -> PyResult<(&'static str, String)> {
    let device = device(py, index)?;
    Ok((device.arch(), device.runtime().to_owned()))
}

/// Parts to split the keys of a request into, from shapes alone.
#[pyfunction]
pub fn hip_attention_splits(
    requests: u32,
    kv_heads: u32,
    group: u32,
    max_rows: u32,
    max_keys: u32,
    compute_units: u32,
) -> i32 {
    specverify_hip::tree_attention::splits(requests, kv_heads, group, max_rows, max_keys, compute_units)
}

/// Launch tree attention, and the reduction of its splits, on a stream.
#[pyfunction]
#[pyo3(signature = (index, stream, *, query, fp8, dim, max_rows, arguments))]
#[expect(clippy::too_many_arguments, reason = "what a launch depends on")]
pub fn hip_tree_attention(
    py: Python<'_>,
    index: usize,
    stream: usize,
    query: Bound<'_, PyAny>,
    fp8: bool,
    dim: u32,
    max_rows: u32,
    arguments: Bound<'_, PyDict>,
) -> PyResult<()> {
    let query = word("query", &query, &QUERIES)?;
    let cache = if fp8 { Cache::Fp8 } else { Cache::Query };
    let mut filled = TreeAttentionArgs::default();
    fill(&arguments, |name, number| filled.set(name, number))?;
    let plan = Plan::new(query, cache, dim, max_rows, &filled).map_err(|error| hip_exception(py, &error))?;
    // SAFETY: see `launch`.
    launch(py, index, |device| unsafe { plan.launch(device, Stream(stream), &filled) })
}

/// Launch the walk on a stream.
#[pyfunction]
pub fn hip_tree_walk(py: Python<'_>, index: usize, stream: usize, arguments: Bound<'_, PyDict>) -> PyResult<()> {
    let mut filled = TreeWalkArgs::default();
    fill(&arguments, |name, number| filled.set(name, number))?;
    let plan = tree_walk::Plan::new(&filled).map_err(|error| hip_exception(py, &error))?;
    // SAFETY: see `launch`.
    launch(py, index, |device| unsafe { plan.launch(device, Stream(stream), &filled) })
}

/// Launch the compaction of accepted paths on a stream. `alignment` divides the address of every pool.
#[pyfunction]
pub fn hip_kv_compact(
    py: Python<'_>,
    index: usize,
    stream: usize,
    alignment: u64,
    arguments: Bound<'_, PyDict>,
) -> PyResult<()> {
    let mut filled = KvCompactArgs::default();
    fill(&arguments, |name, number| filled.set(name, number))?;
    let plan = kv_compact::Plan::compact(alignment, &filled).map_err(|error| hip_exception(py, &error))?;
    // SAFETY: see `launch`.
    launch(py, index, |device| unsafe { plan.launch(device, Stream(stream), &filled) })
}

/// Launch a list of moves on a stream. `alignment` divides the address of every pool.
#[pyfunction]
pub fn hip_kv_move(
    py: Python<'_>,
    index: usize,
    stream: usize,
    alignment: u64,
    arguments: Bound<'_, PyDict>,
) -> PyResult<()> {
    let mut filled = KvMoveArgs::default();
    fill(&arguments, |name, number| filled.set(name, number))?;
    let plan = kv_compact::Plan::moves(alignment, &filled).map_err(|error| hip_exception(py, &error))?;
    // SAFETY: see `launch`.
    launch(py, index, |device| unsafe { plan.launch(device, Stream(stream), &filled) })
}

/// Parts to split the keys of a request into for MLA, from shapes alone.
#[pyfunction]
pub fn hip_mla_splits(requests: u32, heads: u32, max_rows: u32, max_keys: u32, compute_units: u32) -> i32 {
    mla_tree_attention::splits(requests, heads, max_rows, max_keys, compute_units)
}

/// Launch MLA tree attention, and the reduction of its splits, on a stream.
#[pyfunction]
#[pyo3(signature = (index, stream, *, query, fp8, max_rows, arguments))]
pub fn hip_mla_tree_attention(
    py: Python<'_>,
    index: usize,
    stream: usize,
    query: Bound<'_, PyAny>,
    fp8: bool,
    max_rows: u32,
    arguments: Bound<'_, PyDict>,
) -> PyResult<()> {
    let query = word("query", &query, &QUERIES)?;
    let cache = if fp8 { Cache::Fp8 } else { Cache::Query };
    let mut filled = MlaTreeAttentionArgs::default();
    fill(&arguments, |name, number| filled.set(name, number))?;
    let plan = mla_tree_attention::Plan::new(query, cache, max_rows, &filled);
    let plan = plan.map_err(|error| hip_exception(py, &error))?;
    // SAFETY: see `launch`.
    launch(py, index, |device| unsafe { plan.launch(device, Stream(stream), &filled) })
}

/// How many workgroups read a row and how many groups each, as arguments; and the bytes of each workspace.
#[pyfunction]
pub fn hip_rows_workspace<'py>(
    py: Python<'py>,
    logits: Bound<'py, PyAny>,
    rows: i32,
    vocab: i32,
    compute_units: u32,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let (parts, part_groups) = logit_rows::parts(word("logits", &logits, &LOGITS)?, rows, vocab, compute_units);
    let arguments = LogitRowsArgs { rows, vocab, parts, part_groups, ..LogitRowsArgs::default() };
    let sizes = logit_rows::Workspace::new(&arguments).map_err(|error| hip_exception(py, &error))?;
    let (layout, bytes) = (PyDict::new(py), PyDict::new(py));
    layout.set_item("parts", parts)?;
    layout.set_item("part_groups", part_groups)?;
    for (name, size) in [
        ("maxima", sizes.maxima),
        ("part_maxima", sizes.part_maxima),
        ("part_faults", sizes.part_faults),
        ("bin_masses", sizes.bin_masses),
        ("bin_counts", sizes.bin_counts),
        ("cuts", sizes.cuts),
        ("raw_maxima", sizes.raw_maxima),
        ("raw_totals", sizes.raw_totals),
    ] {
        bytes.set_item(name, size)?;
    }
    Ok((layout, bytes))
}

/// Launch the passes that give each row's token.
#[pyfunction]
pub fn hip_target_tokens(
    py: Python<'_>,
    index: usize,
    stream: usize,
    logits: Bound<'_, PyAny>,
    rows: Bound<'_, PyDict>,
    results: Bound<'_, PyDict>,
) -> PyResult<()> {
    let mut filled = TargetTokensArgs::default();
    fill(&rows, |name, number| filled.rows.set(name, number))?;
    fill(&results, |name, number| filled.set(name, number))?;
    let plan = target_tokens::Plan::new(word("logits", &logits, &LOGITS)?, &filled);
    let plan = plan.map_err(|error| hip_exception(py, &error))?;
    // SAFETY: see `launch`.
    launch(py, index, |device| unsafe { plan.launch(device, Stream(stream), &filled) })
}

/// Launch the passes that give each row's first finishers.
#[pyfunction]
pub fn hip_coupled_children(
    py: Python<'_>,
    index: usize,
    stream: usize,
    logits: Bound<'_, PyAny>,
    rows: Bound<'_, PyDict>,
    results: Bound<'_, PyDict>,
) -> PyResult<()> {
    let mut filled = CoupledChildrenArgs::default();
    fill(&rows, |name, number| filled.rows.set(name, number))?;
    fill(&results, |name, number| filled.set(name, number))?;
    let plan = coupled_children::Plan::new(word("logits", &logits, &LOGITS)?, &filled);
    let plan = plan.map_err(|error| hip_exception(py, &error))?;
    // SAFETY: see `launch`.
    launch(py, index, |device| unsafe { plan.launch(device, Stream(stream), &filled) })
}

/// Launches on the device, without the GIL.
///
/// That the launches are sound is the word of `specverify.ops`: it took the addresses from live tensors of this device, whose shapes,
/// dtypes and strides it checked, and torch keeps their memory until the stream has passed the launch.
fn launch(
    py: Python<'_>,
    index: usize,
    work: impl FnOnce(&Device) -> specverify_hip::Result<()> + Send,
) -> PyResult<()> {
    let device = device(py, index)?;
    py.detach(|| work(&device)).map_err(|error| hip_exception(py, &error))
}
