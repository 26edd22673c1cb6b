//! An online suffix automaton (Blumer et al. 1985) that counts occurrences of every string up to a bounded length.
//!
//! A state stands for a set of strings that end at the same places; its `link` is its longest suffix that ends in more
//! places. Two things follow that a drafter wants: the link of the newest state *is* the longest suffix of the text seen
//! before, so nothing is searched, and the count of a state reached by a token is the number of times that token followed.
//!
//! Counts cost one step for each suffix link above the newest state: about ten on ordinary text, but as many as there are
//! tokens on `aaaa...`. Only suffixes of at most `depth` tokens are counted, which bounds the step; longer strings keep
//! their states (memory stays linear: at most 2 states and 3 edges a token) and their counts are never read.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// No state, no edge.
const NONE: u32 = u32::MAX;
/// The state of the empty string.
pub(super) const START: u32 = 0;
/// Texts longer than this could outgrow 32-bit state and edge ids.
pub(super) const MAX_TOKENS: usize = 1 << 30;

/// The most frequent continuation lives in the state: most states have one edge only, and a chain is drafted without hashing.
#[derive(Debug, Clone, Copy)]
struct State {
    len: u32,
    link: u32,
    count: u32,
    token: u32,
    target: u32,
    /// Head of the list of the other edges.
    more: u32,
}

#[derive(Debug, Clone, Copy)]
struct Edge {
    state: u32,
    token: u32,
    target: u32,
    next: u32,
}

enum Slot {
    Missing,
    First,
    More(u32),
}

/// The automaton of one growing text, or of several texts one after another.
#[derive(Debug, Clone)]
pub(super) struct Automaton {
    depth: u32,
    states: Vec<State>,
    edges: Vec<Edge>,
    /// (state, token) -> edge, for edges in lists. Seeded per process: keys come from users.
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// The state of the whole text so far.
    last: u32,
    /// The state of its longest suffix of at most `depth - 1` tokens, and that suffix's length.
    tail: u32,
    tail_len: u32,
}

impl Automaton {
    /// An empty automaton that counts strings of up to `depth` tokens, `depth >= 2`.
    pub fn new(depth: u32) -> Self {
        Self::with_capacity(depth, 1, 0)
    }

    fn with_capacity(depth: u32, states: usize, edges: usize) -> Self {
        let mut automaton = Self {
            depth,
            states: Vec::with_capacity(states),
            edges: Vec::with_capacity(edges),
            // Entries move when another edge becomes the first, and a table more than half full grows to shed the
            // marks of what was removed; one at most half full cleans itself in place.
            index: HashTable::with_capacity(2 * edges),
            hasher: DefaultHashBuilder::default(),
            last: START,
            tail: START,
            tail_len: 0,
        };
        automaton.states.push(State { len: 0, link: NONE, count: 0, token: 0, target: NONE, more: NONE });
        automaton
    }

    /// An empty automaton whose heap memory is allocated once and stays within `bytes`; see [`Automaton::has_room`].
    pub fn within(depth: u32, bytes: usize) -> Self {
        // Source code and prose need 0.3 to 0.6 listed edges a state; half leaves neither much room unused.
        let mut states = bytes / size_of::<State>();
        loop {
            let automaton = Self::with_capacity(depth, states.max(1), states / 2);
            if automaton.bytes() <= bytes || states == 0 {
                return automaton;
            }
            states -= states.div_ceil(16);
        }
    }

    /// Whether `token` can be appended without allocation.
    pub fn has_room(&self, token: u32) -> bool {
        let (mut p, mut edges) = (self.last, 0);
        while p != NONE {
            if let Some(q) = self.step(p, token) {
                // The worst case: q is split, and its clone gets a copy of the edges.
                edges += self.continuations(q).count();
                break;
            }
            edges += 1;
            p = self.states[p as usize].link;
        }
        self.states.len() + 2 <= self.states.capacity() && self.edges.len() + edges < self.edges.capacity()
    }

    /// Bytes on the heap, spare capacity included.
    pub fn bytes(&self) -> usize {
        self.states.capacity() * size_of::<State>()
            + self.edges.capacity() * size_of::<Edge>()
            + self.index.allocation_size()
    }

    /// Starts another text: nothing is matched across the border.
    pub fn restart(&mut self) {
        (self.last, self.tail, self.tail_len) = (START, START, 0);
    }

    /// Length of the longest string of a state.
    pub fn len(&self, state: u32) -> u32 {
        self.states[state as usize].len
    }

    /// The state of the longest suffix that ends in more places; the start's own is the start.
    pub fn link(&self, state: u32) -> u32 {
        if state == START { START } else { self.states[state as usize].link }
    }

    /// How often the strings of a state occur, for states that hold a string of at most `depth` tokens.
    pub fn count(&self, state: u32) -> u32 {
        self.states[state as usize].count
    }

    /// The state of the longest suffix of at most `depth - 1` tokens.
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// The state of the suffix of `len` tokens, given the state of a longer one that it ends.
    pub fn shorten(&self, mut state: u32, len: u32) -> u32 {
        while state != START && self.states[self.link(state) as usize].len >= len {
            state = self.link(state);
        }
        state
    }

    /// The most frequent continuation of a state, among equals the latest, and the state it leads to.
    pub fn best(&self, state: u32) -> Option<(u32, u32)> {
        let s = &self.states[state as usize];
        (s.target != NONE).then_some((s.token, s.target))
    }

    /// All continuations of a state, in no order but that the most frequent comes first.
    pub fn continuations(&self, state: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut edge = self.states[state as usize].more;
        self.best(state).into_iter().chain(std::iter::from_fn(move || {
            let e = self.edges.get(edge as usize)?;
            edge = e.next;
            Some((e.token, e.target))
        }))
    }

    /// The state that `token` leads to.
    pub fn step(&self, state: u32, token: u32) -> Option<u32> {
        match self.find(state, token) {
            Slot::Missing => None,
            Slot::First => Some(self.states[state as usize].target),
            Slot::More(e) => Some(self.edges[e as usize].target),
        }
    }

    /// Appends one token.
    pub fn push(&mut self, token: u32) {
        self.last = self.extend(token);
        self.count_suffixes(token);
    }

    fn hash(&self, state: u32, token: u32) -> u64 {
        self.hasher.hash_one((state as u64) << 32 | token as u64)
    }

    fn find(&self, state: u32, token: u32) -> Slot {
        let s = &self.states[state as usize];
        if s.target != NONE && s.token == token {
            return Slot::First;
        }
        if s.more == NONE {
            return Slot::Missing;
        }
        let same = |&e: &u32| {
            let e = &self.edges[e as usize];
            e.state == state && e.token == token
        };
        self.index.find(self.hash(state, token), same).map_or(Slot::Missing, |&e| Slot::More(e))
    }

    fn insert(&mut self, state: u32, token: u32, target: u32) {
        let s = &mut self.states[state as usize];
        if s.target == NONE {
            (s.token, s.target) = (token, target);
            return;
        }
        let edge = Edge { state, token, target, next: s.more };
        s.more = self.edges.len() as u32;
        self.edges.push(edge);
        self.index_edge(self.edges.len() as u32 - 1);
    }

    fn index_edge(&mut self, edge: u32) {
        let Self { index, edges, hasher, .. } = self;
        let hash = |&e: &u32| {
            let e = &edges[e as usize];
            hasher.hash_one((e.state as u64) << 32 | e.token as u64)
        };
        index.insert_unique(hash(&edge), edge, hash);
    }

    fn redirect(&mut self, state: u32, token: u32, target: u32) {
        match self.find(state, token) {
            Slot::Missing => {}
            Slot::First => self.states[state as usize].target = target,
            Slot::More(e) => self.edges[e as usize].target = target,
        }
    }

    /// Makes the edge of `token` the first one of its state; the former first takes its place in the list.
    fn promote(&mut self, state: u32, token: u32) {
        let hash = self.hash(state, token);
        let edges = &self.edges;
        let entry =
            self.index.find_entry(hash, |&e| edges[e as usize].state == state && edges[e as usize].token == token);
        if let Ok(entry) = entry {
            let (e, _) = entry.remove();
            let (s, edge) = (&mut self.states[state as usize], &mut self.edges[e as usize]);
            std::mem::swap(&mut s.token, &mut edge.token);
            std::mem::swap(&mut s.target, &mut edge.target);
            self.index_edge(e);
        }
    }

    /// Adds the states and edges that `token` brings; the state of the text with it.
    fn extend(&mut self, token: u32) -> u32 {
        let mut p = self.last;
        let len = self.states[p as usize].len + 1;
        // Only at the start of a later text can the whole text so far have been followed by this token already.
        if let Some(q) = self.step(p, token) {
            return if self.states[q as usize].len == len { q } else { self.split(p, token, q) };
        }
        let new = self.states.len() as u32;
        self.states.push(State { len, link: START, count: 0, token: 0, target: NONE, more: NONE });
        while p != NONE {
            if let Some(q) = self.step(p, token) {
                let exact = self.states[q as usize].len == self.states[p as usize].len + 1;
                let link = if exact { q } else { self.split(p, token, q) };
                self.states[new as usize].link = link;
                break;
            }
            self.insert(p, token, new);
            p = self.states[p as usize].link;
        }
        new
    }

    /// Splits off the strings of `q` that end the longest string of `p` + `token`: from now on they occur more often.
    fn split(&mut self, mut p: u32, token: u32, q: u32) -> u32 {
        let clone = self.states.len() as u32;
        let old = self.states[q as usize];
        self.states.push(State { len: self.states[p as usize].len + 1, more: NONE, ..old });
        let mut edge = old.more;
        while let Some(&e) = self.edges.get(edge as usize) {
            self.insert(clone, e.token, e.target);
            edge = e.next;
        }
        while p != NONE && self.step(p, token) == Some(q) {
            self.redirect(p, token, clone);
            p = self.states[p as usize].link;
        }
        self.states[q as usize].link = clone;
        clone
    }

    /// Counts the new occurrences of the suffixes of at most `depth` tokens and keeps the first edges the most frequent.
    fn count_suffixes(&mut self, token: u32) {
        // The tail's string may have gone to a clone, which is then its state's link.
        let mut p = self.shorten(self.tail, self.tail_len);
        let Some(mut t) = self.step(p, token) else { return };
        let (longest, mut len) = (t, self.tail_len);
        self.states[t as usize].count += 1;
        loop {
            let from = self.states[p as usize];
            if from.token != token && self.states[t as usize].count >= self.states[from.target as usize].count {
                self.promote(p, token);
            }
            if p == START {
                break;
            }
            p = from.link;
            len = self.states[p as usize].len;
            // Suffixes with the same ends share a state: count it once.
            if self.states[self.link(t) as usize].len > len {
                t = self.link(t);
                self.states[t as usize].count += 1;
            }
        }
        self.tail_len = (self.tail_len + 1).min(self.depth - 1);
        self.tail = self.shorten(longest, self.tail_len);
        debug_assert_eq!(len, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Occurrences of every string of 1 to `depth` tokens, counted one by one.
    fn naive_counts(texts: &[Vec<u32>], depth: usize) -> HashMap<Vec<u32>, u32> {
        let mut counts = HashMap::new();
        for text in texts {
            for start in 0..text.len() {
                for end in start + 1..=text.len().min(start + depth) {
                    *counts.entry(text[start..end].to_vec()).or_default() += 1;
                }
            }
        }
        counts
    }

    fn state_of(automaton: &Automaton, string: &[u32]) -> Option<u32> {
        string.iter().try_fold(START, |state, &token| automaton.step(state, token))
    }

    fn texts() -> impl Strategy<Value = Vec<Vec<u32>>> {
        let token = prop_oneof![4 => 0u32..3, 1 => Just(u32::MAX)];
        prop::collection::vec(prop::collection::vec(token, 0..60), 1..4)
    }

    proptest! {
        #[test]
        fn counts_equal_naive_counts(texts in texts(), depth in 2usize..9) {
            let mut automaton = Automaton::new(depth as u32);
            for text in &texts {
                automaton.restart();
                text.iter().for_each(|&t| automaton.push(t));
            }
            let naive = naive_counts(&texts, depth);
            for (string, &count) in &naive {
                let state = state_of(&automaton, string);
                prop_assert_eq!(state.map(|s| automaton.count(s)), Some(count), "{:?}", string);
            }
            // Strings that are not there have no state, and a state lists the tokens that followed and no other.
            for (string, _) in naive.iter().filter(|(s, _)| s.len() < depth) {
                let state = state_of(&automaton, string).unwrap();
                let mut listed: Vec<_> = automaton.continuations(state).map(|(t, s)| (t, automaton.count(s))).collect();
                let most = listed.iter().map(|c| c.1).max();
                prop_assert_eq!(listed.first().map(|c| c.1), most, "the first is the most frequent");
                listed.sort_unstable();
                let follows = |t: u32| naive.get(&[&string[..], &[t]].concat()).map(|&c| (t, c));
                let expected: Vec<_> = [0, 1, 2, u32::MAX].into_iter().filter_map(follows).collect();
                prop_assert_eq!(listed, expected, "{:?}", string);
            }
        }

        #[test]
        fn an_automaton_within_a_budget_never_grows(text in prop::collection::vec(0u32..50, 2000), bytes in 4096usize..40_000) {
            let mut automaton = Automaton::within(16, bytes);
            let allocated = automaton.bytes();
            prop_assert!(allocated <= bytes);
            let mut pushed = 0;
            for &token in &text {
                if !automaton.has_room(token) {
                    break;
                }
                automaton.push(token);
                pushed += 1;
                prop_assert_eq!(automaton.bytes(), allocated);
            }
            prop_assert!(pushed * 400 >= bytes, "only {} tokens in {} bytes", pushed, bytes);
        }
    }
}
