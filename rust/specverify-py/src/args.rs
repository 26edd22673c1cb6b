//! Python values to numbers and ids, with errors that name the argument, its value and what was expected.
//!
//! PyO3's own conversions raise `OverflowError: can't convert negative int to unsigned`, which names neither.

use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyString};
use specverify::Error;

use crate::errors::exception;

/// What a token id may be.
pub const TOKEN_ID: &str = "a token id: an int in [0, 2^32)";

/// `repr(value)`, cut where it is longer than a message should be.
pub fn shown(value: &Bound<'_, PyAny>) -> String {
    const LONGEST: usize = 120;
    let text = match value.repr() {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => format!("<{}>", type_name(value)),
    };
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Name of a value's type.
pub fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string_lossy().into_owned())
}

/// The `ArgumentError` of a value.
pub fn refuse(name: &str, value: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    exception(value.py(), &Error::argument(name, shown(value), expected))
}

fn as_integer<T: TryFrom<i128>>(value: &Bound<'_, PyAny>) -> Option<T> {
    if value.is_instance_of::<PyBool>() {
        return None;
    }
    let wide = value.extract::<i64>().map(i128::from).or_else(|_| value.extract::<u64>().map(i128::from));
    T::try_from(wide.ok()?).ok()
}

/// An int (anything with `__index__`, but no bool) that fits `T`.
pub fn integer<T: TryFrom<i128>>(name: &str, value: &Bound<'_, PyAny>, expected: &str) -> PyResult<T> {
    as_integer(value).ok_or_else(|| refuse(name, value, expected))
}

/// A real number, no bool.
pub fn float(name: &str, value: &Bound<'_, PyAny>, expected: &str) -> PyResult<f64> {
    match value.extract::<f64>() {
        Ok(number) if !value.is_instance_of::<PyBool>() => Ok(number),
        _ => Err(refuse(name, value, expected)),
    }
}

/// One of a few words.
pub fn word<T: Copy>(name: &str, value: &Bound<'_, PyAny>, words: &[(&str, T)]) -> PyResult<T> {
    let text = value.cast::<PyString>().ok().map(|text| text.to_string_lossy().into_owned());
    match words.iter().find(|(word, _)| text.as_deref() == Some(word)) {
        Some(&(_, meaning)) => Ok(meaning),
        None => {
            let quoted: Vec<_> = words.iter().map(|(word, _)| format!("'{word}'")).collect();
            Err(refuse(name, value, &format!("one of {}", quoted.join(", "))))
        }
    }
}

/// `value`, or nothing for None.
pub fn optional<'a, 'py>(value: &'a Option<Bound<'py, PyAny>>) -> Option<&'a Bound<'py, PyAny>> {
    value.as_ref().filter(|value| !value.is_none())
}

/// The items of a sequence, a 1-d array or a 1-d tensor.
pub fn items<'py>(name: &str, values: &Bound<'py, PyAny>, expected: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let expected = || format!("a sequence, {expected} each");
    if values.is_instance_of::<PyString>() || values.is_instance_of::<PyBytes>() || values.is_instance_of::<PyDict>() {
        return Err(refuse(name, values, &expected()));
    }
    // Arrays and tensors become plain numbers in one call: iterating over a tensor makes a tensor of each.
    let listed = if values.hasattr("tolist")? { values.call_method0("tolist")? } else { values.clone() };
    match listed.try_iter() {
        Ok(iterator) => iterator.collect(),
        Err(raised) if raised.is_instance_of::<PyTypeError>(values.py()) => Err(refuse(name, values, &expected())),
        Err(raised) => Err(raised),
    }
}

/// A sequence, 1-d array or 1-d tensor of ints that fit `T`.
pub fn integers<T: TryFrom<i128>>(name: &str, values: &Bound<'_, PyAny>, expected: &str) -> PyResult<Vec<T>> {
    // A prompt of 100,000 tokens should not become as many Python ints.
    macro_rules! from_numpy {
        ($($element:ty),*) => {$(
            if let Ok(array) = values.cast::<PyArray1<$element>>()
                && let Ok(array) = array.try_readonly()
            {
                let bad = |i: usize, value: $element| {
                    exception(values.py(), &Error::argument(format!("{name}[{i}]"), value, expected))
                };
                let convert = |(i, &value): (usize, &$element)| T::try_from(i128::from(value)).map_err(|_| bad(i, value));
                return array.as_array().iter().enumerate().map(convert).collect();
            }
        )*};
    }
    from_numpy!(i64, i32, u32);
    let convert = |(i, value): (usize, &Bound<'_, PyAny>)| {
        as_integer(value).ok_or_else(|| refuse(&format!("{name}[{i}]"), value, expected))
    };
    items(name, values, expected)?.iter().enumerate().map(convert).collect()
}

/// [`token_ids`] of an argument that may be left out or `None`: then there are none.
pub fn optional_token_ids(name: &str, value: &Option<Bound<'_, PyAny>>) -> PyResult<Vec<u32>> {
    optional(value).map_or_else(|| Ok(Vec::new()), |ids| token_ids(name, ids))
}

/// Token ids.
pub fn token_ids(name: &str, values: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    integers(name, values, TOKEN_ID)
}

/// Real numbers: a sequence, 1-d array or 1-d tensor.
pub fn floats(name: &str, values: &Bound<'_, PyAny>) -> PyResult<Vec<f32>> {
    let convert = |(i, value): (usize, &Bound<'_, PyAny>)| match value.extract::<f64>() {
        Ok(number) if !value.is_instance_of::<PyBool>() => Ok(number as f32),
        _ => Err(refuse(&format!("{name}[{i}]"), value, "a number")),
    };
    items(name, values, "a number")?.iter().enumerate().map(convert).collect()
}

/// Rows of one length: a nested sequence, a 2-d array or a 2-d tensor, as its items in row-major order and their number a row.
pub fn rows<T>(
    name: &str,
    values: &Bound<'_, PyAny>,
    row: impl Fn(&str, &Bound<'_, PyAny>) -> PyResult<Vec<T>>,
) -> PyResult<(Vec<T>, usize)> {
    let (mut flat, mut width) = (Vec::new(), None);
    for (i, values) in items(name, values, "a row")?.iter().enumerate() {
        let name = format!("{name}[{i}]");
        let items = row(&name, values)?;
        let expected = *width.get_or_insert(items.len());
        if items.len() != expected {
            let error = Error::shape(name, items.len(), format!("{expected}, as many as the first row has"));
            return Err(exception(values.py(), &error));
        }
        flat.extend(items);
    }
    Ok((flat, width.unwrap_or(0)))
}
