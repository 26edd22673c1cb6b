//! The Python exception family, one class a variant of [`specverify::Error`].

use pyo3::exceptions::{PyException, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use specverify::Error;

struct Family {
    base: Py<PyType>,
    argument: Py<PyType>,
    shape: Py<PyType>,
    dtype: Py<PyType>,
    tree: Py<PyType>,
    pairing: Py<PyType>,
    row: Py<PyType>,
    hip: Py<PyType>,
}

static FAMILY: PyOnceLock<Family> = PyOnceLock::new();

/// A class of the family. Made by calling `type`, since PyO3's own macro knows no second base class.
fn class<'py>(py: Python<'py>, name: &str, doc: &str, bases: Bound<'py, PyTuple>) -> PyResult<Py<PyType>> {
    let body = PyDict::new(py);
    body.set_item("__module__", "specverify")?;
    body.set_item("__doc__", doc)?;
    Ok(py.get_type::<PyType>().call1((name, bases, body))?.cast_into::<PyType>()?.unbind())
}

fn family(py: Python<'_>) -> PyResult<&Family> {
    FAMILY.get_or_try_init(py, || {
        let exception = PyTuple::new(py, [py.get_type::<PyException>()])?;
        let base = class(py, "SpecVerifyError", "What specverify raises: the base of the family.", exception)?;
        let member = |name: &str, doc: &str, builtin: Bound<'_, PyType>| {
            class(py, name, doc, PyTuple::new(py, [base.bind(py), &builtin])?)
        };
        let value = || py.get_type::<PyValueError>();
        Ok(Family {
            argument: member("ArgumentError", "An argument has a value outside its domain.", value())?,
            shape: member("ShapeError", "An array has the wrong shape or layout.", value())?,
            dtype: member(
                "DtypeError",
                "An array has an element type that is not read.",
                py.get_type::<PyTypeError>(),
            )?,
            tree: member("TreeError", "A draft tree is malformed.", value())?,
            pairing: member("PairingError", "The rule is not proved for the way the drafts were drawn.", value())?,
            row: member(
                "RowError",
                "A row that was reached holds no usable distribution; `row` is its index.",
                value(),
            )?,
            hip: member(
                "HipError",
                "The HIP kernels can't run here, or the HIP runtime refused.",
                py.get_type::<PyRuntimeError>(),
            )?,
            base,
        })
    })
}

/// The exception of an error.
pub fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let family = match family(py) {
        Ok(family) => family,
        Err(raised) => return raised,
    };
    let class = match error {
        Error::Argument { .. } => &family.argument,
        Error::Shape { .. } => &family.shape,
        Error::Dtype { .. } => &family.dtype,
        Error::Tree { .. } => &family.tree,
        Error::Pairing { .. } => &family.pairing,
        Error::Row { .. } => &family.row,
        _ => &family.base,
    };
    let raised = PyErr::from_type(class.bind(py).clone(), error.to_string());
    if let Error::Row { row, .. } = error
        && let Err(other) = raised.value(py).setattr("row", row)
    {
        return other;
    }
    raised
}

/// The exception of an error of the kernels' launcher.
pub fn hip_exception(py: Python<'_>, error: &specverify_hip::Error) -> PyErr {
    match family(py) {
        Ok(family) => {
            let argument = matches!(error, specverify_hip::Error::Argument { .. });
            let class = if argument { &family.argument } else { &family.hip };
            PyErr::from_type(class.bind(py).clone(), error.to_string())
        }
        Err(raised) => raised,
    }
}

/// Turns a `Result` of the crate into one of PyO3. (Neither type is ours, so `From` can't.)
pub trait OrRaise<T> {
    /// The value, or the exception of the error.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for specverify::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error))
    }
}

/// Adds the classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let family = family(module.py())?;
    for class in [
        &family.base,
        &family.argument,
        &family.shape,
        &family.dtype,
        &family.tree,
        &family.pairing,
        &family.row,
        &family.hip,
    ] {
        let class = class.bind(module.py());
        module.add(class.name()?, class)?;
    }
    Ok(())
}
