//! Elements of queries and caches as bits.

use half::{bf16, f16};
use specverify_hip::tree_attention::{Cache, Query};

use super::Numbers;

/// The types of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Elements {
    pub arch: &'static str,
    pub query: Query,
    pub cache: Cache,
}

impl Elements {
    pub fn element_bytes(&self) -> usize {
        if self.cache == Cache::Fp8 { 1 } else { 2 }
    }

    pub fn query_bits(&self, value: f32) -> u16 {
        match self.query {
            Query::Bf16 => bf16::from_f32(value).to_bits(),
            Query::F16 => f16::from_f32(value).to_bits(),
        }
    }

    pub fn query_value(&self, bits: u16) -> f64 {
        match self.query {
            Query::Bf16 => bf16::from_bits(bits).to_f64(),
            Query::F16 => f16::from_bits(bits).to_f64(),
        }
    }

    pub fn cache_value(&self, bits: u16) -> f64 {
        if self.cache == Cache::Query {
            return self.query_value(bits);
        }
        // e4m3: no infinities, bias 8 and one NaN (gfx942) or bias 7 and two (gfx950); the tests' numbers are none of these.
        let bias = if self.arch == "gfx942" { 8 } else { 7 };
        let (exponent, fraction) = (i32::from(bits >> 3 & 15), f64::from(bits & 7));
        let size = if exponent == 0 {
            fraction / 8.0 * 2_f64.powi(1 - bias)
        } else {
            (1.0 + fraction / 8.0) * 2_f64.powi(exponent - bias)
        };
        if bits & 128 == 0 { size } else { -size }
    }

    pub fn not_a_number(&self) -> u16 {
        match (self.cache, self.arch) {
            (Cache::Query, _) => self.query_bits(f32::NAN),
            (Cache::Fp8, "gfx942") => 0x80,
            (Cache::Fp8, _) => 0x7F,
        }
    }

    pub fn random_element(&self, numbers: &mut Numbers) -> u16 {
        if self.cache == Cache::Fp8 {
            loop {
                // Exponents up to 2^4, subnormals among them.
                let bits = (numbers.word() & 0xFF) as u16;
                if bits != 0x80 && bits & 0x7F < 0x60 {
                    return bits;
                }
            }
        }
        self.query_bits(normal(numbers))
    }
}

/// Roughly normal: the sum of four uniform numbers.
pub fn normal(numbers: &mut Numbers) -> f32 {
    (0..4).map(|_| numbers.word() as f32 / 2_f32.powi(32) - 0.5).sum::<f32>() * 1.7
}
