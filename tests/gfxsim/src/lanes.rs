//! Vector instructions that compute each lane's 32-bit result from up to three 32-bit sources: a table, one line an opcode.

use crate::float::{f16, fma, maximum, maximum_f16, minimum, minimum_f16, to_bf16, to_f16};
use crate::operand::Type;
use crate::wave::Lanes;

/// An instruction of the table.
#[derive(Clone, Copy)]
pub(crate) struct LaneOp {
    /// Sources.
    pub sources: usize,
    /// What their constants mean.
    pub kind: Type,
    /// The third source is the destination.
    pub accumulates: bool,
    pub run: fn(&[Lanes; 3], &mut Lanes),
}

macro_rules! lane_ops {
    ($($name:literal $kind:ident $sources:literal |$a:ident, $b:ident, $c:ident| $value:expr;)*) => {
        /// Every name of the table.
        #[cfg(test)]
        pub(crate) const NAMES: &[&str] = &[$($name),*];

        /// The instruction of that name, without suffixes such as `_e32`.
        pub(crate) fn lane_op(name: &str) -> Option<LaneOp> {
            match name {
                $($name => Some(LaneOp {
                    sources: $sources,
                    kind: Type::$kind,
                    accumulates: matches!($name, "v_fmac_f32" | "v_mac_f32" | "v_fmac_f16"),
                    run: |sources, out| {
                        for lane in 0..64 {
                            let ($a, $b, $c) = (sources[0][lane], sources[1][lane], sources[2][lane]);
                            let _ = ($b, $c);
                            out[lane] = $value;
                        }
                    },
                }),)*
                _ => None,
            }
        }
    };
}

fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}

fn i(bits: u32) -> i32 {
    bits as i32
}

/// To f16 towards zero.
fn to_f16_rtz(value: f32) -> u32 {
    let near = half::f16::from_f32(value);
    let over = near.to_f32().abs() > value.abs();
    let bits = near.to_bits();
    u32::from(if over && value.is_finite() { bits - 1 } else { bits })
}

fn median(a: f32, b: f32, c: f32) -> f32 {
    if a.is_nan() || b.is_nan() || c.is_nan() {
        minimum(minimum(a, b), c)
    } else {
        minimum(maximum(a, b), maximum(minimum(a, b), c))
    }
}

fn round_even(value: f32) -> f32 {
    value.round_ties_even()
}

/// Through f64, whose functions are within an ulp of it: the f32 result is the correctly rounded one but for rare ties. The hardware's is
/// within one ulp of f32, and takes and gives 0 for denormals, whatever the float mode (so LLVM, which scales around them).
fn via64(value: f32, function: fn(f64) -> f64) -> u32 {
    let flush = |x: f32| if x.is_subnormal() { 0.0_f32.copysign(x) } else { x };
    flush(function(f64::from(flush(value))) as f32).to_bits()
}

/// value * 2^by, rounded once.
fn ldexp(value: f32, by: i32) -> f32 {
    (f64::from(value) * f64::from(by.clamp(-400, 400)).exp2()) as f32
}

fn perm(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = u64::from(a) << 32 | u64::from(b);
    (0..4).fold(0, |out, k| {
        let select = selector >> (8 * k) & 0xFF;
        let byte = match select {
            0..=7 => (bytes >> (8 * select)) as u32 & 0xFF,
            8..=11 => {
                // The sign of a half, in all bits.
                let sign = bytes >> (16 * (select - 8) + 15) & 1;
                if sign == 1 { 0xFF } else { 0 }
            }
            12 => 0,
            _ => 0xFF,
        };
        out | byte << (8 * k)
    })
}

fn ffbh(a: u32) -> u32 {
    if a == 0 { u32::MAX } else { a.leading_zeros() }
}

fn ffbl(a: u32) -> u32 {
    if a == 0 { u32::MAX } else { a.trailing_zeros() }
}

fn field(a: u32, start: u32, width: u32) -> u32 {
    let width = width & 31;
    if width == 0 { 0 } else { (a >> (start & 31)) & (u32::MAX >> (32 - width)) }
}

fn signed_field(a: u32, start: u32, width: u32) -> u32 {
    let width = width & 31;
    if width == 0 { 0 } else { (i(field(a, start, width) << (32 - width)) >> (32 - width)) as u32 }
}

fn s24(a: u32) -> i64 {
    i64::from(i(a << 8) >> 8)
}

fn div_fixup(quotient: f32, denominator: f32, numerator: f32) -> f32 {
    let ordinary = denominator.is_finite() && denominator != 0.0 && numerator.is_finite() && numerator != 0.0;
    if ordinary { quotient } else { numerator / denominator }
}

lane_ops! {
    "v_mov_b32" Int 1 |a, b, c| a;
    "v_accvgpr_read_b32" Int 1 |a, b, c| a;
    "v_accvgpr_write_b32" Int 1 |a, b, c| a;
    "v_accvgpr_mov_b32" Int 1 |a, b, c| a;
    "v_not_b32" Int 1 |a, b, c| !a;
    "v_bfrev_b32" Int 1 |a, b, c| a.reverse_bits();
    "v_ffbh_u32" Int 1 |a, b, c| ffbh(a);
    "v_ffbl_b32" Int 1 |a, b, c| ffbl(a);
    "v_bcnt_u32_b32" Int 2 |a, b, c| a.count_ones().wrapping_add(b);

    "v_add_u32" Int 2 |a, b, c| a.wrapping_add(b);
    "v_sub_u32" Int 2 |a, b, c| a.wrapping_sub(b);
    "v_subrev_u32" Int 2 |a, b, c| b.wrapping_sub(a);
    "v_add3_u32" Int 3 |a, b, c| a.wrapping_add(b).wrapping_add(c);
    "v_mul_lo_u32" Int 2 |a, b, c| a.wrapping_mul(b);
    "v_mul_hi_u32" Int 2 |a, b, c| ((u64::from(a) * u64::from(b)) >> 32) as u32;
    "v_mul_hi_i32" Int 2 |a, b, c| ((i64::from(i(a)) * i64::from(i(b))) >> 32) as u32;
    "v_mul_u32_u24" Int 2 |a, b, c| (a & 0xFF_FFFF).wrapping_mul(b & 0xFF_FFFF);
    "v_mul_hi_u32_u24" Int 2 |a, b, c| ((u64::from(a & 0xFF_FFFF) * u64::from(b & 0xFF_FFFF)) >> 32) as u32;
    "v_mul_i32_i24" Int 2 |a, b, c| (s24(a) * s24(b)) as u32;
    "v_mad_u32_u24" Int 3 |a, b, c| (a & 0xFF_FFFF).wrapping_mul(b & 0xFF_FFFF).wrapping_add(c);
    "v_mad_i32_i24" Int 3 |a, b, c| ((s24(a) * s24(b)) as u32).wrapping_add(c);
    "v_min_u32" Int 2 |a, b, c| a.min(b);
    "v_max_u32" Int 2 |a, b, c| a.max(b);
    "v_min_i32" Int 2 |a, b, c| i(a).min(i(b)) as u32;
    "v_max_i32" Int 2 |a, b, c| i(a).max(i(b)) as u32;
    "v_min3_u32" Int 3 |a, b, c| a.min(b).min(c);
    "v_max3_u32" Int 3 |a, b, c| a.max(b).max(c);
    "v_min3_i32" Int 3 |a, b, c| i(a).min(i(b)).min(i(c)) as u32;
    "v_max3_i32" Int 3 |a, b, c| i(a).max(i(b)).max(i(c)) as u32;
    "v_med3_i32" Int 3 |a, b, c| i(a).max(i(b)).min(i(a).min(i(b)).max(i(c))) as u32;
    "v_med3_u32" Int 3 |a, b, c| a.max(b).min(a.min(b).max(c));
    "v_sad_u32" Int 3 |a, b, c| a.abs_diff(b).wrapping_add(c);

    "v_and_b32" Int 2 |a, b, c| a & b;
    "v_or_b32" Int 2 |a, b, c| a | b;
    "v_xor_b32" Int 2 |a, b, c| a ^ b;
    "v_xnor_b32" Int 2 |a, b, c| !(a ^ b);
    "v_lshlrev_b32" Int 2 |a, b, c| b << (a & 31);
    "v_lshrrev_b32" Int 2 |a, b, c| b >> (a & 31);
    "v_ashrrev_i32" Int 2 |a, b, c| (i(b) >> (a & 31)) as u32;
    "v_bfm_b32" Int 2 |a, b, c| ((1_u32 << (a & 31)) - 1) << (b & 31);
    "v_and_or_b32" Int 3 |a, b, c| a & b | c;
    "v_or3_b32" Int 3 |a, b, c| a | b | c;
    "v_lshl_or_b32" Int 3 |a, b, c| a << (b & 31) | c;
    "v_lshl_add_u32" Int 3 |a, b, c| (a << (b & 31)).wrapping_add(c);
    "v_add_lshl_u32" Int 3 |a, b, c| a.wrapping_add(b) << (c & 31);
    "v_xad_u32" Int 3 |a, b, c| (a ^ b).wrapping_add(c);
    "v_bfe_u32" Int 3 |a, b, c| field(a, b, c);
    "v_bfe_i32" Int 3 |a, b, c| signed_field(a, b, c);
    "v_bfi_b32" Int 3 |a, b, c| a & b | !a & c;
    "v_perm_b32" Int 3 |a, b, c| perm(a, b, c);
    "v_alignbit_b32" Int 3 |a, b, c| ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32;
    "v_alignbyte_b32" Int 3 |a, b, c| ((u64::from(a) << 32 | u64::from(b)) >> (8 * (c & 3))) as u32;

    "v_lshlrev_b16" Int 2 |a, b, c| (b << (a & 15)) & 0xFFFF;
    "v_lshrrev_b16" Int 2 |a, b, c| (b & 0xFFFF) >> (a & 15);
    "v_add_u16" Int 2 |a, b, c| a.wrapping_add(b) & 0xFFFF;
    "v_sub_u16" Int 2 |a, b, c| a.wrapping_sub(b) & 0xFFFF;
    "v_mul_lo_u16" Int 2 |a, b, c| a.wrapping_mul(b) & 0xFFFF;

    "v_add_f32" F32 2 |a, b, c| (f(a) + f(b)).to_bits();
    "v_sub_f32" F32 2 |a, b, c| (f(a) - f(b)).to_bits();
    "v_subrev_f32" F32 2 |a, b, c| (f(b) - f(a)).to_bits();
    "v_mul_f32" F32 2 |a, b, c| (f(a) * f(b)).to_bits();
    "v_fma_f32" F32 3 |a, b, c| fma(f(a), f(b), f(c)).to_bits();
    "v_fmac_f32" F32 3 |a, b, c| fma(f(a), f(b), f(c)).to_bits();
    "v_fmamk_f32" F32 3 |a, b, c| fma(f(a), f(b), f(c)).to_bits();
    "v_fmaak_f32" F32 3 |a, b, c| fma(f(a), f(b), f(c)).to_bits();
    "v_max_f32" F32 2 |a, b, c| maximum(f(a), f(b)).to_bits();
    "v_min_f32" F32 2 |a, b, c| minimum(f(a), f(b)).to_bits();
    "v_max3_f32" F32 3 |a, b, c| maximum(maximum(f(a), f(b)), f(c)).to_bits();
    "v_min3_f32" F32 3 |a, b, c| minimum(minimum(f(a), f(b)), f(c)).to_bits();
    "v_med3_f32" F32 3 |a, b, c| median(f(a), f(b), f(c)).to_bits();
    "v_exp_f32" F32 1 |a, b, c| via64(f(a), f64::exp2);
    "v_log_f32" F32 1 |a, b, c| via64(f(a), f64::log2);
    "v_rcp_f32" F32 1 |a, b, c| via64(f(a), |x| 1.0 / x);
    "v_rcp_iflag_f32" F32 1 |a, b, c| via64(f(a), |x| 1.0 / x);
    "v_rsq_f32" F32 1 |a, b, c| via64(f(a), |x| 1.0 / x.sqrt());
    "v_sqrt_f32" F32 1 |a, b, c| f(a).sqrt().to_bits();
    "v_rndne_f32" F32 1 |a, b, c| round_even(f(a)).to_bits();
    "v_floor_f32" F32 1 |a, b, c| f(a).floor().to_bits();
    "v_ceil_f32" F32 1 |a, b, c| f(a).ceil().to_bits();
    "v_trunc_f32" F32 1 |a, b, c| f(a).trunc().to_bits();
    "v_ldexp_f32" F32 2 |a, b, c| ldexp(f(a), i(b)).to_bits();
    // Without the scaling that v_div_scale_f32 never asks for here, a fused multiply-add.
    "v_div_fmas_f32" F32 3 |a, b, c| fma(f(a), f(b), f(c)).to_bits();
    "v_div_fixup_f32" F32 3 |a, b, c| div_fixup(f(a), f(b), f(c)).to_bits();

    "v_cvt_f32_i32" Int 1 |a, b, c| (i(a) as f32).to_bits();
    "v_cvt_f32_u32" Int 1 |a, b, c| (a as f32).to_bits();
    "v_cvt_i32_f32" F32 1 |a, b, c| (f(a) as i32) as u32;
    "v_cvt_u32_f32" F32 1 |a, b, c| f(a) as u32;
    "v_cvt_f32_ubyte0" Int 1 |a, b, c| ((a & 0xFF) as f32).to_bits();
    "v_cvt_f32_ubyte1" Int 1 |a, b, c| ((a >> 8 & 0xFF) as f32).to_bits();
    "v_cvt_f32_ubyte2" Int 1 |a, b, c| ((a >> 16 & 0xFF) as f32).to_bits();
    "v_cvt_f32_ubyte3" Int 1 |a, b, c| ((a >> 24) as f32).to_bits();
    "v_cvt_f32_f16" F16 1 |a, b, c| f16(a).to_bits();
    "v_cvt_f16_f32" F32 1 |a, b, c| to_f16(f(a));
    "v_cvt_pkrtz_f16_f32" F32 2 |a, b, c| to_f16_rtz(f(a)) | to_f16_rtz(f(b)) << 16;
    "v_cvt_pk_f16_f32" F32 2 |a, b, c| to_f16(f(a)) | to_f16(f(b)) << 16;
    "v_cvt_pk_bf16_f32" F32 2 |a, b, c| to_bf16(f(a)) | to_bf16(f(b)) << 16;
    "v_pack_b32_f16" F16 2 |a, b, c| a & 0xFFFF | b << 16;

    "v_add_f16" F16 2 |a, b, c| to_f16(f16(a) + f16(b));
    "v_sub_f16" F16 2 |a, b, c| to_f16(f16(a) - f16(b));
    "v_mul_f16" F16 2 |a, b, c| to_f16(f16(a) * f16(b));
    "v_max_f16" F16 2 |a, b, c| maximum_f16(a, b);
    "v_min_f16" F16 2 |a, b, c| minimum_f16(a, b);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: u32 = 0x3F80_0000;
    const TWO: u32 = 0x4000_0000;
    const THREE: u32 = 0x4040_0000;
    const HALF: u32 = 0x3F00_0000;
    const MINUS: u32 = 0x8000_0000;
    const NAN: u32 = 0x7FC0_0000;
    const INFINITY: u32 = 0x7F80_0000;
    const ALL: u32 = u32::MAX;

    /// Name, three sources and the result, worked out by hand from the instruction set's description.
    const CASES: &[(&str, [u32; 3], u32)] = &[
        ("v_mov_b32", [5, 0, 0], 5),
        ("v_accvgpr_read_b32", [6, 0, 0], 6),
        ("v_accvgpr_write_b32", [7, 0, 0], 7),
        ("v_accvgpr_mov_b32", [8, 0, 0], 8),
        ("v_not_b32", [0x0F0F_0000, 0, 0], 0xF0F0_FFFF),
        ("v_bfrev_b32", [1, 0, 0], 0x8000_0000),
        ("v_ffbh_u32", [0x00FF_0000, 0, 0], 8),
        ("v_ffbh_u32", [0, 0, 0], ALL),
        ("v_ffbl_b32", [0x00F0_0000, 0, 0], 20),
        ("v_ffbl_b32", [0, 0, 0], ALL),
        ("v_bcnt_u32_b32", [0xF0F1, 3, 0], 12),
        ("v_add_u32", [ALL, 2, 0], 1),
        ("v_sub_u32", [1, 2, 0], ALL),
        ("v_subrev_u32", [2, 1, 0], ALL),
        ("v_add3_u32", [ALL, 1, 9], 9),
        ("v_mul_lo_u32", [0x1_0001, 0x1_0001, 0], 0x2_0001),
        ("v_mul_hi_u32", [0x8000_0000, 6, 0], 3),
        ("v_mul_hi_i32", [ALL, 6, 0], ALL),
        ("v_mul_u32_u24", [0xFF00_0002, 3, 0], 6),
        ("v_mul_hi_u32_u24", [0x80_0000, 0x80_0000, 0], 0x4000),
        ("v_mul_i32_i24", [0x00FF_FFFF, 5, 0], 0xFFFF_FFFB),
        ("v_mad_u32_u24", [0xFF00_0002, 3, 4], 10),
        ("v_mad_i32_i24", [0x00FF_FFFF, 5, 7], 2),
        ("v_min_u32", [ALL, 1, 0], 1),
        ("v_max_u32", [ALL, 1, 0], ALL),
        ("v_min_i32", [ALL, 1, 0], ALL),
        ("v_max_i32", [ALL, 1, 0], 1),
        ("v_min3_u32", [ALL, 1, 2], 1),
        ("v_max3_u32", [ALL, 1, 2], ALL),
        ("v_min3_i32", [ALL, 1, 2], ALL),
        ("v_max3_i32", [ALL, 1, 2], 2),
        ("v_med3_i32", [ALL, 1, 2], 1),
        ("v_med3_u32", [ALL, 1, 2], 2),
        ("v_sad_u32", [3, 10, 5], 12),
        ("v_and_b32", [0b1100, 0b1010, 0], 0b1000),
        ("v_or_b32", [0b1100, 0b1010, 0], 0b1110),
        ("v_xor_b32", [0b1100, 0b1010, 0], 0b0110),
        ("v_xnor_b32", [0b1100, 0b1010, 0], 0xFFFF_FFF9),
        ("v_lshlrev_b32", [33, 3, 0], 6),
        ("v_lshrrev_b32", [4, 0x8000_0010, 0], 0x0800_0001),
        ("v_ashrrev_i32", [4, 0x8000_0010, 0], 0xF800_0001),
        ("v_bfm_b32", [4, 8, 0], 0xF00),
        ("v_and_or_b32", [0b1100, 0b1010, 1], 0b1001),
        ("v_or3_b32", [1, 2, 4], 7),
        ("v_lshl_or_b32", [3, 4, 1], 0x31),
        ("v_lshl_add_u32", [3, 4, 0x11], 0x41),
        ("v_add_lshl_u32", [3, 4, 4], 0x70),
        ("v_xad_u32", [0b1100, 0b1010, 1], 7),
        ("v_bfe_u32", [0xABCD, 4, 8], 0xBC),
        ("v_bfe_i32", [0xABCD, 4, 8], 0xFFFF_FFBC),
        ("v_bfi_b32", [0xFF00, 0x1234, 0x5678], 0x1278),
        // Selectors 0 to 3 are bytes of the second source, 4 to 7 of the first, 12 is 0.
        ("v_perm_b32", [0x4433_2211, 0x8877_6655, 0x0C07_0400], 0x0044_1155),
        ("v_perm_b32", [0x8000_0000, 0x0000_8000, 0x0D08_0B09], 0xFFFF_FF00),
        ("v_alignbit_b32", [0x1, 0x8000_0000, 31], 3),
        ("v_alignbyte_b32", [0x4433_2211, 0x8877_6655, 1], 0x1188_7766),
        ("v_lshlrev_b16", [4, 0xABCD, 0], 0xBCD0),
        ("v_lshrrev_b16", [4, 0x1_ABCD, 0], 0x0ABC),
        ("v_add_u16", [0xFFFF, 2, 0], 1),
        ("v_sub_u16", [1, 2, 0], 0xFFFF),
        ("v_mul_lo_u16", [0x101, 0x101, 0], 0x0201),
        ("v_add_f32", [ONE, TWO, 0], THREE),
        ("v_sub_f32", [THREE, TWO, 0], ONE),
        ("v_subrev_f32", [TWO, THREE, 0], ONE),
        ("v_mul_f32", [TWO, HALF, 0], ONE),
        ("v_fma_f32", [TWO, HALF, TWO], THREE),
        // (1 + 2^-23)^2 - 1 - 2^-22 = 2^-46 is lost unless it is rounded once.
        ("v_fma_f32", [0x3F80_0001, 0x3F80_0001, 0xBF80_0002], 0x2880_0000),
        ("v_fmac_f32", [TWO, HALF, TWO], THREE),
        ("v_fmamk_f32", [TWO, HALF, TWO], THREE),
        ("v_fmaak_f32", [TWO, HALF, TWO], THREE),
        ("v_max_f32", [NAN, TWO, 0], TWO),
        ("v_min_f32", [ONE, TWO, 0], ONE),
        ("v_max3_f32", [ONE, THREE, TWO], THREE),
        ("v_min3_f32", [ONE, THREE, TWO], ONE),
        ("v_med3_f32", [ONE, THREE, TWO], TWO),
        ("v_exp_f32", [ONE, 0, 0], TWO),
        ("v_exp_f32", [INFINITY | MINUS, 0, 0], 0),
        // 2^-126 is the least that is not taken for 0.
        ("v_exp_f32", [0xC2FC_0000, 0, 0], 0x0080_0000),
        ("v_exp_f32", [0xC2FC_0001, 0, 0], 0),
        ("v_log_f32", [TWO, 0, 0], ONE),
        ("v_log_f32", [0x007F_FFFF, 0, 0], INFINITY | MINUS),
        ("v_rcp_f32", [TWO, 0, 0], HALF),
        ("v_rcp_f32", [0x0040_0000 | MINUS, 0, 0], INFINITY | MINUS),
        ("v_rcp_f32", [0x7F00_0000, 0, 0], 0),
        ("v_rcp_iflag_f32", [TWO, 0, 0], HALF),
        ("v_rsq_f32", [0x4080_0000, 0, 0], HALF),
        ("v_sqrt_f32", [0x4080_0000, 0, 0], TWO),
        ("v_rndne_f32", [0x4020_0000, 0, 0], TWO),
        ("v_floor_f32", [0x4020_0000 | MINUS, 0, 0], THREE | MINUS),
        ("v_ceil_f32", [0x4020_0000, 0, 0], THREE),
        ("v_trunc_f32", [0x4020_0000 | MINUS, 0, 0], TWO | MINUS),
        ("v_ldexp_f32", [THREE, ALL, 0], 0x3FC0_0000),
        ("v_div_fmas_f32", [TWO, HALF, TWO], THREE),
        ("v_div_fixup_f32", [HALF, TWO, ONE], HALF),
        ("v_div_fixup_f32", [NAN, 0, ONE], INFINITY),
        ("v_cvt_f32_i32", [ALL, 0, 0], ONE | MINUS),
        ("v_cvt_f32_u32", [3, 0, 0], THREE),
        ("v_cvt_i32_f32", [THREE | MINUS, 0, 0], 0xFFFF_FFFD),
        ("v_cvt_i32_f32", [NAN, 0, 0], 0),
        ("v_cvt_u32_f32", [THREE | MINUS, 0, 0], 0),
        ("v_cvt_f32_ubyte0", [0x0000_0003, 0, 0], THREE),
        ("v_cvt_f32_ubyte1", [0x0000_0300, 0, 0], THREE),
        ("v_cvt_f32_ubyte2", [0x0003_0000, 0, 0], THREE),
        ("v_cvt_f32_ubyte3", [0x0300_0000, 0, 0], THREE),
        ("v_cvt_f32_f16", [0x4200, 0, 0], THREE),
        ("v_cvt_f16_f32", [THREE, 0, 0], 0x4200),
        // 65,519 is below the middle to f16's infinity; towards zero anything finite stays finite.
        ("v_cvt_pkrtz_f16_f32", [0x477F_EF00, ONE, 0], 0x3C00_7BFF),
        ("v_cvt_pkrtz_f16_f32", [0x4780_0000, 0xC780_0000, 0], 0xFBFF_7BFF),
        // Ties go to even.
        ("v_cvt_pk_f16_f32", [0x477F_EF00, ONE, 0], 0x3C00_7BFF),
        // Halfway between two numbers: to the even one.
        ("v_cvt_pk_f16_f32", [0x3F80_1000, 0x3F80_3000, 0], 0x3C02_3C00),
        ("v_cvt_pk_bf16_f32", [0x3F80_8000, 0x3F81_8000, 0], 0x3F82_3F80),
        ("v_pack_b32_f16", [0x1234, 0x5678, 0], 0x5678_1234),
        ("v_add_f16", [0x3C00, 0x4000, 0], 0x4200),
        ("v_sub_f16", [0x4200, 0x4000, 0], 0x3C00),
        ("v_mul_f16", [0x4000, 0x3800, 0], 0x3C00),
        ("v_max_f16", [0x3C00, 0x4000, 0], 0x4000),
        ("v_min_f16", [0x3C00, 0x4000, 0], 0x3C00),
    ];

    #[test]
    fn every_instruction_of_the_table_gives_the_documented_result() {
        for name in NAMES {
            assert!(CASES.iter().any(|case| case.0 == *name), "no case of {name}");
        }
        for &(name, sources, expected) in CASES {
            let op = lane_op(name).unwrap_or_else(|| panic!("no {name}"));
            let mut out = [0; 64];
            (op.run)(&sources.map(|value| [value; 64]), &mut out);
            for value in out {
                assert_eq!(value, expected, "{name} {sources:x?}: {value:#x} instead of {expected:#x}");
            }
        }
    }
}
