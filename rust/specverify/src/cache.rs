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
                    format!("a child of node {parent} in a tree of {} nodes", self.tree.len()),
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
