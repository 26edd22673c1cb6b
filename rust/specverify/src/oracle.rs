//! The exact law of a rule, by enumeration.
//!
//! The shipped rule runs on table models under a chooser that, instead of flipping a coin, branches: every outcome of every
//! decision is followed, with its probability. The mass of each emitted prefix is then extended by the target to texts of one
//! length, where it must agree with the target's own law. What the rule promises about its coins is checked on the way: no
//! (stream, node) is asked twice, and no bound given to [`Chooser::accept_below`] is exceeded.

use std::cell::RefCell;

use crate::coins::Stream;
use crate::error::{Error, Result};
use crate::tree::{DraftTree, Topology};
use crate::verify::{AnyTree, Chooser, Drafted, Row, Rule, Target, Weights, decide};

/// A language model as a table: a distribution over the next token after every text shorter than `depth`.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    vocab: usize,
    depth: usize,
    rows: Vec<f64>,
}

impl Table {
    /// `rows` is `[1 + V + V^2 + ... + V^(depth - 1), V]`, row-major: texts by length, then in lexicographic order.
    ///
    /// # Errors
    /// [`Error::Argument`] for an empty vocabulary or a row that is no distribution, [`Error::Shape`] for a wrong size.
    pub fn new(vocab: usize, depth: usize, rows: Vec<f64>) -> Result<Self> {
        if vocab == 0 {
            return Err(Error::argument("vocab", vocab, "at least 1"));
        }
        let count = (0..depth as u32)
            .try_fold(0usize, |count, d| count.checked_add(vocab.checked_pow(d)?))
            .and_then(|count| count.checked_mul(vocab));
        if count != Some(rows.len()) {
            let expected = format!("one row of {vocab} for each text shorter than {depth}");
            return Err(Error::shape("rows", rows.len(), expected));
        }
        for (r, row) in rows.chunks_exact(vocab).enumerate() {
            let sum: f64 = row.iter().sum();
            if row.iter().any(|&x| x.is_nan() || x < 0.0) || (sum - 1.0).abs() > 1e-9 {
                return Err(Error::argument(format!("rows[{r}]"), format!("{row:?}"), "probabilities that sum to 1"));
            }
        }
        Ok(Self { vocab, depth, rows })
    }

    /// Size of the vocabulary.
    pub fn vocab(&self) -> usize {
        self.vocab
    }

    /// Texts shorter than this have a row.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The distribution after a text.
    ///
    /// # Panics
    /// When the text is not shorter than [`Table::depth`] or holds an id outside the vocabulary.
    pub fn row(&self, text: &[u32]) -> &[f64] {
        assert!(text.iter().all(|&t| (t as usize) < self.vocab), "an id of {text:?} is not below {}", self.vocab);
        self.at(text.iter().fold(0, |at, &token| self.child(at, token)))
    }

    /// The row at an index, counted as [`Table::new`] has them.
    fn at(&self, index: usize) -> &[f64] {
        &self.rows[index * self.vocab..(index + 1) * self.vocab]
    }

    /// Index of a text one token longer.
    fn child(&self, index: usize, token: u32) -> usize {
        index * self.vocab + 1 + token as usize
    }

    /// For each row of a tree the index of its text.
    fn tree_rows(&self, tree: &Topology) -> Vec<usize> {
        let mut rows = Vec::with_capacity(tree.rows());
        rows.push(0);
        for (&token, &parent) in tree.tokens().iter().zip(tree.parents()) {
            rows.push(self.child(rows[(parent + 1) as usize], token));
        }
        rows
    }

    /// Hands the mass of every shorter text on to the texts of `length` tokens.
    fn extend(&self, mut mass: Vec<f64>, length: usize) -> Vec<f64> {
        let texts = self.vocab.pow(length as u32);
        let first = mass.len() - texts;
        for index in 0..first {
            for (token, p) in self.at(index).iter().enumerate() {
                let child = self.child(index, token as u32);
                mass[child] += mass[index] * p;
            }
        }
        mass.split_off(first)
    }

    /// The probability of each of the V^length texts, in lexicographic order.
    ///
    /// # Errors
    /// [`Error::Argument`] when `length` exceeds [`Table::depth`].
    pub fn texts(&self, length: usize) -> Result<Vec<f64>> {
        let mut mass = self.no_mass(length)?;
        mass[0] = 1.0;
        Ok(self.extend(mass, length))
    }

    /// A zero for each text of at most `length` tokens.
    fn no_mass(&self, length: usize) -> Result<Vec<f64>> {
        if length > self.depth {
            return Err(Error::argument("length", length, format!("at most {}, the table's depth", self.depth)));
        }
        Ok(vec![0.0; (0..=length as u32).map(|d| self.vocab.pow(d)).sum()])
    }
}

/// What is verified: where the drafts come from.
#[derive(Debug, Clone)]
pub enum Drafts<'a> {
    /// Trees as they stand, with their probabilities. A label that is a lie can be told here, to see what it costs.
    Given(&'a [(f64, AnyTree)]),
    /// A tree of this shape, the children of each row drawn from the drafter's row.
    Drawn {
        /// Parents, as in [`Topology`].
        parents: &'a [i32],
        /// How siblings are drawn.
        without_replacement: bool,
    },
}

/// The law of what a rule emits.
#[derive(Debug, Clone, PartialEq)]
pub struct Law {
    /// Probability of each text, in lexicographic order.
    pub texts: Vec<f64>,
    /// Mean number of tokens that one step emits: accepted and one more.
    pub mean_emitted: f64,
}

/// Half the sum of absolute differences.
///
/// # Panics
/// When the laws differ in length.
pub fn total_variation(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len(), "laws over different sets");
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f64>() / 2.0
}

/// Every draw of K i.i.d. paths from the drafter, with its probability.
///
/// # Errors
/// [`Error::Argument`] when `depth` exceeds the drafter's, and as [`DraftTree::from_paths`].
pub fn path_draws(drafter: &Table, paths: usize, depth: usize) -> Result<Vec<(f64, AnyTree)>> {
    let one = drafter.texts(depth)?;
    let digits = |mut text: usize| {
        let mut tokens = vec![0; depth];
        for token in tokens.iter_mut().rev() {
            *token = (text % drafter.vocab) as u32;
            text /= drafter.vocab;
        }
        tokens
    };
    let mut draws = vec![(1.0, Vec::new())];
    for _ in 0..paths {
        let mut longer = Vec::with_capacity(draws.len() * one.len());
        for (probability, tokens) in &draws {
            for (text, &p) in one.iter().enumerate().filter(|(_, p)| **p > 0.0) {
                longer.push((probability * p, [tokens.as_slice(), &digits(text)].concat()));
            }
        }
        draws = longer;
    }
    draws.into_iter().map(|(p, tokens)| Ok((p, DraftTree::from_paths(&tokens, depth)?.into()))).collect()
}

/// The exact law of the texts of `length` tokens when a step of `rule` is followed by the target, over all drafts and coins.
///
/// # Errors
/// Those of the rule; [`Error::Argument`] when the tables are too shallow for the drafts and `length`, when siblings can't be
/// drawn, or when the rule breaks what it promises about its coins.
pub fn law(rule: Rule, drafts: &Drafts<'_>, target: &Table, drafter: &Table, length: usize) -> Result<Law> {
    if target.vocab != drafter.vocab {
        return Err(Error::argument("drafter", format!("vocabulary of {}", drafter.vocab), target.vocab.to_string()));
    }
    if let Drafts::Given(trees) = drafts {
        let total: f64 = trees.iter().map(|(p, _)| p).sum();
        if trees.iter().any(|(p, _)| *p < 0.0) || total.is_nan() || (total - 1.0).abs() > 1e-9 {
            let given: Vec<f64> = trees.iter().map(|(p, _)| *p).take(8).collect();
            let expected = "trees whose probabilities are at least 0 and sum to 1";
            return Err(Error::argument("trees", format!("{given:?}, {total} in sum"), expected));
        }
    }
    let mut mass = target.no_mass(length)?;
    let mut mean_emitted = 0.0;
    let branches = RefCell::new(Branches::default());
    loop {
        branches.borrow_mut().restart();
        let tree = match drafts {
            Drafts::Given(trees) => {
                let options = trees.iter().enumerate().map(|(i, (p, _))| (vec![i as u32], *p)).collect();
                let chosen = branches.borrow_mut().choose(None, options);
                trees[chosen[0] as usize].1.clone()
            }
            Drafts::Drawn { parents, without_replacement } => {
                drawn_tree(parents, *without_replacement, &branches.borrow())?
            }
        };
        let depth = tree.depths().iter().max().map_or(0, |&d| d as usize);
        if depth >= length || depth > drafter.depth {
            let expected = format!("depth below {length} (length) and at most {} (the drafter's)", drafter.depth);
            return Err(Error::argument("drafts", format!("depth {depth}"), expected));
        }
        let mut target_rows = TableTarget { table: target, rows: target.tree_rows(&tree), branches: &branches };
        let draw = match drafts {
            Drafts::Given(_) => None,
            Drafts::Drawn { without_replacement, .. } => Some(*without_replacement),
        };
        let drafted =
            TableDrafted { table: drafter, rows: drafter.tree_rows(&tree), tree: &tree, draw, branches: &branches };
        // A rule that reads q draws the siblings of a row when it reaches the row; the others look at the tokens alone.
        let drawn = if rule.reads_draft_probs() { Ok(()) } else { drafted.draw_all() };
        let decision = drawn
            .and_then(|()| decide(rule, &tree, &mut target_rows, Some(&drafted), &mut BranchingChooser(&branches)));
        let mut branches = branches.borrow_mut();
        if std::mem::take(&mut branches.interrupted) {
            continue;
        }
        let decision = decision?;
        if let Some(fault) = branches.fault.take() {
            return Err(fault);
        }
        let parent = decision.path.last().map_or(0, |&node| node as usize + 1);
        mass[target.child(target_rows.rows[parent], decision.next)] += branches.probability;
        mean_emitted += branches.probability * (decision.path.len() + 1) as f64;
        if !branches.advance() {
            return Ok(Law { texts: target.extend(mass, length), mean_emitted });
        }
    }
}

/// The tree with the siblings drawn so far. Those that are not drawn yet hold 0, 1, 2, ...: nothing has looked at them.
fn drawn_tree(parents: &[i32], without_replacement: bool, branches: &Branches) -> Result<AnyTree> {
    let shape = Topology::new(vec![0; parents.len()], parents.to_vec())?;
    let mut tokens = vec![0; parents.len()];
    for row in 0..shape.rows() {
        let drawn = branches.drawn(row);
        for (i, &child) in shape.children(row).iter().enumerate() {
            tokens[child as usize] = drawn.map_or(i as u32, |drawn| drawn[i]);
        }
    }
    Ok(if without_replacement {
        DraftTree::without_replacement(tokens, parents.to_vec())?.into()
    } else {
        DraftTree::independent(tokens, parents.to_vec())?.into()
    })
}

/// One decision: its outcomes and which of them is followed.
struct Branch {
    /// The row whose children it draws; `None` for a coin.
    row: Option<usize>,
    outcomes: Vec<(Vec<u32>, f64)>,
    followed: usize,
}

/// The decisions of the current run. A run repeats the ones it knows and follows the first outcome of each new one.
#[derive(Default)]
struct Branches {
    script: Vec<Branch>,
    at: usize,
    probability: f64,
    asked: Vec<(Stream, u32)>,
    /// Siblings had to be drawn in the middle of a run, which must start over with them.
    interrupted: bool,
    fault: Option<Error>,
}

impl Branches {
    fn restart(&mut self) {
        self.at = 0;
        self.probability = 1.0;
        self.asked.clear();
    }

    /// The outcome to follow.
    fn choose(&mut self, row: Option<usize>, outcomes: Vec<(Vec<u32>, f64)>) -> Vec<u32> {
        if self.at == self.script.len() {
            self.script.push(Branch { row, outcomes, followed: 0 });
        }
        let branch = &self.script[self.at];
        let (outcome, probability) = &branch.outcomes[branch.followed];
        self.at += 1;
        self.probability *= probability;
        outcome.clone()
    }

    /// Moves on to the next run; false after the last.
    fn advance(&mut self) -> bool {
        while let Some(branch) = self.script.last_mut() {
            branch.followed += 1;
            if branch.followed < branch.outcomes.len() {
                return true;
            }
            self.script.pop();
        }
        false
    }

    /// The children of a row, if they were drawn.
    fn drawn(&self, row: usize) -> Option<&[u32]> {
        let branch = self.script.iter().find(|branch| branch.row == Some(row))?;
        Some(&branch.outcomes[branch.followed].0)
    }

    fn ask(&mut self, stream: Stream, node: u32) {
        if self.asked.contains(&(stream, node)) {
            self.fault = Some(Error::argument("coin", format!("{stream:?} {node}, asked twice"), "once a step"));
        }
        self.asked.push((stream, node));
    }

    fn pick(&mut self, weights: &[f64]) -> Option<u32> {
        let total: f64 = weights.iter().sum();
        let positive = weights.iter().enumerate().filter(|(_, w)| **w > 0.0);
        let outcomes: Vec<_> = positive.map(|(i, w)| (vec![i as u32], w / total)).collect();
        if outcomes.is_empty() { None } else { Some(self.choose(None, outcomes)[0]) }
    }
}

struct BranchingChooser<'a>(&'a RefCell<Branches>);

impl Chooser for BranchingChooser<'_> {
    fn accept(&mut self, stream: Stream, node: u32, a: f64) -> bool {
        let mut branches = self.0.borrow_mut();
        branches.ask(stream, node);
        if a <= 0.0 || a >= 1.0 {
            return a >= 1.0;
        }
        branches.choose(None, vec![(vec![1], a), (vec![0], 1.0 - a)])[0] == 1
    }

    fn accept_below(
        &mut self,
        stream: Stream,
        node: u32,
        bound: f64,
        a: &mut dyn FnMut() -> Result<f64>,
    ) -> Result<bool> {
        let a = a()?;
        if a > bound + 1e-12 {
            self.0.borrow_mut().fault = Some(Error::argument("bound", bound, format!("at least {a}")));
        }
        Ok(self.accept(stream, node, a))
    }

    fn pick(&mut self, stream: Stream, node: u32, vocab: usize, weights: &mut Weights<'_>) -> Option<u32> {
        let mut all = vec![0.0; vocab];
        for (block, out) in all.chunks_mut(crate::verify::BLOCK).enumerate() {
            weights(block * crate::verify::BLOCK, out);
        }
        let mut branches = self.0.borrow_mut();
        let picked = branches.pick(&all);
        if picked.is_some() {
            branches.ask(stream, node);
        }
        picked
    }
}

/// A row of a table.
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

struct TableTarget<'a> {
    table: &'a Table,
    /// Index of each row's text.
    rows: Vec<usize>,
    branches: &'a RefCell<Branches>,
}

impl Target for TableTarget<'_> {
    type Row<'a>
        = TableRow<'a>
    where
        Self: 'a;

    fn token(&mut self, row: usize) -> Result<u32> {
        let mut branches = self.branches.borrow_mut();
        branches.ask(Stream::Race, row as u32);
        let no_mass = || Error::row(row, crate::error::RowFault::NoMass);
        branches.pick(self.table.at(self.rows[row])).ok_or_else(no_mass)
    }

    fn argmax(&mut self, row: usize) -> Result<u32> {
        let p = self.table.at(self.rows[row]);
        Ok((1..p.len()).fold(0, |best, i| if p[i] > p[best] { i } else { best }) as u32)
    }

    fn row(&mut self, row: usize) -> Result<Self::Row<'_>> {
        Ok(TableRow(self.table.at(self.rows[row])))
    }
}

struct TableDrafted<'a> {
    table: &'a Table,
    rows: Vec<usize>,
    tree: &'a Topology,
    /// Whether siblings are still to be drawn, and then whether without replacement.
    draw: Option<bool>,
    branches: &'a RefCell<Branches>,
}

impl TableDrafted<'_> {
    /// Every draw of `count` siblings from `q`, with its probability.
    fn sibling_draws(q: &[f64], count: usize, without_replacement: bool) -> Vec<(Vec<u32>, f64)> {
        let mut draws = vec![(Vec::new(), 1.0)];
        for _ in 0..count {
            let mut longer = Vec::with_capacity(draws.len() * q.len());
            for (tokens, probability) in &draws {
                let gone = |token: u32| without_replacement && tokens.contains(&token);
                let left: f64 = (0..q.len()).filter(|&i| !gone(i as u32)).map(|i| q[i]).sum();
                for (token, &q) in q.iter().enumerate() {
                    if q > 0.0 && !gone(token as u32) {
                        longer.push(([tokens.as_slice(), &[token as u32]].concat(), probability * q / left));
                    }
                }
            }
            draws = longer;
        }
        draws
    }

    /// Draws the siblings of every row, parents first.
    fn draw_all(&self) -> Result<()> {
        let mut parents = (0..self.tree.rows()).filter(|&row| !self.tree.children(row).is_empty());
        parents.try_for_each(|row| self.row(row).map(drop))
    }
}

impl Drafted for TableDrafted<'_> {
    type Row<'a>
        = TableRow<'a>
    where
        Self: 'a;

    fn row(&self, row: usize) -> Result<Self::Row<'_>> {
        let q = self.table.at(self.rows[row]);
        let mut branches = self.branches.borrow_mut();
        let Some(without_replacement) = self.draw else { return Ok(TableRow(q)) };
        match branches.script.iter().position(|branch| branch.row == Some(row)) {
            // Met again in this run.
            Some(at) if at < branches.at => {}
            Some(_) => {
                branches.choose(Some(row), Vec::new());
            }
            None => {
                let draws = Self::sibling_draws(q, self.tree.children(row).len(), without_replacement);
                if draws.is_empty() {
                    let name = format!("drafter row {row}");
                    return Err(Error::argument(name, format!("{q:?}"), "as many positive ids as siblings"));
                }
                branches.choose(Some(row), draws);
                branches.interrupted = true;
                return Err(Error::argument("siblings", "not drawn", "a run that starts over"));
            }
        }
        Ok(TableRow(q))
    }
}
