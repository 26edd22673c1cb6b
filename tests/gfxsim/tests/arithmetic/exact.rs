//! Floating point from integers alone: numbers as mantissa times a power of two, and one rounding at the end.

use std::cmp::Ordering;

/// A binary format of IEEE 754's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    pub bits: u32,
    /// Of the fraction.
    pub fraction: u32,
}

pub const F64: Format = Format { bits: 64, fraction: 52 };
pub const F32: Format = Format { bits: 32, fraction: 23 };
pub const F16: Format = Format { bits: 16, fraction: 10 };
pub const BF16: Format = Format { bits: 16, fraction: 7 };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    Even,
    Zero,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    Nan,
    Infinite {
        negative: bool,
    },
    /// mantissa * 2^exponent; zero has a sign.
    Finite {
        negative: bool,
        mantissa: u128,
        exponent: i32,
    },
}

use Number::{Finite, Infinite, Nan};

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.bits - self.fraction - 2)) - 1
    }

    fn top(self) -> u64 {
        (1 << (self.bits - self.fraction - 1)) - 1
    }

    pub fn decode(self, bits: u64) -> Number {
        let negative = bits >> (self.bits - 1) & 1 == 1;
        let (exponent, fraction) = (bits >> self.fraction & self.top(), bits & ((1 << self.fraction) - 1));
        let lowest = 1 - self.bias() - self.fraction as i32;
        match exponent {
            _ if exponent == self.top() && fraction == 0 => Infinite { negative },
            _ if exponent == self.top() => Nan,
            0 => Finite { negative, mantissa: fraction.into(), exponent: lowest },
            _ => {
                let mantissa = u128::from(fraction | 1 << self.fraction);
                Finite { negative, mantissa, exponent: lowest + exponent as i32 - 1 }
            }
        }
    }

    /// The bits, `None` for NaN.
    pub fn encode(self, number: Number, rounding: Rounding) -> Option<u64> {
        let (negative, mantissa, exponent) = match number {
            Nan => return None,
            Infinite { negative } => return Some(self.top() << self.fraction | self.sign(negative)),
            Finite { negative, mantissa, exponent } => (negative, mantissa, exponent),
        };
        if mantissa == 0 {
            return Some(self.sign(negative));
        }
        // The exponent of the last bit that is kept.
        let lowest = 1 - self.bias() - self.fraction as i32;
        let last = (exponent + 127 - mantissa.leading_zeros() as i32 - self.fraction as i32).max(lowest);
        let kept = shifted(mantissa, exponent - last, rounding);
        // A carry into the next binade gives the bits of the next exponent by itself.
        let biased = (last - lowest) as u64;
        let infinity = self.top() << self.fraction;
        let whole = if biased >= self.top() { infinity } else { (biased << self.fraction) + kept as u64 };
        let most = if rounding == Rounding::Zero { infinity - 1 } else { infinity };
        Some(whole.min(most) | self.sign(negative))
    }

    fn sign(self, negative: bool) -> u64 {
        u64::from(negative) << (self.bits - 1)
    }
}

/// mantissa * 2^by, rounded to a whole number.
fn shifted(mantissa: u128, by: i32, rounding: Rounding) -> u128 {
    if by >= 0 {
        return mantissa << by;
    }
    let (whole, rest, half) = match -by {
        by @ ..=126 => (mantissa >> by, mantissa & ((1 << by) - 1), 1 << (by - 1)),
        _ => (0, mantissa.min(1), 2),
    };
    let up = rest > half || rest == half && whole & 1 == 1;
    whole + u128::from(up && rounding == Rounding::Even)
}

impl Number {
    pub fn whole(value: i64) -> Self {
        Finite { negative: value < 0, mantissa: value.unsigned_abs().into(), exponent: 0 }
    }

    pub fn is_nan(self) -> bool {
        self == Nan
    }

    pub fn is_negative(self) -> bool {
        matches!(self, Infinite { negative: true } | Finite { negative: true, .. })
    }

    pub fn is_zero(self) -> bool {
        matches!(self, Finite { mantissa: 0, .. })
    }

    pub fn negated(self) -> Self {
        match self {
            Nan => Nan,
            Infinite { negative } => Infinite { negative: !negative },
            Finite { negative, mantissa, exponent } => Finite { negative: !negative, mantissa, exponent },
        }
    }

    pub fn scaled(self, by: i32) -> Self {
        match self {
            Finite { negative, mantissa, exponent } => Finite { negative, mantissa, exponent: exponent + by },
            other => other,
        }
    }

    pub fn times(self, other: Self) -> Self {
        let negative = self.is_negative() != other.is_negative();
        match (self, other) {
            (Nan, _) | (_, Nan) => Nan,
            (Infinite { .. }, x) | (x, Infinite { .. }) => {
                if x.is_zero() {
                    Nan
                } else {
                    Infinite { negative }
                }
            }
            (Finite { mantissa: a, exponent: i, .. }, Finite { mantissa: b, exponent: j, .. }) => {
                Finite { negative, mantissa: a * b, exponent: i + j }
            }
        }
    }

    /// Exact, but that what lies more than 120 bits below the sum's first is only kept as a last bit that is set.
    pub fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Nan, _) | (_, Nan) => Nan,
            (Infinite { negative: a }, Infinite { negative: b }) => {
                if a == b {
                    self
                } else {
                    Nan
                }
            }
            (Infinite { .. }, _) => self,
            (_, Infinite { .. }) => other,
            (Finite { negative: a, .. }, Finite { negative: b, .. }) if self.is_zero() && other.is_zero() => {
                Finite { negative: a && b, mantissa: 0, exponent: 0 }
            }
            _ if self.is_zero() => other,
            _ if other.is_zero() => self,
            (Finite { negative: a, .. }, Finite { negative: b, .. }) => {
                let ((p, i), (q, j)) = (self.normal(), other.normal());
                let exponent = i.max(j);
                let sticky = |mantissa: u128, below: u32| match below {
                    0 => mantissa,
                    1..=126 => mantissa >> below | u128::from(mantissa & ((1 << below) - 1) != 0),
                    _ => 1,
                };
                let signed =
                    |mantissa: u128, negative: bool| if negative { -(mantissa as i128) } else { mantissa as i128 };
                let sum = signed(sticky(p, i.abs_diff(exponent)), a) + signed(sticky(q, j.abs_diff(exponent)), b);
                Finite { negative: sum < 0, mantissa: sum.unsigned_abs(), exponent }
            }
        }
    }

    /// With bit 123 the first that is set.
    fn normal(self) -> (u128, i32) {
        let Finite { mantissa, exponent, .. } = self else { unreachable!() };
        let up = mantissa.leading_zeros() as i32 - 4;
        if up >= 0 { (mantissa << up, exponent - up) } else { (mantissa >> -up, exponent - up) }
    }

    /// `None` when one is NaN. Zeros are equal.
    pub fn compare(self, other: Self) -> Option<Ordering> {
        if self.is_nan() || other.is_nan() {
            return None;
        }
        let difference = match (self, other) {
            (Infinite { negative: a }, Infinite { negative: b }) if a == b => return Some(Ordering::Equal),
            _ => self.plus(other.negated()),
        };
        Some(match difference {
            _ if difference.is_zero() => Ordering::Equal,
            _ if difference.is_negative() => Ordering::Less,
            _ => Ordering::Greater,
        })
    }

    /// To a whole number: towards zero, to even, down or up.
    pub fn rounded(self, towards: &str) -> Self {
        let Finite { negative, mantissa, exponent } = self else { return self };
        if exponent >= 0 {
            return self;
        }
        let zero = shifted(mantissa, exponent, Rounding::Zero);
        let inexact = self.compare(Finite { negative, mantissa: zero, exponent: 0 }) != Some(Ordering::Equal);
        let mantissa = match towards {
            "even" => shifted(mantissa, exponent, Rounding::Even),
            "down" => zero + u128::from(inexact && negative),
            "up" => zero + u128::from(inexact && !negative),
            _ => zero,
        };
        Finite { negative, mantissa, exponent: 0 }
    }

    /// Towards zero into a range; NaN is 0.
    pub fn integer(self, least: i64, most: i64) -> i64 {
        match self.rounded("zero") {
            Nan => 0,
            Infinite { negative } => {
                if negative {
                    least
                } else {
                    most
                }
            }
            Finite { negative, mantissa, exponent } => {
                let size = (mantissa << exponent.min(64)) as i128;
                (if negative { -size } else { size }).clamp(least.into(), most.into()) as i64
            }
        }
    }
}
