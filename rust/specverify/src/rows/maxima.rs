//! Maxima of groups of 64 ids: the one pass over a row that everything else starts from.

use pulp::NullaryFnOnce;

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

struct Maxima<'a, E> {
    row: &'a [E],
    out: &'a mut [f32],
}

impl<E: Element> NullaryFnOnce for Maxima<'_, E> {
    type Output = bool;

    /// Whether the row may hold a NaN or +inf. A sum catches both for the price of an addition: it is NaN when there is a NaN, or
    /// +inf beside -inf; and alone +inf is the maximum. It may be NaN for nothing when finite values overflow.
    #[inline(always)]
    fn call(self) -> bool {
        let mut sums = [0.0_f32; 16];
        for (group, out) in self.out.iter_mut().enumerate() {
            let x = load(self.row, group);
            let mut m = [0.0_f32; 16];
            for i in 0..16 {
                m[i] = greater(greater(x[i], x[i + 16]), greater(x[i + 32], x[i + 48]));
                sums[i] += (x[i] + x[i + 16]) + (x[i + 32] + x[i + 48]);
            }
            for width in [8, 4, 2, 1] {
                for i in 0..width {
                    m[i] = greater(m[i], m[i + width]);
                }
            }
            *out = m[0];
        }
        sums.iter().any(|sum| sum.is_nan() || *sum == f32::INFINITY)
    }
}

/// Writes the maximum of every group of 64 ids to `out`, one a group.
pub(crate) fn maxima<E: Element>(simd: Simd, row: &[E], out: &mut [f32]) -> Result<(), RowFault> {
    if !simd.run(Maxima { row, out }) {
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
