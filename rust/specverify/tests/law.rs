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
