//! Rules that read q, at the sizes that serving has: batch 32, N=7, V=151,936, f32. p and q fill 2.5 GB and every iteration takes the
//! next batch, so that memory is the limit.
//!
//! `read` reads the rows of p and q once, on as many threads; q is p with noise, and the drafts are drawn from it.

#![allow(missing_docs, reason = "criterion_group! makes a public function")]

use criterion::{Criterion, criterion_group, criterion_main};
use specverify::coins::{Coins, Stream};
use specverify::request::{Request, verify_batch};
use specverify::rows::{LogprobsMode, Matrix, Values};
use specverify::verify::{AnyTree, Rule};
use specverify::{DraftTree, SamplingParams};

const VOCAB: usize = 151_936;
const BATCH: usize = 32;
const NODES: usize = 7;
const ROWS: usize = NODES + 1;
const BYTES: usize = 2_500_000_000;

/// Nearly normal: the sum of four uniforms, sd 1.
fn noise(state: &mut u64) -> f32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let bytes = (*state >> 16).to_le_bytes();
    let sum: f32 =
        (0..3).map(|i| f32::from(u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]])) / 65_536.0 - 0.5).sum();
    2.0 * sum
}

#[derive(Clone)]
struct Case {
    logits: Vec<f32>,
    q: Vec<f32>,
    tree: AnyTree,
}

fn case(seed: u64) -> Case {
    let mut state = seed;
    let logits: Vec<f32> = (0..ROWS * VOCAB).map(|_| 3.0 * noise(&mut state)).collect();
    let mut q: Vec<f32> = logits.iter().map(|x| (x + 0.5 * noise(&mut state)).exp()).collect();
    let mut tokens = Vec::new();
    for (row, q) in q.chunks_mut(VOCAB).enumerate() {
        let total: f32 = q.iter().sum();
        q.iter_mut().for_each(|q| *q /= total);
        let mut aim = Coins::new(seed).uniform(128, Stream::Draft, row as u32) as f32;
        let drawn = q.iter().position(|q| {
            aim -= q;
            aim < 0.0
        });
        tokens.push(drawn.unwrap_or(0) as u32);
    }
    tokens.pop();
    let parents = (0..NODES as i32).map(|i| i - 1).collect();
    Case { logits, q, tree: DraftTree::independent(tokens, parents).unwrap().into() }
}

/// Reads every word; the sum keeps the compiler from leaving any out.
fn read(values: &[f32]) -> u32 {
    let mut words = [0_u32; 64];
    for chunk in values.as_chunks::<64>().0 {
        for (word, value) in words.iter_mut().zip(chunk) {
            *word ^= value.to_bits();
        }
    }
    words.iter().fold(0, |a, b| a ^ b)
}

fn rules(c: &mut Criterion) {
    let cases: Vec<Case> = (1..=BATCH as u64).map(case).collect();
    let batches = vec![cases; BYTES / (2 * BATCH * ROWS * VOCAB * 4)];
    let mut turns = batches.iter().cycle();
    let mut next = || turns.next().unwrap();
    let params = SamplingParams { temperature: 0.8, ..SamplingParams::default() };
    let mut group = c.benchmark_group(format!("verify_b{BATCH}_n{NODES}_v{VOCAB}"));
    group.sample_size(20);
    group.bench_function("read", |b| {
        b.iter(|| {
            let (one, two) = next().split_at(BATCH / 2);
            let all = |cases: &[Case]| {
                cases.iter().for_each(|case| {
                    std::hint::black_box(read(&case.logits) ^ read(&case.q[..NODES * VOCAB]));
                });
            };
            std::thread::scope(|scope| {
                scope.spawn(|| all(one));
                all(two);
            });
        });
    });
    for rule in [Rule::TargetOnly, Rule::Token, Rule::Block, Rule::Traversal] {
        group.bench_function(rule.name(), |b| {
            let mut seed = 0;
            b.iter(|| {
                seed += 1;
                let requests: Vec<Request<'_>> = next()
                    .iter()
                    .map(|case| Request {
                        logits: Matrix::new(Values::F32(&case.logits), ROWS, VOCAB, VOCAB).unwrap(),
                        tree: &case.tree,
                        rule: Some(rule),
                        draft_probs: Some(Matrix::new(Values::F32(&case.q), ROWS, VOCAB, VOCAB).unwrap()),
                        params: &params,
                        seed,
                        position: 128,
                        prompt: &[],
                        output: &[],
                        stop_token_ids: &[],
                        logprobs_mode: LogprobsMode::Raw,
                    })
                    .collect();
                std::hint::black_box(verify_batch(&requests).unwrap())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, rules);
criterion_main!(benches);
