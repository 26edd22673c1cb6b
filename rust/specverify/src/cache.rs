//! KV compaction: which cache slots move where after a step, and which are free again.
//!
//! The forward pass writes row r of a request (the root, then the nodes) to logical slot `base + r`, though the row's position is
//! `base + depth`. After the walk only the root and the accepted path count, and they must lie where a chain would: the node at
//! depth d in slot `base + d`. Everything behind is free, rejected nodes included; the next step starts there, its root in slot
//! `kept`.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::tree::{ROOT, Topology};

/// Where the logical slots of a request lie in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slots<'a> {
    /// Logical slot s is physical slot `first + s`.
    Linear {
        /// Physical slot of the request's first token.
        first: u64,
    },
    /// Logical slot s is place `s % page_size` of page `pages[s / page_size]`: a row of a block table. The pages that hold the rows of
    /// the step must be the request's own and differ from each other.
    Paged {
        /// Physical pages, from the request's first token on.
        pages: &'a [u32],
        /// Slots a page.
        page_size: u32,
    },
}

impl Slots<'_> {
    fn physical(&self, logical: u64) -> u64 {
        match *self {
            Slots::Linear { first } => first + logical,
            Slots::Paged { pages, page_size } => {
                let size = u64::from(page_size);
                u64::from(pages[(logical / size) as usize]) * size + logical % size
            }
        }
    }

    fn page_size(&self) -> u64 {
        match *self {
            Slots::Linear { .. } => 1,
            Slots::Paged { page_size, .. } => page_size.into(),
        }
    }
}

/// One request's part of a step. No two requests of a batch may share a slot that the step wrote (shared prefixes are fine).
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The tree whose n + 1 rows the forward pass wrote.
    pub tree: &'a Topology,
    /// Node ids of the accepted path, root first.
    pub path: &'a [u32],
    /// Logical slot of the root, which is the number of tokens cached before this step.
    pub base: u64,
    /// Where logical slots lie.
    pub slots: Slots<'a>,
}

impl Step<'_> {
    /// Checks the path and that all slots exist; gives the end of the step's logical slots.
    fn check(&self, b: usize) -> Result<u64> {
        let mut parent = ROOT;
        for (d, &node) in self.path.iter().enumerate() {
            let found = self.tree.parents().get(node as usize);
            if found != Some(&parent) {
                return Err(Error::argument(
                    format!("steps[{b}].path[{d}]"),
                    node,
                    match parent {
                        ROOT => format!("a child of the root in a tree of {} nodes", self.tree.len()),
                        node => format!("a child of node {node} in a tree of {} nodes", self.tree.len()),
                    },
                ));
            }
            parent = node as i32;
        }
        let rows = self.tree.rows() as u64;
        let end = match self.slots {
            Slots::Linear { first } => {
                first.checked_add(self.base).and_then(|s| s.checked_add(rows)).map(|_| self.base + rows)
            }
            Slots::Paged { .. } => self.base.checked_add(rows),
        };
        let Some(end) = end else {
            return Err(Error::argument(format!("steps[{b}].base"), self.base, "slots below 2^64"));
        };
        if let Slots::Paged { pages, page_size } = self.slots {
            if page_size == 0 {
                return Err(Error::argument(format!("steps[{b}].page_size"), 0, "at least 1 slot a page"));
            }
            let needed = end.div_ceil(page_size.into());
            if (pages.len() as u64) < needed {
                return Err(Error::shape(
                    format!("steps[{b}].pages"),
                    pages.len(),
                    format!("at least {needed} pages of {page_size} for {end} slots"),
                ));
            }
        }
        Ok(end)
    }
}

/// What to do with the cache after a step, for a batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompactionPlan {
    /// (source, destination) physical slots, in every layer, to be done one after another in this order: no slot is overwritten before it
    /// is read. A device that copies all at once must read all before it writes any. Rows that lie right are not listed.
    pub moves: Vec<(u64, u64)>,
    /// Tokens a request has in the cache from now on: those before the step, the root, the path. The last emitted token is not
    /// among them; it is the next step's root.
    pub kept: Vec<u64>,
    /// Per request the pages that held only rejected nodes, as a range of places in its `pages` (of logical slots where slots are
    /// linear). Pages behind the step's last slot are the engine's look-ahead and are not listed.
    pub freed: Vec<Range<u64>>,
}

impl CompactionPlan {
    /// Plans a batch. Only nodes of the accepted paths are moved.
    ///
    /// That the order is safe: path ids increase, since a parent comes before its child, so the node at depth d has an id of at least
    /// d - 1 and never moves backwards to a later slot; and the slots written before it are those of depths below d, while every slot
    /// still to be read belongs to a row of at least d.
    ///
    /// # Errors
    /// [`Error::Argument`] for a path that does not lead down the tree, a page size of 0 or slots beyond 2^64;
    /// [`Error::Shape`] when pages are missing. They name the step.
    pub fn new(steps: &[Step<'_>]) -> Result<Self> {
        let mut plan = Self {
            moves: Vec::with_capacity(steps.iter().map(|s| s.path.len()).sum()),
            kept: Vec::with_capacity(steps.len()),
            freed: Vec::with_capacity(steps.len()),
        };
        for (b, step) in steps.iter().enumerate() {
            let end = step.check(b)?;
            for (d, &node) in step.path.iter().enumerate() {
                let (from, to) = (u64::from(node), d as u64);
                if from != to {
                    let slot = |node| step.slots.physical(step.base + 1 + node);
                    plan.moves.push((slot(from), slot(to)));
                }
            }
            let kept = step.base + 1 + step.path.len() as u64;
            let size = step.slots.page_size();
            plan.kept.push(kept);
            plan.freed.push(kept.div_ceil(size)..end.div_ceil(size));
        }
        Ok(plan)
    }
}

/// How one layer's keys (or values) lie in memory, in bytes. Slot s is place `s % page_size` of page `s / page_size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// From one page to the next.
    pub page_stride: usize,
    /// From one slot of a page to the next.
    pub token_stride: usize,
    /// From one head to the next.
    pub head_stride: usize,
    /// KV heads.
    pub heads: usize,
    /// Bytes of one head of one slot, which are contiguous.
    pub head_bytes: usize,
    /// Slots a page.
    pub page_size: usize,
}

impl Layout {
    /// Makes moves of [`CompactionPlan`], in order, in one pool. None is made when one of them lies outside the pool.
    ///
    /// # Errors
    /// [`Error::Argument`] names the move and the slot.
    pub fn apply(&self, moves: &[(u64, u64)], pool: &mut [u8]) -> Result<()> {
        if self.page_size == 0 {
            return Err(Error::argument("page_size", 0, "at least 1 slot a page"));
        }
        if self.heads == 0 || self.head_bytes == 0 {
            return Ok(());
        }
        let start = |slot: u64| {
            let slot = usize::try_from(slot).ok()?;
            let page = (slot / self.page_size).checked_mul(self.page_stride)?;
            let start = page.checked_add((slot % self.page_size).checked_mul(self.token_stride)?)?;
            let last = start.checked_add((self.heads - 1).checked_mul(self.head_stride)?)?;
            (last.checked_add(self.head_bytes)? <= pool.len()).then_some(start)
        };
        let mut places = Vec::with_capacity(moves.len());
        for (i, &(from, to)) in moves.iter().enumerate() {
            let place = |slot| {
                start(slot).ok_or_else(|| {
                    Error::argument(format!("moves[{i}]"), format!("slot {slot}"), "a slot within the cache")
                })
            };
            places.push((place(from)?, place(to)?));
        }
        for (from, to) in places {
            for head in 0..self.heads {
                let (from, to) = (from + head * self.head_stride, to + head * self.head_stride);
                pool.copy_within(from..from + self.head_bytes, to);
            }
        }
        Ok(())
    }
}

/// The moves of accepted paths as the kernel `kv_compact` makes them (`hip/abi.h`): node i of request b stands at key
/// `context_lens[b] + 1 + i`, and the d-th of the path goes to key `context_lens[b] + 1 + d`. `path` and `block_table` have as many columns as
/// `path.len()` and `block_table.len()` over the requests.
///
/// # Errors
/// [`Error::Shape`] when lengths don't fit each other; [`Error::Argument`] for a path that does not ascend, or a key without a page.
pub fn path_moves(
    path: &[i32],
    accepted: &[i32],
    context_lens: &[i32],
    block_table: &[i32],
    page_size: usize,
) -> Result<Vec<(u64, u64)>> {
    let requests = accepted.len();
    if page_size == 0 {
        return Err(Error::argument("page_size", 0, "at least 1 slot a page"));
    }
    if context_lens.len() != requests {
        return Err(Error::shape("context_lens", context_lens.len(), format!("{requests} (one a request)")));
    }
    for (name, length) in [("path", path.len()), ("block_table", block_table.len())] {
        if length % requests.max(1) != 0 || (requests == 0 && length > 0) {
            return Err(Error::shape(name, length, format!("as many for each of {requests} requests")));
        }
    }
    let (columns, pages) = (path.len() / requests.max(1), block_table.len() / requests.max(1));
    let mut moves = Vec::new();
    for b in 0..requests {
        let count = usize::try_from(accepted[b]).ok().filter(|&count| count <= columns);
        let Some(count) = count else {
            return Err(Error::argument(
                format!("accepted[{b}]"),
                accepted[b],
                format!("0 to {columns}, the path's room"),
            ));
        };
        let base = usize::try_from(context_lens[b]).ok();
        let Some(base) = base else {
            return Err(Error::argument(format!("context_lens[{b}]"), context_lens[b], "a number of keys, at least 0"));
        };
        let slot = |i: usize| {
            let key = base + 1 + i;
            let page = (key / page_size < pages).then(|| block_table[b * pages + key / page_size]);
            match page.and_then(|page| u64::try_from(page).ok()) {
                Some(page) => Ok(page * page_size as u64 + (key % page_size) as u64),
                None => Err(Error::argument(
                    format!("block_table[{b}]"),
                    format!("{pages} pages"),
                    format!("a page for key {key}"),
                )),
            }
        };
        let mut least = 0;
        for (d, &node) in path[b * columns..][..count].iter().enumerate() {
            let node = usize::try_from(node).ok().filter(|&node| node >= least);
            let Some(node) = node else {
                let found = path[b * columns + d];
                return Err(Error::argument(format!("path[{b}][{d}]"), found, "node ids that ascend"));
            };
            least = node + 1;
            if node != d {
                moves.push((slot(node)?, slot(d)?));
            }
        }
    }
    Ok(moves)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_are_made_head_by_head_and_refused_as_a_whole() {
        let layout = Layout { page_stride: 16, token_stride: 4, head_stride: 2, heads: 2, head_bytes: 1, page_size: 2 };
        let before: Vec<u8> = (0..40).collect();
        let mut pool = before.clone();
        layout.apply(&[(3, 1), (4, 3)], &mut pool).unwrap();
        let mut expected = before.clone();
        (expected[4], expected[6], expected[20], expected[22]) = (20, 22, 32, 34);
        assert_eq!(pool, expected);
        for moves in [[(3, 1), (6, 0)], [(3, 1), (0, u64::MAX)]] {
            let mut pool = before.clone();
            assert!(layout.apply(&moves, &mut pool).unwrap_err().to_string().starts_with("moves[1]"));
            assert_eq!(pool, before);
        }
    }

    #[test]
    fn paths_become_moves_through_the_block_table() {
        let moves = path_moves(&[1, 3, -1, 0, 1, -1], &[2, 2], &[2, 7], &[5, 9, 1, 2, 3, 4], 4).unwrap();
        assert_eq!(moves, [(36, 23), (38, 36)]);
        for (path, accepted, context, name) in [
            ([1, 1], [2], [0], "path[0][1]"),
            ([-1, 1], [2], [0], "path[0][0]"),
            ([1, 2], [3], [0], "accepted[0]"),
            ([1, 2], [2], [-1], "context_lens[0]"),
            ([1, 2], [2], [6], "block_table[0]"),
        ] {
            let message = path_moves(&path, &accepted, &context, &[0, 1], 4).unwrap_err().to_string();
            assert!(message.starts_with(name), "{message}");
        }
    }
}
