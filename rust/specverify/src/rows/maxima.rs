//! Maxima of groups of 64 ids: the one pass over a row that everything else starts from.

use pulp::{Simd as Vectors, WithSimd};

use crate::coins::GROUP;
use crate::error::RowFault;
use crate::rows::matrix::{Element, load};
use crate::rows::simd::Simd;

/// Number of groups of a vocabulary.
pub(crate) fn groups(vocab: usize) -> usize {
    vocab.div_ceil(GROUP)
}

/// The greater; `a` when `b` is NaN.
#[inline(always)]
pub(crate) fn greater(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

/// The maximum of a group, NaN passed over.
#[inline(always)]
pub(crate) fn of_group(x: &[f32; GROUP]) -> f32 {
    let mut width = GROUP / 2;
    let mut m = *x;
    while width > 0 {
        for i in 0..width {
            m[i] = greater(m[i], m[i + width]);
        }
        width /= 2;
    }
    m[0]
}

/// The greatest of many, in lanes: one running maximum would wait for itself.
#[inline(always)]
pub(crate) fn greatest(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; GROUP];
    let (chunks, rest) = values.as_chunks::<GROUP>();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = greater(*lane, value);
        }
    }
    for (lane, &value) in lanes.iter_mut().zip(rest) {
        *lane = greater(*lane, value);
    }
    of_group(&lanes)
}

struct Maxima<'a, E> {
    row: &'a [E],
    out: &'a mut [f32],
}

impl<E: Element> WithSimd for Maxima<'_, E> {
    type Output = bool;

    /// Whether the row may hold a NaN or +inf. A sum catches both for the price of an addition: it is NaN when there is a NaN, or
    /// +inf beside -inf; and alone +inf makes it +inf. It may be either for nothing when finite values overflow.
    #[inline(always)]
    fn with_simd<S: Vectors>(self, simd: S) -> bool {
        let mut sum = simd.splat_f32s(0.0);
        let (full, rest) = self.row.as_chunks::<GROUP>();
        for (chunk, out) in full.iter().zip(&mut *self.out) {
            let mut x = [0.0; GROUP];
            for (x, e) in x.iter_mut().zip(chunk) {
                *x = e.f32();
            }
            *out = group_max(simd, &x, &mut sum);
        }
        if !rest.is_empty() {
            self.out[full.len()] = group_max(simd, &load(self.row, full.len()), &mut sum);
        }
        let sum = simd.reduce_sum_f32s(sum);
        sum.is_nan() || sum == f32::INFINITY
    }
}

/// The maximum of a group, its members added to `sum`.
#[inline(always)]
fn group_max<S: Vectors>(simd: S, x: &[f32; GROUP], sum: &mut S::f32s) -> f32 {
    let (vectors, _) = S::as_simd_f32s(x);
    let (mut max, mut part) = (vectors[0], vectors[0]);
    for &v in &vectors[1..] {
        max = simd.max_f32s(max, v);
        part = simd.add_f32s(part, v);
    }
    *sum = simd.add_f32s(*sum, part);
    simd.reduce_max_f32s(max)
}

/// Writes the maximum of every group of 64 ids to `out`, one a group.
pub(crate) fn maxima<E: Element>(simd: Simd, row: &[E], out: &mut [f32]) -> Result<(), RowFault> {
    if !simd.run_vectors(Maxima { row, out }) {
        return Ok(());
    }
    if row.iter().any(|x| x.f32().is_nan()) {
        Err(RowFault::Nan)
    } else if row.iter().any(|x| x.f32() == f32::INFINITY) {
        Err(RowFault::PosInf)
    } else {
        Ok(())
    }
}
