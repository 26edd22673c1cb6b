//! The PyO3 module `specverify._core`: conversions and nothing else.
use pyo3::prelude::*;

/// Native core of specverify.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
