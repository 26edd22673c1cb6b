//! What a row has left to emit after some of its children were rejected: the arithmetic that the ratio rules share.

use pulp::NullaryFnOnce;

use super::{BLOCK, Chooser, Drafted, Row, Target};
use crate::coins::Stream;
use crate::error::{Error, Result, RowFault};
use crate::rows::Simd;

/// The measure `m` left at a row that stands with probability `w` (its weight); the total of `m` is `w`.
///
/// It starts as `m = w p`. A child x drawn from q stands with probability `min(1, m(x) / q(x))`, which takes `min(q, m)` out of `m`.
/// When the child is rejected, with `S = sum (m - q)+`,
///
/// ```text
/// m <- (m - q)+ / (S + 1 - w)        w <- S / (S + 1 - w)
/// ```
///
/// and, for draws without replacement, `q <- q(. | not x)`. With w = 1 that is the plain residual `(p - q)+ / S`. The steps are kept
/// instead of their result, so that nothing dense is: a block of `m` is a block of `w p` with the steps applied.
#[derive(Debug)]
pub(super) struct Residual {
    row: usize,
    initial_weight: f64,
    weight: f64,
    without_replacement: bool,
    steps: Vec<Step>,
    /// Mass of q that later children can still be drawn from.
    q_left: f64,
    /// A child was taken out and not yet settled.
    due: bool,
    /// Sums of the blocks of `m`, from when it was last settled; the last step's scale is not in them.
    sums: Vec<f64>,
}

/// One rejected child.
#[derive(Debug, Clone, Copy)]
struct Step {
    token: u32,
    /// 1 / the mass of q the child was drawn from.
    q_scale: f64,
    /// 1 / (S + 1 - w); 1 until it is settled.
    scale: f64,
}

impl Residual {
    /// The untouched measure `weight * p` of a row.
    pub(super) fn new(row: usize, weight: f64, without_replacement: bool) -> Self {
        Self {
            row,
            initial_weight: weight,
            weight,
            without_replacement,
            steps: Vec::new(),
            q_left: 1.0,
            due: false,
            sums: Vec::new(),
        }
    }

    pub(super) fn row(&self) -> usize {
        self.row
    }

    /// Probability that the row stands, given what was rejected and settled.
    pub(super) fn weight(&self) -> f64 {
        self.weight
    }

    /// Probability that a child with this token stands: `min(1, m(x) / q(x))`.
    ///
    /// # Errors
    /// [`Error::Row`]; [`Error::Argument`] when q says that the token can't have been drawn.
    pub(super) fn child_weight<T: Target, Q: Drafted>(&self, target: &mut T, drafted: &Q, token: u32) -> Result<f64> {
        // p first: while its masses are computed the row of q comes from memory.
        let mut m = [target.row(self.row)?.get(token)];
        let q = drafted.row(self.row)?.get(token);
        if q <= 0.0 {
            let name = format!("draft_probs[{}][{token}]", self.row);
            return Err(Error::argument(name, q, "the positive probability with which the token was drafted"));
        }
        self.apply(token as usize, &mut m, &mut [q]);
        Ok((m[0] * self.q_left / q).min(1.0))
    }

    /// Takes a rejected child out. What that leaves is summed up when [`Residual::settle`] is called.
    pub(super) fn subtract(&mut self, token: u32) {
        self.steps.push(Step { token, q_scale: 1.0 / self.q_left, scale: 1.0 });
        self.due = true;
    }

    /// Brings scale, weight and q up to date after [`Residual::subtract`], in one pass over p and q. Returns the weight. Must be
    /// called before another child is looked at; costs nothing when nothing was subtracted.
    ///
    /// # Errors
    /// [`Error::Row`].
    pub(super) fn settle<T: Target, Q: Drafted>(&mut self, target: &mut T, drafted: &Q) -> Result<f64> {
        if !self.due {
            return Ok(self.weight);
        }
        let (p, q) = (target.row(self.row)?, drafted.row(self.row)?);
        let mut q_left = 0.0;
        self.sums.clear();
        let (mut m, mut drawn) = ([0.0; BLOCK], [0.0; BLOCK]);
        for start in (0..p.vocab()).step_by(BLOCK) {
            let n = BLOCK.min(p.vocab() - start);
            p.read(start, &mut m[..n]);
            q.read(start, &mut drawn[..n]);
            self.apply(start, &mut m[..n], &mut drawn[..n]);
            self.sums.push(sum(&m[..n]));
            if self.without_replacement {
                q_left += sum(&drawn[..n]);
            }
        }
        let rest: f64 = self.sums.iter().sum();
        // Zero only where m = q and w = 1, and there nothing is rejected but by rounding.
        let kept = rest + 1.0 - self.weight;
        let scale = if kept > 0.0 { 1.0 / kept } else { 1.0 };
        self.weight = (rest * scale).min(1.0);
        if self.without_replacement {
            self.q_left = q_left;
        }
        if let Some(step) = self.steps.last_mut() {
            step.scale = scale;
        }
        self.due = false;
        Ok(self.weight)
    }

    /// Probability that the row stands once its last child was taken out. A row of weight 1 does, whatever the sum.
    ///
    /// # Errors
    /// [`Error::Row`].
    pub(super) fn stands<T: Target, Q: Drafted>(&mut self, target: &mut T, drafted: &Q) -> Result<f64> {
        if self.weight >= 1.0 { Ok(1.0) } else { self.settle(target, drafted) }
    }

    /// Draws the token that ends the step from `m`.
    ///
    /// # Errors
    /// [`Error::Row`].
    pub(super) fn pick<T: Target, Q: Drafted>(
        &self,
        target: &mut T,
        drafted: &Q,
        chooser: &mut impl Chooser,
    ) -> Result<u32> {
        let node = self.row as u32;
        let p = target.row(self.row)?;
        let q = drafted.row(self.row)?;
        let mut drawn = [0.0; BLOCK];
        let mut weights = |start: usize, out: &mut [f64]| {
            let drawn = &mut drawn[..out.len()];
            p.read(start, out);
            q.read(start, drawn);
            self.apply(start, out, drawn);
        };
        let scale = self.steps.last().map_or(1.0, |step| step.scale);
        let picked = if self.due || self.sums.is_empty() {
            chooser.pick(Stream::Residual, node, p.vocab(), &mut weights)
        } else {
            let sums = self.sums.iter().map(|sum| sum * scale).collect();
            chooser.pick_summed(Stream::Residual, node, p.vocab(), sums, &mut weights)
        };
        // Nothing is left only where p = q to within rounding: then p is what is left.
        picked
            .or_else(|| chooser.pick(Stream::Residual, node, p.vocab(), &mut |start, out| p.read(start, out)))
            .ok_or_else(|| Error::row(self.row, RowFault::NoMass))
    }

    /// Turns `p` of ids `start..` into `m`; `q` becomes what later draws can be, unscaled.
    fn apply(&self, start: usize, p: &mut [f64], q: &mut [f64]) {
        Simd::best().run(Apply { residual: self, start, p, q });
    }
}

/// [`Residual::apply`].
struct Apply<'a> {
    residual: &'a Residual,
    start: usize,
    p: &'a mut [f64],
    q: &'a mut [f64],
}

impl NullaryFnOnce for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { residual, start, p, q } = self;
        // A multiplication by 1 would cost a pass over the block.
        if residual.initial_weight != 1.0 {
            p.iter_mut().for_each(|m| *m *= residual.initial_weight);
        }
        for step in &residual.steps {
            for (m, &q) in p.iter_mut().zip(q.iter()) {
                // Not f64::max, whose care for NaN costs; there is none here.
                let rest = *m - q * step.q_scale;
                *m = if rest > 0.0 { rest * step.scale } else { 0.0 };
            }
            let index = (step.token as usize).wrapping_sub(start);
            if residual.without_replacement && index < q.len() {
                q[index] = 0.0;
            }
        }
    }
}

/// Sum in eight lanes, the same on every machine.
pub(super) fn sum(values: &[f64]) -> f64 {
    Simd::best().run(Sum { values })
}

struct Sum<'a> {
    values: &'a [f64],
}

impl NullaryFnOnce for Sum<'_> {
    type Output = f64;

    #[inline(always)]
    fn call(self) -> f64 {
        let mut lanes = [0.0; 8];
        let (chunks, rest) = self.values.as_chunks::<8>();
        for chunk in chunks {
            for (lane, value) in lanes.iter_mut().zip(chunk) {
                *lane += value;
            }
        }
        lanes.iter().sum::<f64>() + rest.iter().sum::<f64>()
    }
}
