//! Matrix products in vectors: a tile of the result stays in registers while the shared dimension runs.
//!
//! An element of the result is the sum of its terms in order, whatever tile it falls into: a row does not depend on how many there are.

use pulp::{Simd as Vectors, WithSimd};

/// `out = out * shrink + a b`, row by row; without `shrink`, `out = a b`.
pub(super) struct Product<'a> {
    /// [rows, depth]
    pub a: &'a [f32],
    /// [depth, columns]
    pub b: &'a [f32],
    /// [rows, columns]
    pub out: &'a mut [f32],
    /// [rows]
    pub shrink: Option<&'a [f32]>,
    pub rows: usize,
    pub depth: usize,
    /// A multiple of 16, the lanes of the widest vectors.
    pub columns: usize,
}

/// Computes it in a function of its own: inlined beside other code its accumulators would not stay in registers.
#[inline(never)]
pub(super) fn compute<S: Vectors>(simd: S, product: Product<'_>) {
    simd.vectorize(product);
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Vectors>(mut self, simd: S) {
        // The accumulators of a tile and one row of b fill the registers; without vectors of the machine's own, an array of lanes
        // takes several.
        let is_array = S::F32_LANES * 4 > S::REGISTER_COUNT * 2 && S::REGISTER_COUNT <= 16;
        let mut row = 0;
        while row < self.rows {
            let left = self.rows - row;
            row += match left {
                2.. if is_array => self.strip::<S, 2, 1>(simd, row),
                _ if is_array => self.strip::<S, 1, 1>(simd, row),
                6.. => self.strips::<S, 6>(simd, row),
                4.. => self.strips::<S, 4>(simd, row),
                2.. => self.strips::<S, 2>(simd, row),
                _ => self.strips::<S, 1>(simd, row),
            };
        }
    }
}

impl Product<'_> {
    #[inline(always)]
    fn strips<S: Vectors, const R: usize>(&mut self, simd: S, row: usize) -> usize {
        if S::REGISTER_COUNT >= 32 { self.strip::<S, R, 4>(simd, row) } else { self.strip::<S, R, 2>(simd, row) }
    }

    /// R rows of the result, in tiles of C vectors.
    #[inline(always)]
    fn strip<S: Vectors, const R: usize, const C: usize>(&mut self, simd: S, row: usize) -> usize {
        let mut column = 0;
        while column < self.columns {
            let vectors = (self.columns - column) / S::F32_LANES;
            column += S::F32_LANES
                * match vectors {
                    4.. if C >= 4 => self.tile::<S, R, 4>(simd, row, column),
                    2.. if C >= 2 => self.tile::<S, R, 2>(simd, row, column),
                    _ => self.tile::<S, R, 1>(simd, row, column),
                };
        }
        R
    }

    #[inline(always)]
    fn tile<S: Vectors, const R: usize, const C: usize>(&mut self, simd: S, row: usize, column: usize) -> usize {
        let width = C * S::F32_LANES;
        let mut sums = [[simd.splat_f32s(0.0); C]; R];
        if let Some(shrink) = self.shrink {
            for (r, sums) in sums.iter_mut().enumerate() {
                let factor = simd.splat_f32s(shrink[row + r]);
                let at = (row + r) * self.columns + column;
                let (out, _) = S::as_simd_f32s(&self.out[at..at + width]);
                for (sum, &out) in sums.iter_mut().zip(out) {
                    *sum = simd.mul_f32s(out, factor);
                }
            }
        }
        let depth = self.depth;
        let a: [&[f32]; R] = std::array::from_fn(|r| &self.a[(row + r) * depth..][..depth]);
        for (d, b) in self.b.chunks_exact(self.columns).take(depth).enumerate() {
            let (b, _) = S::as_simd_f32s(&b[column..column + width]);
            for (a, sums) in a.iter().zip(&mut sums) {
                let factor = simd.splat_f32s(a[d]);
                for (sum, &b) in sums.iter_mut().zip(b) {
                    *sum = simd.mul_add_e_f32s(factor, b, *sum);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            let at = (row + r) * self.columns + column;
            let (out, _) = S::as_mut_simd_f32s(&mut self.out[at..at + width]);
            out.copy_from_slice(sums);
        }
        C
    }
}
