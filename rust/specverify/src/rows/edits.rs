//! Sparse edits of logits: what a request's parameters change before the temperature, along a node's own path.
//!
//! In vLLM's order: allowed ids, bad words and min_tokens (bans), logit bias, repetition, frequency and presence penalties.

use crate::coins::GROUP;
use crate::error::{Error, Result, RowFault};
use crate::params::SamplingParams;
use crate::rows::matrix::Element;

/// What is done to one id.
#[derive(Debug, Clone, Copy, Default)]
struct Change {
    banned: bool,
    /// Occurs in the prompt, the output or the path.
    seen: bool,
    /// Occurrences in the output and the path.
    count: u32,
    bias: f32,
}

impl Change {
    fn merge(&mut self, other: Self) {
        self.banned |= other.banned;
        self.seen |= other.seen;
        self.count += other.count;
        self.bias += other.bias;
    }
}

/// The changes that every row of a request shares, made once.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    params: &'a SamplingParams,
    output: &'a [u32],
    stop_token_ids: &'a [u32],
    vocab: usize,
    /// By id, each id once.
    base: Vec<(u32, Change)>,
    /// Sorted; `None` allows all.
    allowed: Option<Vec<u32>>,
}

impl<'a> Request<'a> {
    /// Checks the ids that the parameters name and gathers what prompt and output penalise. Ids of the prompt, the output and the
    /// stop tokens that lie outside the vocabulary (placeholders) are passed over.
    pub fn new(
        params: &'a SamplingParams,
        prompt: &[u32],
        output: &'a [u32],
        stop_token_ids: &'a [u32],
        vocab: usize,
    ) -> Result<Self> {
        let check = |name: &str, id: u32| {
            let inside = (id as usize) < vocab;
            if inside { Ok(()) } else { Err(Error::argument(name, id, format!("an id below {vocab}, the vocabulary"))) }
        };
        let mut base = Vec::new();
        for &(id, bias) in &params.logit_bias {
            check("logit_bias", id)?;
            base.push((id, Change { bias, ..Change::default() }));
        }
        for word in &params.bad_words_token_ids {
            word.iter().try_for_each(|&id| check("bad_words_token_ids", id))?;
        }
        let mut allowed = None;
        if let Some(ids) = &params.allowed_token_ids {
            ids.iter().try_for_each(|&id| check("allowed_token_ids", id))?;
            base.extend(ids.iter().map(|&id| (id, Change::default())));
            let mut ids = ids.clone();
            ids.sort_unstable();
            ids.dedup();
            allowed = Some(ids);
        }
        let mut request = Self { params, output, stop_token_ids, vocab, base, allowed };
        if params.repetition_penalty != 1.0 {
            let seen = prompt.iter().map(|&id| (id, Change { seen: true, ..Change::default() }));
            request.base.extend(seen);
        }
        let mut base = std::mem::take(&mut request.base);
        base.extend(output.iter().filter_map(|&id| Some((id, request.emitted()?))));
        request.keep_editable(&mut base);
        merge(&mut base);
        request.base = base;
        Ok(request)
    }

    /// What a token of the output or the path changes for the rows after it.
    fn emitted(&self) -> Option<Change> {
        let p = self.params;
        let penalised = p.repetition_penalty != 1.0 || p.frequency_penalty != 0.0 || p.presence_penalty != 0.0;
        penalised.then_some(Change { seen: true, count: 1, ..Change::default() })
    }

    fn keep_editable(&self, changes: &mut Vec<(u32, Change)>) {
        changes.retain(|&(id, _)| {
            (id as usize) < self.vocab && self.allowed.as_ref().is_none_or(|ids| ids.binary_search(&id).is_ok())
        });
    }

    /// The edits of the row after `path` (tokens from the root's child down), given its raw logits.
    pub fn edits<E: Element>(&self, row: &[E], path: &[u32]) -> Edits {
        let mut changes = self.base.clone();
        changes.extend(path.iter().filter_map(|&id| Some((id, self.emitted()?))));
        let ban = Change { banned: true, ..Change::default() };
        if self.output.len() + path.len() < self.params.min_tokens as usize {
            changes.extend(self.stop_token_ids.iter().map(|&id| (id, ban)));
        }
        changes.extend(
            self.params.bad_words_token_ids.iter().filter_map(|word| self.completes(word, path)).map(|id| (id, ban)),
        );
        if changes.len() > self.base.len() {
            self.keep_editable(&mut changes);
            merge(&mut changes);
        }
        let entries = changes.iter().map(|&(id, change)| (id, self.apply(row[id as usize].f32(), change))).collect();
        Edits::new(entries, self.allowed.is_some(), self.vocab)
    }

    /// The last id of a bad word whose other ids have just been emitted. As in vLLM the output and the path count, the prompt
    /// does not.
    fn completes(&self, word: &[u32], path: &[u32]) -> Option<u32> {
        let (&last, before) = word.split_last()?;
        let emitted = self.output.len() + path.len();
        let start = emitted.checked_sub(before.len())?;
        let token = |i: usize| if i < self.output.len() { self.output[i] } else { path[i - self.output.len()] };
        (start..emitted).map(token).eq(before.iter().copied()).then_some(last)
    }

    fn apply(&self, x: f32, change: Change) -> f32 {
        let p = self.params;
        if change.banned {
            return f32::NEG_INFINITY;
        }
        let mut x = x + change.bias;
        if change.seen {
            x *= if x > 0.0 { 1.0 / p.repetition_penalty } else { p.repetition_penalty };
        }
        x -= p.frequency_penalty * change.count as f32;
        if change.count > 0 { x - p.presence_penalty } else { x }
    }
}

/// Sorts by id and merges what concerns one id.
fn merge(changes: &mut Vec<(u32, Change)>) {
    changes.sort_by_key(|&(id, _)| id);
    changes.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1.merge(next.1);
        }
        same
    });
}

/// Logits of a row that differ from the raw ones.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    /// (id, new logit), by id.
    entries: Vec<(u32, f32)>,
    /// Whether all other ids are -inf.
    only: bool,
    /// Entries of group g are `entries[starts[g]..starts[g + 1]]`; empty when there are no edits.
    starts: Vec<u32>,
}

impl Edits {
    fn new(entries: Vec<(u32, f32)>, only: bool, vocab: usize) -> Self {
        if entries.is_empty() && !only {
            return Self::default();
        }
        let mut starts = vec![0_u32; vocab.div_ceil(GROUP) + 1];
        for &(id, _) in &entries {
            starts[id as usize / GROUP + 1] += 1;
        }
        for g in 1..starts.len() {
            starts[g] += starts[g - 1];
        }
        Self { entries, only, starts }
    }

    /// Whether the row is the raw one.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Whether all ids but the edited ones are -inf.
    pub fn only(&self) -> bool {
        self.only
    }

    /// The edited ids of a group and their logits.
    #[inline(always)]
    pub fn of_group(&self, group: usize) -> &[(u32, f32)] {
        if self.is_empty() {
            return &[];
        }
        &self.entries[self.starts[group] as usize..self.starts[group + 1] as usize]
    }

    /// Groups that hold an edited id, in order.
    pub fn groups(&self) -> impl Iterator<Item = usize> + '_ {
        let mut previous = usize::MAX;
        self.entries.iter().map(|&(id, _)| id as usize / GROUP).filter(move |&group| {
            let new = group != previous;
            previous = group;
            new
        })
    }

    /// What a penalty or a bias drove out of range.
    pub fn fault(&self) -> Option<RowFault> {
        let nan = self.entries.iter().any(|(_, x)| x.is_nan());
        let inf = self.entries.iter().any(|&(_, x)| x == f32::INFINITY);
        if nan { Some(RowFault::Nan) } else { inf.then_some(RowFault::PosInf) }
    }
}
