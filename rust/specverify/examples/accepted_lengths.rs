//! Prints the table of docs/rules.md: mean tokens a step of each rule, computed by the oracle over random models.
//! Run: `cargo run --release --example accepted_lengths`.

use specverify::oracle::{Drafts, Table, law, path_draws};
use specverify::verify::{AnyTree, Rule};
use specverify::{DraftTree, Result};

const VOCAB: usize = 3;
const DEPTH: usize = 3;
const MODELS: u64 = 100;
/// Two chains of two tokens, side by side.
const TWO_CHAINS: [i32; 4] = [-1, -1, 0, 1];
const CHAIN: [i32; 2] = [-1, 0];

/// SplitMix64: a few random tables need no crate.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform over all distributions: normalised exponentials.
    fn row(&mut self) -> Vec<f64> {
        let row: Vec<f64> = (0..VOCAB).map(|_| -(1.0 - self.uniform()).ln()).collect();
        let sum: f64 = row.iter().sum();
        row.into_iter().map(|x| x / sum).collect()
    }
}

/// A target, and a drafter that is `far` of the way from it to another model; and their mean 1 - TV a row.
fn models(seed: u64, far: f64) -> Result<(Table, Table, f64)> {
    let mut random = Random(seed);
    let (mut p, mut q, mut agreement, mut rows) = (Vec::new(), Vec::new(), 0.0, 0.0);
    for _ in 0..(0..DEPTH as u32).map(|d| VOCAB.pow(d)).sum() {
        let (target, other) = (random.row(), random.row());
        let draft: Vec<f64> = target.iter().zip(&other).map(|(t, o)| (1.0 - far) * t + far * o).collect();
        agreement += target.iter().zip(&draft).map(|(t, d)| t.min(*d)).sum::<f64>();
        rows += 1.0;
        p.extend(target);
        q.extend(draft);
    }
    Ok((Table::new(VOCAB, DEPTH, p)?, Table::new(VOCAB, DEPTH, q)?, agreement / rows))
}

/// `target_only` on a chain of two coupled drafts, in closed form (arXiv 2408.07978): both races end at token i with probability
/// `1 / sum_j max(p_j / p_i, q_j / q_i)`, at each position anew.
fn coupled(target: &Table, drafter: &Table) -> f64 {
    let both = |text: &[u32], i: usize| {
        let (p, q) = (target.row(text), drafter.row(text));
        1.0 / p.iter().zip(q).map(|(pj, qj)| (pj / p[i]).max(qj / q[i])).sum::<f64>()
    };
    let second = |i: usize| (0..VOCAB).map(|k| both(&[i as u32], k)).sum::<f64>();
    1.0 + (0..VOCAB).map(|i| both(&[], i) * (1.0 + second(i))).sum::<f64>()
}

/// The drafter's likeliest chain of two.
fn likeliest(drafter: &Table) -> Result<AnyTree> {
    let best = |row: &[f64]| (1..VOCAB).fold(0, |best, i| if row[i] > row[best] { i } else { best }) as u32;
    let first = best(drafter.row(&[]));
    Ok(DraftTree::new(vec![first, best(drafter.row(&[first]))], CHAIN.to_vec())?.into())
}

const COLUMNS: [&str; 9] = [
    "target_only, likeliest chain",
    "target_only, coupled chain",
    "token",
    "block",
    "recursive",
    "recursive, w/o replacement",
    "traversal",
    "traversal, w/o replacement",
    "multipath",
];

/// Mean tokens of one step, for every column of the table.
fn lengths(target: &Table, drafter: &Table) -> Result<Vec<f64>> {
    let given = |rule, trees: &[_]| Ok(law(rule, &Drafts::Given(trees), target, drafter, DEPTH)?.mean_emitted);
    let drawn = |rule, parents, without_replacement| {
        Ok(law(rule, &Drafts::Drawn { parents, without_replacement }, target, drafter, DEPTH)?.mean_emitted)
    };
    Ok(vec![
        given(Rule::TargetOnly, &[(1.0, likeliest(drafter)?)])?,
        coupled(target, drafter),
        drawn(Rule::Token, &CHAIN, false)?,
        drawn(Rule::Block, &CHAIN, false)?,
        drawn(Rule::Recursive, &TWO_CHAINS, false)?,
        drawn(Rule::Recursive, &TWO_CHAINS, true)?,
        drawn(Rule::Traversal, &TWO_CHAINS, false)?,
        drawn(Rule::Traversal, &TWO_CHAINS, true)?,
        given(Rule::Multipath, &path_draws(drafter, 2, 2)?)?,
    ])
}

fn main() -> Result<()> {
    let mut columns = vec![Vec::new(); COLUMNS.len()];
    let mut head = "| mean 1 - TV of a row |".to_string();
    for far in [0.15, 0.4, 0.7, 1.0] {
        let (mut sums, mut agreement) = (vec![0.0; COLUMNS.len()], 0.0);
        for seed in 0..MODELS {
            let (target, drafter, close) = models(seed, far)?;
            for (sum, length) in sums.iter_mut().zip(lengths(&target, &drafter)?) {
                *sum += length / MODELS as f64;
            }
            agreement += close / MODELS as f64;
        }
        head += &format!(" {agreement:.2} |");
        columns.iter_mut().zip(&sums).for_each(|(column, sum)| column.push(format!("{sum:.3}")));
    }
    println!("{head}\n|---|---|---|---|---|");
    for (name, column) in COLUMNS.iter().zip(&columns) {
        println!("| {name} | {} |", column.join(" | "));
    }
    Ok(())
}
