//! The model-free drafters per token, on text with repeats: this crate's own sources in words.

use std::collections::HashMap;
use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput};
use specverify::draft::{NgramConfig, NgramDrafter, SuffixConfig, SuffixDrafter};

const PROMPT: usize = 4_000;
const STEPS: usize = 1_000;

fn text() -> Vec<u32> {
    let source = concat!(
        include_str!("../src/tree.rs"),
        include_str!("../src/draft/suffix.rs"),
        include_str!("../src/draft/ngram.rs"),
        include_str!("../src/draft/automaton.rs"),
    );
    let mut ids = HashMap::new();
    let mut words = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let end = if word(first) { rest.find(|c| !word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
        let next = ids.len() as u32;
        words.push(*ids.entry(&rest[..end]).or_insert(next));
        rest = &rest[end..];
    }
    words
}

fn suffix(c: &mut Criterion, name: &str, text: &[u32]) {
    let new = || SuffixDrafter::new(SuffixConfig::default()).unwrap();
    let mut group = c.benchmark_group(format!("suffix, {name}"));
    group.throughput(Throughput::Elements(PROMPT as u64));
    group.bench_function(format!("prompt of {PROMPT}"), |b| {
        b.iter_batched(
            new,
            |mut drafter| {
                drafter.start("a", &text[..PROMPT]).unwrap();
                drafter
            },
            BatchSize::LargeInput,
        )
    });
    group.throughput(Throughput::Elements(STEPS as u64));
    group.bench_function(format!("{STEPS} steps: a token, a chain of 8"), |b| {
        b.iter_batched(
            || {
                let mut drafter = new();
                drafter.start("a", &text[..PROMPT]).unwrap();
                drafter
            },
            |mut drafter| {
                for token in &text[PROMPT..PROMPT + STEPS] {
                    drafter.extend("a", std::slice::from_ref(token)).unwrap();
                    black_box(drafter.draft("a", 8).unwrap());
                }
                drafter
            },
            BatchSize::LargeInput,
        )
    });
    let mut drafter = new();
    drafter.start("a", &text[..PROMPT]).unwrap();
    group.throughput(Throughput::Elements(1));
    group.bench_function("a tree of 16", |b| b.iter(|| drafter.draft_tree("a", 16, 8).unwrap()));
    group.finish();
}

fn ngram(c: &mut Criterion, name: &str, text: &[u32]) {
    let mut group = c.benchmark_group(format!("n-gram, {name}"));
    group.throughput(Throughput::Elements(STEPS as u64));
    group.bench_function(format!("{STEPS} steps: a token, a chain of 8"), |b| {
        b.iter_batched(
            || {
                let mut drafter = NgramDrafter::new(NgramConfig::default()).unwrap();
                drafter.start("a", &text[..PROMPT]).unwrap();
                drafter
            },
            |mut drafter| {
                for token in &text[PROMPT..PROMPT + STEPS] {
                    drafter.extend("a", std::slice::from_ref(token)).unwrap();
                    black_box(drafter.draft("a", 8).unwrap());
                }
                drafter
            },
            BatchSize::LargeInput,
        )
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().sample_size(20).configure_from_args();
    let words = text();
    assert!(words.len() >= PROMPT + STEPS, "{} words", words.len());
    // The second text is the worst case of suffix links: one above another for each token of the counted depth.
    for (name, text) in [("source code", &words), ("one token over and over", &vec![1; PROMPT + STEPS])] {
        suffix(&mut criterion, name, text);
        ngram(&mut criterion, name, text);
    }
    criterion.final_summary();
}
