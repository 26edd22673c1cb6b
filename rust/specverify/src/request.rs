//! One verification step of one request, and of a batch.

use crate::coins::Coins;
use crate::error::{Error, Result};
use crate::params::SamplingParams;
use crate::pool;
use crate::rows::{Context, DraftRows, Logprobs, LogprobsMode, Matrix, TargetRows};
use crate::verify::{AnyTree, CoinChooser, Rule, decide};

/// What a step of one request is made of.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Target logits `[n + 1, V]`: row 0 follows the root, row i + 1 node i.
    pub logits: Matrix<'a>,
    /// The drafts.
    pub tree: &'a AnyTree,
    /// `None` is `auto`: see [`Rule::auto`].
    pub rule: Option<Rule>,
    /// q, `[n + 1, V]`: row r is what the children of row r were drawn from; `[n, V]` will do for a chain.
    pub draft_probs: Option<Matrix<'a>>,
    /// Validated sampling parameters.
    pub params: &'a SamplingParams,
    /// Seed of the noise: that of the parameters, or one from [`crate::coins::derive_seed`].
    pub seed: u64,
    /// Position of the first token this step emits.
    pub position: u32,
    /// Prompt.
    pub prompt: &'a [u32],
    /// Tokens emitted before this step.
    pub output: &'a [u32],
    /// Nothing is emitted after one of these.
    pub stop_token_ids: &'a [u32],
    /// What the log-probabilities are of, when the parameters ask for any.
    pub logprobs_mode: LogprobsMode,
}

/// What a step of one request emits.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Node ids of the accepted path, root first.
    pub path: Vec<u32>,
    /// The tokens of the path and one more, none after a stop token.
    pub tokens: Vec<u32>,
    /// One an emitted token; `None` when the parameters ask for none.
    pub logprobs: Option<Vec<Logprobs>>,
    /// Whether the last token is a stop token.
    pub finished: bool,
    /// The rule that was used.
    pub rule: Rule,
    /// The seed that was used.
    pub seed: u64,
}

impl Request<'_> {
    /// Verifies the drafts.
    ///
    /// # Errors
    /// [`Error::Pairing`] when the rule is not proved for the draws; [`Error::Shape`] when logits or q do not fit the tree;
    /// [`Error::Tree`] for a token outside the vocabulary; [`Error::Row`] when a row that is reached holds no distribution;
    /// [`Error::Argument`] for parameters outside the vocabulary, for q that is missing or 0 where a token was drafted.
    pub fn verify(&self) -> Result<Outcome> {
        let rule =
            self.rule.unwrap_or_else(|| Rule::auto(self.tree, self.draft_probs.is_some(), self.params.temperature));
        rule.check(self.tree)?;
        self.tree.check_vocab(self.logits.vocab())?;
        let context = Context {
            params: self.params,
            seed: self.seed,
            position: self.position,
            prompt: self.prompt,
            output: self.output,
            stop_token_ids: self.stop_token_ids,
            tree: self.tree,
        };
        let mut target = TargetRows::new(self.logits, context)?;
        let q = if rule.reads_draft_probs() { self.fitting_draft_probs()? } else { None };
        if let Some(q) = q {
            target = target.beside(q);
        }
        let drafted = q.map(DraftRows::new).transpose()?;
        let mut chooser = CoinChooser::new(Coins::new(self.seed), self.position);
        let decision = decide(rule, self.tree, &mut target, drafted.as_ref(), &mut chooser)?;

        let mut path = decision.path;
        let mut tokens: Vec<u32> = path.iter().map(|&node| self.tree.tokens()[node as usize]).collect();
        tokens.push(decision.next);
        let stop = tokens.iter().position(|token| self.stop_token_ids.contains(token));
        if let Some(stop) = stop {
            tokens.truncate(stop + 1);
            path.truncate(stop + 1);
        }
        let logprobs = match self.params.logprobs {
            None => None,
            Some(k) => {
                let rows = std::iter::once(0).chain(path.iter().map(|&node| node as usize + 1));
                let each = rows.zip(&tokens).map(|(row, &t)| target.logprobs(row, t, k as usize, self.logprobs_mode));
                Some(each.collect::<Result<_>>()?)
            }
        };
        Ok(Outcome { path, tokens, logprobs, finished: stop.is_some(), rule, seed: self.seed })
    }

    /// q, if its shape fits the tree.
    fn fitting_draft_probs(&self) -> Result<Option<Matrix<'_>>> {
        let Some(q) = self.draft_probs else { return Ok(None) };
        let (rows, vocab) = (self.tree.rows(), self.logits.vocab());
        let fits = q.rows() == rows || self.tree.is_chain() && q.rows() + 1 == rows;
        if !fits || q.vocab() != vocab {
            let expected = format!("[{rows}, {vocab}] (or one row less for a chain)");
            return Err(Error::shape("draft_probs", format!("[{}, {}]", q.rows(), q.vocab()), expected));
        }
        Ok(Some(q))
    }
}

/// Verifies a batch, in parallel over its requests. A fault of one request is that request's result and leaves the others alone.
///
/// # Errors
/// [`Error::Argument`] when `SPECVERIFY_NUM_THREADS` is no number of threads.
pub fn verify_batch(requests: &[Request<'_>]) -> Result<Vec<Result<Outcome>>> {
    pool::map(requests, Request::verify)
}
