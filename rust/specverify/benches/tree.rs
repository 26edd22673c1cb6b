//! Per request and step: a 64-node tree, its mask and its compaction plan. The bound is 5 us for all three together.

use std::hint::black_box;

use criterion::{BatchSize, Criterion};
use specverify::cache::{CompactionPlan, Slots, Step};
use specverify::tree::{Beam, Candidates, lattice, product, siblings};
use specverify::{DraftTree, Topology};

const NODES: usize = 64;
const DEPTH: usize = 8;
const K: usize = 8;

/// Candidates as a block drafter gives them: ranked, log-probabilities falling along a row; `transitions` as many rows of that kind.
fn candidates() -> (Vec<u32>, Vec<f32>, Vec<f32>) {
    let tokens = (0..DEPTH * K).map(|i| 1000 + i as u32 * 7).collect();
    let logprob = |i: usize| -0.3 - 0.55 * (i % K) as f32 - 0.01 * (i * 37 % 23) as f32;
    (tokens, (0..DEPTH * K).map(logprob).collect(), (0..(DEPTH - 1) * K * K).map(logprob).collect())
}

/// A plan of one request whose path goes as deep as the tree, in pages of 16.
fn plan(tree: &Topology, pages: &[u32]) -> CompactionPlan {
    let deepest = (0..tree.rows()).max_by_key(|&row| tree.row_depth(row)).unwrap_or(0);
    let path = tree.path(deepest);
    let step = Step { tree, path: &path, base: 1000, slots: Slots::Paged { pages, page_size: 16 } };
    CompactionPlan::new(&[step]).unwrap()
}

fn tree(c: &mut Criterion) {
    let (tokens, logprobs, transitions) = candidates();
    let pages: Vec<u32> = (0..100).map(|i| i * 31 % 997).collect();
    let scored = product(&Candidates::new(&tokens, &logprobs, K).unwrap(), NODES).unwrap();
    let (node_tokens, parents) = (scored.tree.tokens().to_vec(), scored.tree.parents().to_vec());

    let mut group = c.benchmark_group("tree_64");
    group.bench_function("tree+mask+plan", |b| {
        b.iter_batched(
            || (node_tokens.clone(), parents.clone()),
            |(tokens, parents)| {
                let tree = DraftTree::new(tokens, parents).unwrap();
                black_box((tree.ancestor_bits(), plan(&tree, &pages)));
                tree
            },
            BatchSize::SmallInput,
        )
    });
    group.bench_function("product+mask+plan", |b| {
        b.iter(|| {
            let candidates = Candidates::new(black_box(&tokens), &logprobs, K).unwrap();
            let scored = product(&candidates, NODES).unwrap();
            black_box((scored.tree.ancestor_bits(), plan(&scored.tree, &pages)));
        })
    });
    group.bench_function("topology", |b| {
        b.iter_batched(
            || (node_tokens.clone(), parents.clone()),
            |(tokens, parents)| Topology::new(tokens, parents).unwrap(),
            BatchSize::SmallInput,
        )
    });
    group.bench_function("mask", |b| b.iter(|| black_box(&scored.tree).ancestor_bits()));
    group.bench_function("plan", |b| b.iter(|| plan(black_box(&scored.tree), &pages)));
    group.bench_function("product", |b| {
        b.iter(|| product(&Candidates::new(black_box(&tokens), &logprobs, K).unwrap(), NODES).unwrap())
    });
    group.bench_function("lattice", |b| {
        b.iter(|| lattice(&Candidates::new(black_box(&tokens), &logprobs, K).unwrap(), &transitions, NODES).unwrap())
    });
    group.bench_function("siblings", |b| {
        b.iter(|| siblings(&Candidates::new(black_box(&tokens), &logprobs, K).unwrap(), NODES).unwrap())
    });
    group.bench_function("beam", |b| {
        b.iter(|| {
            let mut beam = Beam::new(4).unwrap();
            for row in 0..6 {
                let rows = beam.frontier().len() * K;
                let start = row % 4 * K;
                beam.expand(&tokens[start..start + rows], &logprobs[start..start + rows]).unwrap();
            }
            beam.finish(NODES).unwrap()
        })
    });
    group.bench_function("paths", |b| {
        let paths: Vec<u32> = (0..NODES as u32).map(|i| i * i % 3).collect();
        b.iter(|| DraftTree::from_paths(black_box(&paths), DEPTH).unwrap())
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().sample_size(30).configure_from_args();
    tree(&mut criterion);
    criterion.final_summary();
}
