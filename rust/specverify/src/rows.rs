//! Rows of logits with a request's sampling parameters applied: the one place where they act.
//!
//! A row is read when a rule first asks for it: one pass takes the maxima of groups of 64 ids, everything else starts from these,
//! and nothing of the size of a row is kept. Edits (bans, bias, penalties) are sparse and follow each node's own path; then come
//! temperature, min_p, top_k and top_p, which leave a head of one order: logit descending, id ascending.

mod drafted;
mod edits;
mod logprobs;
mod mass;
mod matrix;
mod maxima;
mod prepared;
mod race;
mod read;
mod simd;
mod support;

pub use drafted::{DraftRow, DraftRows};
pub use logprobs::{Logprobs, LogprobsMode};
pub use matrix::{Matrix, Values};
pub use simd::Simd;

pub(crate) use edits::{Edits, Request};
pub(crate) use matrix::{Element, with_row};
pub(crate) use maxima::{greater, of_group};
pub(crate) use prepared::{Prepared, View, kept_first};
pub(crate) use race::Race;
pub(crate) use simd::Ahead;
pub(crate) use support::Support;

use crate::coins::Coins;
use crate::error::{Error, Result, RowFault};
use crate::params::SamplingParams;
use crate::tree::Topology;
use crate::verify::{Row, Target};

/// What a request's rows depend on besides its logits.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Validated sampling parameters.
    pub params: &'a SamplingParams,
    /// Seed of the noise.
    pub seed: u64,
    /// Position of the first emitted token.
    pub position: u32,
    /// Prompt, for the repetition penalty.
    pub prompt: &'a [u32],
    /// Tokens emitted before this step.
    pub output: &'a [u32],
    /// Banned until `min_tokens` stand.
    pub stop_token_ids: &'a [u32],
    /// The draft tree: row 0 follows its root, row i + 1 its node i.
    pub tree: &'a Topology,
}

/// The target's rows of one request: `[n + 1, vocab]` logits, each read when it is first asked for.
#[derive(Debug)]
pub struct TargetRows<'a> {
    logits: Matrix<'a>,
    context: Context<'a>,
    request: Request<'a>,
    coins: Coins,
    simd: Simd,
    reached: Vec<Option<Box<Reached>>>,
    drafted: Option<Matrix<'a>>,
}

/// What is kept of a row that was asked for.
#[derive(Debug)]
struct Reached {
    prepared: Prepared,
    /// `None` until something needs the filters.
    support: Option<Support>,
    token: Option<u32>,
}

impl<'a> TargetRows<'a> {
    /// Rows of a request; no logit is read yet.
    ///
    /// # Errors
    /// [`Error::Shape`] when there is not one row for the root and one a node, [`Error::Dtype`] for f64 logits, [`Error::Argument`]
    /// when a parameter names an id outside the vocabulary, positions exceed 32 bits, or `SPECVERIFY_SIMD` is wrong.
    pub fn new(logits: Matrix<'a>, context: Context<'a>) -> Result<Self> {
        logits.check_logits()?;
        let Context { params, tree, .. } = context;
        if logits.rows() != tree.rows() {
            let value = format!("[{}, {}]", logits.rows(), logits.vocab());
            return Err(Error::shape(
                "logits",
                value,
                format!("{} rows: one for the root and one a node", tree.rows()),
            ));
        }
        let depth = tree.depths().iter().copied().max().unwrap_or(0);
        if context.position.checked_add(depth).is_none() {
            return Err(Error::argument(
                "position",
                context.position,
                format!("at most 2^32 - 1 - {depth}, the depth"),
            ));
        }
        let request = Request::new(params, context.prompt, context.output, context.stop_token_ids, logits.vocab())?;
        let reached = (0..logits.rows()).map(|_| None).collect();
        Ok(Self {
            logits,
            context,
            request,
            coins: Coins::new(context.seed),
            simd: Simd::detect()?,
            reached,
            drafted: None,
        })
    }

    /// Tells that a row of `draft_probs` is read after that of the same number here, so that it can be fetched ahead.
    #[must_use]
    pub fn beside(mut self, draft_probs: Matrix<'a>) -> Self {
        self.drafted = Some(draft_probs);
        self
    }

    /// With another instruction set; the results are the same.
    #[must_use]
    pub fn with_simd(mut self, simd: Simd) -> Self {
        self.simd = simd;
        self
    }

    /// Size of the vocabulary.
    pub fn vocab(&self) -> usize {
        self.logits.vocab()
    }

    /// What the rows depend on besides the logits.
    pub fn context(&self) -> &Context<'a> {
        &self.context
    }

    /// Whether a row has been read.
    pub fn is_reached(&self, row: usize) -> bool {
        self.reached.get(row).is_some_and(Option::is_some)
    }

    /// Log-probabilities of a row: of `token`, and of the `k` most likely.
    ///
    /// # Errors
    /// [`Error::Row`] as for any other question to the row, [`Error::Argument`] when `token` is outside the vocabulary.
    pub fn logprobs(&mut self, row: usize, token: u32, k: usize, mode: LogprobsMode) -> Result<Logprobs> {
        if token as usize >= self.vocab() {
            return Err(Error::argument("token", token, format!("an id below {}", self.vocab())));
        }
        let (simd, values, greedy) = (self.simd, self.logits.row(row)?, self.is_greedy());
        if mode == LogprobsMode::Raw {
            let fault = |fault| Error::row(row, fault);
            return with_row!(values, raw => {
                let prepared = Prepared::new(simd, raw, Edits::default(), 1.0).map_err(fault)?;
                let view = View { row: raw, prepared: &prepared };
                Ok(logprobs::logprobs(simd, view, Support::UNFILTERED, token, k))
            });
        }
        let support = if greedy { Support::UNFILTERED } else { self.support(row)? };
        let prepared = &self.reach(row)?.prepared;
        Ok(with_row!(values, raw => logprobs::logprobs(simd, View { row: raw, prepared }, support, token, k)))
    }

    fn is_greedy(&self) -> bool {
        self.context.params.temperature == 0.0
    }

    /// Reads a row if it has not been read.
    fn reach(&mut self, row: usize) -> Result<&mut Reached> {
        let values = self.logits.row(row)?;
        let slot = &mut self.reached[row];
        if slot.is_none() {
            let tree = self.context.tree;
            let path: Vec<u32> = tree.path(row).iter().map(|&node| tree.tokens()[node as usize]).collect();
            let temperature = self.context.params.temperature;
            let prepared = with_row!(values, raw => {
                Prepared::new(self.simd, raw, self.request.edits(raw, &path), temperature)
            });
            let prepared = prepared.map_err(|fault| Error::row(row, fault))?;
            *slot = Some(Box::new(Reached { prepared, support: None, token: None }));
        }
        slot.as_deref_mut().ok_or_else(|| Error::row(row, RowFault::NoMass))
    }

    /// The ids that the filters leave.
    fn support(&mut self, row: usize) -> Result<Support> {
        let (simd, params, values) = (self.simd, self.context.params, self.logits.row(row)?);
        let Reached { prepared, support, .. } = self.reach(row)?;
        Ok(*support
            .get_or_insert_with(|| with_row!(values, raw => Support::of(simd, View { row: raw, prepared }, params))))
    }
}

impl Target for TargetRows<'_> {
    type Row<'b>
        = TargetRow<'b>
    where
        Self: 'b;

    fn token(&mut self, row: usize) -> Result<u32> {
        if self.is_greedy() {
            return self.argmax(row);
        }
        if let Some(token) = self.reach(row)?.token {
            return Ok(token);
        }
        let support = self.support(row)?;
        let (simd, coins, values) = (self.simd, self.coins, self.logits.row(row)?);
        let position = self.context.position + self.context.tree.row_depth(row);
        let reached = self.reach(row)?;
        let prepared = &reached.prepared;
        let podium = with_row!(values, raw => {
            simd.run(Race { view: View { row: raw, prepared }, support, coins, position, places: 1 })
        });
        // The row's maximum always takes part, so somebody wins.
        let token = podium.first().map_or(prepared.argmax, |&(_, id)| id);
        reached.token = Some(token);
        Ok(token)
    }

    fn argmax(&mut self, row: usize) -> Result<u32> {
        Ok(self.reach(row)?.prepared.argmax)
    }

    fn row(&mut self, row: usize) -> Result<TargetRow<'_>> {
        let (simd, values) = (self.simd, self.logits.row(row)?);
        if self.is_greedy() {
            let prepared = &self.reach(row)?.prepared;
            return Ok(TargetRow { values, prepared, law: Law::OneHot, simd });
        }
        let mut support = self.support(row)?;
        let ahead = self.drafted.and_then(|q| q.row(row).ok());
        let reached = self.reach(row)?;
        let prepared = &reached.prepared;
        let ahead = ahead.map_or(Ahead::NOTHING, |values| with_row!(values, q => Ahead::of(q)));
        let total = with_row!(values, raw => support.total_while(simd, View { row: raw, prepared }, ahead));
        support.total = Some(total);
        reached.support = Some(support);
        Ok(TargetRow { values, prepared, law: Law::Masses { support, inverse_total: 1.0 / total as f64 }, simd })
    }
}

/// A processed row of [`TargetRows`].
#[derive(Debug, Clone, Copy)]
pub struct TargetRow<'a> {
    values: Values<'a>,
    prepared: &'a Prepared,
    law: Law,
    simd: Simd,
}

#[derive(Debug, Clone, Copy)]
enum Law {
    /// T = 0.
    OneHot,
    Masses {
        support: Support,
        inverse_total: f64,
    },
}

impl Row for TargetRow<'_> {
    fn vocab(&self) -> usize {
        with_row!(self.values, raw => raw.len())
    }

    fn get(&self, token: u32) -> f64 {
        if token as usize >= self.vocab() {
            return 0.0;
        }
        match self.law {
            Law::OneHot => f64::from(u8::from(token == self.prepared.argmax)),
            Law::Masses { support, inverse_total } => with_row!(self.values, raw => {
                let view = View { row: raw, prepared: self.prepared };
                let x = view.logit(token);
                let y = view.scaled(x);
                if support.keeps(x, y, token) { read::probability(mass::whole_mass(y), inverse_total) } else { 0.0 }
            }),
        }
    }

    fn read(&self, start: usize, out: &mut [f64]) {
        match self.law {
            Law::OneHot => {
                out.fill(0.0);
                if let Some(one) = (self.prepared.argmax as usize).checked_sub(start).and_then(|i| out.get_mut(i)) {
                    *one = 1.0;
                }
            }
            Law::Masses { support, inverse_total } => with_row!(self.values, raw => {
                let view = View { row: raw, prepared: self.prepared };
                self.simd.run(read::Read { view, support, inverse_total, start, out });
            }),
        }
    }
}

/// The pass over a row that everything starts from, alone: the maximum of every group of 64 ids. For benchmarks.
///
/// # Errors
/// [`Error::Row`] when the row holds NaN or +inf.
#[doc(hidden)]
pub fn maxima_only(simd: Simd, logits: &Matrix<'_>, row: usize, out: &mut Vec<f32>) -> Result<()> {
    let values = logits.row(row)?;
    out.resize(maxima::groups(logits.vocab()), 0.0);
    with_row!(values, raw => maxima::maxima(simd, raw, out)).map_err(|fault| Error::row(row, fault))
}
