//! Elements by strides: queries and results by row and head, keys and values by page, token and head.

use half::{bf16, f16};

use crate::error::{Error, Result};
use crate::rows::{Ahead, Element, Values, with_row};

/// Vectors of queries, one a row and head: element d of row r and head h is `values[r * strides[0] + h * strides[1] + d]`.
#[derive(Debug, Clone, Copy)]
pub struct Heads<'a> {
    /// The elements: f32, bf16 or f16.
    pub values: Values<'a>,
    /// Elements from one row, and from one head, to the next.
    pub strides: [usize; 2],
}

/// A cache of keys or of values in pages of tokens: element d of a token's head h is
/// `values[page * strides[0] + offset * strides[1] + h * strides[2] + d]`, whatever the layout of the engine.
#[derive(Debug, Clone, Copy)]
pub struct Paged<'a> {
    /// The elements: f32, bf16 or f16.
    pub values: Values<'a>,
    /// Elements from one page, from one token of a page, and from one head, to the next.
    pub strides: [usize; 3],
}

/// Where the result goes, laid out like [`Heads`].
#[derive(Debug)]
pub struct HeadsMut<'a> {
    /// The elements; those of other rows and between heads are left as they are.
    pub values: ValuesMut<'a>,
    /// Elements from one row, and from one head, to the next.
    pub strides: [usize; 2],
}

/// Elements that are written.
#[derive(Debug)]
pub enum ValuesMut<'a> {
    /// f32.
    F32(&'a mut [f32]),
    /// bfloat16, rounded to the nearest, ties to even.
    Bf16(&'a mut [bf16]),
    /// IEEE half precision, rounded likewise.
    F16(&'a mut [f16]),
}

/// `count` elements of each dimension, `strides` apart, and a vector of `dim` at the end of each: all within `length`?
pub(super) fn check_extent(name: &str, length: usize, counts: &[usize], strides: &[usize], dim: usize) -> Result<()> {
    if counts.contains(&0) {
        return Ok(());
    }
    let needed = counts.iter().zip(strides).try_fold(dim, |end, (count, stride)| {
        (count - 1).checked_mul(*stride).and_then(|offset| end.checked_add(offset))
    });
    match needed {
        Some(needed) if needed <= length => Ok(()),
        _ => Err(Error::shape(
            name,
            format!("{length} elements"),
            format!(
                "[{}, {dim}] with strides {strides:?}",
                counts.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
            ),
        )),
    }
}

pub(super) fn check_dtype(name: &str, values: Values<'_>) -> Result<()> {
    match values {
        Values::F64(_) => Err(Error::Dtype {
            argument: name.into(),
            value: "float64".into(),
            expected: "float32, bfloat16 or float16".into(),
        }),
        _ => Ok(()),
    }
}

/// `factor * values[at..]` in f32, as many as `out` takes.
#[inline(always)]
pub(super) fn load(values: Values<'_>, at: usize, factor: f32, out: &mut [f32]) {
    with_row!(values, all => {
        let elements = &all[at..at + out.len()];
        for (out, element) in out.iter_mut().zip(elements) {
            *out = element.f32() * factor;
        }
    });
}

/// Fetches `values[at..at + count]` ahead of use.
#[inline(always)]
pub(super) fn prefetch(values: Values<'_>, at: usize, count: usize) {
    with_row!(values, all => Ahead::of(&all[at..at + count]).fetch(usize::MAX));
}

impl ValuesMut<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            ValuesMut::F32(values) => values.len(),
            ValuesMut::Bf16(values) => values.len(),
            ValuesMut::F16(values) => values.len(),
        }
    }

    /// Rounds a vector into place.
    pub(super) fn store(&mut self, at: usize, vector: &[f32]) {
        match self {
            ValuesMut::F32(values) => values[at..at + vector.len()].copy_from_slice(vector),
            ValuesMut::Bf16(values) => {
                values[at..].iter_mut().zip(vector).for_each(|(to, &x)| *to = bf16::from_f32(x));
            }
            ValuesMut::F16(values) => {
                values[at..].iter_mut().zip(vector).for_each(|(to, &x)| *to = f16::from_f32(x));
            }
        }
    }
}
