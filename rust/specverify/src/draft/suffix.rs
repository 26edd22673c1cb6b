//! Drafts what followed the longest suffix of the text that was seen before (SuffixDecoding, 2411.04975).

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::automaton::{Automaton, MAX_TOKENS, START};
use super::corpus::{Corpus, Place};
use super::{Draft, Requests};
use crate::error::{Error, Result};

/// How a [`SuffixDrafter`] matches and drafts.
#[derive(Debug, Clone, PartialEq)]
pub struct SuffixConfig {
    /// Longest string counted, match and draft together; at least 2. At most half of it is drafted.
    pub max_depth: usize,
    /// Matches of fewer tokens draft nothing; at least 1. On ten texts of SmolLM2, 1 drafts three times as often as 2 for 6 % fewer
    /// passes: worth it where a wider pass is free.
    pub min_match: usize,
    /// A match of m tokens drafts at most `max_spec_factor * m + max_spec_offset` tokens deep: longer matches are trusted further.
    pub max_spec_factor: f32,
    /// See `max_spec_factor`.
    pub max_spec_offset: f32,
    /// A node is drafted while its score (the product of frequencies along its path) is at least this, in [0, 1].
    pub min_token_prob: f32,
    /// Bytes for outputs of finished requests, from which all later requests draft; 0, the default, keeps none.
    ///
    /// **Shared between tenants**: whoever can time or count accepted drafts can learn what others were told. Turn it on
    /// only where all requests may know of each other.
    pub corpus_bytes: usize,
}

impl Default for SuffixConfig {
    fn default() -> Self {
        Self {
            max_depth: 64,
            min_match: 2,
            max_spec_factor: 4.0,
            max_spec_offset: 0.0,
            min_token_prob: 0.1,
            corpus_bytes: 0,
        }
    }
}

/// Smallest corpus that is accepted: below it nothing useful fits.
const MIN_CORPUS_BYTES: usize = 1 << 16;

/// Largest corpus that is accepted: its states are numbered by u32.
const MAX_CORPUS_BYTES: usize = 1 << 38;
/// Bounds the work of one draft on a short text, and keeps `max_depth` in range of 32-bit lengths.
const MAX_DEPTH: usize = 1 << 16;

/// A suffix index over each request's prompt and output, and optionally over earlier outputs.
///
/// A token and a chain of 8 take about a microsecond on source code (`benches/draft.rs`). Appending costs at most a step
/// for each of `max_depth` suffixes, amortised; memory is linear in the text (at most 2 states and 3 edges a token, about
/// 60 bytes on source code).
#[derive(Debug, Clone)]
pub struct SuffixDrafter {
    config: SuffixConfig,
    requests: Requests<Request>,
    corpus: Option<Corpus>,
}

#[derive(Debug, Clone)]
struct Request {
    index: Automaton,
    len: usize,
    /// Kept for the corpus only: the end of the text, and where it stands there; then the output.
    recent: Vec<u32>,
    place: Place,
    output: Vec<u32>,
}

impl SuffixDrafter {
    /// A drafter without requests.
    ///
    /// # Errors
    /// [`Error::Argument`] that names the field of `config`.
    pub fn new(config: SuffixConfig) -> Result<Self> {
        if !(2..=MAX_DEPTH).contains(&config.max_depth) {
            return Err(Error::argument("max_depth", config.max_depth, format!("a number from 2 to {MAX_DEPTH}")));
        }
        if !(1..config.max_depth).contains(&config.min_match) {
            return Err(Error::argument(
                "min_match",
                config.min_match,
                format!("a number from 1 to {}, below max_depth", config.max_depth - 1),
            ));
        }
        if !(config.max_spec_factor >= 0.0 && config.max_spec_factor.is_finite()) {
            return Err(Error::argument("max_spec_factor", config.max_spec_factor, "a finite number >= 0"));
        }
        if !config.max_spec_offset.is_finite() {
            return Err(Error::argument("max_spec_offset", config.max_spec_offset, "a finite number"));
        }
        if !(0.0..=1.0).contains(&config.min_token_prob) {
            return Err(Error::argument("min_token_prob", config.min_token_prob, "a number in [0, 1]"));
        }
        if config.corpus_bytes != 0 && !(MIN_CORPUS_BYTES..=MAX_CORPUS_BYTES).contains(&config.corpus_bytes) {
            let expected = format!("0 (no corpus) or a number from {MIN_CORPUS_BYTES} to {MAX_CORPUS_BYTES}");
            return Err(Error::argument("corpus_bytes", config.corpus_bytes, expected));
        }
        // The corpus is allocated when the first request ends, and would take the process with it.
        if Vec::<u8>::new().try_reserve_exact(config.corpus_bytes).is_err() {
            return Err(Error::argument("corpus_bytes", config.corpus_bytes, "no more than the memory there is"));
        }
        let corpus = (config.corpus_bytes != 0).then(|| Corpus::new(config.max_depth as u32, config.corpus_bytes));
        Ok(Self { config, requests: Requests::default(), corpus })
    }

    /// The configuration.
    pub fn config(&self) -> &SuffixConfig {
        &self.config
    }

    /// Starts a request with its prompt, which may be empty.
    ///
    /// # Errors
    /// [`Error::Argument`] when the id is in use or the prompt is longer than 2^30 tokens.
    pub fn start(&mut self, request_id: &str, prompt: &[u32]) -> Result<()> {
        self.requests.check_free(request_id)?;
        let mut request = Request {
            index: Automaton::new(self.config.max_depth as u32),
            len: 0,
            recent: Vec::new(),
            place: Place::default(),
            output: Vec::new(),
        };
        request.append("prompt", prompt, self.corpus.as_ref(), self.config.max_depth)?;
        self.requests.insert(request_id, request);
        Ok(())
    }

    /// Appends tokens that the request has emitted.
    ///
    /// # Errors
    /// [`Error::Argument`] when the id is unknown or the text would be longer than 2^30 tokens.
    pub fn extend(&mut self, request_id: &str, tokens: &[u32]) -> Result<()> {
        let request = self.requests.get_mut(request_id)?;
        request.append("tokens", tokens, self.corpus.as_ref(), self.config.max_depth)?;
        if self.corpus.is_some() {
            request.output.extend_from_slice(tokens);
        }
        Ok(())
    }

    /// Drafts a chain of at most `max_tokens`: after the longest match, at each step the most frequent continuation (the
    /// latest among equals). Where text and match run out together, as in a loop, it goes on from the next shorter match.
    ///
    /// # Errors
    /// [`Error::Argument`] when the id is unknown.
    pub fn draft(&mut self, request_id: &str, max_tokens: usize) -> Result<Draft> {
        self.best_of_sources(request_id, max_tokens, |source, depth| source.chain(depth))
    }

    /// Drafts a tree of at most `max_nodes` nodes and `max_depth` levels: the continuations of the longest match, the
    /// highest score first, so that any prefix is the best tree of its size.
    ///
    /// # Errors
    /// [`Error::Argument`] when the id is unknown.
    pub fn draft_tree(&mut self, request_id: &str, max_nodes: usize, max_depth: usize) -> Result<Draft> {
        self.best_of_sources(request_id, max_depth.min(max_nodes), |source, depth| source.tree(max_nodes, depth))
    }

    /// Ends a finished request; its output goes to the corpus if there is one. The id may be used again.
    ///
    /// # Errors
    /// [`Error::Argument`] when the id is unknown.
    pub fn stop(&mut self, request_id: &str) -> Result<()> {
        let request = self.requests.remove(request_id)?;
        if let Some(corpus) = &mut self.corpus {
            corpus.add(&request.output);
        }
        Ok(())
    }

    /// Drops a request and all that it said. The id may be used again.
    ///
    /// # Errors
    /// [`Error::Argument`] when the id is unknown.
    pub fn abort(&mut self, request_id: &str) -> Result<()> {
        self.requests.remove(request_id).map(drop)
    }

    /// Whether a request of that id was started and not ended.
    pub fn is_active(&self, request_id: &str) -> bool {
        self.requests.get(request_id).is_ok()
    }

    /// Number of live requests.
    pub fn active(&self) -> usize {
        self.requests.0.len()
    }

    /// Bytes on the heap for the index of one request, spare capacity included.
    ///
    /// # Errors
    /// [`Error::Argument`] when the id is unknown.
    pub fn request_bytes(&self, request_id: &str) -> Result<usize> {
        let request = self.requests.get(request_id)?;
        Ok(request.index.bytes() + (request.recent.capacity() + request.output.capacity()) * size_of::<u32>())
    }

    /// Bytes on the heap for the corpus, never above `corpus_bytes`.
    pub fn corpus_bytes(&self) -> usize {
        self.corpus.as_ref().map_or(0, Corpus::bytes)
    }

    fn best_of_sources(
        &mut self,
        request_id: &str,
        depth: usize,
        draft: impl Fn(&Source<'_>, usize) -> Draft,
    ) -> Result<Draft> {
        let request = self.requests.get_mut(request_id)?;
        let depth = depth.min(self.config.max_depth / 2).min(self.config.max_depth - self.config.min_match);
        let own = Source::of_request(&request.index, &self.config, depth);
        let mut best = own.map_or_else(Draft::default, |s| draft(&s, s.reach(depth)));
        if let Some(corpus) = &self.corpus {
            for (automaton, state, len) in corpus.matches(&mut request.place, &request.recent) {
                let shared = Source::of_corpus(automaton, state, len, &self.config, depth);
                let other = shared.map_or_else(Draft::default, |s| draft(&s, s.reach(depth)));
                if other.total_score() > best.total_score() {
                    best = other;
                }
            }
        }
        Ok(best)
    }
}

impl Request {
    fn append(&mut self, argument: &str, tokens: &[u32], corpus: Option<&Corpus>, max_depth: usize) -> Result<()> {
        if tokens.len() > MAX_TOKENS - self.len {
            let value = format!("{} tokens after {}", tokens.len(), self.len);
            return Err(Error::argument(argument, value, format!("at most {MAX_TOKENS} tokens in all")));
        }
        self.len += tokens.len();
        for &token in tokens {
            self.index.push(token);
        }
        if let Some(corpus) = corpus {
            // A longer past than `max_depth` cannot change a match.
            let tokens = &tokens[tokens.len().saturating_sub(max_depth)..];
            tokens.iter().for_each(|&token| corpus.follow(&mut self.place, token));
            if self.recent.len() + tokens.len() > 2 * max_depth {
                self.recent.drain(..(self.recent.len() + tokens.len() - max_depth).min(self.recent.len()));
            }
            self.recent.extend_from_slice(tokens);
        }
        Ok(())
    }
}

/// A match in one automaton.
struct Source<'a> {
    automaton: &'a Automaton,
    config: &'a SuffixConfig,
    state: u32,
    match_len: usize,
    /// States of the suffixes of a text that still grows: one of their occurrences has no continuation yet.
    open: Vec<u32>,
}

impl<'a> Source<'a> {
    /// The longest suffix of the text that occurred before, short enough that `depth` more tokens are counted.
    fn of_request(automaton: &'a Automaton, config: &'a SuffixConfig, depth: usize) -> Option<Self> {
        let mut open = Vec::new();
        let mut state = automaton.tail();
        while state != START {
            open.push(state);
            state = automaton.link(state);
        }
        let state = automaton.shorten(automaton.tail(), (config.max_depth - depth) as u32);
        let state = if automaton.count(state) > 1 { state } else { automaton.link(state) };
        let len = automaton.len(state) as usize;
        Self { automaton, config, state, match_len: len.min(config.max_depth - depth), open }.checked()
    }

    fn of_corpus(
        automaton: &'a Automaton,
        state: u32,
        len: u32,
        config: &'a SuffixConfig,
        depth: usize,
    ) -> Option<Self> {
        let len = len.min((config.max_depth - depth) as u32);
        let mut source =
            Self { automaton, config, state: automaton.shorten(state, len), match_len: len as usize, open: Vec::new() };
        let state = source.with_continuation(source.state);
        if state != source.state {
            (source.state, source.match_len) = (state, automaton.len(state) as usize);
        }
        source.checked()
    }

    fn checked(self) -> Option<Self> {
        (self.state != START && self.match_len >= self.config.min_match).then_some(self)
    }

    fn reach(&self, depth: usize) -> usize {
        // The excess lets 0.1 * 10 be 1.
        let trusted = self.match_len as f32 * self.config.max_spec_factor + self.config.max_spec_offset + 1e-6;
        depth.min(trusted.max(0.0) as usize)
    }

    /// The state itself or its longest suffix that was followed by something.
    fn with_continuation(&self, mut state: u32) -> u32 {
        while state != START && self.automaton.best(state).is_none() {
            state = self.automaton.link(state);
        }
        state
    }

    /// How often the strings of a state were followed by something.
    fn followed(&self, state: u32) -> f32 {
        (self.automaton.count(state) - self.open.contains(&state) as u32) as f32
    }

    fn chain(&self, depth: usize) -> Draft {
        let mut draft = Draft::default();
        let (mut state, mut score) = (self.state, 1.0);
        while draft.len() < depth {
            state = self.with_continuation(state);
            let Some((token, next)) = self.automaton.best(state).filter(|_| self.trusted(state)) else { break };
            score *= self.automaton.count(next) as f32 / self.followed(state);
            if score < self.config.min_token_prob {
                break;
            }
            draft.push(token, draft.len() as i32 - 1, score);
            state = next;
        }
        self.labelled(draft)
    }

    fn tree(&self, max_nodes: usize, depth: usize) -> Draft {
        let mut draft = Draft::default();
        let mut queue = BinaryHeap::new();
        self.grow(&mut queue, self.state, -1, 1, 1.0, depth);
        while draft.len() < max_nodes
            && let Some(best) = queue.pop()
        {
            let node = draft.push(best.token, best.parent, best.score);
            self.grow(&mut queue, best.state, node, best.depth + 1, best.score, depth);
        }
        self.labelled(draft)
    }

    /// Queues the children of a node.
    fn grow(
        &self,
        queue: &mut BinaryHeap<Candidate>,
        state: u32,
        parent: i32,
        depth: usize,
        score: f32,
        max_depth: usize,
    ) {
        let state = self.with_continuation(state);
        if depth > max_depth || !self.trusted(state) {
            return;
        }
        let followed = self.followed(state);
        for (token, state) in self.automaton.continuations(state) {
            let score = score * (self.automaton.count(state) as f32 / followed);
            if score >= self.config.min_token_prob {
                queue.push(Candidate { score, parent, token, state, depth });
            }
        }
    }

    /// Whether a state that the draft fell back to is long enough.
    fn trusted(&self, state: u32) -> bool {
        state == self.state || (state != START && self.automaton.len(state) as usize >= self.config.min_match)
    }

    fn labelled(&self, draft: Draft) -> Draft {
        Draft { match_len: if draft.is_empty() { 0 } else { self.match_len }, ..draft }
    }
}

struct Candidate {
    score: f32,
    parent: i32,
    token: u32,
    state: u32,
    depth: usize,
}

/// Highest score first, then the earlier parent, then the lower token: one order on every machine.
impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        let rest = |c: &Self| (c.parent, c.token);
        self.score.total_cmp(&other.score).then_with(|| rest(other).cmp(&rest(self)))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}
