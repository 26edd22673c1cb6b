//! Log-probabilities of a row: of one token, and of the most likely.

use pulp::NullaryFnOnce;

use crate::coins::GROUP;
use crate::rows::mass::ONE;
use crate::rows::matrix::Element;
use crate::rows::prepared::{View, kept_first};
use crate::rows::simd::Simd;
use crate::rows::support::Support;

/// Which distribution log-probabilities are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogprobsMode {
    /// The model's own: the logits as they came.
    #[default]
    Raw,
    /// After all sampling parameters (at T = 0: after the edits, unscaled).
    Processed,
}

/// Log-probabilities of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Logprobs {
    /// Of the token asked for; -inf when its probability is 0.
    pub token: f32,
    /// Its rank: the number of tokens whose logit is not less, itself included.
    pub rank: u32,
    /// (id, log-probability) of the most likely tokens: log-probability descending, id ascending. Only tokens that may be drawn.
    pub top: Vec<(u32, f32)>,
}

/// Log-probabilities of `token` and of the `k` most likely among the ids that `support` keeps.
pub(crate) fn logprobs<E: Element>(simd: Simd, view: View<'_, E>, support: Support, token: u32, k: usize) -> Logprobs {
    let log_total = (support.total(simd, view) as f64 / ONE as f64).ln();
    let logprob = |x: f32| (f64::from(view.scaled(x)) - log_total) as f32;
    let x = view.logit(token);
    let kept = x > f32::NEG_INFINITY && support.keeps(x, view.scaled(x), token);
    let mut top = if k == 0 { Vec::new() } else { view.head(k) };
    top.retain(|&(x, id)| support.keeps(x, view.scaled(x), id));
    top.sort_unstable_by(kept_first);
    top.truncate(k);
    Logprobs {
        token: if kept { logprob(x) } else { f32::NEG_INFINITY },
        rank: if kept { simd.run(Rank { view, support, x }) } else { view.row.len() as u32 },
        top: top.into_iter().map(|(x, id)| (id, logprob(x))).collect(),
    }
}

/// Counts the kept ids whose logit is at least `x`.
struct Rank<'a, E> {
    view: View<'a, E>,
    support: Support,
    x: f32,
}

impl<E: Element> NullaryFnOnce for Rank<'_, E> {
    type Output = u32;

    #[inline(always)]
    fn call(self) -> u32 {
        let mut rank = 0;
        for (group, &max) in self.view.prepared.maxima.iter().enumerate() {
            if max >= self.x {
                let x = self.view.group(group);
                for (i, &x) in x.iter().enumerate() {
                    let kept = self.support.keeps(x, self.view.scaled(x), (group * GROUP + i) as u32);
                    rank += u32::from(x >= self.x && kept);
                }
            }
        }
        rank
    }
}
