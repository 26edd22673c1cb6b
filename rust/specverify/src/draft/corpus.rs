//! Texts of finished requests, shared by all later ones, within a fixed number of bytes.
//!
//! A suffix automaton cannot forget a text, so the corpus is a queue of automata, each allocated once at a quarter of the
//! budget. Texts fill the newest; when it is full another is opened, and the oldest is dropped while four would be five.
//! Eviction is therefore oldest first, a quarter at a time.

use std::collections::VecDeque;

use super::automaton::{Automaton, START};

const SEGMENTS: usize = 4;

#[derive(Debug, Clone)]
pub(super) struct Corpus {
    depth: u32,
    segment_bytes: usize,
    segments: VecDeque<Segment>,
    next_id: u64,
}

#[derive(Debug, Clone)]
struct Segment {
    id: u64,
    /// Tokens pushed so far: a cursor made at another count may miss longer matches.
    version: u64,
    automaton: Automaton,
}

/// Where a request's text stands in one segment: the state of its longest suffix that occurs there.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    segment: u64,
    version: u64,
    state: u32,
    len: u32,
}

/// A request's place in the corpus.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    cursors: Vec<Cursor>,
}

impl Corpus {
    pub fn new(depth: u32, bytes: usize) -> Self {
        Self { depth, segment_bytes: bytes / SEGMENTS, segments: VecDeque::new(), next_id: 0 }
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(|s| s.automaton.bytes()).sum()
    }

    /// Adds a finished text.
    pub fn add(&mut self, text: &[u32]) {
        if let Some(newest) = self.segments.back_mut() {
            newest.automaton.restart();
        }
        // A text that crosses the border is matched across it: the new segment begins with the end of the old one.
        let overlap = (self.depth as usize - 1).min(self.segment_bytes / 512);
        for (i, &token) in text.iter().enumerate() {
            if !self.segments.back().is_some_and(|s| s.automaton.has_room(token)) {
                if self.segments.len() == SEGMENTS {
                    self.segments.pop_front();
                }
                let mut automaton = Automaton::within(self.depth, self.segment_bytes);
                text[i.saturating_sub(overlap)..i].iter().for_each(|&before| automaton.push(before));
                self.segments.push_back(Segment { id: self.next_id, version: 0, automaton });
                self.next_id += 1;
            }
            if let Some(newest) = self.segments.back_mut() {
                newest.automaton.push(token);
                newest.version += 1;
            }
        }
    }

    /// Follows one more token of a request's text.
    pub fn follow(&self, place: &mut Place, token: u32) {
        for cursor in &mut place.cursors {
            // A segment that was dropped or has grown is read anew when a draft is asked for.
            if let Some(segment) = self.segments.iter().find(|s| s.id == cursor.segment && s.version == cursor.version)
            {
                cursor.advance(&segment.automaton, self.depth, token);
            }
        }
    }

    /// The automata with the state and length of the longest suffix of `recent` found in each, newest segment first.
    /// `recent` is the end of the text, of at least `depth` tokens where there are as many.
    pub fn matches<'a>(
        &'a self,
        place: &'a mut Place,
        recent: &'a [u32],
    ) -> impl Iterator<Item = (&'a Automaton, u32, u32)> + 'a {
        place.cursors.retain(|c| self.segments.iter().any(|s| s.id == c.segment && s.version == c.version));
        self.segments.iter().rev().map(move |segment| {
            let known = place.cursors.iter().find(|c| c.segment == segment.id).copied();
            let cursor = known.unwrap_or_else(|| {
                let mut cursor = Cursor { segment: segment.id, version: segment.version, state: START, len: 0 };
                for &token in recent {
                    cursor.advance(&segment.automaton, self.depth, token);
                }
                place.cursors.push(cursor);
                cursor
            });
            (&segment.automaton, cursor.state, cursor.len)
        })
    }
}

impl Cursor {
    fn advance(&mut self, automaton: &Automaton, depth: u32, token: u32) {
        loop {
            if let Some(next) = automaton.step(self.state, token) {
                self.len = (self.len + 1).min(depth - 1);
                self.state = automaton.shorten(next, self.len);
                return;
            }
            if self.state == START {
                self.len = 0;
                return;
            }
            self.state = automaton.link(self.state);
            self.len = automaton.len(self.state);
        }
    }
}
