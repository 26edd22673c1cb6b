//! Prompt lookup: drafts what followed the last n tokens where they stood before.

use std::hash::BuildHasher;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::{Draft, Requests};
use crate::error::{Error, Result};

/// Which earlier occurrence of the matched n-gram a chain follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Occurrence {
    /// The first one, as vLLM's n-gram proposer.
    #[default]
    Earliest,
    /// The last one.
    Latest,
}

/// How an [`NgramDrafter`] matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NgramConfig {
    /// Longest n-gram looked up (vLLM's `prompt_lookup_max`).
    pub max_n: usize,
    /// Shortest n-gram looked up (vLLM's `prompt_lookup_min`); at least 1.
    pub min_n: usize,
    /// Which occurrence a chain follows.
    pub occurrence: Occurrence,
}

impl Default for NgramConfig {
    fn default() -> Self {
        Self { max_n: 5, min_n: 2, occurrence: Occurrence::Earliest }
    }
}

/// An n-gram costs a table entry for each length at each token.
const MAX_N: usize = 64;
/// A tree counts the continuations of that many occurrences, latest first, so that its cost is bounded on any text.
const TREE_OCCURRENCES: usize = 64;
/// No earlier occurrence.
const NONE: u32 = u32::MAX;
/// Ends are 32-bit.
const MAX_TOKENS: usize = 1 << 30;

/// An index of the n-grams of each request's prompt and output.
///
/// The longest n in `min_n..=max_n` of which the text's last n tokens occurred before is matched, and the tokens after
/// that occurrence are drafted, as in prompt lookup decoding and vLLM's n-gram proposer, token for token. Appending a
/// token costs one hash-table step for each n, a draft copies k tokens; neither depends on the length of the text.
#[derive(Debug, Clone)]
pub struct NgramDrafter {
    config: NgramConfig,
    requests: Requests<Request>,
    hasher: DefaultHashBuilder,
}

#[derive(Debug, Clone)]
struct Request {
    text: Vec<u32>,
    /// One for each n from `min_n`.
    orders: Vec<Order>,
    /// The longest matched order of the text's end.
    matched: Option<Match>,
}

/// Where the n-grams of one n stand. Places are ends: the n-gram that ends at e is `text[e - n..e]`.
#[derive(Debug, Clone, Default)]
struct Order {
    places: HashTable<Places>,
    /// `previous[e - n]`: the end of the occurrence before the one that ends at e.
    previous: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Places {
    first: u32,
    last: u32,
}

#[derive(Debug, Clone, Copy)]
struct Match {
    n: usize,
    earliest: usize,
    latest: usize,
}

impl NgramDrafter {
    /// A drafter without requests.
    ///
    /// # Errors
    /// [`Error::Argument`] that names the field of `config`.
    pub fn new(config: NgramConfig) -> Result<Self> {
        if !(1..=MAX_N).contains(&config.max_n) {
            return Err(Error::argument("max_n", config.max_n, format!("a number from 1 to {MAX_N}")));
        }
        if !(1..=config.max_n).contains(&config.min_n) {
            let expected = format!("a number from 1 to {} (max_n)", config.max_n);
            return Err(Error::argument("min_n", config.min_n, expected));
        }
        Ok(Self { config, requests: Requests::default(), hasher: DefaultHashBuilder::default() })
    }

    /// The configuration.
    pub fn config(&self) -> &NgramConfig {
        &self.config
    }

    /// Starts a request with its prompt, which may be empty.
    ///
    /// # Errors
    /// [`Error::Argument`] when the id is in use or the prompt is longer than 2^30 tokens.
    pub fn start(&mut self, request_id: &str, prompt: &[u32]) -> Result<()> {
        self.requests.check_free(request_id)?;
        let orders = vec![Order::default(); self.config.max_n - self.config.min_n + 1];
        let mut request = Request { text: Vec::new(), orders, matched: None };
        request.append("prompt", prompt, &self.config, &self.hasher)?;
        self.requests.insert(request_id, request);
        Ok(())
    }

    /// Appends tokens that the request has emitted.
    ///
    /// # Errors
    /// [`Error::Argument`] when the id is unknown or the text would be longer than 2^30 tokens.
    pub fn extend(&mut self, request_id: &str, tokens: &[u32]) -> Result<()> {
        self.requests.get_mut(request_id)?.append("tokens", tokens, &self.config, &self.hasher)
    }

    /// Drafts a chain: the tokens after the chosen occurrence, at most `max_tokens` and not past the text's end. All scores
    /// are 1: one occurrence says nothing about others.
    ///
    /// # Errors
    /// [`Error::Argument`] when the id is unknown.
    pub fn draft(&self, request_id: &str, max_tokens: usize) -> Result<Draft> {
        let request = self.requests.get(request_id)?;
        let mut draft = Draft::default();
        if let Some(found) = request.matched {
            let start = match self.config.occurrence {
                Occurrence::Earliest => found.earliest,
                Occurrence::Latest => found.latest,
            };
            let end = start + max_tokens.min(request.text.len() - start);
            for &token in &request.text[start..end] {
                draft.push(token, draft.len() as i32 - 1, 1.0);
            }
            draft.match_len = if draft.is_empty() { 0 } else { found.n };
        }
        Ok(draft)
    }

    /// Drafts a tree of the different continuations, at most `max_nodes` nodes and `max_depth` levels. A node's score is the
    /// share of occurrences that its path followed, of the latest 64 of the matched n-gram. Among equal scores the deeper
    /// part of the later occurrence comes after its parent and before a later sibling's.
    ///
    /// # Errors
    /// [`Error::Argument`] when the id is unknown.
    pub fn draft_tree(&self, request_id: &str, max_nodes: usize, max_depth: usize) -> Result<Draft> {
        let request = self.requests.get(request_id)?;
        let mut draft = Draft::default();
        let Some(found) = request.matched else { return Ok(draft) };
        let ends = request.occurrences(found, self.config.min_n);
        let whole = ends.len() as f32;
        let mut open = groups(&request.text, &ends);
        open.iter_mut().for_each(|group| group.parent = -1);
        let mut depths: Vec<usize> = Vec::new();
        while draft.len() < max_nodes {
            // `max_by_key` keeps the last of equals; reversed, the first: nodes queued earlier win.
            let Some(at) = (0..open.len()).rev().max_by_key(|&i| open[i].ends.len()) else { break };
            let group = open.remove(at);
            let depth = if group.parent < 0 { 1 } else { depths[group.parent as usize] + 1 };
            if depth > max_depth {
                continue;
            }
            let node = draft.push(group.token, group.parent, group.ends.len() as f32 / whole);
            depths.push(depth);
            open.extend(groups(&request.text, &group.ends).into_iter().map(|g| Group { parent: node, ..g }));
        }
        draft.match_len = if draft.is_empty() { 0 } else { found.n };
        Ok(draft)
    }

    /// Drops a request. The id may be used again.
    ///
    /// # Errors
    /// [`Error::Argument`] when the id is unknown.
    pub fn stop(&mut self, request_id: &str) -> Result<()> {
        self.requests.remove(request_id).map(drop)
    }

    /// Whether a request of that id was started and not stopped.
    pub fn is_active(&self, request_id: &str) -> bool {
        self.requests.get(request_id).is_ok()
    }

    /// Number of live requests.
    pub fn active(&self) -> usize {
        self.requests.0.len()
    }

    /// Bytes on the heap for one request, spare capacity included.
    ///
    /// # Errors
    /// [`Error::Argument`] when the id is unknown.
    pub fn request_bytes(&self, request_id: &str) -> Result<usize> {
        let request = self.requests.get(request_id)?;
        let orders =
            request.orders.iter().map(|o| o.places.allocation_size() + o.previous.capacity() * size_of::<u32>());
        Ok(request.text.capacity() * size_of::<u32>() + orders.sum::<usize>())
    }
}

/// Occurrences that were followed by the same token.
struct Group {
    parent: i32,
    token: u32,
    /// Ends moved past that token.
    ends: Vec<usize>,
}

/// Occurrences by the token that follows them, in the order of `ends`; those at the text's end are left out.
fn groups(text: &[u32], ends: &[usize]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for &end in ends {
        let Some(&token) = text.get(end) else { continue };
        match groups.iter_mut().find(|g| g.token == token) {
            Some(group) => group.ends.push(end + 1),
            None => groups.push(Group { parent: -1, token, ends: vec![end + 1] }),
        }
    }
    groups
}

impl Request {
    fn append(
        &mut self,
        argument: &str,
        tokens: &[u32],
        config: &NgramConfig,
        hasher: &DefaultHashBuilder,
    ) -> Result<()> {
        if tokens.len() > MAX_TOKENS - self.text.len() {
            let value = format!("{} tokens after {}", tokens.len(), self.text.len());
            return Err(Error::argument(argument, value, format!("at most {MAX_TOKENS} tokens in all")));
        }
        self.text.reserve(tokens.len());
        for &token in tokens {
            self.text.push(token);
            self.matched = self.index_end(config.min_n, hasher);
        }
        Ok(())
    }

    /// Indexes the n-grams that end with the text; the longest that stood before.
    fn index_end(&mut self, min_n: usize, hasher: &DefaultHashBuilder) -> Option<Match> {
        let (text, end) = (&self.text, self.text.len());
        let mut matched = None;
        for (n, order) in (min_n..=end).zip(&mut self.orders) {
            let hash = |end: usize| hasher.hash_one(&text[end - n..end]);
            let same = |places: &Places| text[places.last as usize - n..places.last as usize] == text[end - n..];
            let before = match order.places.entry(hash(end), same, |places| hash(places.last as usize)) {
                Entry::Occupied(mut entry) => {
                    let before = *entry.get();
                    entry.get_mut().last = end as u32;
                    matched = Some(Match { n, earliest: before.first as usize, latest: before.last as usize });
                    before.last
                }
                Entry::Vacant(entry) => {
                    entry.insert(Places { first: end as u32, last: end as u32 });
                    NONE
                }
            };
            order.previous.push(before);
        }
        matched
    }

    /// Ends of the latest earlier occurrences of the match, latest first.
    fn occurrences(&self, found: Match, min_n: usize) -> Vec<usize> {
        let previous = &self.orders[found.n - min_n].previous;
        let mut ends = vec![found.latest];
        while ends.len() < TREE_OCCURRENCES {
            match previous[ends[ends.len() - 1] - found.n] {
                NONE => break,
                end => ends.push(end as usize),
            }
        }
        ends
    }
}
