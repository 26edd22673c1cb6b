//! Topology and builders against the plainest definition of each.

use std::collections::HashSet;

use proptest::prelude::*;
use specverify::tree::{Beam, Candidates, ROOT, Scored, Shape, lattice, product, siblings};
use specverify::{Deterministic, DraftTree, Error, Independent, Paths, Topology, WithoutReplacement};

/// The message of an error of which a test pins argument, value and expectation.
fn message<T: std::fmt::Debug>(result: specverify::Result<T>) -> String {
    result.expect_err("an error").to_string()
}

/// Valid parents of up to `most` nodes.
fn parents(most: usize) -> impl Strategy<Value = Vec<i32>> {
    prop::collection::vec(any::<prop::sample::Index>(), 0..most)
        .prop_map(|picks| picks.iter().enumerate().map(|(i, pick)| pick.index(i + 1) as i32 - 1).collect())
}

/// The node and its ancestors, the node first.
fn ancestors(parents: &[i32], node: usize) -> Vec<usize> {
    std::iter::successors(Some(node), |&i| usize::try_from(parents[i]).ok()).collect()
}

proptest! {
    #[test]
    fn topology_agrees_with_its_parents(parents in parents(200)) {
        let n = parents.len();
        let tree = Topology::new((0..n as u32).collect(), parents.clone()).unwrap();
        let (bits, words) = (tree.ancestor_bits(), n.div_ceil(64));
        prop_assert_eq!(tree.words(), words);
        prop_assert_eq!(bits.len(), (n + 1) * words);
        prop_assert!(bits[..words].iter().all(|&w| w == 0));
        for i in 0..n {
            let mut above = ancestors(&parents, i);
            prop_assert_eq!(tree.depths()[i] as usize, above.len());
            let row = &bits[(i + 1) * words..(i + 2) * words];
            for j in 0..words * 64 {
                prop_assert_eq!(row[j / 64] >> (j % 64) & 1 == 1, above.contains(&j));
            }
            above.reverse();
            prop_assert_eq!(tree.path(i + 1), above.iter().map(|&a| a as u32).collect::<Vec<_>>());
        }
        for row in 0..=n {
            let children: Vec<u32> = (0..n as u32).filter(|&i| parents[i as usize] == row as i32 - 1).collect();
            prop_assert_eq!(tree.children(row), children);
        }
        prop_assert_eq!(tree.is_chain(), (0..n).all(|i| parents[i] == i as i32 - 1));
    }

    #[test]
    fn parents_are_taken_exactly_when_topological(parents in prop::collection::vec(-3i32..12, 0..10), extra in 0usize..2) {
        let valid = extra == 0 && parents.iter().enumerate().all(|(i, &p)| (-1..i as i32).contains(&p));
        prop_assert_eq!(Topology::new(vec![0; parents.len() + extra], parents).is_ok(), valid);
    }

    #[test]
    fn equal_siblings_are_found(parents in parents(40), wide in 0usize..200, vocab in 1u32..400, seed in any::<u32>()) {
        let parents: Vec<i32> = parents.into_iter().chain(std::iter::repeat_n(ROOT, wide)).collect();
        let tokens: Vec<u32> = (0..parents.len() as u32).map(|i| (i ^ seed).wrapping_mul(2_654_435_761) % vocab).collect();
        let twins = tokens.iter().zip(&parents).collect::<HashSet<_>>().len() < tokens.len();
        let tree = Topology::new(tokens.clone(), parents.clone()).unwrap();
        let found = tree.equal_siblings();
        prop_assert_eq!(found.is_some(), twins);
        if let Some((a, b)) = found {
            let (a, b) = (a as usize, b as usize);
            prop_assert!(a < b && tokens[a] == tokens[b] && parents[a] == parents[b]);
        }
        prop_assert_eq!(DraftTree::new(tokens.clone(), parents.clone()).is_err(), twins);
        prop_assert_eq!(DraftTree::without_replacement(tokens.clone(), parents.clone()).is_err(), twins);
        prop_assert!(DraftTree::independent(tokens, parents).is_ok());
    }
}

/// `[depth, k]` candidates with transitions; few different log-probabilities, so that ties are common, and some empty places.
#[derive(Debug, Clone)]
struct Guesses {
    depth: usize,
    k: usize,
    tokens: Vec<u32>,
    logprobs: Vec<f32>,
    transitions: Vec<f32>,
}

impl Guesses {
    fn candidates(&self) -> Candidates<'_> {
        Candidates::new(&self.tokens, &self.logprobs, self.k).unwrap()
    }

    /// (tokens, score) of every path from the root, found by recursion; `logprob(depth, i, j)` is that of candidate j after i.
    fn all(&self, logprob: &dyn Fn(usize, usize, usize) -> f32) -> Vec<(Vec<u32>, f64)> {
        let mut found = Vec::new();
        self.extend(logprob, 0, &[], 0.0, &mut found);
        found
    }

    fn extend(
        &self,
        logprob: &dyn Fn(usize, usize, usize) -> f32,
        last: usize,
        path: &[u32],
        score: f64,
        found: &mut Vec<(Vec<u32>, f64)>,
    ) {
        let depth = path.len();
        if depth == self.depth {
            return;
        }
        for j in 0..self.k {
            let x = logprob(depth, last, j);
            if x > f32::NEG_INFINITY && self.logprobs[depth * self.k + j] > f32::NEG_INFINITY {
                let path = [path, &[self.tokens[depth * self.k + j]]].concat();
                found.push((path.clone(), score + f64::from(x)));
                self.extend(logprob, j, &path, score + f64::from(x), found);
            }
        }
    }
}

fn logprob() -> impl Strategy<Value = f32> {
    prop_oneof![8 => (0u32..6).prop_map(|x| -0.75 * x as f32), 8 => -9.0f32..0.0, 1 => Just(f32::NEG_INFINITY)]
}

fn guesses() -> impl Strategy<Value = Guesses> {
    (1usize..5, 1usize..5).prop_flat_map(|(depth, k)| {
        let logprobs = |n| prop::collection::vec(logprob(), n);
        (logprobs(depth * k), logprobs((depth - 1) * k * k), 0u32..50).prop_map(
            move |(logprobs, transitions, first)| Guesses {
                depth,
                k,
                tokens: (0..(depth * k) as u32).map(|i| first + i % k as u32 * 3).collect(),
                logprobs,
                transitions,
            },
        )
    })
}

/// That `scored` holds the best of `all`, best first.
fn assert_best(scored: &Scored, mut all: Vec<(Vec<u32>, f64)>, nodes: usize) {
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let tree = &scored.tree;
    assert_eq!(tree.len(), nodes.min(all.len()));
    assert_eq!(scored.scores, all[..tree.len()].iter().map(|x| x.1).collect::<Vec<_>>());
    for i in 0..tree.len() {
        let path: Vec<u32> = tree.path(i + 1).iter().map(|&id| tree.tokens()[id as usize]).collect();
        let score = all.iter().find(|x| x.0 == path).expect("a path of the candidates").1;
        assert_eq!(score, scored.scores[i], "node {i} has the score of its path");
    }
}

/// That the first nodes of a tree are the tree of that size.
fn assert_prefix(long: &Scored, short: &Scored) {
    let n = short.tree.len();
    assert_eq!(short.tree.tokens(), &long.tree.tokens()[..n]);
    assert_eq!(short.tree.parents(), &long.tree.parents()[..n]);
    assert_eq!(short.scores, &long.scores[..n]);
}

proptest! {
    #[test]
    fn product_holds_the_likeliest_nodes(g in guesses(), nodes in 1usize..400, fewer in 1usize..400) {
        let scored = product(&g.candidates(), nodes).unwrap();
        assert_best(&scored, g.all(&|d, _, j| g.logprobs[d * g.k + j]), nodes);
        assert_prefix(&scored, &product(&g.candidates(), fewer.min(nodes)).unwrap());
    }

    #[test]
    fn lattice_holds_the_likeliest_nodes(g in guesses(), nodes in 1usize..400, fewer in 1usize..400) {
        let logprob = |d: usize, i: usize, j: usize| match d {
            0 => g.logprobs[j],
            _ => g.transitions[((d - 1) * g.k + i) * g.k + j],
        };
        let scored = lattice(&g.candidates(), &g.transitions, nodes).unwrap();
        assert_best(&scored, g.all(&logprob), nodes);
        assert_prefix(&scored, &lattice(&g.candidates(), &g.transitions, fewer.min(nodes)).unwrap());
    }

    #[test]
    fn siblings_stand_along_the_likeliest_chain(g in guesses(), nodes in 1usize..30, fewer in 1usize..30) {
        let scored = siblings(&g.candidates(), nodes).unwrap();
        assert_prefix(&scored, &siblings(&g.candidates(), fewer.min(nodes)).unwrap());
        // The chain: each depth's first best candidate. Nodes: all candidates of a depth, under the chain.
        let (mut chain, mut above, mut all) = (Vec::new(), 0.0, Vec::new());
        for d in 0..g.depth {
            let row = &g.logprobs[d * g.k..(d + 1) * g.k];
            let present = (0..g.k).filter(|&j| row[j] > f32::NEG_INFINITY);
            all.extend(present.clone().map(|j| ([&chain[..], &[g.tokens[d * g.k + j]]].concat(), above + f64::from(row[j]))));
            let Some(best) = present.rev().max_by(|&a, &b| row[a].total_cmp(&row[b])) else { break };
            chain.push(g.tokens[d * g.k + best]);
            above += f64::from(row[best]);
        }
        assert_best(&scored, all, nodes);
    }

    #[test]
    fn beam_expands_the_best_and_keeps_the_best(g in guesses(), width in 1usize..6, nodes in 1usize..60) {
        let mut beam = Beam::new(width).unwrap();
        let mut all: Vec<(Vec<u32>, f64)> = Vec::new();
        let mut frontier = vec![(Vec::new(), 0.0)];
        for d in 0..g.depth {
            let (tokens, logprobs) = (&g.tokens[d * g.k..(d + 1) * g.k], &g.logprobs[d * g.k..(d + 1) * g.k]);
            let rows = beam.frontier().len();
            prop_assert_eq!(rows, frontier.len());
            if rows == 0 {
                prop_assert!(beam.expand(tokens, logprobs).is_err());
                break;
            }
            // Each frontier node has the same candidates, a little less likely the later it stands.
            let logprobs: Vec<f32> = (0..rows).flat_map(|r| logprobs.iter().map(move |&x| x - r as f32 / 8.0)).collect();
            beam.expand(&tokens.repeat(rows), &logprobs).unwrap();
            let mut new = Vec::new();
            for (r, (path, above)) in frontier.iter().enumerate() {
                let row = &logprobs[r * g.k..(r + 1) * g.k];
                let present = tokens.iter().zip(row).filter(|x| *x.1 > f32::NEG_INFINITY);
                new.extend(present.map(|(&t, &x)| ([&path[..], &[t]].concat(), above + f64::from(x))));
            }
            all.extend(new.iter().cloned());
            new.sort_by(|a: &(Vec<u32>, f64), b| b.1.total_cmp(&a.1));
            new.truncate(width);
            frontier = new;
        }
        let (longer, scored) = (beam.clone().finish(nodes + 7).unwrap(), beam.finish(nodes).unwrap());
        assert_best(&scored, all, nodes);
        assert_prefix(&longer, &scored);
    }

    #[test]
    fn paths_merge_and_come_apart(paths in prop::collection::vec(0u32..3, 1..40), depth in 1usize..6) {
        let paths = &paths[..paths.len() / depth * depth];
        prop_assume!(!paths.is_empty());
        let tree = DraftTree::from_paths(paths, depth).unwrap();
        let prefixes: HashSet<&[u32]> = paths.chunks(depth).flat_map(|p| (1..=depth).map(move |d| &p[..d])).collect();
        prop_assert_eq!(tree.len(), prefixes.len());
        prop_assert_eq!(tree.equal_siblings(), None);
        prop_assert_eq!(tree.draws().nodes.len(), paths.len() / depth);
        for (path, ids) in paths.chunks(depth).zip(&tree.draws().nodes) {
            prop_assert_eq!(&tree.path(*ids.last().unwrap() as usize + 1), ids);
            prop_assert!(ids.iter().map(|&id| &tree.tokens()[id as usize]).eq(path));
        }
        let (apart, rows) = (tree.unmerged().unwrap(), tree.unmerged_rows());
        prop_assert_eq!(apart.tokens(), paths);
        prop_assert_eq!(rows.len(), apart.rows());
        for (row, &merged) in rows.iter().enumerate() {
            let tokens = |t: &Topology, row| t.path(row).iter().map(|&id| t.tokens()[id as usize]).collect::<Vec<_>>();
            prop_assert_eq!(tokens(&apart, row), tokens(&tree, merged));
        }
        let side_by_side = |i| if i % depth == 0 { ROOT } else { i as i32 - 1 };
        prop_assert!((0..paths.len()).map(side_by_side).eq(apart.parents().iter().copied()));
    }
}

#[test]
fn a_chain_and_an_empty_tree() {
    let chain = DraftTree::<Independent>::independent_chain(vec![4, 4, 9]).unwrap();
    assert_eq!(chain.parents(), [-1, 0, 1]);
    assert!(chain.is_chain() && chain.as_chain().is_ok());
    assert_eq!(DraftTree::<Deterministic>::chain(vec![4, 4, 9]).unwrap().topology(), chain.topology());
    let empty = DraftTree::<WithoutReplacement>::without_replacement(vec![], vec![]).unwrap();
    assert_eq!((empty.rows(), empty.children(0).len(), empty.ancestor_bits().len()), (1, 0, 0));
    let fork = DraftTree::independent(vec![1, 1], vec![-1, -1]).unwrap();
    assert_eq!(message(fork.as_chain().map(|_| ())), "draft tree: parents[1] is -1; expected 0: a chain");
}

#[test]
fn a_shape_is_filled_by_rank() {
    let ranks: [&[u32]; 5] = [&[0], &[0, 0], &[2], &[0, 1], &[0, 0, 3]];
    let shape = Shape::from_ranks(&ranks).unwrap();
    assert_eq!(shape.parents(), [-1, 0, -1, 0, 1]);
    assert_eq!(shape.widths(), [3, 2, 4]);
    let candidates: [&[u32]; 3] = [&[10, 11, 12], &[20, 21], &[30, 31, 32, 33, 34]];
    let tree = shape.fill(&candidates).unwrap();
    assert_eq!(tree.tokens(), [10, 20, 12, 21, 33]);
    assert_eq!(tree.parents(), shape.parents());
    let by_parents = Shape::from_parents(vec![-1, 0, -1, 0, 1]).unwrap();
    assert_eq!(by_parents.widths(), [2, 2, 1]);
    assert_eq!(by_parents.fill(&candidates).unwrap().tokens(), [10, 20, 11, 21, 30]);
}

#[test]
fn a_shape_names_what_is_wrong() {
    assert_eq!(
        message(Shape::from_ranks(&[vec![0], vec![1, 0]])),
        "draft tree: paths[1] is [1, 0]; expected [1] before it: no parent may be missing"
    );
    assert_eq!(message(Shape::from_ranks(&[vec![0], vec![0]])), "draft tree: paths[1] is [0]; expected each path once");
    assert_eq!(message(Shape::from_ranks(&[vec![]])), "draft tree: paths[0] is []; expected at least one rank");
    let shape = Shape::from_ranks(&[vec![0], vec![1], vec![1, 0]]).unwrap();
    assert_eq!(message(shape.fill(&[[5, 6]])), "candidates has length 1; expected 2 depths");
    assert_eq!(
        message(shape.fill(&[vec![5, 6], vec![]])),
        "candidates[1] has length 0; expected at least 1 tokens, as many as the shape has ranks there"
    );
    assert_eq!(
        message(shape.fill(&[vec![5, 5], vec![1]])),
        "draft tree: tokens[1] is 5; expected a token that its sibling 0 does not hold: deterministic siblings differ"
    );
}

/// cases.md 22: a parent that top-k over NaN scores left undefined went through as a tree.
#[test]
fn a_missing_parent_with_nan_scores_is_an_error() {
    let nan = "draft tree: logprobs[0][1] is NaN; expected a log-probability: at most 0, no NaN";
    assert_eq!(message(Candidates::new(&[1, 2], &[-1.0, f32::NAN], 2)), nan);
    let mut beam = Beam::new(2).unwrap();
    assert_eq!(message(beam.expand(&[1, 2], &[-1.0, f32::NAN])), nan);
    assert_eq!(
        (beam.frontier(), beam.tokens().len()),
        (&[ROOT][..], 0),
        "a refused expansion leaves the beam as it was"
    );
    let candidates = Candidates::new(&[1, 2, 3, 4], &[-1.0, -2.0, -1.0, -2.0], 2).unwrap();
    assert_eq!(
        message(lattice(&candidates, &[-1.0, -1.0, f32::NAN, -1.0], 3)),
        "draft tree: transitions[0][1][0] is NaN; expected a log-probability: at most 0, no NaN"
    );
    assert_eq!(
        message(DraftTree::new(vec![1, 2], vec![-1, 7])),
        "draft tree: parents[1] is 7; expected -1 (the root) or a node before 1: topological order has no cycle and no missing parent"
    );
}

#[test]
fn builders_name_what_is_wrong() {
    let tokens = [1, 2, 3, 4];
    let good = Candidates::new(&tokens, &[-1.0; 4], 2).unwrap();
    assert_eq!(message(Candidates::new(&tokens, &[-1.0; 4], 0)), "k is 0; expected at least 1 candidate a depth");
    assert_eq!(
        message(Candidates::new(&tokens, &[-1.0; 4], 3)),
        "tokens has length 4; expected depth x k with k = 3 and at least one depth"
    );
    assert_eq!(
        message(Candidates::new(&[], &[], 3)),
        "tokens has length 0; expected depth x k with k = 3 and at least one depth"
    );
    assert_eq!(message(Candidates::new(&tokens, &[-1.0; 3], 2)), "logprobs has length 3; expected 4 (one a token)");
    assert_eq!(
        message(Candidates::new(&tokens, &[-1.0, -1.0, 0.5, -1.0], 2)),
        "draft tree: logprobs[1][0] is 0.5; expected a log-probability: at most 0, no NaN"
    );
    assert_eq!(
        message(Candidates::new(&[1, 2, 3, 3], &[-1.0; 4], 2)),
        "draft tree: tokens[1][1] is 3; expected a token that candidate 0 of the row does not hold: siblings differ"
    );
    let empty_places = [-1.0, f32::NEG_INFINITY];
    assert!(Candidates::new(&[3, 3], &empty_places, 2).is_ok(), "an empty place holds no token");
    for zero in [product(&good, 0), lattice(&good, &[-1.0; 4], 0), siblings(&good, 0), Beam::new(1).unwrap().finish(0)]
    {
        assert_eq!(message(zero), "nodes is 0; expected at least 1 node and fewer than 2^31");
    }
    assert_eq!(
        message(lattice(&good, &[-1.0; 3], 4)),
        "transitions has length 3; expected 4 = (depth - 1) x k x k with depth = 2 and k = 2"
    );
    assert_eq!(message(Beam::new(0)), "width is 0; expected at least 1 node to expand a depth");
    let mut beam = Beam::new(3).unwrap();
    beam.expand(&[1, 2], &[-1.0, -2.0]).unwrap();
    assert_eq!(
        message(beam.expand(&[1, 2, 3], &[-1.0; 3])),
        "tokens has length 3; expected frontier x k with 2 frontier nodes, k >= 1"
    );
    assert_eq!(
        message(beam.expand(&[1, 2, 3, 3], &[-1.0; 4])),
        "draft tree: tokens[1][1] is 3; expected a token that candidate 0 of the row does not hold: siblings differ"
    );
    assert_eq!(
        message(DraftTree::<Paths>::from_paths(&[1, 2, 3], 2)),
        "paths has length 3; expected K x depth with K >= 1 and depth = 2"
    );
    assert_eq!(message(DraftTree::<Paths>::from_paths(&[1, 2], 0)), "depth is 0; expected at least 1 token a path");
    assert_eq!(
        message(DraftTree::<Deterministic>::chain(vec![3, 8]).unwrap().check_vocab(8)),
        "draft tree: tokens[1] is 8; expected an id below 8"
    );
    assert!(matches!(Topology::new(vec![1], vec![]), Err(Error::Shape { .. })));
}
