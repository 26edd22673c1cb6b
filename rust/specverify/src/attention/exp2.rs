//! Powers of two and the soft-cap, lane by lane: plain operations, which become vector code in a kernel.

/// Below it 2^x counts as 0: the softmax weight of a key whose score is 87 (natural logarithm) behind the best.
const LEAST: f32 = -125.0;
const GREATEST: f32 = 125.0;

#[expect(clippy::approx_constant, reason = "the best polynomial's last coefficient is close to ln 2, and is not it")]
/// (2^f - 1) / f on [-1/2, 1/2]: 2^f is off by at most 9.2e-8 of itself, 2e-7 as computed in f32, and 2^0 is 1.
const POLYNOMIAL: [f32; 5] = [0.001_326_472_7, 0.009_671_513, 0.055_507_336, 0.240_222_42, 0.693_147];

/// 2^x, off by at most 2e-7 of itself for -125 <= x <= 125; 0 below, 2^125 above, NaN for NaN.
#[inline(always)]
pub(super) fn exp2<const N: usize>(x: &[f32; N]) -> [f32; N] {
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding and subtracting it rounds to an integer
    let (mut shifted, mut f) = ([0.0; N], [0.0; N]);
    for i in 0..N {
        let bounded = if x[i] < LEAST { LEAST } else { x[i] };
        let bounded = if bounded > GREATEST { GREATEST } else { bounded };
        shifted[i] = bounded + ROUND;
        f[i] = bounded - (shifted[i] - ROUND);
    }
    let mut p = [POLYNOMIAL[0]; N];
    for c in &POLYNOMIAL[1..] {
        for i in 0..N {
            p[i] = p[i] * f[i] + c;
        }
    }
    let mut powers = [0.0; N];
    for i in 0..N {
        // The integer stands in the low bits of `shifted`, and is its exponent.
        let scaled = f32::from_bits((p[i] * f[i] + 1.0).to_bits().wrapping_add(shifted[i].to_bits() << 23));
        let power = if x[i] < LEAST { 0.0 } else { scaled };
        powers[i] = if x[i].is_nan() { f32::NAN } else { power };
    }
    powers
}

/// `cap * tanh(y)` for each `x = 2 y / ln 2`, off by at most 4e-7 of the cap.
#[inline(always)]
pub(super) fn capped<const N: usize>(x: &[f32; N], cap: f32) -> [f32; N] {
    // tanh(y) = 1 - 2 / (exp(2 y) + 1)
    exp2(x).map(|power| cap * (1.0 - 2.0 / (power + 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_within_2e_7() {
        assert_eq!(exp2(&[0.0, -0.0, f32::NEG_INFINITY, -125.1, 200.0]), [1.0, 1.0, 0.0, 0.0, 2.0_f32.powi(125)]);
        // Whatever its payload.
        assert!(exp2(&[f32::NAN, f32::from_bits(0xFFC0_0FFF), f32::from_bits(0x7F80_0001)]).iter().all(|x| x.is_nan()));
        let mut x = LEAST;
        while x <= GREATEST {
            let (found, exact) = (f64::from(exp2(&[x])[0]), f64::from(x).exp2());
            assert!((found / exact - 1.0).abs() < 2e-7, "{x}: {found} {exact}");
            x += 0.000_317;
        }
    }

    #[test]
    fn the_cap_is_within_4e_7() {
        let mut y = -30.0_f64;
        while y < 30.0 {
            let x = (2.0 * y * std::f64::consts::LOG2_E) as f32;
            let exact = 50.0 * (f64::from(x) * std::f64::consts::LN_2 / 2.0).tanh();
            assert!((f64::from(capped(&[x], 50.0)[0]) - exact).abs() < 50.0 * 4e-7, "{y}");
            y += 0.000_91;
        }
        assert_eq!(capped(&[1e9, -1e9], 50.0), [50.0, -50.0]);
    }
}
