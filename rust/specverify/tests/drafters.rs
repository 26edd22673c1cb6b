//! The model-free drafters against references that search the text token by token.

use proptest::prelude::*;
use specverify::Error;
use specverify::draft::{Draft, NgramConfig, NgramDrafter, Occurrence, SuffixConfig, SuffixDrafter};

/// What followed `context` in the texts, as (token, count, last place), and how many occurrences count as followed.
/// A text that still grows (`open`) is not counted where nothing followed yet.
fn continuations(texts: &[&[u32]], context: &[u32], open: bool) -> (Vec<(u32, usize, usize)>, usize) {
    let (mut found, mut total, mut place): (Vec<(u32, usize, usize)>, _, _) = (Vec::new(), 0, 0);
    for text in texts {
        for end in context.len()..=text.len() {
            if &text[end - context.len()..end] != context || (open && end == text.len()) {
                continue;
            }
            total += 1;
            place += 1;
            if let Some(&token) = text.get(end) {
                match found.iter_mut().find(|f| f.0 == token) {
                    Some(f) => (f.1, f.2) = (f.1 + 1, place),
                    None => found.push((token, 1, place)),
                }
            }
        }
    }
    (found, total)
}

/// The longest suffix of `context`, of at most `limit` tokens, that something followed.
fn longest(texts: &[&[u32]], context: &[u32], limit: usize, open: bool) -> Vec<u32> {
    (1..=context.len().min(limit))
        .rev()
        .map(|len| &context[context.len() - len..])
        .find(|suffix| !continuations(texts, suffix, open).0.is_empty())
        .unwrap_or(&[])
        .to_vec()
}

/// The draft by definition: a chain follows the most frequent continuation, a tree takes the highest scores first.
fn reference(
    texts: &[&[u32]],
    text: &[u32],
    config: &SuffixConfig,
    nodes: usize,
    depth: usize,
    chain: bool,
    open: bool,
) -> Draft {
    let depth = depth.min(nodes).min(config.max_depth / 2).min(config.max_depth - config.min_match);
    let matched = longest(texts, text, config.max_depth - depth, open);
    let mut draft = Draft::default();
    if matched.len() < config.min_match {
        return draft;
    }
    let trusted = matched.len() as f32 * config.max_spec_factor + config.max_spec_offset + 1e-6;
    let depth = depth.min(trusted as usize);
    // (score, parent, token, context, level)
    let mut queue: Vec<(f32, i32, u32, Vec<u32>, usize)> = Vec::new();
    let grow = |queue: &mut Vec<_>, context: &[u32], parent: i32, score: f32, level: usize| {
        let context = longest(texts, context, context.len(), open);
        if context.len() < config.min_match || level > depth {
            return;
        }
        let (mut found, total) = continuations(texts, &context, open);
        if chain {
            let best = found.iter().copied().max_by_key(|f| (f.1, f.2));
            found = best.into_iter().collect();
        }
        for (token, count, _) in found {
            let score = score * (count as f32 / total as f32);
            if score >= config.min_token_prob {
                queue.push((score, parent, token, [&context[..], &[token]].concat(), level));
            }
        }
    };
    grow(&mut queue, &matched, -1, 1.0, 1);
    while draft.tokens.len() < nodes && !queue.is_empty() {
        queue.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        let (score, parent, token, context, level) = queue.remove(0);
        draft.tokens.push(token);
        draft.parents.push(parent);
        draft.scores.push(score);
        grow(&mut queue, &context, draft.tokens.len() as i32 - 1, score, level + 1);
    }
    draft.match_len = if draft.tokens.is_empty() { 0 } else { matched.len() };
    draft
}

/// Few distinct tokens, so that much repeats: random, with loops, and with ids at the end of the range.
fn text(max: usize) -> impl Strategy<Value = Vec<u32>> {
    let random = prop::collection::vec(prop_oneof![5 => 0u32..3, 1 => Just(u32::MAX), 1 => Just(u32::MAX - 1)], 0..max);
    let periodic = (1usize..4, 0..max).prop_map(|(period, len)| (0..len).map(|i| (i % period) as u32).collect());
    prop_oneof![3 => random, 1 => periodic]
}

fn config() -> impl Strategy<Value = SuffixConfig> {
    (
        2usize..20,
        1usize..4,
        prop_oneof![Just(0.5f32), Just(1.0), Just(4.0)],
        0.0f32..3.0,
        prop_oneof![Just(0.0f32), 0.0f32..0.6],
    )
        .prop_map(|(max_depth, min_match, max_spec_factor, max_spec_offset, min_token_prob)| SuffixConfig {
            max_depth,
            min_match: min_match.min(max_depth - 1),
            max_spec_factor,
            max_spec_offset,
            min_token_prob,
            corpus_bytes: 0,
        })
}

fn assert_tree(draft: &Draft) {
    assert!(draft.scores.windows(2).all(|w| w[0] >= w[1]), "best first: {draft:?}");
    let tree = draft.clone().into_tree().expect("topological, no equal siblings");
    assert_eq!(tree.len(), draft.len());
}

proptest! {
    #[test]
    fn suffix_drafts_are_what_followed_the_longest_match(
        text in text(80), config in config(), nodes in 0usize..12, depth in 0usize..8,
    ) {
        let mut drafter = SuffixDrafter::new(config.clone()).unwrap();
        drafter.start("a", &text).unwrap();
        let chain = drafter.draft("a", nodes).unwrap();
        prop_assert_eq!(&chain, &reference(&[&text], &text, &config, nodes, nodes, true, true));
        let tree = drafter.draft_tree("a", nodes, depth).unwrap();
        prop_assert_eq!(&tree, &reference(&[&text], &text, &config, nodes, depth, false, true));
        assert_tree(&chain);
        assert_tree(&tree);
    }

    #[test]
    fn incremental_equals_from_scratch(text in text(120), cuts in prop::collection::vec(0usize..120, 0..6), k in 1usize..9) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(text.len())).chain([0, text.len()]).collect();
        cuts.sort_unstable();
        let mut suffix = SuffixDrafter::new(SuffixConfig { max_depth: 12, ..Default::default() }).unwrap();
        let mut ngram = NgramDrafter::new(NgramConfig::default()).unwrap();
        suffix.start("parts", &text[..cuts[0]]).unwrap();
        ngram.start("parts", &text[..cuts[0]]).unwrap();
        for cut in cuts.windows(2) {
            suffix.extend("parts", &text[cut[0]..cut[1]]).unwrap();
            ngram.extend("parts", &text[cut[0]..cut[1]]).unwrap();
            // Asking in between changes nothing.
            suffix.draft_tree("parts", k, k).unwrap();
        }
        suffix.start("whole", &text).unwrap();
        ngram.start("whole", &text).unwrap();
        prop_assert_eq!(suffix.draft("parts", k).unwrap(), suffix.draft("whole", k).unwrap());
        prop_assert_eq!(suffix.draft_tree("parts", 3 * k, k).unwrap(), suffix.draft_tree("whole", 3 * k, k).unwrap());
        prop_assert_eq!(ngram.draft("parts", k).unwrap(), ngram.draft("whole", k).unwrap());
        prop_assert_eq!(ngram.draft_tree("parts", 3 * k, k).unwrap(), ngram.draft_tree("whole", 3 * k, k).unwrap());
    }

    #[test]
    fn a_corpus_is_drafted_from_when_it_scores_higher(
        outputs in prop::collection::vec(text(40), 0..4), text in text(40), cut in 0usize..40, config in config(), k in 1usize..8,
    ) {
        let config = SuffixConfig { corpus_bytes: 1 << 20, ..config };
        let mut drafter = SuffixDrafter::new(config.clone()).unwrap();
        // The request lives while the corpus grows: its place there must be found again.
        let cut = cut.min(text.len());
        drafter.start("live", &text[..cut]).unwrap();
        for (i, output) in outputs.iter().enumerate() {
            drafter.start("other", &[7, 7, 7]).unwrap();
            drafter.extend("other", output).unwrap();
            if i % 2 == 0 {
                drafter.draft("live", k).unwrap();
            }
            drafter.stop("other").unwrap();
        }
        drafter.extend("live", &text[cut..]).unwrap();
        let outputs: Vec<&[u32]> = outputs.iter().map(|o| &o[..]).collect();
        for chain in [true, false] {
            let own = reference(&[&text], &text, &config, k, k, chain, true);
            let shared = reference(&outputs, &text, &config, k, k, chain, false);
            let expected = if shared.total_score() > own.total_score() { shared } else { own };
            let draft = if chain { drafter.draft("live", k).unwrap() } else { drafter.draft_tree("live", k, k).unwrap() };
            prop_assert_eq!(draft, expected);
        }
    }

    #[test]
    fn ngram_drafts_follow_the_longest_ngram(text in text(80), min_n in 1usize..4, more in 0usize..4, k in 0usize..9) {
        let max_n = min_n + more;
        for occurrence in [Occurrence::Earliest, Occurrence::Latest] {
            let mut drafter = NgramDrafter::new(NgramConfig { min_n, max_n, occurrence }).unwrap();
            drafter.start("a", &text).unwrap();
            let found = (min_n..=max_n.min(text.len())).rev().find_map(|n| {
                let ngram = &text[text.len() - n..];
                let mut ends = (n..text.len()).filter(|&e| &text[e - n..e] == ngram);
                let end = if occurrence == Occurrence::Earliest { ends.next() } else { ends.next_back() };
                end.map(|end| (n, end))
            });
            let draft = drafter.draft("a", k).unwrap();
            let expected = found.map_or(&[][..], |(_, end)| &text[end..text.len().min(end + k)]);
            prop_assert_eq!(&draft.tokens[..], expected);
            prop_assert_eq!(draft.match_len, if expected.is_empty() { 0 } else { found.unwrap().0 });
            assert_tree(&draft);
        }
    }

    #[test]
    fn ngram_tree_scores_are_shares_of_occurrences(text in text(60), k in 1usize..12, depth in 1usize..5) {
        let mut drafter = NgramDrafter::new(NgramConfig { min_n: 1, max_n: 3, ..Default::default() }).unwrap();
        drafter.start("a", &text).unwrap();
        let tree = drafter.draft_tree("a", k, depth).unwrap();
        assert_tree(&tree);
        let context = &text[text.len() - tree.match_len..];
        let (_, total) = continuations(&[&text], context, true);
        let topology = tree.clone().into_tree().unwrap();
        for row in 1..=tree.len() {
            let path: Vec<u32> = topology.path(row).iter().map(|&i| tree.tokens[i as usize]).collect();
            prop_assert!(path.len() <= depth);
            // How often the path followed, its last token included: occurrences of context + path.
            let whole = [context, &path].concat();
            let count = text.windows(whole.len()).filter(|w| *w == whole).count();
            prop_assert_eq!(tree.scores[row - 1], count as f32 / total as f32);
        }
    }
}

fn drafter() -> SuffixDrafter {
    SuffixDrafter::new(SuffixConfig::default()).unwrap()
}

#[test]
fn a_loop_is_drafted_beyond_the_end_of_the_text() {
    let mut drafter = drafter();
    drafter.start("a", &[5, 6, 5, 6, 5]).unwrap();
    // The match 5 6 5 leaves two tokens of text; the draft goes on from the shorter match.
    assert_eq!(drafter.draft("a", 3).unwrap().tokens, [6, 5, 6]);
}

#[test]
fn a_tree_holds_the_alternatives_with_their_frequencies() {
    let mut drafter = drafter();
    drafter.start("a", &[1, 2, 7, 9, 1, 2, 8, 9, 1, 2, 7, 4, 1, 2]).unwrap();
    let draft = drafter.draft_tree("a", 8, 2).unwrap();
    assert_eq!((draft.match_len, &draft.tokens[..2], &draft.parents[..2]), (2, &[7, 8][..], &[-1, -1][..]));
    assert_eq!(draft.scores[..2], [2.0 / 3.0, 1.0 / 3.0]);
    // After 7 stood 9 and 4, once each; after 8 only 9.
    assert_eq!(draft.tokens[2..], [4, 9, 9]);
    assert_eq!(draft.parents[2..], [0, 0, 1]);
}

#[test]
fn ids_are_reused_safely_and_misuse_is_named() {
    let mut suffix = drafter();
    let mut ngram = NgramDrafter::new(NgramConfig::default()).unwrap();
    let in_argument = |error: Error, name: &str| matches!(&error, Error::Argument { argument, .. } if argument == name);
    suffix.start("a", &[1, 2, 3, 1, 2]).unwrap();
    ngram.start("a", &[1, 2, 3, 1, 2]).unwrap();
    assert_eq!(suffix.draft("a", 1).unwrap().tokens, [3]);
    assert_eq!(ngram.draft("a", 1).unwrap().tokens, [3]);
    assert!(in_argument(suffix.start("a", &[]).unwrap_err(), "request_id"));
    assert!(in_argument(ngram.start("a", &[]).unwrap_err(), "request_id"));
    // The failed start left the live request as it was.
    assert_eq!(suffix.draft("a", 1).unwrap().tokens, [3]);
    suffix.abort("a").unwrap();
    ngram.stop("a").unwrap();
    for error in [
        suffix.draft("a", 1).unwrap_err(),
        suffix.draft_tree("a", 1, 1).unwrap_err(),
        suffix.extend("a", &[1]).unwrap_err(),
        suffix.stop("a").unwrap_err(),
        suffix.abort("a").unwrap_err(),
        ngram.draft("a", 1).unwrap_err(),
        ngram.extend("a", &[1]).unwrap_err(),
        ngram.stop("a").unwrap_err(),
    ] {
        assert!(error.to_string().contains("request_id is \"a\""), "{error}");
    }
    // Nothing of the former request is left under its id.
    suffix.start("a", &[1, 2]).unwrap();
    ngram.start("a", &[1, 2]).unwrap();
    assert!(suffix.draft("a", 4).unwrap().is_empty());
    assert!(ngram.draft("a", 4).unwrap().is_empty());
    assert_eq!((suffix.active(), ngram.active()), (1, 1));
}

#[test]
fn by_default_nothing_passes_from_one_request_to_another() {
    let mut drafter = drafter();
    drafter.start("secret", &[]).unwrap();
    drafter.extend("secret", &[1, 2, 3, 4, 5]).unwrap();
    drafter.stop("secret").unwrap();
    drafter.start("other", &[1, 2, 3]).unwrap();
    assert!(drafter.draft("other", 4).unwrap().is_empty());
    assert_eq!(drafter.corpus_bytes(), 0);
}

#[test]
fn the_corpus_takes_outputs_of_finished_requests_only() {
    let mut drafter = SuffixDrafter::new(SuffixConfig { corpus_bytes: 1 << 20, ..Default::default() }).unwrap();
    drafter.start("aborted", &[]).unwrap();
    drafter.extend("aborted", &[1, 2, 3]).unwrap();
    drafter.abort("aborted").unwrap();
    drafter.start("finished", &[4, 5, 6]).unwrap();
    drafter.extend("finished", &[7, 8, 9]).unwrap();
    drafter.stop("finished").unwrap();
    for (prompt, expected) in [([1, 2], vec![]), ([4, 5], vec![]), ([7, 8], vec![9])] {
        drafter.start("a", &prompt).unwrap();
        assert_eq!(drafter.draft("a", 2).unwrap().tokens, expected, "{prompt:?}");
        drafter.abort("a").unwrap();
    }
}

#[test]
fn the_corpus_stays_within_its_bytes_and_forgets_the_oldest_first() {
    let bytes = 1 << 17;
    let mut drafter = SuffixDrafter::new(SuffixConfig { corpus_bytes: bytes, ..Default::default() }).unwrap();
    let output = |i: u32| [100 * i, 100 * i + 1, 100 * i + 2, 100 * i + 3];
    let known = |drafter: &mut SuffixDrafter, i: u32| {
        drafter.start("probe", &output(i)[..2]).unwrap();
        let draft = drafter.draft("probe", 2).unwrap();
        drafter.abort("probe").unwrap();
        draft.tokens == output(i)[2..]
    };
    let mut forgotten = 0;
    for i in 1..=3000 {
        drafter.start("a", &[]).unwrap();
        drafter.extend("a", &output(i)).unwrap();
        drafter.stop("a").unwrap();
        assert!(drafter.corpus_bytes() <= bytes);
        assert!(known(&mut drafter, i), "the newest output {i} is kept");
        if i % 100 == 0 {
            let oldest = (1..=i).find(|&j| known(&mut drafter, j)).unwrap();
            assert!(oldest >= forgotten, "{forgotten} was forgotten and came back");
            assert!((oldest..=i).all(|j| known(&mut drafter, j)), "only the oldest are forgotten");
            forgotten = oldest;
        }
    }
    assert!(forgotten > 1000, "something was evicted");
}

#[test]
fn an_output_longer_than_the_corpus_keeps_its_end() {
    let bytes = 1 << 16;
    let mut drafter = SuffixDrafter::new(SuffixConfig { corpus_bytes: bytes, ..Default::default() }).unwrap();
    let long: Vec<u32> = (0..20_000).collect();
    drafter.start("a", &[]).unwrap();
    drafter.extend("a", &long).unwrap();
    drafter.stop("a").unwrap();
    assert!(drafter.corpus_bytes() <= bytes);
    for (prompt, expected) in [([5, 6], vec![]), ([19_990, 19_991], vec![19_992, 19_993])] {
        drafter.start("b", &prompt).unwrap();
        assert_eq!(drafter.draft("b", 2).unwrap().tokens, expected);
        drafter.abort("b").unwrap();
    }
}

#[test]
fn a_million_tokens_take_linear_memory() {
    let n = 1_000_000;
    let few = n / 8;
    let random = |seed: u64, vocab: u64| {
        let mut x = seed;
        (0..few).map(move |_| {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((x >> 33) % vocab) as u32
        })
    };
    let texts: [(&str, Vec<u32>); 5] = [
        ("equal", vec![9; few]),
        ("period 2", (0..few).map(|i| (i % 2) as u32).collect()),
        ("words", (0..n).map(|i| (i.isqrt() * 7 % 5000) as u32).collect()),
        ("random, 150,000 ids", random(1, 150_000).collect()),
        ("random, 2 ids", random(2, 2).collect()),
    ];
    for (name, text) in &texts {
        let n = text.len();
        let mut suffix = drafter();
        suffix.start("a", text).unwrap();
        // 24 bytes a state, 28 an edge beyond a state's first, and up to twice that while a vector doubles.
        let bytes = suffix.request_bytes("a").unwrap();
        assert!(bytes < 150 * n, "{name}: {} bytes a token", bytes / n);
        suffix.draft_tree("a", 64, 16).unwrap();
        suffix.stop("a").unwrap();
        assert_eq!(suffix.active(), 0);

        let mut ngram = NgramDrafter::new(NgramConfig::default()).unwrap();
        ngram.start("a", text).unwrap();
        let bytes = ngram.request_bytes("a").unwrap();
        assert!(bytes < 120 * n, "{name}: {} bytes a token", bytes / n);
        ngram.draft_tree("a", 64, 16).unwrap();
    }
}

#[test]
fn configurations_out_of_range_are_refused_by_name() {
    let suffix = |change: fn(&mut SuffixConfig)| {
        let mut config = SuffixConfig::default();
        change(&mut config);
        SuffixDrafter::new(config).unwrap_err().to_string()
    };
    assert!(suffix(|c| c.max_depth = 1).starts_with("max_depth is 1;"));
    assert!(suffix(|c| c.min_match = 0).starts_with("min_match is 0;"));
    assert!(suffix(|c| c.min_match = 64).starts_with("min_match is 64;"));
    assert!(suffix(|c| c.max_spec_factor = f32::NAN).starts_with("max_spec_factor is NaN;"));
    assert!(suffix(|c| c.max_spec_factor = -1.0).starts_with("max_spec_factor is -1;"));
    assert!(suffix(|c| c.max_spec_offset = f32::INFINITY).starts_with("max_spec_offset is inf;"));
    assert!(suffix(|c| c.min_token_prob = 1.5).starts_with("min_token_prob is 1.5;"));
    assert!(suffix(|c| c.corpus_bytes = 100).starts_with("corpus_bytes is 100;"));
    let ngram =
        |min_n, max_n| NgramDrafter::new(NgramConfig { min_n, max_n, ..Default::default() }).unwrap_err().to_string();
    assert!(ngram(0, 3).starts_with("min_n is 0;"));
    assert!(ngram(4, 3).starts_with("min_n is 4;"));
    assert!(ngram(1, 100).starts_with("max_n is 100;"));
}
