//! `tree_attention`: the CPU side of `specverify.ops.tree_attention`.

use numpy::{Element, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use specverify::Error;
use specverify::attention::{Heads, HeadsMut, Paged, TreeAttention};

use crate::args::{float, integer, optional, shown, type_name};
use crate::arrays::Strided;
use crate::errors::{OrRaise, exception};

/// Integers of an array or a tensor, copied where they are not contiguous.
struct Integers<'py, T: Element> {
    array: PyReadonlyArrayDyn<'py, T>,
    copy: Option<Vec<T>>,
}

impl<'py, T: Element + Copy> Integers<'py, T> {
    fn new<const N: usize>(
        name: &str,
        value: &Bound<'py, PyAny>,
        dtype: &str,
        expected: [&str; N],
    ) -> PyResult<(Self, [usize; N])> {
        let py = value.py();
        let any = match value.cast::<PyUntypedArray>() {
            Ok(array) => array.clone(),
            Err(_) => {
                // Tensors in host memory become arrays over the same memory.
                let made = py.import("numpy")?.call_method1("asarray", (value,)).ok();
                made.and_then(|made| made.cast_into::<PyUntypedArray>().ok()).ok_or_else(|| {
                    let found = format!("of type {}", type_name(value));
                    exception(
                        py,
                        &Error::argument(name, found, format!("an array or tensor of {dtype} in host memory")),
                    )
                })?
            }
        };
        let Ok(array) = any.cast::<PyArrayDyn<T>>() else {
            let value = shown(any.dtype().as_any());
            return Err(exception(py, &Error::Dtype { argument: name.into(), value, expected: dtype.into() }));
        };
        let Ok(shape) = <[usize; N]>::try_from(array.shape()) else {
            let expected = format!("[{}]", expected.join(", "));
            return Err(exception(py, &Error::shape(name, format!("{:?}", array.shape()), expected)));
        };
        let array = array.try_readonly().map_err(|_| {
            exception(py, &Error::argument(name, "an array that is being written", "one that can be read"))
        })?;
        let copy = array.as_slice().is_err().then(|| array.as_array().iter().copied().collect());
        Ok((Self { array, copy }, shape))
    }

    fn slice(&self) -> &[T] {
        self.copy.as_deref().or_else(|| self.array.as_slice().ok()).unwrap_or_default()
    }
}

/// Attention of a verification pass over a paged KV cache, in host memory.
///
/// Row 0 of a request is the root, row i + 1 is node i of its draft tree. A row sees the keys before the root, the root's, and those of its
/// ancestors and its own; what else lies in the cache, NaN included, does not matter. Everything is computed in float32.
///
/// Parameters
/// ----------
/// q : array or tensor of float32, bfloat16 or float16
///     [rows, heads, dim] queries; dim is a multiple of 8 and contiguous, the other strides are free.
/// k, v : array or tensor of float32, bfloat16 or float16
///     [pages, page_size, kv_heads, dim] keys and values by their strides, those of the rows included; read in place. Query head h reads
///     KV head h // (heads // kv_heads).
/// block_table : int32 array or tensor
///     [requests, n] pages of each request's keys; those without keys are not read.
/// cu_rows : int32 array or tensor
///     [requests + 1] first row of each request, then the end of the last. A request may have none.
/// context_lens : int32 array or tensor
///     [requests] keys before the root.
/// ancestors : uint64 array or tensor, optional
///     [rows, words] ancestor bits (`DraftTree.ancestor_bits`); None for chains.
/// scale : float
///     Factor of the scores q.k.
/// window : int, default 0
///     Positions that a row sees, its own included; 0 for all.
/// softcap : float, default 0.0
///     Scores become softcap * tanh(score / softcap); 0 for none.
/// out : array or tensor, optional
///     [rows, heads, dim], where to write; by default zeros of q's kind and dtype. Rows beyond the last request's are left as they are.
///
/// Returns
/// -------
/// array or tensor
///     `out`.
///
/// Raises
/// ------
/// ArgumentError
///     A number outside its domain: a page outside the cache, bits of no tree, a head dimension that is no multiple of 8.
/// ShapeError
///     Shapes or strides that do not fit together.
/// DtypeError
///     An element type that is not read.
///
/// Examples
/// --------
/// >>> import numpy as np
/// >>> from specverify import _core
/// >>> q, cache = np.zeros((2, 2, 8), np.float32), np.ones((3, 4, 1, 8), np.float32)
/// >>> pages, rows, context = (np.array(x, np.int32) for x in ([[2, 0]], [0, 2], [3]))
/// >>> _core.tree_attention(q, cache, cache, pages, rows, context, None, scale=1.0)[:, :, 0].tolist()
/// [[1.0, 1.0], [1.0, 1.0]]
#[pyfunction]
#[pyo3(
    signature = (q, k, v, block_table, cu_rows, context_lens, ancestors, *, scale, window=None, softcap=None, out=None),
    text_signature = "(q, k, v, block_table, cu_rows, context_lens, ancestors, *, scale, window=0, softcap=0.0, out=None)"
)]
#[expect(clippy::too_many_arguments, reason = "what attention depends on")]
pub fn tree_attention<'py>(
    py: Python<'py>,
    q: Bound<'py, PyAny>,
    k: Bound<'py, PyAny>,
    v: Bound<'py, PyAny>,
    block_table: Bound<'py, PyAny>,
    cu_rows: Bound<'py, PyAny>,
    context_lens: Bound<'py, PyAny>,
    ancestors: Option<Bound<'py, PyAny>>,
    scale: Bound<'py, PyAny>,
    window: Option<Bound<'py, PyAny>>,
    softcap: Option<Bound<'py, PyAny>>,
    out: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    const CACHE: [&str; 4] = ["pages", "page_size", "kv_heads", "dim"];
    let queries = Strided::new("q", &q, ["rows", "heads", "dim"])?;
    let (keys, values) = (Strided::new("k", &k, CACHE)?, Strided::new("v", &v, CACHE)?);
    let same = |name: &str, found: &[usize], expected: &[usize], of: &str| match found == expected {
        true => Ok(()),
        false => Err(exception(py, &Error::shape(name, format!("{found:?}"), format!("{expected:?}, {of}")))),
    };
    let (rows, heads, dim) = (queries.shape[0], queries.shape[1], queries.shape[2]);
    same("k", &keys.shape, &[&keys.shape[..3], &[dim]].concat(), "the last as that of q")?;
    same("v", &values.shape, &keys.shape, "as k")?;
    let (table, [listed, width]) = Integers::<i32>::new("block_table", &block_table, "int32", ["requests", "n"])?;
    let (cu_rows, _) = Integers::<i32>::new("cu_rows", &cu_rows, "int32", ["requests + 1"])?;
    let (contexts, [requests]) = Integers::<i32>::new("context_lens", &context_lens, "int32", ["requests"])?;
    same("block_table", &[listed, width], &[requests, width], "a row for each of context_lens")?;
    let bits = optional(&ancestors)
        .map(|bits| Integers::<u64>::new("ancestors", bits, "uint64", ["rows", "words"]))
        .transpose()?;
    let number = |name: &str, value: &Bound<'_, PyAny>| float(name, value, "a number").map(|number| number as f32);
    let call = TreeAttention {
        q: Heads { values: queries.values(), strides: [queries.strides[0], queries.strides[1]] },
        rows,
        k: paged(&keys),
        v: paged(&values),
        pages: keys.shape[0],
        page_size: keys.shape[1],
        heads,
        kv_heads: keys.shape[2],
        dim,
        block_table: table.slice(),
        table_stride: width,
        cu_rows: cu_rows.slice(),
        context_lens: contexts.slice(),
        ancestors: bits.as_ref().map(|(bits, _)| bits.slice()),
        words: bits.as_ref().map_or(0, |&(_, [_, words])| words),
        scale: number("scale", &scale)?,
        window: optional(&window).map_or(Ok(0), |window| integer("window", window, "an int >= 0"))?,
        softcap: optional(&softcap).map_or(Ok(0.0), |softcap| number("softcap", softcap))?,
    };
    let out = match out.filter(|out| !out.is_none()) {
        Some(out) => out,
        None => zeros_like(&q)?,
    };
    let mut result = Strided::new("out", &out, ["rows", "heads", "dim"])?;
    same("out", &result.shape, &queries.shape, "as q")?;
    let strides = [result.strides[0], result.strides[1]];
    let values = result.values_mut(py, "out", &[("q", &queries), ("k", &keys), ("v", &values)])?;
    py.detach(|| call.run(&mut HeadsMut { values, strides })).or_raise(py)?;
    Ok(out)
}

fn paged(of: &Strided) -> Paged<'_> {
    Paged { values: of.values(), strides: [of.strides[0], of.strides[1], of.strides[2]] }
}

/// A new tensor of the framework and dtype of `q`, else an array.
fn zeros_like<'py>(q: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let shape = q.getattr("shape")?;
    if q.hasattr("new_zeros")? {
        return q.call_method1("new_zeros", (shape,));
    }
    let keywords = PyDict::new(q.py());
    keywords.set_item("dtype", q.getattr("dtype")?)?;
    q.py().import("numpy")?.call_method("zeros", (shape,), Some(&keywords))
}
