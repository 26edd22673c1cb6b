//! Acceptance statistics: how much was drafted, how much of it stood, and how deep.

use crate::error::{Error, Result};
use crate::tree::Topology;

/// Counts over the steps of one request or of many.
///
/// A step counts when it had drafts and something was sampled. Padding is no draft, and a step that was scheduled but then not
/// sampled (an aborted or preempted request) leaves no trace: it says nothing about the drafter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AcceptanceStats {
    drafts: u64,
    drafted: Vec<u64>,
    accepted: Vec<u64>,
}

impl AcceptanceStats {
    /// Nothing counted.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts kept elsewhere: steps with drafts, and drafted and accepted tokens of each depth, as [`AcceptanceStats::drafts`],
    /// [`AcceptanceStats::drafted_per_depth`] and [`AcceptanceStats::accepted_per_depth`] gave them.
    ///
    /// # Errors
    /// [`Error::Shape`] when the depths differ in number, [`Error::Argument`] when more was accepted than drafted.
    pub fn from_counts(drafts: u64, drafted: Vec<u64>, accepted: Vec<u64>) -> Result<Self> {
        if drafted.len() != accepted.len() {
            return Err(Error::shape("accepted", accepted.len(), format!("{} (one a depth)", drafted.len())));
        }
        if let Some(d) = (0..drafted.len()).find(|&d| accepted[d] > drafted[d]) {
            return Err(Error::argument(format!("accepted[{d}]"), accepted[d], format!("at most {}", drafted[d])));
        }
        Ok(Self { drafts, drafted, accepted })
    }

    /// Counts a step whose drafts were a chain. Negative ids are padding. `accepted` is the number of drafts that stood, `None`
    /// when nothing was sampled.
    ///
    /// # Errors
    /// [`Error::Argument`] when more was accepted than drafted; nothing is counted then.
    pub fn record_chain(&mut self, draft_token_ids: &[i64], accepted: Option<usize>) -> Result<()> {
        let drafted = draft_token_ids.iter().filter(|&&t| t >= 0).count();
        self.record(1..=drafted, drafted, accepted)
    }

    /// Counts a step whose drafts were a tree. `accepted` is the depth of the accepted path, `None` when nothing was sampled.
    ///
    /// # Errors
    /// [`Error::Argument`] when the path is deeper than the tree; nothing is counted then.
    pub fn record_tree(&mut self, tree: &Topology, accepted: Option<usize>) -> Result<()> {
        let deepest = tree.depths().iter().max().map_or(0, |&d| d as usize);
        self.record(tree.depths().iter().map(|&d| d as usize), deepest, accepted)
    }

    fn record(&mut self, depths: impl Iterator<Item = usize>, deepest: usize, accepted: Option<usize>) -> Result<()> {
        let Some(accepted) = accepted else { return Ok(()) };
        if accepted > deepest {
            return Err(Error::argument("accepted", accepted, format!("at most {deepest}, the depth of the draft")));
        }
        if deepest == 0 {
            return Ok(());
        }
        self.grow(deepest);
        self.drafts += 1;
        for depth in depths {
            self.drafted[depth - 1] += 1;
        }
        for count in &mut self.accepted[..accepted] {
            *count += 1;
        }
        Ok(())
    }

    fn grow(&mut self, depth: usize) {
        if self.drafted.len() < depth {
            self.drafted.resize(depth, 0);
            self.accepted.resize(depth, 0);
        }
    }

    /// Adds the counts of `other`, so that requests, ranks or runs can be counted apart.
    pub fn merge(&mut self, other: &Self) {
        self.grow(other.drafted.len());
        self.drafts += other.drafts;
        let add = |into: &mut [u64], from: &[u64]| into.iter_mut().zip(from).for_each(|(a, b)| *a += b);
        add(&mut self.drafted, &other.drafted);
        add(&mut self.accepted, &other.accepted);
    }

    /// Steps that had drafts.
    pub fn drafts(&self) -> u64 {
        self.drafts
    }

    /// Drafted tokens; for trees, nodes.
    pub fn drafted(&self) -> u64 {
        self.drafted.iter().sum()
    }

    /// Accepted tokens.
    pub fn accepted(&self) -> u64 {
        self.accepted.iter().sum()
    }

    /// Drafted tokens (nodes) at each depth, depth 1 first.
    pub fn drafted_per_depth(&self) -> &[u64] {
        &self.drafted
    }

    /// Steps whose accepted path reached each depth, depth 1 first.
    pub fn accepted_per_depth(&self) -> &[u64] {
        &self.accepted
    }

    /// Share of all steps with drafts whose accepted path reached each depth: unconditional, so that its sum is MAL - 1. A step
    /// whose draft was shallower counts as one that did not reach it.
    pub fn survival(&self) -> Vec<f64> {
        self.accepted.iter().map(|&a| a as f64 / self.drafts as f64).collect()
    }

    /// Mean accepted length, MAL = 1 + accepted / drafts: tokens a step emits, the bonus or residual token included. `None` before
    /// the first draft.
    pub fn mean_accepted_length(&self) -> Option<f64> {
        (self.drafts > 0).then(|| 1.0 + self.accepted() as f64 / self.drafts as f64)
    }

    /// Acceptance rate, AR = accepted / drafted. For trees the denominator is nodes, of which only one a depth can stand. `None` before
    /// the first draft.
    pub fn acceptance_rate(&self) -> Option<f64> {
        (self.drafts > 0).then(|| self.accepted() as f64 / self.drafted() as f64)
    }
}
