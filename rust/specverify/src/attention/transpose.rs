//! Keys turned so that one number of many keys stands together: a product with queries then has keys in its lanes.

use pulp::Simd as Vectors;

/// Keys that are turned at a time, and the columns of a square.
pub(super) const TILE: usize = 16;

/// Writes column d of the [TILE, width] `keys` to `out[d * stride..][..TILE]`; `width` is a multiple of TILE.
#[inline(always)]
pub(super) fn transpose<S: Vectors>(simd: S, keys: &[f32], width: usize, out: &mut [f32], stride: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        let simd: &dyn std::any::Any = &simd;
        if let Some(&simd) = simd.downcast_ref::<pulp::x86::V4>() {
            return (0..width)
                .step_by(TILE)
                .for_each(|d| x86::square_16(simd, &keys[d..], width, &mut out[d * stride..], stride));
        }
        if let Some(&simd) = simd.downcast_ref::<pulp::x86::V3>() {
            for d in (0..width).step_by(8) {
                x86::square_8(simd, &keys[d..], width, &mut out[d * stride..], stride);
                x86::square_8(simd, &keys[8 * width + d..], width, &mut out[d * stride + 8..], stride);
            }
            return;
        }
    }
    for d in 0..width {
        let column: [f32; TILE] = std::array::from_fn(|i| keys[i * width + d]);
        out[d * stride..][..TILE].copy_from_slice(&column);
    }
}

/// A square at a time: pairs of rows, then pairs of pairs, change places within the 128-bit quarters of a register; then these do.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m256, __m512};

    use pulp::cast;
    use pulp::x86::{V3, V4};

    #[inline(always)]
    pub fn square_16(simd: V4, from: &[f32], width: usize, to: &mut [f32], stride: usize) {
        let avx = simd.avx512f;
        let row = |i: usize| -> __m512 { cast(*from[i * width..].first_chunk::<16>().unwrap_or(&[0.0; 16])) };
        // quads[i][j], quarter l: column 4 l + j of rows 4 i to 4 i + 3
        let quads: [[__m512; 4]; 4] = std::array::from_fn(|i| {
            let [a, b, c, d] = [4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3].map(row);
            let low = [avx._mm512_unpacklo_ps(a, b), avx._mm512_unpacklo_ps(c, d)].map(cast);
            let high = [avx._mm512_unpackhi_ps(a, b), avx._mm512_unpackhi_ps(c, d)].map(cast);
            [
                cast(avx._mm512_unpacklo_pd(low[0], low[1])),
                cast(avx._mm512_unpackhi_pd(low[0], low[1])),
                cast(avx._mm512_unpacklo_pd(high[0], high[1])),
                cast(avx._mm512_unpackhi_pd(high[0], high[1])),
            ]
        });
        const EVEN: i32 = 0b10_00_10_00;
        const ODD: i32 = 0b11_01_11_01;
        for j in 0..4 {
            let [a, b, c, d] = quads.map(|quad| quad[j]);
            let even = [avx._mm512_shuffle_f32x4::<EVEN>(a, b), avx._mm512_shuffle_f32x4::<EVEN>(c, d)];
            let odd = [avx._mm512_shuffle_f32x4::<ODD>(a, b), avx._mm512_shuffle_f32x4::<ODD>(c, d)];
            let columns = [
                avx._mm512_shuffle_f32x4::<EVEN>(even[0], even[1]),
                avx._mm512_shuffle_f32x4::<EVEN>(odd[0], odd[1]),
                avx._mm512_shuffle_f32x4::<ODD>(even[0], even[1]),
                avx._mm512_shuffle_f32x4::<ODD>(odd[0], odd[1]),
            ];
            for (quarter, column) in columns.into_iter().enumerate() {
                to[(4 * quarter + j) * stride..][..16].copy_from_slice(&cast::<__m512, [f32; 16]>(column));
            }
        }
    }

    #[inline(always)]
    pub fn square_8(simd: V3, from: &[f32], width: usize, to: &mut [f32], stride: usize) {
        let avx = simd.avx;
        let row = |i: usize| -> __m256 { cast(*from[i * width..].first_chunk::<8>().unwrap_or(&[0.0; 8])) };
        // quads[i][j], half l: column 4 l + j of rows 4 i to 4 i + 3
        let quads: [[__m256; 4]; 2] = std::array::from_fn(|i| {
            let [a, b, c, d] = [4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3].map(row);
            let low = [avx._mm256_unpacklo_ps(a, b), avx._mm256_unpacklo_ps(c, d)].map(cast);
            let high = [avx._mm256_unpackhi_ps(a, b), avx._mm256_unpackhi_ps(c, d)].map(cast);
            [
                cast(avx._mm256_unpacklo_pd(low[0], low[1])),
                cast(avx._mm256_unpackhi_pd(low[0], low[1])),
                cast(avx._mm256_unpacklo_pd(high[0], high[1])),
                cast(avx._mm256_unpackhi_pd(high[0], high[1])),
            ]
        });
        for j in 0..4 {
            let [a, b] = quads.map(|quad| quad[j]);
            let columns = [avx._mm256_permute2f128_ps::<0x20>(a, b), avx._mm256_permute2f128_ps::<0x31>(a, b)];
            for (half, column) in columns.into_iter().enumerate() {
                to[(4 * half + j) * stride..][..8].copy_from_slice(&cast::<__m256, [f32; 8]>(column));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pulp::WithSimd;

    use super::*;
    use crate::rows::Simd;

    struct Transpose<'a>(&'a [f32], usize, &'a mut [f32]);

    impl WithSimd for Transpose<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Vectors>(self, simd: S) {
            transpose(simd, self.0, self.1, self.2, TILE + 3);
        }
    }

    #[test]
    fn every_number_finds_its_place() {
        for width in [16, 48] {
            let keys: Vec<f32> = (0..TILE * width).map(|i| i as f32).collect();
            for simd in Simd::available() {
                let mut out = vec![-1.0; width * (TILE + 3)];
                simd.run_vectors(Transpose(&keys, width, &mut out));
                for (d, column) in out.chunks(TILE + 3).enumerate() {
                    for (i, &x) in column.iter().enumerate() {
                        let expected = if i < TILE { keys[i * width + d] } else { -1.0 };
                        assert_eq!(x, expected, "{} {d} {i}", simd.name());
                    }
                }
            }
        }
    }
}
