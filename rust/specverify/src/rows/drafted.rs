//! The drafter's distributions, read in place.

use std::cell::OnceCell;

use pulp::NullaryFnOnce;

use crate::error::{Error, Result, RowFault};
use crate::rows::matrix::{Element, Matrix, Values, with_row};
use crate::rows::simd::Simd;
use crate::verify::{Drafted, Row};

/// q: row r is what the children of row r were drawn from. A row is checked when it is first reached, and read as weights: it is
/// divided by its sum, so that rounding in its maker does not bias a rule.
#[derive(Debug)]
pub struct DraftRows<'a> {
    q: Matrix<'a>,
    simd: Simd,
    sums: Vec<OnceCell<std::result::Result<f64, RowFault>>>,
}

impl<'a> DraftRows<'a> {
    /// A view of probabilities `[rows, vocab]`; nothing is read yet.
    ///
    /// # Errors
    /// [`Error::Argument`] when `SPECVERIFY_SIMD` is wrong.
    pub fn new(q: Matrix<'a>) -> Result<Self> {
        Ok(Self { q, simd: Simd::detect()?, sums: vec![OnceCell::new(); q.rows()] })
    }

    /// With another instruction set; the results are the same.
    #[must_use]
    pub fn with_simd(mut self, simd: Simd) -> Self {
        self.simd = simd;
        self
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.q.rows()
    }

    /// Size of the vocabulary.
    pub fn vocab(&self) -> usize {
        self.q.vocab()
    }
}

impl Drafted for DraftRows<'_> {
    type Row<'b>
        = DraftRow<'b>
    where
        Self: 'b;

    fn row(&self, row: usize) -> Result<DraftRow<'_>> {
        let values = self.q.row(row)?;
        let sum = *self.sums[row].get_or_init(|| with_row!(values, q => self.simd.run(Sum { q })));
        let sum = sum.map_err(|fault| Error::Row { argument: "draft_probs".into(), row, fault })?;
        Ok(DraftRow { values, inverse_sum: 1.0 / sum, simd: self.simd })
    }
}

/// One row of [`DraftRows`].
#[derive(Debug, Clone, Copy)]
pub struct DraftRow<'a> {
    values: Values<'a>,
    inverse_sum: f64,
    simd: Simd,
}

impl Row for DraftRow<'_> {
    fn vocab(&self) -> usize {
        with_row!(self.values, q => q.len())
    }

    fn get(&self, token: u32) -> f64 {
        with_row!(self.values, q => q.get(token as usize).map_or(0.0, |q| q.f64() * self.inverse_sum))
    }

    fn read(&self, start: usize, out: &mut [f64]) {
        let end = start + out.len();
        with_row!(self.values, q => self.simd.run(Scale { q: &q[start..end], by: self.inverse_sum, out }));
    }
}

struct Scale<'a, E> {
    q: &'a [E],
    by: f64,
    out: &'a mut [f64],
}

impl<E: Element> NullaryFnOnce for Scale<'_, E> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (out, q) in self.out.iter_mut().zip(self.q) {
            *out = q.f64() * self.by;
        }
    }
}

struct Sum<'a, E> {
    q: &'a [E],
}

impl<E: Element> NullaryFnOnce for Sum<'_, E> {
    type Output = std::result::Result<f64, RowFault>;

    /// The sum in 32 interleaved parts, so that its order is the same on every instruction set and no part waits for itself.
    #[inline(always)]
    fn call(self) -> Self::Output {
        const PARTS: usize = 32;
        let (mut parts, mut least) = ([0.0_f64; PARTS], [0.0_f64; PARTS]);
        let (chunks, rest) = self.q.as_chunks::<PARTS>();
        for chunk in chunks {
            for i in 0..PARTS {
                let q = chunk[i].f64();
                parts[i] += q;
                least[i] = if q < least[i] { q } else { least[i] };
            }
        }
        for (i, q) in rest.iter().enumerate() {
            let q = q.f64();
            parts[i] += q;
            least[i] = if q < least[i] { q } else { least[i] };
        }
        let sum: f64 = parts.iter().sum();
        if sum.is_nan() && self.q.iter().any(|q| q.f64().is_nan()) {
            Err(RowFault::Nan)
        } else if least.iter().any(|&q| q < 0.0) {
            Err(RowFault::Negative)
        } else if sum == f64::INFINITY {
            Err(RowFault::PosInf)
        } else if sum >= f64::MIN_POSITIVE {
            // The reciprocal of a smaller sum is infinite.
            Ok(sum)
        } else {
            Err(RowFault::NoMass)
        }
    }
}
