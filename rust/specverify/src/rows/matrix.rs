//! A matrix of logits or probabilities, read in place.

use half::{bf16, f16};

use crate::coins::GROUP;
use crate::error::{Error, Result};

/// Borrowed elements of one of the types that are read in place.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    /// f32.
    F32(&'a [f32]),
    /// bfloat16.
    Bf16(&'a [bf16]),
    /// IEEE half precision.
    F16(&'a [f16]),
    /// f64: draft probabilities only.
    F64(&'a [f64]),
}

impl Values<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Values::F32(v) => v.len(),
            Values::Bf16(v) => v.len(),
            Values::F16(v) => v.len(),
            Values::F64(v) => v.len(),
        }
    }
}

/// `[rows, vocab]` elements: contiguous within a row, rows `row_stride` elements apart.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    values: Values<'a>,
    rows: usize,
    vocab: usize,
    row_stride: usize,
}

/// Runs `$body` with `$row` bound to the slice of a row, whatever its type.
macro_rules! with_row {
    ($values:expr, $row:ident => $body:expr) => {
        match $values {
            $crate::rows::Values::F32($row) => $body,
            $crate::rows::Values::Bf16($row) => $body,
            $crate::rows::Values::F16($row) => $body,
            $crate::rows::Values::F64($row) => $body,
        }
    };
}
pub(crate) use with_row;

/// First element of a row. 64-bit whatever the platform's habits: a batch of 512 trees of 64 nodes over 151,936 ids has more
/// than 2^32 elements.
fn offset(row: usize, row_stride: usize) -> Option<usize> {
    row.checked_mul(row_stride)
}

impl<'a> Matrix<'a> {
    /// A view of `values`.
    ///
    /// # Errors
    /// [`Error::Shape`] when the vocabulary is empty or has 2^31 ids or more, the stride is below `vocab`, or `values` is too short.
    pub fn new(values: Values<'a>, rows: usize, vocab: usize, row_stride: usize) -> Result<Self> {
        let shape = || format!("[{rows}, {vocab}]");
        if vocab == 0 || vocab >= 1 << 31 {
            return Err(Error::shape("logits", shape(), "a vocabulary of 1 to 2^31 - 1 ids"));
        }
        if row_stride < vocab && rows > 1 {
            return Err(Error::argument("row_stride", row_stride, format!("{vocab} (the vocabulary) or more")));
        }
        let needed = match rows.checked_sub(1) {
            None => Some(0),
            Some(last) => offset(last, row_stride).and_then(|start| start.checked_add(vocab)),
        };
        if needed.is_none_or(|needed| needed > values.len()) {
            return Err(Error::shape(
                "logits",
                values.len(),
                format!("elements for {} with a row stride of {row_stride}", shape()),
            ));
        }
        Ok(Self { values, rows, vocab, row_stride })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row.
    pub fn vocab(&self) -> usize {
        self.vocab
    }

    /// The elements of a row.
    ///
    /// # Errors
    /// [`Error::Argument`] when there is no such row.
    pub(crate) fn row(&self, row: usize) -> Result<Values<'a>> {
        let start = offset(row, self.row_stride).filter(|_| row < self.rows);
        let start = start.ok_or_else(|| Error::argument("row", row, format!("below {}", self.rows)))?;
        let range = start..start + self.vocab;
        Ok(match self.values {
            Values::F32(v) => Values::F32(&v[range]),
            Values::Bf16(v) => Values::Bf16(&v[range]),
            Values::F16(v) => Values::F16(&v[range]),
            Values::F64(v) => Values::F64(&v[range]),
        })
    }

    /// Refuses f64, which logits never are.
    pub(crate) fn check_logits(&self) -> Result<()> {
        match self.values {
            Values::F64(_) => Err(Error::Dtype {
                argument: "logits".into(),
                value: "float64".into(),
                expected: "float32, bfloat16 or float16".into(),
            }),
            _ => Ok(()),
        }
    }
}

/// An element type.
pub(crate) trait Element: Copy + Send + Sync {
    /// Its value in f32 (exact but for f64).
    fn f32(self) -> f32;
    /// Its value in f64.
    #[inline(always)]
    fn f64(self) -> f64 {
        f64::from(self.f32())
    }
    /// A whole group in f32.
    #[inline(always)]
    fn group(full: &[Self; GROUP]) -> [f32; GROUP] {
        let mut x = [0.0; GROUP];
        for (x, e) in x.iter_mut().zip(full) {
            *x = e.f32();
        }
        x
    }
}

impl Element for f32 {
    #[inline(always)]
    fn f32(self) -> f32 {
        self
    }
    /// A copy as one: element by element it becomes 64 scalar moves.
    #[inline(always)]
    fn group(full: &[Self; GROUP]) -> [f32; GROUP] {
        *full
    }
}

impl Element for f64 {
    #[inline(always)]
    fn f32(self) -> f32 {
        self as f32
    }
    #[inline(always)]
    fn f64(self) -> f64 {
        self
    }
}

impl Element for bf16 {
    #[inline(always)]
    fn f32(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
}

impl Element for f16 {
    /// Without branches or library calls, so that a loop over it becomes vector code on every instruction set.
    #[inline(always)]
    fn f32(self) -> f32 {
        let bits = u32::from(self.to_bits());
        let exponent = bits & 0x7C00;
        let subnormal = ((bits & 0x03FF) as f32 * (1.0 / 16_777_216.0)).to_bits();
        let rebias = if exponent == 0x7C00 { 224 << 23 } else { 112 << 23 };
        let normal = ((bits & 0x7FFF) << 13) + rebias;
        f32::from_bits((bits & 0x8000) << 16 | if exponent == 0 { subnormal } else { normal })
    }
}

/// The 64 elements of a group in f32; ids past the end of the row are -inf.
#[inline(always)]
pub(crate) fn load<E: Element>(row: &[E], group: usize) -> [f32; GROUP] {
    let rest = &row[group * GROUP..];
    if let Some(full) = rest.first_chunk::<GROUP>() {
        return E::group(full);
    }
    let mut x = [f32::NEG_INFINITY; GROUP];
    for (x, e) in x.iter_mut().zip(rest) {
        *x = e.f32();
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case 15: 32-bit offsets wrap at batch x nodes x vocabulary >= 2^32.
    #[test]
    fn offsets_do_not_wrap_at_2_to_the_32() {
        assert_eq!(offset(512 * 64 - 1, 151_936), Some(4_978_486_912));
        assert_eq!(offset(usize::MAX, 2), None);
    }

    #[test]
    fn every_f16_converts_exactly() {
        for bits in 0..=u16::MAX {
            let h = f16::from_bits(bits);
            let (mine, theirs) = (h.f32(), h.to_f32());
            // The method of the trait and half's own; NaN payloads aside.
            assert!(mine.to_bits() == theirs.to_bits() || (mine.is_nan() && theirs.is_nan()), "{bits:#x}");
            let b = bf16::from_bits(bits);
            assert!(Element::f32(b).to_bits() == b.to_f32().to_bits() || b.is_nan());
        }
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let v = [0.0_f32; 10];
        assert!(Matrix::new(Values::F32(&v), 2, 5, 5).is_ok());
        assert!(Matrix::new(Values::F32(&v), 2, 4, 6).is_ok());
        assert!(Matrix::new(Values::F32(&v), 2, 5, 6).is_err());
        assert!(Matrix::new(Values::F32(&v), 2, 5, 4).is_err());
        assert!(Matrix::new(Values::F32(&v), 1, 0, 4).is_err());
        assert!(Matrix::new(Values::F32(&v), usize::MAX, 5, usize::MAX).is_err());
        assert!(Matrix::new(Values::F32(&v), 2, 5, 5).unwrap().row(2).is_err());
    }
}
