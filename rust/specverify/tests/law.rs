//! The exact law of every rule, by enumeration: what a rule emits, extended by the target, is the target's text.

mod tables;

use specverify::oracle::{Drafts, Law, Table, law, path_draws, total_variation};
use specverify::verify::{AnyTree, Rule};
use specverify::{DraftTree, Error};
use tables::{Random, chain, depth, depths, most_siblings, ordered_trees, small_trees};

const EXACT: f64 = 1e-12;

fn off(law: &Law, target: &Table, length: usize) -> f64 {
    total_variation(&law.texts, &target.texts(length).unwrap())
}

/// Law of `rule` on a tree of drawn siblings, over texts one token longer than the tree is deep.
fn drawn(rule: Rule, parents: &[i32], without_replacement: bool, p: &Table, q: &Table) -> Law {
    law(rule, &Drafts::Drawn { parents, without_replacement }, p, q, depth(parents) + 1).unwrap()
}

fn assert_exact(rule: Rule, parents: &[i32], without_replacement: bool, p: &Table, q: &Table) -> Law {
    let law = drawn(rule, parents, without_replacement, p, q);
    let tv = off(&law, p, depth(parents) + 1);
    assert!(tv <= EXACT, "{} on {parents:?}, without replacement {without_replacement}: TV {tv}", rule.name());
    law
}

#[test]
fn there_are_196_ordered_trees_of_at_most_six_nodes() {
    assert_eq!((1..=6).map(|n| ordered_trees(n).len()).collect::<Vec<_>>(), [1, 2, 5, 14, 42, 132]);
}

#[test]
fn chain_rules_are_exact_and_block_accepts_at_least_token() {
    for vocab in [3, 4] {
        for nodes in 1..=6 {
            let mut random = Random(100 * vocab as u64 + nodes as u64);
            let (p, q) = (random.table(vocab, nodes + 1, 1.5), random.table(vocab, nodes, 1.0));
            let token = assert_exact(Rule::Token, &chain(nodes), false, &p, &q);
            let block = assert_exact(Rule::Block, &chain(nodes), false, &p, &q);
            assert!(block.mean_emitted >= token.mean_emitted - EXACT);
            assert!(nodes == 1 || block.mean_emitted > token.mean_emitted + 1e-3, "{nodes}: no gain");
        }
    }
}

fn tree_rule_is_exact(rule: Rule, vocab: usize, without_replacement: bool) {
    let mut drawable = 0;
    for (i, parents) in small_trees().iter().enumerate() {
        // V draws without replacement exhaust the vocabulary.
        if without_replacement && most_siblings(parents) > vocab {
            continue;
        }
        drawable += 1;
        let mut random = Random(1000 * vocab as u64 + i as u64);
        let (p, q) = (random.table(vocab, depth(parents) + 1, 1.5), random.table(vocab, depth(parents), 1.0));
        assert_exact(rule, parents, without_replacement, &p, &q);
    }
    assert!(drawable >= if without_replacement { 161 } else { 196 }, "{drawable} trees");
}

#[test]
fn recursive_is_exact_with_replacement() {
    tree_rule_is_exact(Rule::Recursive, 3, false);
    tree_rule_is_exact(Rule::Recursive, 4, false);
}

#[test]
fn recursive_is_exact_without_replacement() {
    tree_rule_is_exact(Rule::Recursive, 3, true);
    tree_rule_is_exact(Rule::Recursive, 4, true);
}

#[test]
fn traversal_is_exact_with_replacement() {
    tree_rule_is_exact(Rule::Traversal, 3, false);
    tree_rule_is_exact(Rule::Traversal, 4, false);
}

#[test]
fn traversal_is_exact_without_replacement() {
    tree_rule_is_exact(Rule::Traversal, 3, true);
    tree_rule_is_exact(Rule::Traversal, 4, true);
}

#[test]
fn multipath_is_exact() {
    for vocab in [3, 4] {
        for paths in 1..=6 {
            for depth in 1..=6 / paths {
                let mut random = Random(10 * paths as u64 + depth as u64);
                let (p, q) = (random.table(vocab, depth + 1, 1.5), random.table(vocab, depth, 1.0));
                let draws = path_draws(&q, paths, depth).unwrap();
                // Unmerged, the paths are a tree of independent siblings, of which all are enumerated above.
                let unmerged = paths * depth <= 4;
                let rules = [Rule::Multipath, Rule::Traversal, Rule::Recursive];
                for &rule in if unmerged { &rules[..] } else { &rules[..1] } {
                    let law = law(rule, &Drafts::Given(&draws), &p, &q, depth + 1).unwrap();
                    let tv = off(&law, &p, depth + 1);
                    assert!(tv <= EXACT, "{} on {paths} paths of {depth}, V={vocab}: TV {tv}", rule.name());
                }
            }
        }
    }
}

/// Fixed tokens, for the rules that take any draws.
fn fixed(tokens: &[u32], parents: &[i32]) -> AnyTree {
    DraftTree::new(tokens.to_vec(), parents.to_vec()).unwrap().into()
}

/// A tree with siblings 0, 1, 2, ... under every row.
fn numbered(parents: &[i32]) -> Vec<u32> {
    (0..parents.len()).map(|i| parents[..i].iter().filter(|&&p| p == parents[i]).count() as u32).collect()
}

#[test]
fn target_only_is_exact_on_any_tree() {
    for vocab in [3, 4] {
        for (i, parents) in small_trees().iter().enumerate() {
            if most_siblings(parents) > vocab {
                continue;
            }
            let p = Random(i as u64).table(vocab, depth(parents) + 1, 1.5);
            let trees = [(1.0, fixed(&numbered(parents), parents))];
            let law = law(Rule::TargetOnly, &Drafts::Given(&trees), &p, &p, depth(parents) + 1).unwrap();
            let tv = off(&law, &p, depth(parents) + 1);
            assert!(tv <= EXACT, "{parents:?}: TV {tv}");
        }
    }
}

#[test]
fn greedy_emits_the_argmax_of_each_row() {
    for (i, parents) in small_trees().iter().enumerate().filter(|(_, parents)| most_siblings(parents) <= 4) {
        let p = Random(i as u64).table(4, depth(parents) + 1, 1.0);
        let trees = [(1.0, fixed(&numbered(parents), parents))];
        // One token: nothing of it is the target's extension.
        let law = law(Rule::Greedy, &Drafts::Given(&trees), &p, &p, depth(parents) + 1).unwrap();
        let first: Vec<f64> = law.texts.chunks(law.texts.len() / 4).map(|texts| texts.iter().sum()).collect();
        let best = (0..4).max_by(|&a, &b| p.row(&[])[a].total_cmp(&p.row(&[])[b])).unwrap();
        assert!((first[best] - 1.0).abs() < EXACT, "{first:?}");
    }
}

#[test]
fn lossy_typical_is_lossy_and_follows_its_formula() {
    // H = 0.898, delta e^-H = 0.122: 0 and 1 stand, 2 does not; the first of equals is taken.
    let p = table(&[0.6, 0.3, 0.1]);
    let typical = Rule::LossyTypical { epsilon: 0.2, delta: 0.3 };
    let trees = [(1.0, fixed(&[2, 1, 0], &[-1, -1, -1]))];
    let one = law(typical, &Drafts::Given(&trees), &p, &p, 2).unwrap();
    assert!((one.mean_emitted - 2.0).abs() < EXACT);
    assert!((one.texts[3..6].iter().sum::<f64>() - 1.0).abs() < EXACT, "{:?}", one.texts);
    assert!((off(&one, &p, 2) - 0.7).abs() < EXACT);
    // With a threshold above all, nothing stands and the target's token is left: exact.
    let strict = Rule::LossyTypical { epsilon: 1.0, delta: 9.0 };
    let none = law(strict, &Drafts::Given(&trees), &p, &p, 2).unwrap();
    assert!((none.mean_emitted - 1.0).abs() < EXACT && off(&none, &p, 2) <= EXACT);
}

/// Rules that never read q meet drafts that were drawn from it all the same.
#[test]
fn drafts_are_drawn_for_the_rules_that_never_read_q() {
    let (p, q) = (table(&[0.5, 0.3, 0.2]), table(&[0.1, 0.2, 0.7]));
    let mean = |rule, parents: &[i32], distinct| {
        let law = law(rule, &Drafts::Drawn { parents, without_replacement: distinct }, &p, &q, depth(parents) + 1);
        law.unwrap().mean_emitted
    };
    let (p, q) = (p.row(&[]), q.row(&[]));
    let hit: f64 = p.iter().zip(q).map(|(p, q)| p * q).sum();
    assert!((mean(Rule::TargetOnly, &[-1], false) - 1.0 - hit).abs() < EXACT);
    assert!((mean(Rule::Greedy, &[-1], false) - 1.1).abs() < EXACT);
    // Two siblings, the second below the first or beside it.
    let pair = |draws: Draws| draws.iter().map(|(w, pair)| w * pair.iter().map(|&x| p[x as usize]).sum::<f64>()).sum();
    let distinct: f64 = pair(distinct_pairs(q));
    assert!((mean(Rule::TargetOnly, &[-1, -1], true) - 1.0 - distinct).abs() < EXACT);
    let either: f64 = p.iter().zip(q).map(|(p, q)| p * (1.0 - (1.0 - q) * (1.0 - q))).sum();
    assert!((mean(Rule::TargetOnly, &[-1, -1], false) - 1.0 - either).abs() < EXACT);
}

/// As above, of texts: what follows a draft depends on which was drawn, so the models do not forget.
#[test]
fn the_law_of_drawn_drafts_is_the_mean_over_the_given_ones() {
    let mut random = Random(7);
    let (p, q) = (random.table(3, 3, 1.0), random.table(3, 2, 1.0));
    let typical = Rule::LossyTypical { epsilon: 0.3, delta: 0.9 };
    let mut given: Vec<(f64, AnyTree)> = Vec::new();
    for (a, &qa) in q.row(&[]).iter().enumerate() {
        for (b, &qb) in q.row(&[]).iter().enumerate() {
            for (c, &qc) in q.row(&[a as u32]).iter().enumerate() {
                let tokens = vec![a as u32, b as u32, c as u32];
                given.push((qa * qb * qc, DraftTree::independent(tokens, vec![-1, -1, 0]).unwrap().into()));
            }
        }
    }
    for rule in [Rule::Greedy, Rule::TargetOnly, typical] {
        let of_drawn = drawn(rule, &[-1, -1, 0], false, &p, &q);
        let of_given = law(rule, &Drafts::Given(&given), &p, &q, 3).unwrap();
        assert!(total_variation(&of_drawn.texts, &of_given.texts) <= EXACT, "{}", rule.name());
        assert!((of_drawn.mean_emitted - of_given.mean_emitted).abs() < EXACT, "{}", rule.name());
        assert!(of_drawn.mean_emitted > 1.05, "{}: {}", rule.name(), of_drawn.mean_emitted);
    }
    // Weights that are no probabilities give no law.
    for weights in [vec![], vec![0.5], vec![-1.0, 2.0], vec![f64::NAN], vec![f64::INFINITY]] {
        let trees: Vec<_> = weights.iter().map(|&w| (w, fixed(&[0], &[-1]))).collect();
        let error = law(Rule::Greedy, &Drafts::Given(&trees), &p, &q, 2).unwrap_err().to_string();
        assert!(error.starts_with("trees is ["), "{error}");
    }
    // Siblings that the drafter can't draw are an error, not a guess.
    let too_many = Drafts::Drawn { parents: &[-1, -1, -1, -1], without_replacement: true };
    assert!(law(Rule::TargetOnly, &too_many, &p, &q, 3).unwrap_err().to_string().starts_with("drafter row 0"));
}

/// A model whose next token does not depend on the text.
fn table(row: &[f64]) -> Table {
    Table::new(row.len(), 2, row.repeat(1 + row.len())).unwrap()
}

type Draws = Vec<(f64, Vec<u32>)>;

fn independent_pairs(q: &[f64]) -> Draws {
    let ids = 0..q.len();
    ids.clone().flat_map(|a| ids.clone().map(move |b| (q[a] * q[b], vec![a as u32, b as u32]))).collect()
}

fn distinct_pairs(q: &[f64]) -> Draws {
    let pairs = independent_pairs(q).into_iter().filter(|(_, pair)| pair[0] != pair[1]);
    pairs.map(|(p, pair)| (p / (1.0 - q[pair[0] as usize]), pair)).collect()
}

fn by_probability(q: &[f64], tokens: &mut [u32]) {
    tokens.sort_by(|&a, &b| q[b as usize].total_cmp(&q[a as usize]).then(a.cmp(&b)));
}

fn sorted(mut draws: Draws, q: &[f64]) -> Draws {
    draws.iter_mut().for_each(|(_, tokens)| by_probability(q, tokens));
    draws
}

fn merged(mut draws: Draws) -> Draws {
    draws.iter_mut().for_each(|(_, tokens)| tokens.dedup());
    draws
}

fn top(k: usize, q: &[f64]) -> Draws {
    let mut tokens: Vec<u32> = (0..q.len() as u32).collect();
    by_probability(q, &mut tokens);
    tokens.truncate(k);
    vec![(1.0, tokens)]
}

/// What a lie about the draws costs: the total variation of the emitted text when `draws` are labelled as `label`.
fn cost(rule: Rule, label: fn(&[u32]) -> AnyTree, draws: &Draws, p: &[f64], q: &[f64]) -> f64 {
    let trees: Vec<_> = draws.iter().map(|(w, tokens)| (*w, label(tokens))).collect();
    let (p, q) = (table(p), table(q));
    off(&law(rule, &Drafts::Given(&trees), &p, &q, 2).unwrap(), &p, 2)
}

fn independent(tokens: &[u32]) -> AnyTree {
    DraftTree::independent(tokens.to_vec(), vec![-1; tokens.len()]).unwrap().into()
}

fn without_replacement(tokens: &[u32]) -> AnyTree {
    DraftTree::without_replacement(tokens.to_vec(), vec![-1; tokens.len()]).unwrap().into()
}

fn paths(tokens: &[u32]) -> AnyTree {
    DraftTree::from_paths(tokens, 1).unwrap().into()
}

/// Each way to lie about the draws, on a committed (p, q) where it shows, and the truth beside it.
#[test]
fn wrong_pairings_are_off_where_the_right_ones_are_exact() {
    use Rule::{Block, Multipath, Recursive, Token, Traversal};
    let (p, q) = ([0.05, 0.75, 0.20], [0.85, 0.05, 0.10]);
    for rule in [Recursive, Traversal] {
        assert!(cost(rule, independent, &distinct_pairs(&q), &p, &q) >= 0.43);
        assert!(cost(rule, without_replacement, &distinct_pairs(&q), &p, &q) <= EXACT);
    }
    assert!(cost(Multipath, paths, &distinct_pairs(&[0.9, 0.05, 0.05]), &[0.8, 0.1, 0.1], &[0.9, 0.05, 0.05]) >= 0.79);
    assert!(cost(Multipath, paths, &independent_pairs(&q), &p, &q) <= EXACT);

    // K paths merged into a trie, verified as the siblings that they no longer are.
    let (p, q) = ([0.05, 0.45, 0.50], [0.65, 0.05, 0.30]);
    for rule in [Recursive, Traversal] {
        assert!(cost(rule, independent, &merged(independent_pairs(&q)), &p, &q) >= 0.1);
        assert!(cost(rule, independent, &independent_pairs(&q), &p, &q) <= EXACT);
    }

    // Sampled siblings sorted by q instead of standing in draw order.
    let (p, q) = ([0.40, 0.50, 0.10], [0.15, 0.50, 0.35]);
    let (p_distinct, q_distinct) = ([0.05, 0.45, 0.50], [0.45, 0.05, 0.50]);
    for rule in [Recursive, Traversal] {
        assert!(cost(rule, independent, &sorted(independent_pairs(&q), &q), &p, &q) >= 0.24);
        let draws = sorted(distinct_pairs(&q_distinct), &q_distinct);
        assert!(cost(rule, without_replacement, &draws, &p_distinct, &q_distinct) >= 0.43);
    }

    // The drafter's best token verified as if it had been drawn.
    let (p, q) = ([0.05, 0.35, 0.60], [0.30, 0.35, 0.35]);
    for rule in [Token, Block] {
        assert!(cost(rule, independent, &top(1, &q), &p, &q) >= 0.64);
    }
}

/// Case 9 of public faults: top-k tree children verified with the ratio rule as if sampled.
#[test]
fn top_k_children_verified_as_if_sampled() {
    let (p, q) = ([0.05, 0.35, 0.60], [0.30, 0.35, 0.35]);
    for rule in [Rule::Recursive, Rule::Traversal] {
        assert!(cost(rule, without_replacement, &top(2, &q), &p, &q) >= 0.24);
        assert!(cost(rule, independent, &top(2, &q), &p, &q) >= 0.24);
    }
    assert!(cost(Rule::Multipath, paths, &top(2, &q), &p, &q) >= 0.24);
    for rule in [Rule::Token, Rule::Block, Rule::Recursive, Rule::Traversal, Rule::Multipath] {
        let refused = rule.check(&fixed(&[1, 2], &[-1, -1])).unwrap_err();
        assert!(matches!(&refused, Error::Pairing { draws, .. } if draws.contains("deterministic")), "{refused}");
    }
}

#[test]
fn every_pairing_is_allowed_or_refused_as_the_table_says() {
    let chain = [independent(&[0]), DraftTree::independent(vec![0, 1], vec![-1, 0]).unwrap().into()];
    let wide = independent(&[0, 0]);
    let trees = [&chain[0], &chain[1], &wide, &without_replacement(&[0, 1]), &paths(&[0, 0]), &fixed(&[0], &[-1])];
    for (name, allowed) in [
        ("greedy", [true; 6]),
        ("target_only", [true; 6]),
        ("lossy_typical", [true; 6]),
        ("token", [true, true, false, false, false, false]),
        ("block", [true, true, false, false, false, false]),
        ("recursive", [true, true, true, true, true, false]),
        ("traversal", [true, true, true, true, true, false]),
        ("multipath", [false, false, false, false, true, false]),
    ] {
        let rule: Rule = name.parse().unwrap();
        assert_eq!(rule.name(), name);
        for (tree, allowed) in trees.iter().zip(allowed) {
            assert_eq!(rule.check(tree).is_ok(), allowed, "{name} on {tree:?}");
        }
    }
    assert!("Block".parse::<Rule>().unwrap_err().to_string().contains("target_only"));
}

/// Tokens that one step of each rule emits on average, on a random model.
fn means(rules: [Rule; 2], parents: &[i32], without_replacement: bool, seed: u64) -> [f64; 2] {
    let mut random = Random(seed);
    let (p, q) = (random.table(3, depth(parents) + 1, 1.0), random.table(3, depth(parents), 1.0));
    rules.map(|rule| drawn(rule, parents, without_replacement, &p, &q).mean_emitted)
}

#[test]
fn traversal_accepts_at_least_recursive_where_leaves_are_of_one_depth() {
    let mut gains = 0;
    let level: Vec<_> = (1..=5).flat_map(ordered_trees).filter(|parents| leaves_are_level(parents)).collect();
    for (i, parents) in level.iter().enumerate() {
        for without_replacement in [false, true] {
            if without_replacement && most_siblings(parents) > 3 {
                continue;
            }
            let [traversal, recursive] =
                means([Rule::Traversal, Rule::Recursive], parents, without_replacement, i as u64);
            assert!(traversal >= recursive - EXACT, "{parents:?}: {traversal} < {recursive}");
            gains += usize::from(traversal > recursive + 1e-3);
        }
    }
    assert!(gains > 10, "{gains} gains");
}

fn leaves_are_level(parents: &[i32]) -> bool {
    let depths = depths(parents);
    let leaf = |i: &usize| !parents.contains(&(*i as i32));
    (0..parents.len()).filter(leaf).all(|i| depths[i] == depth(parents))
}

/// Not so elsewhere.
#[test]
fn traversal_accepts_less_than_recursive_on_a_tree_with_leaves_of_unequal_depth() {
    let parents = [-1, 0, 0, 2, 3, 4];
    let worst = (0..40)
        .map(|seed| means([Rule::Traversal, Rule::Recursive], &parents, false, seed))
        .map(|[traversal, recursive]| traversal - recursive)
        .fold(f64::INFINITY, f64::min);
    assert!(worst < -1e-3, "{worst}");
}

#[test]
fn multipath_of_one_path_is_block() {
    for depth in 1..=5 {
        let mut random = Random(depth as u64);
        let (p, q) = (random.table(3, depth + 1, 1.0), random.table(3, depth, 1.0));
        let one = law(Rule::Multipath, &Drafts::Given(&path_draws(&q, 1, depth).unwrap()), &p, &q, depth + 1).unwrap();
        let block = drawn(Rule::Block, &chain(depth), false, &p, &q);
        assert!((one.mean_emitted - block.mean_emitted).abs() < EXACT);
    }
}

/// A second path helps where the drafter is poor, and costs where it is good.
#[test]
fn multipath_of_two_paths_goes_both_ways() {
    let gain = |p: &[f64], q: &[f64]| {
        let (p, q) = (table(p), table(q));
        let two = law(Rule::Multipath, &Drafts::Given(&path_draws(&q, 2, 1).unwrap()), &p, &q, 2).unwrap();
        two.mean_emitted - drawn(Rule::Block, &[-1], false, &p, &q).mean_emitted
    };
    assert!(gain(&[0.2, 0.3, 0.5], &[0.5, 0.3, 0.2]) > 0.02);
    assert!(gain(&[0.33, 0.33, 0.34], &[0.34, 0.33, 0.33]) < -0.02);
}

/// Case 10 of public faults: "block" verification that runs the token rule with another residual (vllm-ascend #7807).
#[test]
fn block_is_not_the_token_rule_with_another_residual() {
    let mut random = Random(10);
    let (p, q) = (random.table(3, 4, 1.0), random.table(3, 3, 1.0));
    let block = assert_exact(Rule::Block, &chain(3), false, &p, &q);
    let token = assert_exact(Rule::Token, &chain(3), false, &p, &q);
    assert!(block.mean_emitted > token.mean_emitted + 0.01);
}

/// Case 8: a drafter with real q verified as if q were one-hot (vllm #40149) accepts p(x) instead of min(1, p(x) / q(x)).
#[test]
fn acceptance_with_real_q_is_the_sum_of_minima() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let (p, q) = (random.table(4, 2, 1.0), random.table(4, 1, 1.0));
        let expected: f64 = p.row(&[]).iter().zip(q.row(&[])).map(|(p, q)| p.min(*q)).sum();
        for rule in [Rule::Token, Rule::Block, Rule::Recursive, Rule::Traversal] {
            let law = drawn(rule, &[-1], false, &p, &q);
            assert!((law.mean_emitted - 1.0 - expected).abs() < EXACT);
        }
    }
}

fn softmax(logits: &[f64], temperature: f64) -> Vec<f64> {
    let weights: Vec<f64> = logits.iter().map(|x| (x / temperature).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|w| w / total).collect()
}

/// One token drawn from `from`, verified as if it had been drawn from `recorded`.
fn cost_of_recording(p: &[f64], from: &[f64], recorded: &[f64]) -> f64 {
    let draws = from.iter().enumerate().filter(|(_, q)| **q > 0.0).map(|(i, q)| (*q, vec![i as u32])).collect();
    cost(Rule::Token, independent, &draws, p, recorded)
}

/// Case 6: q recorded before top-k while the draft was sampled after it (transformers #47932). V=4, top_k=2.
#[test]
fn q_is_what_was_drawn_from_after_top_k() {
    let p = [0.4, 0.3, 0.2, 0.1];
    let before = [0.1, 0.2, 0.3, 0.4];
    let after = [0.0, 0.0, 3.0 / 7.0, 4.0 / 7.0];
    assert!(cost_of_recording(&p, &after, &after) <= EXACT);
    assert!(cost_of_recording(&p, &after, &before) > 0.05);
}

/// Case 7: the draft ignores the temperature, its verification does not (z-lab/dflash #74).
#[test]
fn q_is_what_was_drawn_from_at_the_drafts_temperature() {
    let logits = [2.0, 1.5, 1.0, 0.5];
    let (p, greedy) = (softmax(&logits, 1.0), softmax(&logits, 0.05));
    assert!(cost_of_recording(&p, &greedy, &greedy) <= EXACT);
    assert!(cost_of_recording(&p, &greedy, &p) > 0.3);
}

/// A target of probability 0 is never accepted, and a token that q can't have drawn is an error that names it (case 2).
#[test]
fn probability_zero_on_either_side() {
    let (p, q) = (table(&[0.0, 1.0]), table(&[1.0, 0.0]));
    for rule in [Rule::Token, Rule::Block, Rule::Recursive, Rule::Traversal] {
        let law = drawn(rule, &[-1], false, &p, &q);
        assert!((law.mean_emitted - 1.0).abs() < EXACT && off(&law, &p, 2) <= EXACT);
        let impossible = [(1.0, independent(&[1]))];
        let error = specverify::oracle::law(rule, &Drafts::Given(&impossible), &p, &q, 2).unwrap_err();
        assert!(error.to_string().starts_with("draft_probs[0][1] is 0"), "{error}");
    }
}
