//! Rows at the sizes that serving has. The logits fill 2.5 GB and every iteration takes the next batch, so that memory is the limit.
//!
//! `read` is a plain sum over the batch, the machine's read bandwidth on as many threads; `maxima` is the pass over the groups;
//! `race` draws every row's token.

#![allow(missing_docs, reason = "criterion_group! makes an undocumented function")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use specverify::rows::{Context, Matrix, Simd, TargetRows, Values, maxima_only};
use specverify::verify::{Row, Target};
use specverify::{SamplingParams, Topology};

const VOCAB: usize = 151_936;
const BATCH: usize = 32;
const ROWS: usize = 8;
const BYTES: usize = 2_500_000_000;

fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

type Make = fn(usize) -> Vec<f32>;

/// Normal logits (sd 3), the hard case: thousands of tokens matter.
fn normal(n: usize) -> Vec<f32> {
    let mut state = 1;
    let draw = |state: &mut u64| {
        let (u, v) = (uniform(state), uniform(state));
        3.0 * (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    };
    (0..n).map(|_| draw(&mut state) as f32).collect()
}

/// Like a language model's, where no recorded rows are given: log-probability falls with the logarithm of the rank (exponent 1.3), ranks scattered over the ids.
fn peaked(n: usize) -> Vec<f32> {
    let mut state = 2;
    // The ranks of a random permutation are nearly independent uniforms, except at the head, which this keeps.
    (0..n).map(|_| -1.3 * (1.0 + uniform(&mut state) * VOCAB as f64).ln() as f32).collect()
}

/// The file that `make bench` fills with recorded rows: native f32, `[rows, VOCAB]`. Repeated as often as it takes.
const RECORDED: &str = "SPECVERIFY_BENCH_ROWS";

fn recorded(n: usize) -> Vec<f32> {
    let path = std::env::var(RECORDED).unwrap();
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{RECORDED}={path}: {error}"));
    let rows: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|&b| f32::from_ne_bytes(b)).collect();
    assert!(
        !rows.is_empty() && rows.len().is_multiple_of(VOCAB),
        "{RECORDED}: {} values, not rows of {VOCAB}",
        rows.len()
    );
    rows.iter().copied().cycle().take(n).collect()
}

struct Batches {
    logits: Vec<f32>,
    next: std::cell::Cell<usize>,
}

impl Batches {
    const LEN: usize = BATCH * ROWS * VOCAB;

    fn new(mut one: Vec<f32>) -> Self {
        let copies = BYTES / (Self::LEN * 4);
        one.reserve_exact((copies - 1) * Self::LEN);
        for _ in 1..copies {
            one.extend_from_within(..Self::LEN);
        }
        Self { logits: one, next: std::cell::Cell::new(0) }
    }

    fn next(&self) -> &[f32] {
        let copies = self.logits.len() / Self::LEN;
        let copy = self.next.replace((self.next.get() + 1) % copies);
        &self.logits[copy * Self::LEN..(copy + 1) * Self::LEN]
    }
}

/// Runs `work` on every request of a batch, on two threads.
fn on_two_threads<T: Sync>(batch: &[T], request: usize, work: impl Fn(&[T]) + Sync) {
    let work = &work;
    let (one, two) = batch.split_at(BATCH / 2 * request);
    std::thread::scope(|scope| {
        scope.spawn(move || one.chunks(request).for_each(work));
        two.chunks(request).for_each(work);
    });
}

fn tokens(request: &[f32], params: &SamplingParams, tree: &Topology) {
    let matrix = Matrix::new(Values::F32(request), ROWS, VOCAB, VOCAB).unwrap();
    let context = Context { params, seed: 7, position: 128, prompt: &[], output: &[], stop_token_ids: &[], tree };
    let mut rows = TargetRows::new(matrix, context).unwrap();
    for row in 0..ROWS {
        std::hint::black_box(rows.token(row).unwrap());
    }
}

fn rows(c: &mut Criterion) {
    let simd = Simd::detect().unwrap();
    let tree = Topology::new(vec![0; ROWS - 1], (0..ROWS as i32 - 1).map(|i| i - 1).collect()).unwrap();
    let plain = SamplingParams { temperature: 0.8, ..Default::default() };
    let filtered = SamplingParams { top_k: 20, top_p: 0.95, ..plain.clone() };
    let request = ROWS * VOCAB;
    let like_a_model =
        if std::env::var_os(RECORDED).is_some() { ("recorded", recorded as Make) } else { ("peaked", peaked as Make) };
    for (name, make) in [("normal", normal as Make), like_a_model] {
        let batches = Batches::new(make(Batches::LEN));
        let mut group = c.benchmark_group(format!("rows_{name}_b{BATCH}x{ROWS}"));
        group.throughput(Throughput::Bytes(Batches::LEN as u64 * 4)).sample_size(20);
        group.bench_function("read", |b| {
            b.iter(|| {
                on_two_threads(batches.next(), request, |logits| {
                    let mut sums = [0_u32; 64];
                    for chunk in logits.as_chunks::<64>().0 {
                        for i in 0..64 {
                            sums[i] ^= chunk[i].to_bits();
                        }
                    }
                    std::hint::black_box(sums);
                });
            });
        });
        group.bench_function("maxima", |b| {
            b.iter(|| {
                on_two_threads(batches.next(), request, |logits| {
                    let matrix = Matrix::new(Values::F32(logits), ROWS, VOCAB, VOCAB).unwrap();
                    let mut out = Vec::new();
                    for row in 0..ROWS {
                        maxima_only(simd, &matrix, row, &mut out).unwrap();
                        std::hint::black_box(&out);
                    }
                });
            });
        });
        group.bench_function("race", |b| {
            b.iter(|| on_two_threads(batches.next(), request, |logits| tokens(logits, &plain, &tree)));
        });
        group.bench_function("race_top_k20_top_p95", |b| {
            b.iter(|| on_two_threads(batches.next(), request, |logits| tokens(logits, &filtered, &tree)));
        });
        group.bench_function("read_p", |b| {
            b.iter(|| {
                on_two_threads(batches.next(), request, |logits| {
                    let matrix = Matrix::new(Values::F32(logits), ROWS, VOCAB, VOCAB).unwrap();
                    let context = Context {
                        params: &plain,
                        seed: 7,
                        position: 128,
                        prompt: &[],
                        output: &[],
                        stop_token_ids: &[],
                        tree: &tree,
                    };
                    let mut rows = TargetRows::new(matrix, context).unwrap();
                    let mut block = [0.0; 1024];
                    for row in 0..ROWS {
                        let p = rows.row(row).unwrap();
                        for start in (0..VOCAB).step_by(1024) {
                            let n = 1024.min(VOCAB - start);
                            p.read(start, &mut block[..n]);
                            std::hint::black_box(&block);
                        }
                    }
                });
            });
        });
        group.finish();
    }
}

criterion_group!(benches, rows);
criterion_main!(benches);
