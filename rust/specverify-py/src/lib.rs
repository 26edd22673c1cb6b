//! The PyO3 module `specverify._core`: conversions and nothing else.

mod args;
mod arrays;
mod attention;
mod beam;
mod cache;
mod coins;
mod couple;
mod draft;
mod errors;
mod flat;
mod hip;
mod metrics;
mod oracle;
mod params;
mod probabilities;
mod tree;
mod verify;

use pyo3::prelude::*;

/// Native core of specverify.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    errors::register(module)?;
    module.add_class::<tree::DraftTree>()?;
    module.add_class::<beam::Beam>()?;
    module.add_class::<params::SamplingParams>()?;
    module.add_class::<cache::CompactionPlan>()?;
    module.add_function(wrap_pyfunction!(cache::compaction_plan, module)?)?;
    module.add_function(wrap_pyfunction!(flat::tree_walk, module)?)?;
    module.add_function(wrap_pyfunction!(flat::race_rows, module)?)?;
    module.add_function(wrap_pyfunction!(flat::likely_rows, module)?)?;
    module.add_function(wrap_pyfunction!(flat::path_moves, module)?)?;
    module.add_function(wrap_pyfunction!(flat::move_slots, module)?)?;
    module.add_function(wrap_pyfunction!(attention::tree_attention, module)?)?;
    module.add_function(wrap_pyfunction!(hip::hip_architectures, module)?)?;
    module.add_function(wrap_pyfunction!(hip::hip_device, module)?)?;
    module.add_function(wrap_pyfunction!(hip::hip_attention_splits, module)?)?;
    module.add_function(wrap_pyfunction!(hip::hip_tree_attention, module)?)?;
    module.add_function(wrap_pyfunction!(hip::hip_tree_walk, module)?)?;
    module.add_function(wrap_pyfunction!(hip::hip_kv_compact, module)?)?;
    module.add_function(wrap_pyfunction!(hip::hip_kv_move, module)?)?;
    module.add_function(wrap_pyfunction!(hip::hip_mla_splits, module)?)?;
    module.add_function(wrap_pyfunction!(hip::hip_mla_tree_attention, module)?)?;
    module.add_function(wrap_pyfunction!(hip::hip_rows_workspace, module)?)?;
    module.add_function(wrap_pyfunction!(hip::hip_target_tokens, module)?)?;
    module.add_function(wrap_pyfunction!(hip::hip_coupled_children, module)?)?;
    module.add_class::<metrics::AcceptanceStats>()?;
    module.add_class::<draft::Draft>()?;
    module.add_class::<draft::SuffixDrafter>()?;
    module.add_class::<draft::NgramDrafter>()?;
    module.add_class::<coins::Coins>()?;
    module.add_function(wrap_pyfunction!(coins::derive_seed, module)?)?;
    module.add_function(wrap_pyfunction!(probabilities::probabilities, module)?)?;
    module.add_class::<couple::Children>()?;
    module.add_function(wrap_pyfunction!(couple::coupled_children, module)?)?;
    module.add_class::<verify::Outcome>()?;
    module.add_function(wrap_pyfunction!(verify::verify, module)?)?;
    module.add_function(wrap_pyfunction!(verify::verify_batch, module)?)?;
    module.add_class::<oracle::Table>()?;
    module.add_class::<oracle::Law>()?;
    module.add_function(wrap_pyfunction!(oracle::law, module)?)?;
    module.add_function(wrap_pyfunction!(oracle::path_draws, module)?)?;
    module.add_function(wrap_pyfunction!(oracle::total_variation, module)?)?;
    Ok(())
}
