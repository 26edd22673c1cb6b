//! Masses: floor(2^40 * exp(y)) as u64 for y = (x - row maximum) / T <= 0, so that sums have no order.

use crate::coins::{LN_2_HIGH, LN_2_LOW};

/// Least y that has a mass: -40 ln 2, rounded towards zero. Below it a token has probability 0 and does not race.
pub(crate) const LEAST_Y: f32 = -27.725_885;
/// The mass of the row's maximum, 2^40.
pub(crate) const ONE: u64 = 1 << 40;

/// (e^r - 1 - r) / r^2 on [-ln 2 / 2, ln 2 / 2], minimax (3e-9).
const EXP_POLYNOMIAL: [f32; 5] = [0.001_381_459_6, 0.008_368_717_5, 0.041_668_39, 0.166_665_21, 0.499_999_94];

/// floor(2^40 * exp(y)) of each y, 0 below `least` (at least [`LEAST_Y`]): whole numbers, which f32 holds exactly since exp(y) has
/// f32's precision. From 2^23 on every f32 is whole, so that rounding down acts on the least of the masses only.
///
/// Step by step over all lanes: the operations of one lane wait for each other, and a processor does not look far enough ahead to find
/// those of the next lanes by itself. With 256 lanes a pass over a row takes 75 us instead of 84 lane by lane (AVX-512).
#[inline(always)]
pub(crate) fn whole_masses<const N: usize>(least: f32, y: &[f32; N]) -> [f32; N] {
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding and subtracting it rounds to an integer
    let (mut shifted, mut r) = ([0.0; N], [0.0; N]);
    for i in 0..N {
        let bounded = if y[i] > least { y[i] } else { least };
        shifted[i] = bounded * std::f32::consts::LOG2_E + ROUND;
        let k = shifted[i] - ROUND;
        r[i] = (bounded - k * LN_2_HIGH) - k * LN_2_LOW;
    }
    let mut p = [0.0; N];
    for i in 0..N {
        p[i] = EXP_POLYNOMIAL[0];
        for c in &EXP_POLYNOMIAL[1..] {
            p[i] = p[i] * r[i] + c;
        }
    }
    let mut masses = [0.0; N];
    for i in 0..N {
        let e = (p[i] * r[i] * r[i] + r[i]) + 1.0;
        // k stands in the low bits of `shifted`; the product e * 2^(k + 40) is normal.
        let scaled = f32::from_bits(e.to_bits().wrapping_add(shifted[i].to_bits().wrapping_add(40) << 23));
        masses[i] = if y[i] >= least { scaled.floor() } else { 0.0 };
    }
    masses
}

/// [`whole_masses`] of one y, 0 below [`LEAST_Y`].
#[inline(always)]
pub(crate) fn whole_mass(y: f32) -> f32 {
    whole_masses(LEAST_Y, &[y])[0]
}

/// [`whole_mass`] as an integer.
#[inline(always)]
pub(crate) fn mass(y: f32) -> u64 {
    whole_mass(y) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mass_is_floor_of_2_to_the_40_exp() {
        assert_eq!(mass(0.0), ONE);
        assert_eq!(mass(-0.0), ONE);
        assert_eq!(mass(f32::NEG_INFINITY), 0);
        assert_eq!(mass(f32::from_bits(LEAST_Y.to_bits() + 1)), 0);
        assert!(mass(LEAST_Y) >= 1);
        assert!(f64::from(f32::from_bits(LEAST_Y.to_bits() + 1)) < -40.0 * std::f64::consts::LN_2);
        assert!(f64::from(LEAST_Y) >= -40.0 * std::f64::consts::LN_2);
        let mut y = -1e-9_f32;
        while y > LEAST_Y {
            let exact = ONE as f64 * f64::from(y).exp();
            let got = mass(y) as f64;
            assert!((got - exact).abs() <= 1.0 + exact * 1.5e-7, "{y}: {got} {exact}");
            assert!(mass(y) <= ONE);
            y *= 1.000_1;
        }
    }
}
