//! Operands: registers, inline constants and literals, with negation and absolute value.

use crate::fault::{Fault, Kind, Result};
use crate::parse::integer;
use crate::wave::{AGPR, EXEC, Lanes, M0, VCC, Wave};

/// What a constant means to an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    /// Bits.
    Int,
    F32,
    F16,
    /// In register pairs.
    F64,
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Vector(usize),
    Scalar(usize),
    /// As 64 bits; the low half is the 32-bit value.
    Constant(u64),
    Scc,
}

/// A source operand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source {
    pub place: Place,
    pub negate: bool,
    pub absolute: bool,
    kind: Type,
}

/// The register that a name means, with the number of registers.
pub(crate) fn register(name: &str) -> Option<(Place, usize)> {
    let special = match name {
        "vcc" => Some((VCC, 2)),
        "vcc_lo" => Some((VCC, 1)),
        "vcc_hi" => Some((VCC + 1, 1)),
        "exec" => Some((EXEC, 2)),
        "exec_lo" => Some((EXEC, 1)),
        "exec_hi" => Some((EXEC + 1, 1)),
        "m0" => Some((M0, 1)),
        _ => None,
    };
    if let Some((index, count)) = special {
        return Some((Place::Scalar(index), count));
    }
    let (file, rest) = name.split_at_checked(1)?;
    let (first, last) = match rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(range) => {
            let (first, last) = range.split_once(':').unwrap_or((range, range));
            (first.parse().ok()?, last.parse().ok()?)
        }
        None => {
            let index: usize = rest.parse().ok()?;
            (index, index)
        }
    };
    let count = usize::checked_sub(last, first)? + 1;
    match file {
        "v" if last < AGPR => Some((Place::Vector(first), count)),
        "a" if last < AGPR => Some((Place::Vector(AGPR + first), count)),
        "s" if last < VCC => Some((Place::Scalar(first), count)),
        _ => None,
    }
}

/// The first of a destination's vector registers.
pub(crate) fn vector(name: &str) -> Result<usize> {
    match register(name) {
        Some((Place::Vector(index), _)) => Ok(index),
        _ => Err(Kind::Unknown(format!("vector register {name}")).into()),
    }
}

/// The first of a destination's scalar registers.
pub(crate) fn scalar(name: &str) -> Result<usize> {
    match register(name) {
        Some((Place::Scalar(index), _)) => Ok(index),
        _ => Err(Kind::Unknown(format!("scalar register {name}")).into()),
    }
}

impl Source {
    pub fn parse(text: &str, kind: Type) -> Result<Self> {
        let (mut name, mut negate, mut absolute) = (text, false, false);
        if let Some(inner) = name.strip_prefix("neg(").and_then(|name| name.strip_suffix(')')) {
            (name, negate) = (inner, true);
        }
        // -1 is a constant, -v1 and -|v1| are negations.
        if let Some(inner) = name.strip_prefix('-').filter(|rest| !rest.starts_with(|c: char| c.is_ascii_digit())) {
            (name, negate) = (inner, true);
        }
        if let Some(inner) = name.strip_prefix('|').and_then(|name| name.strip_suffix('|')) {
            (name, absolute) = (inner, true);
        }
        if let Some(inner) = name.strip_prefix("abs(").and_then(|name| name.strip_suffix(')')) {
            (name, absolute) = (inner, true);
        }
        let place = match register(name) {
            Some((place, _)) => place,
            None if name == "scc" || name == "src_scc" => Place::Scc,
            None => Place::Constant(constant(name, kind)?),
        };
        Ok(Self { place, negate, absolute, kind })
    }

    /// Whether it is negated or taken without its sign.
    pub fn is_modified(&self) -> bool {
        self.negate || self.absolute
    }

    /// 32 bits a lane, and which lanes were written.
    #[inline]
    pub fn lanes(&self, wave: &Wave, out: &mut Lanes) -> Result<u64> {
        let written = match self.place {
            Place::Vector(index) => {
                let (values, written) = wave.vector(index)?;
                *out = *values;
                written
            }
            _ => {
                *out = [self.uniform(wave)?; 64];
                u64::MAX
            }
        };
        if self.absolute || self.negate {
            let sign = if self.kind == Type::F16 { 0x8000 } else { 0x8000_0000 };
            let (clear, flip) = (if self.absolute { sign } else { 0 }, if self.negate { sign } else { 0 });
            out.iter_mut().for_each(|value| *value = *value & !clear ^ flip);
        }
        Ok(written)
    }

    /// 64 bits a lane, and which lanes were written.
    pub fn wide(&self, wave: &Wave, out: &mut [u64; 64]) -> Result<u64> {
        let written = match self.place {
            Place::Vector(index) => {
                let (low, written) = wave.vector(index)?;
                let (high, also) = wave.vector(index + 1)?;
                for lane in 0..64 {
                    out[lane] = u64::from(low[lane]) | u64::from(high[lane]) << 32;
                }
                written & also
            }
            _ => {
                *out = [self.uniform_wide(wave)?; 64];
                u64::MAX
            }
        };
        if self.absolute || self.negate {
            let sign = 1 << 63;
            let (clear, flip) = (if self.absolute { sign } else { 0 }, if self.negate { sign } else { 0 });
            out.iter_mut().for_each(|value| *value = *value & !clear ^ flip);
        }
        Ok(written)
    }

    /// The value that all lanes share, before negation.
    pub fn uniform(&self, wave: &Wave) -> Result<u32> {
        match self.place {
            Place::Scalar(index) => wave.scalar(index),
            Place::Constant(bits) => Ok(bits as u32),
            Place::Scc => Ok(u32::from(wave.scc)),
            Place::Vector(index) => Err(Fault::malformed(format!("v{index} where a scalar belongs"))),
        }
    }

    /// The 64-bit value that all lanes share, before negation.
    pub fn uniform_wide(&self, wave: &Wave) -> Result<u64> {
        match self.place {
            Place::Scalar(index) => wave.mask(index),
            Place::Constant(bits) => Ok(bits),
            _ => self.uniform(wave).map(u64::from),
        }
    }
}

/// A constant as 64 bits: integers are sign-extended, and a literal of a 64-bit float is its upper half.
fn constant(text: &str, kind: Type) -> Result<u64> {
    let unknown = || Fault::from(Kind::Unknown(format!("operand {text}")));
    if text.contains('.') && !text.starts_with("0x") {
        let value: f64 = text.parse().map_err(|_| unknown())?;
        return Ok(match kind {
            Type::F16 => u64::from(half::f16::from_f64(value).to_bits()),
            Type::F64 => value.to_bits(),
            // 1 / (2 pi) is an inline constant of its own bits; its decimal form rounds to them.
            Type::Int | Type::F32 => u64::from((value as f32).to_bits()),
        });
    }
    let value = integer(text).map_err(|_| unknown())?;
    Ok(if kind == Type::F64 && text.starts_with("0x") { (value as u64) << 32 } else { value as u64 })
}
