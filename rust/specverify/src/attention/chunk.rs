//! A run of keys against the query rows of one request and KV head, by the online softmax of FlashAttention (arXiv 2205.14135, 2307.08691).

use std::ops::Range;

use pulp::{Simd as Vectors, WithSimd};

use crate::attention::TreeAttention;
use crate::attention::exp2::{capped, exp2};
use crate::attention::paged::{Paged, load, prefetch};
use crate::attention::product::{Product, compute};
use crate::attention::seen::{BLOCK, Request};
use crate::attention::transpose::{TILE, transpose};
use crate::rows::{greater, of_group};

/// Partial sums of a row's weights, whatever the machine's vectors.
const LANES: usize = 16;

/// The softmax of query rows as far as they have seen keys: weights are relative to 2^maximum.
#[derive(Debug)]
pub(super) struct State {
    /// [queries, width], weighted sums of values
    pub out: Vec<f32>,
    /// [queries], in base 2
    maxima: Vec<f32>,
    /// [queries], of weights
    sums: Vec<[f32; LANES]>,
    width: usize,
}

impl State {
    /// Of no keys.
    pub fn new(queries: usize, width: usize) -> Self {
        Self {
            out: vec![0.0; queries * width],
            maxima: vec![f32::NEG_INFINITY; queries],
            sums: vec![[0.0; LANES]; queries],
            width,
        }
    }

    fn clear(&mut self) {
        self.out.fill(0.0);
        self.maxima.fill(f32::NEG_INFINITY);
        self.sums.fill([0.0; LANES]);
    }

    /// Adds what others have seen.
    #[inline(always)]
    pub fn merge(&mut self, part: &Self) {
        let outs = self.out.chunks_exact_mut(self.width).zip(part.out.chunks_exact(self.width));
        for (i, (out, theirs)) in outs.enumerate() {
            let (maximum, their_maximum) = (self.maxima[i], part.maxima[i]);
            self.maxima[i] = greater(maximum, their_maximum);
            let origin = origin(self.maxima[i]);
            let [mine, their] = exp2(&[maximum - origin, their_maximum - origin]);
            for (x, y) in out.iter_mut().zip(theirs) {
                *x = *x * mine + y * their;
            }
            for (x, y) in self.sums[i].iter_mut().zip(&part.sums[i]) {
                *x = *x * mine + y * their;
            }
        }
    }

    /// Divides by the sums of the weights.
    #[inline(always)]
    pub fn normalise(&mut self) {
        for (out, sums) in self.out.chunks_exact_mut(self.width).zip(&self.sums) {
            let mut total = 0.0;
            for sum in sums {
                total += sum;
            }
            let factor = 1.0 / total;
            for x in out {
                *x *= factor;
            }
        }
    }
}

/// What weights are relative to: of a row that has seen nothing yet every weight is 0.
#[inline(always)]
fn origin(maximum: f32) -> f32 {
    if maximum == f32::NEG_INFINITY { 0.0 } else { maximum }
}

/// Attends to the keys of some chunks, one after another: each starts anew and is merged, so that the result is the same when others
/// attend to some of them and the states are merged later, in the order of the chunks.
pub(super) struct Attend<'a> {
    pub call: &'a TreeAttention<'a>,
    pub request: &'a Request,
    pub kv_head: usize,
    /// Every start and end but the last is a multiple of [`BLOCK`].
    pub chunks: &'a [Range<usize>],
}

impl WithSimd for Attend<'_> {
    type Output = State;

    #[inline(always)]
    fn with_simd<S: Vectors>(self, simd: S) -> State {
        let (call, request) = (self.call, self.request);
        let group = call.heads / call.kv_heads;
        let (queries, width) = (request.rows * group, call.dim.next_multiple_of(TILE));
        let mut q = vec![0.0; queries * width];
        let factor = std::f32::consts::LOG2_E * call.scale * if call.softcap > 0.0 { 2.0 / call.softcap } else { 1.0 };
        for (i, out) in q.chunks_exact_mut(width).enumerate() {
            let (row, head) = (request.first_row + i / group, self.kv_head * group + i % group);
            let at = row * call.q.strides[0] + head * call.q.strides[1];
            load(call.q.values, at, factor, &mut out[..call.dim]);
        }
        let mut block = Block {
            call,
            request,
            kv_head: self.kv_head,
            k: vec![0.0; width * BLOCK],
            v: vec![0.0; BLOCK * width],
            keys: vec![0.0; TILE * width],
            seen: vec![0; request.rows],
            width,
        };
        let mut scores = vec![0.0; queries * BLOCK];
        let mut shrink = vec![0.0; queries];
        let mut total = State::new(queries, width);
        let mut part = State::new(queries, width);
        for chunk in self.chunks {
            part.clear();
            for start in chunk.clone().step_by(BLOCK) {
                if !block.stage(simd, start) {
                    continue;
                }
                compute(
                    simd,
                    Product {
                        a: &q,
                        b: &block.k,
                        out: &mut scores,
                        shrink: None,
                        rows: queries,
                        depth: width,
                        columns: BLOCK,
                    },
                );
                let (scores_of, _) = scores.as_chunks_mut::<BLOCK>();
                for (i, scores) in scores_of.iter_mut().enumerate() {
                    shrink[i] =
                        weigh(scores, block.seen[i / group], call.softcap, &mut part.maxima[i], &mut part.sums[i]);
                }
                compute(
                    simd,
                    Product {
                        a: &scores,
                        b: &block.v,
                        out: &mut part.out,
                        shrink: Some(&shrink),
                        rows: queries,
                        depth: BLOCK,
                        columns: width,
                    },
                );
            }
            total.merge(&part);
        }
        total
    }
}

/// From scores to weights; gives what earlier weights shrink by.
#[inline(always)]
fn weigh(scores: &mut [f32; BLOCK], seen: u64, softcap: f32, maximum: &mut f32, sums: &mut [f32; LANES]) -> f32 {
    if softcap > 0.0 {
        *scores = capped(scores, softcap * std::f32::consts::LOG2_E);
    }
    if seen != !0 {
        for (i, score) in scores.iter_mut().enumerate() {
            *score = if seen >> i & 1 == 1 { *score } else { f32::NEG_INFINITY };
        }
    }
    let old = *maximum;
    *maximum = greater(old, of_group(scores));
    let origin = origin(*maximum);
    for score in scores.iter_mut() {
        *score -= origin;
    }
    *scores = exp2(scores);
    let [shrink] = exp2(&[old - origin]);
    let (quarters, _) = scores.as_chunks::<LANES>();
    let mut new = quarters[0];
    for quarter in &quarters[1..] {
        for (sum, weight) in new.iter_mut().zip(quarter) {
            *sum += weight;
        }
    }
    for (sum, new) in sums.iter_mut().zip(&new) {
        *sum = *sum * shrink + new;
    }
    shrink
}

/// The keys and values of one block in f32.
struct Block<'a> {
    call: &'a TreeAttention<'a>,
    request: &'a Request,
    kv_head: usize,
    /// [width, BLOCK], transposed: queries meet one number of all keys at a time.
    k: Vec<f32>,
    /// [BLOCK, width]
    v: Vec<f32>,
    /// [TILE, width], keys on their way
    keys: Vec<f32>,
    /// [rows], bit i: key i
    seen: Vec<u64>,
    width: usize,
}

impl Block<'_> {
    /// False when no row sees any of its keys.
    #[inline(always)]
    fn stage<S: Vectors>(&mut self, simd: S, start: usize) -> bool {
        let (mut any, mut all) = (0, !0);
        for (row, seen) in self.seen.iter_mut().enumerate() {
            *seen = self.request.seen(row, start);
            any |= *seen;
            all &= *seen;
        }
        if any == 0 {
            return false;
        }
        let (call, dim, width) = (self.call, self.call.dim, self.width);
        for first in (0..BLOCK).step_by(TILE) {
            for i in 0..TILE {
                let key = start + first + i;
                let k_row = &mut self.keys[i * width..][..dim];
                let v_row = &mut self.v[(first + i) * width..][..dim];
                if any >> (first + i) & 1 == 0 {
                    // Nobody sees it, or there is none.
                    k_row.fill(0.0);
                    v_row.fill(0.0);
                    continue;
                }
                if key + BLOCK < self.request.keys() {
                    let [k, v] = self.places(key + BLOCK);
                    prefetch(call.k.values, k, dim);
                    prefetch(call.v.values, v, dim);
                }
                let [k, v] = self.places(key);
                load(call.k.values, k, 1.0, &mut self.keys[i * width..][..dim]);
                let v_row = &mut self.v[(first + i) * width..][..dim];
                load(call.v.values, v, 1.0, v_row);
                // For whom it is hidden its weight is zero, and zero times NaN or infinity is NaN. Such a value becomes zero and its
                // key NaN: those who see it get NaN as they should, the others nothing.
                if all >> (first + i) & 1 == 0 && !v_row.iter().all(|x| x.is_finite()) {
                    v_row.fill(0.0);
                    self.keys[i * width] = f32::NAN;
                }
            }
            transpose(simd, &self.keys, width, &mut self.k[first..], BLOCK);
        }
        true
    }

    /// Where the key and the value of a token start.
    #[inline(always)]
    fn places(&self, key: usize) -> [usize; 2] {
        let call = self.call;
        let (number, offset) = (key / call.page_size, key % call.page_size);
        let page = call.block_table[self.request.index * call.table_stride + number] as usize;
        let place = |of: &Paged<'_>| page * of.strides[0] + offset * of.strides[1] + self.kv_head * of.strides[2];
        [place(&call.k), place(&call.v)]
    }
}
