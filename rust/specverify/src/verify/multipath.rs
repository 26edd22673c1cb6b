//! Greedy multi-path block verification: the best of K paths, verified as a block against the law of the best.

use std::cell::RefCell;

use super::block::verify_path;
use super::{BLOCK, Chooser, Decision, Drafted, Row, Target};
use crate::error::{Error, Result};
use crate::tree::{DraftTree, Paths};

/// Greedy multi-path block verification (arXiv 2602.16961).
///
/// The tokens of a row are ordered by a coarse bucket of p/q and then by id: any order fixed by p and q alone keeps the rule
/// lossless, and this one needs a counting sort only. Of the K paths the lexicographically greatest is taken. With F the
/// distribution function of one path in that order, the greatest has the law `F(<= x)^K - F(< x)^K`, for prefixes too; block
/// verification of the greatest path against that law does the rest. With K = 1 it is block verification.
///
/// # Errors
/// [`crate::Error::Row`] of a row that is reached; [`crate::Error::Argument`] when q of a drafted token is 0; [`Error::Tree`] when
/// the paths differ in length.
pub fn verify<T: Target, Q: Drafted>(
    target: &mut T,
    drafted: &Q,
    tree: &DraftTree<Paths>,
    chooser: &mut impl Chooser,
) -> Result<Decision> {
    let paths = &tree.draws().nodes;
    let length = paths.first().map_or(0, Vec::len);
    if let Some(k) = paths.iter().position(|path| path.len() != length) {
        let expected = format!("{length} nodes, as path 0 has: the paths are i.i.d.");
        return Err(Error::tree(format!("paths[{k}]"), format!("{} nodes", paths[k].len()), expected));
    }
    let mut greatest = Greatest { drafted, ranks: Vec::with_capacity(length) };
    let mut candidates: Vec<&[u32]> = paths.iter().map(Vec::as_slice).collect();
    let (mut path, mut row, mut below, mut mass) = (Vec::with_capacity(length), 0, 0.0, 1.0);
    for depth in 0..length {
        let ranks = Ranks::new(target, drafted, row, paths.len() as i32, below, mass)?;
        let order = |node: u32| {
            let token = tree.tokens()[node as usize];
            (ranks.bucket[token as usize], token)
        };
        let Some(best) = candidates.iter().map(|path| path[depth]).max_by_key(|&node| order(node)) else { break };
        candidates.retain(|path| order(path[depth]) == order(best));
        (below, mass) = ranks.descend(&drafted.row(row)?, tree.tokens()[best as usize]);
        greatest.ranks.push((row, ranks));
        path.push(best);
        row = best as usize + 1;
    }
    verify_path(target, &greatest, tree, path, chooser)
}

/// Buckets of p/q: a quarter of an octave each from 2^-16 to 2^16, with the rest in the outermost.
const BUCKETS: usize = 128;

/// The bucket of p/q; where q is 0 it does not matter, since no path goes there.
fn bucket(p: f64, q: f64) -> u8 {
    // The exponent and the first two bits of the mantissa: log2 in quarters, cheaply and the same on every machine.
    let quarter = |x: f64| (x.to_bits() >> 50) as i64;
    if p <= 0.0 {
        return 0;
    }
    (quarter(p / q) - quarter(1.0) + BUCKETS as i64 / 2).clamp(0, BUCKETS as i64 - 1) as u8
}

/// The order of a row's tokens, and where the row stands among all prefixes of its length.
struct Ranks {
    /// One a token.
    bucket: Vec<u8>,
    /// q of all tokens in lower buckets.
    start: [f64; BUCKETS],
    /// Sum of q.
    total: f64,
    /// Number of paths, K.
    paths: i32,
    /// F(< prefix): probability that a path's prefix is lower than the one that leads to this row.
    below: f64,
    /// Probability of that prefix itself.
    mass: f64,
}

impl Ranks {
    fn new<T: Target, Q: Drafted>(
        target: &mut T,
        drafted: &Q,
        row: usize,
        paths: i32,
        below: f64,
        mass: f64,
    ) -> Result<Self> {
        let (p_row, q_row) = (target.row(row)?, drafted.row(row)?);
        let mut bucket_of = Vec::with_capacity(p_row.vocab());
        let mut masses = [0.0; BUCKETS];
        let (mut p, mut q) = ([0.0; BLOCK], [0.0; BLOCK]);
        for start in (0..p_row.vocab()).step_by(BLOCK) {
            let n = BLOCK.min(p_row.vocab() - start);
            p_row.read(start, &mut p[..n]);
            q_row.read(start, &mut q[..n]);
            for (&p, &q) in p[..n].iter().zip(&q[..n]) {
                let b = bucket(p, q);
                bucket_of.push(b);
                masses[b as usize] += q;
            }
        }
        let mut total = 0.0;
        let start = masses.map(|mass| {
            let start = total;
            total += mass;
            start
        });
        Ok(Self { bucket: bucket_of, start, total, paths, below, mass })
    }

    /// (below, mass) of the prefix that a token adds itself to.
    fn descend<R: Row>(&self, q: &R, token: u32) -> (f64, f64) {
        let (lower, own) = self.locate(q, token);
        (self.below + self.mass * lower / self.total, self.mass * own / self.total)
    }

    /// q of all tokens lower than this one, and its own.
    fn locate<R: Row>(&self, q: &R, token: u32) -> (f64, f64) {
        let mut cursor = Cursor { next: 0, lower: self.start };
        let mut own = [0.0];
        let token = token as usize;
        cursor.advance(self, q, token);
        q.read(token, &mut own);
        (cursor.lower[self.bucket[token] as usize], own[0])
    }

    /// Law of the greatest path's next token over q, where `lower` and `upper` are F's share of the row before and with the token:
    /// (b^K - a^K) / (b - a) = sum of b^j a^(K-1-j), which does not cancel.
    fn tilt(&self, lower: f64, upper: f64) -> f64 {
        let power_sum = |a: f64, b: f64| (0..self.paths).map(|j| b.powi(j) * a.powi(self.paths - 1 - j)).sum::<f64>();
        let scale = self.mass / self.total;
        power_sum(self.below + scale * lower, self.below + scale * upper)
            / power_sum(self.below, self.below + self.mass)
    }
}

/// How far a row was read, in id order.
struct Cursor {
    next: usize,
    /// Per bucket, q of the lower buckets and of its own tokens before `next`.
    lower: [f64; BUCKETS],
}

impl Cursor {
    /// Reads on up to `id`.
    fn advance<R: Row>(&mut self, ranks: &Ranks, q_row: &R, id: usize) {
        let mut q = [0.0; BLOCK];
        while self.next < id {
            let n = BLOCK.min(id - self.next);
            q_row.read(self.next, &mut q[..n]);
            for (&b, &q) in ranks.bucket[self.next..self.next + n].iter().zip(&q[..n]) {
                self.lower[b as usize] += q;
            }
            self.next += n;
        }
    }
}

/// The law of the greatest path, row by row along it.
struct Greatest<'q, Q> {
    drafted: &'q Q,
    ranks: Vec<(usize, Ranks)>,
}

impl<Q: Drafted> Drafted for Greatest<'_, Q> {
    type Row<'a>
        = GreatestRow<'a, Q::Row<'a>>
    where
        Self: 'a;

    fn row(&self, row: usize) -> Result<Self::Row<'_>> {
        let at = self.ranks.iter().position(|(r, _)| *r == row);
        let (_, ranks) = &self.ranks[at.expect("block verification looks at the rows of its path only")];
        let cursor = RefCell::new(Cursor { next: 0, lower: ranks.start });
        Ok(GreatestRow { ranks, q: self.drafted.row(row)?, cursor })
    }
}

/// A row of that law. Reading it in id order costs one pass over q; going back starts over.
struct GreatestRow<'a, R> {
    ranks: &'a Ranks,
    q: R,
    cursor: RefCell<Cursor>,
}

impl<R: Row> Row for GreatestRow<'_, R> {
    fn vocab(&self) -> usize {
        self.q.vocab()
    }

    fn get(&self, token: u32) -> f64 {
        let (lower, q) = self.ranks.locate(&self.q, token);
        q * self.ranks.tilt(lower, lower + q)
    }

    fn read(&self, start: usize, out: &mut [f64]) {
        let mut cursor = self.cursor.borrow_mut();
        if start < cursor.next {
            *cursor = Cursor { next: 0, lower: self.ranks.start };
        }
        cursor.advance(self.ranks, &self.q, start);
        self.q.read(start, out);
        for (i, q) in out.iter_mut().enumerate() {
            let lower = &mut cursor.lower[self.ranks.bucket[start + i] as usize];
            let before = *lower;
            *lower += *q;
            *q *= self.ranks.tilt(before, *lower);
        }
        cursor.next = start + out.len();
    }
}
