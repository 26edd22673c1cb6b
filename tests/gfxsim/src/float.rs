//! Arithmetic that the vector unit rounds once: fused multiply-add, bfloat16 and the two kinds of float8.

/// a * b + c in one rounding, f32.
///
/// The product is exact in f64. The sum is rounded to odd there (the last bit is set when anything was lost), after which rounding to
/// f32 is right whatever was lost: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums" (2008).
#[inline(always)]
pub(crate) fn fma(a: f32, b: f32, c: f32) -> f32 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    let c_rounded = sum - product;
    let lost = (product - (sum - c_rounded)) + (c - c_rounded);
    let bits = sum.to_bits();
    let step = if (lost > 0.0) == (sum > 0.0) { 1_u64 } else { u64::MAX };
    // NaN and infinities lose NaN.
    let inexact = lost != 0.0 && !lost.is_nan() && bits & 1 == 0;
    f64::from_bits(if inexact { bits.wrapping_add(step) } else { bits }) as f32
}

fn is_signalling(value: f32) -> bool {
    value.is_nan() && value.to_bits() >> 22 & 1 == 0
}

/// The greater, as the unit does in IEEE mode: a quiet NaN gives way, a signalling one does not, and 0 is above -0.
pub(crate) fn maximum(a: f32, b: f32) -> f32 {
    if is_signalling(a) || is_signalling(b) {
        f32::NAN
    } else if a.is_nan() || b > a || a == b && a.is_sign_negative() {
        b
    } else {
        a
    }
}

/// The lesser, likewise.
pub(crate) fn minimum(a: f32, b: f32) -> f32 {
    -maximum(-a, -b)
}

/// [`maximum`] of two f16.
pub(crate) fn maximum_f16(a: u32, b: u32) -> u32 {
    // Widening makes a signalling NaN a quiet one.
    let signals = |bits: u32| f16(bits).is_nan() && bits >> 9 & 1 == 0;
    if signals(a) || signals(b) { to_f16(f32::NAN) } else { to_f16(maximum(f16(a), f16(b))) }
}

/// [`minimum`] of two f16.
pub(crate) fn minimum_f16(a: u32, b: u32) -> u32 {
    maximum_f16(a ^ 0x8000, b ^ 0x8000) ^ 0x8000
}

/// The value of an f16 in the low bits of a register.
#[inline(always)]
pub(crate) fn f16(bits: u32) -> f32 {
    half::f16::from_bits(bits as u16).to_f32()
}

/// To f16, ties to even.
#[inline(always)]
pub(crate) fn to_f16(value: f32) -> u32 {
    u32::from(half::f16::from_f32(value).to_bits())
}

/// To bfloat16, ties to even; NaN stays NaN.
#[inline(always)]
pub(crate) fn to_bf16(value: f32) -> u32 {
    u32::from(half::bf16::from_f32(value).to_bits())
}

/// How a float8 is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Float8 {
    mantissa: u32,
    bias: i32,
    /// The kind of gfx942: no infinities, no -0, whose pattern is the only NaN.
    fnuz: bool,
}

impl Float8 {
    /// e4m3: fnuz on gfx942, OCP on gfx950.
    pub fn e4m3(fnuz: bool) -> Self {
        Self { mantissa: 3, bias: if fnuz { 8 } else { 7 }, fnuz }
    }

    /// e5m2, likewise.
    pub fn e5m2(fnuz: bool) -> Self {
        Self { mantissa: 2, bias: if fnuz { 16 } else { 15 }, fnuz }
    }

    pub fn decode(self, bits: u8) -> f32 {
        let bits = u32::from(bits);
        let (sign, exponent, fraction) = (bits >> 7, (bits & 0x7F) >> self.mantissa, bits & ((1 << self.mantissa) - 1));
        let top = (1 << (7 - self.mantissa)) - 1;
        if self.fnuz && bits == 0x80 {
            return f32::NAN;
        }
        if !self.fnuz && exponent == top {
            // e5m2 is IEEE-like; e4m3 has one NaN and uses the rest of the binade.
            if self.mantissa == 2 {
                return if fraction > 0 {
                    f32::NAN
                } else if sign == 1 {
                    f32::NEG_INFINITY
                } else {
                    f32::INFINITY
                };
            }
            if fraction == 7 {
                return f32::NAN;
            }
        }
        let unit = (self.mantissa as f32).exp2();
        let magnitude = if exponent == 0 {
            fraction as f32 / unit * ((1 - self.bias) as f32).exp2()
        } else {
            (1.0 + fraction as f32 / unit) * ((exponent as i32 - self.bias) as f32).exp2()
        };
        if sign == 1 { -magnitude } else { magnitude }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fma_rounds_once() {
        let mut state = 1_u64;
        let mut word = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        for _ in 0..2_000_000 {
            let (a, b) = (f32::from_bits(word()), f32::from_bits(word()));
            // Half of the addends nearly cancel the product.
            let c =
                if word() & 1 == 0 { f32::from_bits(word()) } else { -(a * b) * (1.0 + (word() >> 28) as f32 * 1e-7) };
            let (mine, exact) = (fma(a, b, c), a.mul_add(b, c));
            assert!(
                mine.to_bits() == exact.to_bits() || mine.is_nan() && exact.is_nan(),
                "{a} {b} {c}: {mine} {exact}"
            );
        }
    }

    #[test]
    fn float8_has_the_published_extremes() {
        // OCP 8-bit Floating Point Specification 1.0, table 1; AMD CDNA3 ISA for the fnuz kinds.
        assert_eq!(Float8::e4m3(false).decode(0x7E), 448.0);
        assert!(Float8::e4m3(false).decode(0x7F).is_nan());
        assert_eq!(Float8::e4m3(false).decode(0x01), 2.0_f32.powi(-9));
        assert_eq!(Float8::e4m3(true).decode(0x7F), 240.0);
        assert!(Float8::e4m3(true).decode(0x80).is_nan());
        assert_eq!(Float8::e4m3(true).decode(0x01), 2.0_f32.powi(-10));
        assert_eq!(Float8::e5m2(false).decode(0x7B), 57_344.0);
        assert_eq!(Float8::e5m2(false).decode(0xFC), f32::NEG_INFINITY);
        assert_eq!(Float8::e5m2(true).decode(0x7F), 57_344.0);
    }
}
