//! Matrix instructions: where each lane's elements lie in A, B, C and D.
//!
//! For a shape M x N x K of one block, with G = 64 / M groups of lanes and P = K / G elements a lane:
//!
//! | matrix | lane l, element e |
//! |---|---|
//! | A \[M, K\] | row l mod M, column (l / M) P + e |
//! | B \[K, N\] | row (l / M) P + e, column l mod N |
//! | C, D, M = 16 | row 4 (l / 16) + e, column l mod 16 |
//! | C, D, M = 32 | row 8 (e / 4) + 4 (l / 32) + e mod 4, column l mod 32 |
//!
//! That is AMD's "CDNA3 ISA", chapter 7, and what kernels compiled by Triton expect (`tests/triton.rs`).

use crate::decode::Action;
use crate::fault::{Kind, Result};
use crate::float::Float8;
use crate::operand::{Place, Source, Type, vector};
use crate::parse::Operands;
use crate::wave::{Lanes, Wave};

/// Columns that are computed at a time.
const COLUMNS: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    F32,
    F16,
    Bf16,
    F8(Float8),
}

impl Element {
    fn bits(self) -> usize {
        match self {
            Element::F32 => 32,
            Element::F16 | Element::Bf16 => 16,
            Element::F8(_) => 8,
        }
    }

    #[inline(always)]
    fn decode(self, bits: u32) -> f32 {
        match self {
            Element::F32 => f32::from_bits(bits),
            Element::F16 => half::f16::from_bits(bits as u16).to_f32(),
            Element::Bf16 => f32::from_bits(bits << 16),
            Element::F8(kind) => kind.decode(bits as u8),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Shape {
    m: usize,
    k: usize,
    a: Element,
    b: Element,
}

impl Shape {
    /// From `16x16x32_bf16`, `16x16x16_bf16` (which also ends in `_1k`), `32x32x16_fp8_fp8`, ...
    fn parse(text: &str, fp8_is_fnuz: bool) -> Option<Self> {
        let (dimensions, kinds) = text.split_once('_')?;
        let sizes: Vec<usize> = dimensions.split('x').map(str::parse).collect::<std::result::Result<_, _>>().ok()?;
        let &[m, n, k] = sizes.as_slice() else { return None };
        let e4m3 = Element::F8(Float8::e4m3(fp8_is_fnuz));
        let e5m2 = Element::F8(Float8::e5m2(fp8_is_fnuz));
        let (a, b) = match kinds {
            "f32" => (Element::F32, Element::F32),
            "f16" => (Element::F16, Element::F16),
            "bf16" | "bf16_1k" => (Element::Bf16, Element::Bf16),
            "fp8_fp8" => (e4m3, e4m3),
            "fp8_bf8" => (e4m3, e5m2),
            "bf8_fp8" => (e5m2, e4m3),
            "bf8_bf8" => (e5m2, e5m2),
            _ => return None,
        };
        // Shapes of one block: fewer elements a lane mean several.
        let one_block = m == n && (m == 16 || m == 32) && k % (64 / m) == 0 && k * a.bits() / (64 / m) % 32 == 0;
        one_block.then_some(Self { m, k, a, b })
    }

    /// Elements of A or B a lane.
    fn each(&self) -> usize {
        self.k * self.m / 64
    }

    /// A transposed, or B: the elements of one k are neighbours, as are those of neighbouring lanes.
    fn load(&self, wave: &Wave, first: usize, element: Element) -> Result<Vec<f32>> {
        match element {
            Element::F32 => self.decoded(wave, first, element.bits(), |bits| Element::F32.decode(bits)),
            Element::F16 => self.decoded(wave, first, element.bits(), |bits| Element::F16.decode(bits)),
            Element::Bf16 => self.decoded(wave, first, element.bits(), |bits| Element::Bf16.decode(bits)),
            Element::F8(kind) => self.decoded(wave, first, element.bits(), |bits| kind.decode(bits as u8)),
        }
    }

    fn decoded(&self, wave: &Wave, first: usize, bits: usize, decode: impl Fn(u32) -> f32) -> Result<Vec<f32>> {
        let (each, a_word, keep) = (self.each(), 32 / bits, u32::MAX >> (32 - bits));
        let mut out = vec![0.0; self.m * self.k];
        for e in 0..each {
            let lanes = wave.vector_for(first + e / a_word, u64::MAX, "a matrix instruction")?;
            let shift = (e % a_word * bits) as u32;
            for (group, lanes) in lanes.chunks_exact(self.m).enumerate() {
                let out = &mut out[(group * each + e) * self.m..][..self.m];
                out.iter_mut().zip(lanes).for_each(|(out, lane)| *out = decode(lane >> shift & keep));
            }
        }
        Ok(out)
    }

    /// A row of A times neighbouring columns of B. Every eighth product goes to one of eight sums in f32: products of 16-bit elements are
    /// exact, and the hardware's own order is not documented.
    fn products(&self, a: &[f32], row: usize, b: &[f32], column: usize) -> [f32; COLUMNS] {
        let add = |sums: &mut [f32; COLUMNS], k: usize| {
            add_products(sums, a[k * self.m + row], &b[k * self.m + column..][..COLUMNS]);
        };
        let eights = self.k / 8 * 8;
        let mut total = [0.0; COLUMNS];
        for first in 0..8.min(eights) {
            let mut sums = [0.0; COLUMNS];
            (first..eights).step_by(8).for_each(|k| add(&mut sums, k));
            total.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
        }
        let mut rest = [0.0; COLUMNS];
        (eights..self.k).for_each(|k| add(&mut rest, k));
        total.iter_mut().zip(rest).for_each(|(total, rest)| *total += rest);
        total
    }

    /// Row of element `e` of C and D in a lane.
    fn row(&self, lane: usize, e: usize) -> usize {
        if self.m == 16 { 4 * (lane / 16) + e } else { 8 * (e / 4) + 4 * (lane / 32) + e % 4 }
    }
}

pub(crate) fn decode(name: &str, operands: &Operands, fp8_is_fnuz: bool) -> Result<Action> {
    let unknown = || Kind::Unknown(format!("{name} {}", operands.list.join(", ")));
    let shape = name.strip_prefix("v_mfma_f32_").map(|text| text.trim_end_matches("_e64"));
    let shape = shape.and_then(|text| Shape::parse(text, fp8_is_fnuz)).ok_or_else(unknown)?;
    let [d, a, b, c] = operands.list.as_slice() else { return Err(unknown().into()) };
    if operands.modifiers().next().is_some() {
        return Err(unknown().into());
    }
    let (d, a, b, c) = (vector(d)?, vector(a)?, vector(b)?, Source::parse(c, Type::F32)?);
    Ok(Box::new(move |wave, env| {
        let (rows, columns) = (shape.load(wave, a, shape.a)?, shape.load(wave, b, shape.b)?);
        let outputs = shape.m * shape.m / 64;
        let mut result = vec![[0_u32; 64]; outputs];
        for (e, out) in result.iter_mut().enumerate() {
            let mut added: Lanes = [0; 64];
            match c.place {
                Place::Vector(first) => added = *wave.vector_for(first + e, u64::MAX, "a matrix instruction")?,
                _ => added.fill(c.uniform(wave)?),
            }
            for lane in (0..64).step_by(COLUMNS) {
                let products = shape.products(&rows, shape.row(lane, e), &columns, lane & (shape.m - 1));
                for (i, product) in products.into_iter().enumerate() {
                    out[lane + i] = (f32::from_bits(added[lane + i]) + product).to_bits();
                }
            }
        }
        *env.flops += 2 * (shape.m * shape.m * shape.k) as u64;
        for (e, out) in result.iter().enumerate() {
            wave.set_vector(d + e, out, u64::MAX, u64::MAX)?;
        }
        Ok(())
    }))
}

#[inline(always)]
fn add_products(sums: &mut [f32; COLUMNS], factor: f32, columns: &[f32]) {
    sums.iter_mut().zip(columns).for_each(|(sum, column)| *sum += factor * column);
}
