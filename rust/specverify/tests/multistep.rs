//! The law of a six-token text over several steps, through real coins: what one step's enumeration can't see.
//!
//! Chi-square over the 64 texts of six tokens of V=2 (63 degrees of freedom), fixed seeds, threshold 132: false alarm 1e-6 a rule. With
//! TEXTS texts a law that is off by total variation t has a non-centrality of at least TEXTS (2 t)^2, 384 at t = .04: found with
//! power > 1 - 1e-9.

mod tables;

use specverify::coins::{Coins, Stream};
use specverify::oracle::Table;
use specverify::verify::{AnyTree, Chooser, CoinChooser, Drafted, Row, Rule, Target, Weights, decide};
use specverify::{DraftTree, Result, Topology};
use tables::Random;

const VOCAB: usize = 2;
const LENGTH: usize = 6;
const TEXTS: u64 = 60_000;
const THRESHOLD: f64 = 132.0;

/// Rows of a table model after the text so far.
struct Rows<'a> {
    table: &'a Table,
    text: &'a [u32],
    tree: &'a Topology,
    coins: Coins,
}

struct TableRow<'a>(&'a [f64]);

impl Row for TableRow<'_> {
    fn vocab(&self) -> usize {
        self.0.len()
    }
    fn get(&self, token: u32) -> f64 {
        self.0[token as usize]
    }
    fn read(&self, start: usize, out: &mut [f64]) {
        out.copy_from_slice(&self.0[start..start + out.len()]);
    }
}

impl Rows<'_> {
    fn at(&self, row: usize) -> &[f64] {
        let path = self.tree.path(row);
        let drafted = path.iter().map(|&node| self.tree.tokens()[node as usize]);
        self.table.row(&self.text.iter().copied().chain(drafted).collect::<Vec<_>>())
    }
}

impl Target for Rows<'_> {
    type Row<'a>
        = TableRow<'a>
    where
        Self: 'a;

    fn token(&mut self, row: usize) -> Result<u32> {
        let position = self.text.len() as u32 + self.tree.row_depth(row);
        let finish = |i: u32| f64::from(self.coins.exponential(position, i)) / self.at(row)[i as usize];
        Ok((0..VOCAB as u32).min_by(|&a, &b| finish(a).total_cmp(&finish(b))).unwrap())
    }

    fn argmax(&mut self, row: usize) -> Result<u32> {
        Ok(u32::from(self.at(row)[1] > self.at(row)[0]))
    }

    fn row(&mut self, row: usize) -> Result<TableRow<'_>> {
        Ok(TableRow(self.at(row)))
    }
}

impl Drafted for Rows<'_> {
    type Row<'a>
        = TableRow<'a>
    where
        Self: 'a;

    fn row(&self, row: usize) -> Result<TableRow<'_>> {
        Ok(TableRow(self.at(row)))
    }
}

/// The control: each decision's coin is keyed by the position it is about, as the race's are, instead of by the step.
struct ByPosition<'a> {
    coins: Coins,
    step: u32,
    tree: &'a Topology,
}

impl Chooser for ByPosition<'_> {
    fn accept(&mut self, stream: Stream, node: u32, a: f64) -> bool {
        CoinChooser::new(self.coins, self.step + self.tree.depths()[node as usize] - 1).accept(stream, 0, a)
    }
    fn pick(&mut self, stream: Stream, row: u32, vocab: usize, weights: &mut Weights<'_>) -> Option<u32> {
        let position = self.step + self.tree.row_depth(row as usize);
        CoinChooser::new(self.coins, position).pick(stream, 0, vocab, weights)
    }
}

#[derive(Clone, Copy)]
enum Draws {
    Siblings { without_replacement: bool },
    Paths(usize),
    Fixed,
}

/// Draws a tree's tokens after a text, with the draft stream's coins.
fn draft(q: &Table, text: &[u32], parents: &[i32], draws: Draws, coins: Coins, by_position: bool) -> AnyTree {
    let step = text.len() as u32;
    let depths = tables::depths(parents);
    let uniform = |node: usize| match by_position {
        true => coins.uniform(step + depths[node] as u32 - 1, Stream::Draft, 0),
        false => coins.uniform(step, Stream::Draft, node as u32),
    };
    let mut tokens: Vec<u32> = Vec::new();
    for (node, &parent) in parents.iter().enumerate() {
        let mut path = Vec::new();
        let mut above = parent;
        while above >= 0 {
            path.push(tokens[above as usize]);
            above = parents[above as usize];
        }
        path.extend(text.iter().rev());
        path.reverse();
        let q = q.row(&path);
        let elder = parents[..node].iter().position(|&p| p == parent);
        tokens.push(match (draws, elder) {
            // Of two tokens, one is left.
            (Draws::Siblings { without_replacement: true } | Draws::Fixed, Some(elder)) => 1 - tokens[elder],
            (Draws::Fixed, None) => u32::from(q[1] > q[0]),
            _ => u32::from(uniform(node) >= q[0]),
        });
    }
    match draws {
        Draws::Fixed => DraftTree::new(tokens, parents.to_vec()).unwrap().into(),
        Draws::Paths(count) => DraftTree::from_paths(&tokens, parents.len() / count).unwrap().into(),
        Draws::Siblings { without_replacement: true } => {
            DraftTree::without_replacement(tokens, parents.to_vec()).unwrap().into()
        }
        Draws::Siblings { without_replacement: false } => {
            DraftTree::independent(tokens, parents.to_vec()).unwrap().into()
        }
    }
}

/// Chi-square of `texts` texts, one a seed, against the target's law of six tokens.
fn chi_square(rule: Rule, parents: &[i32], draws: Draws, model: u64, by_position: bool) -> f64 {
    let mut random = Random(model);
    // Rows below the sixth token are drafted too.
    let depth = LENGTH + tables::depth(parents) + 1;
    let (p, q) = (random.table(VOCAB, depth, 1.0), random.table(VOCAB, depth, 1.0));
    let mut counts = [0_u32; 1 << LENGTH];
    for seed in 0..TEXTS {
        let coins = Coins::new(seed);
        let mut text: Vec<u32> = Vec::new();
        while text.len() < LENGTH {
            let tree = draft(&q, &text, parents, draws, coins, by_position);
            let step = text.len() as u32;
            let mut target = Rows { table: &p, text: &text, tree: &tree, coins };
            let drafted = Rows { table: &q, text: &text, tree: &tree, coins };
            let decision = if by_position {
                let mut chooser = ByPosition { coins, step, tree: &tree };
                decide(rule, &tree, &mut target, Some(&drafted), &mut chooser)
            } else {
                decide(rule, &tree, &mut target, Some(&drafted), &mut CoinChooser::new(coins, step))
            }
            .unwrap();
            text.extend(decision.path.iter().map(|&node| tree.tokens()[node as usize]));
            text.push(decision.next);
        }
        counts[text[..LENGTH].iter().fold(0, |at, &token| 2 * at + token as usize)] += 1;
    }
    let law = p.texts(LENGTH).unwrap();
    let expected = law.iter().map(|p| p * TEXTS as f64);
    counts.iter().zip(expected).map(|(&n, e)| (f64::from(n) - e).powi(2) / e).sum()
}

const MODEL: u64 = 4;
const TREE: [i32; 5] = [-1, -1, 0, 0, 1];
const PATHS: [i32; 4] = [-1, 0, -1, 2];

#[test]
fn coins_keyed_by_step_keep_the_law_of_chains() {
    let drawn = Draws::Siblings { without_replacement: false };
    for rule in [Rule::Token, Rule::Block] {
        let chi2 = chi_square(rule, &tables::chain(3), drawn, MODEL, false);
        assert!(chi2 < THRESHOLD, "{}: {chi2}", rule.name());
    }
}

#[test]
fn coins_keyed_by_step_keep_the_law_of_trees() {
    for rule in [Rule::Recursive, Rule::Traversal] {
        for without_replacement in [false, true] {
            let chi2 = chi_square(rule, &TREE, Draws::Siblings { without_replacement }, MODEL, false);
            assert!(chi2 < THRESHOLD, "{}, {without_replacement}: {chi2}", rule.name());
        }
    }
}

#[test]
fn coins_keyed_by_step_keep_the_law_of_paths() {
    let chi2 = chi_square(Rule::Multipath, &PATHS, Draws::Paths(2), MODEL, false);
    assert!(chi2 < THRESHOLD, "{chi2}");
}

#[test]
fn the_race_keeps_the_law_whatever_is_drafted() {
    let chi2 = chi_square(Rule::TargetOnly, &TREE, Draws::Fixed, MODEL, false);
    assert!(chi2 < THRESHOLD, "{chi2}");
}

/// The control that must fail: block looks at coins below the point where it stops, and keyed by position they come back.
#[test]
fn coins_keyed_by_position_break_the_law_of_block() {
    let drawn = Draws::Siblings { without_replacement: false };
    let chi2 = chi_square(Rule::Block, &tables::chain(3), drawn, MODEL, true);
    assert!(chi2 > 2.0 * THRESHOLD, "{chi2}");
}
