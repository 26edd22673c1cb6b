//! The draft tree: tokens and parents in topological order, and how its nodes were drawn. Topology only, no probabilities.
//!
//! The root is the last committed token and is not in the list; `parents[i] == -1` marks a child of the root. Row 0 of the
//! target's logits follows the root and row `i + 1` follows node `i`, so a tree of n nodes has n + 1 rows.

mod beam;
mod best_first;
mod candidates;
mod chain;
mod lattice;
mod paths;
mod product;
mod scored;
mod shape;
mod siblings;

use std::collections::HashMap;
use std::ops::Deref;

pub use beam::Beam;
pub use candidates::Candidates;
pub use lattice::lattice;
pub use product::product;
pub use scored::Scored;
pub use shape::Shape;
pub use siblings::siblings;

use crate::error::{Error, Result};

/// Node ids of the root's children have this parent.
pub const ROOT: i32 = -1;

/// Tokens and parents of a draft tree, with depths and child lists derived once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    tokens: Vec<u32>,
    parents: Vec<i32>,
    /// n depths, n + 2 child starts, n child ids: one allocation, since a tree is built a request and step. Children of row r
    /// are `child_ids[child_start[r]..child_start[r + 1]]`, in node order.
    derived: Vec<u32>,
}

impl Topology {
    /// Checks `parents[i] < i` and derives depths and child lists.
    ///
    /// # Errors
    /// [`Error::Shape`] when the lengths differ, [`Error::Tree`] when a parent is missing or not before its child.
    pub fn new(tokens: Vec<u32>, parents: Vec<i32>) -> Result<Self> {
        if tokens.len() != parents.len() {
            return Err(Error::shape("parents", parents.len(), format!("{} (one parent a token)", tokens.len())));
        }
        let n = tokens.len();
        // n + 1 rows are counted in i32 and u32.
        if n >= i32::MAX as usize {
            return Err(Error::shape("tokens", n, "fewer than 2^31 - 1 nodes"));
        }
        let mut derived = vec![0u32; 3 * n + 2];
        let (depths, rest) = derived.split_at_mut(n);
        let (child_start, child_ids) = rest.split_at_mut(n + 2);
        for (i, &p) in parents.iter().enumerate() {
            if p < ROOT || p >= i as i32 {
                return Err(Error::tree(
                    format!("parents[{i}]"),
                    p,
                    format!("-1 (the root) or a node before {i}: topological order has no cycle and no missing parent"),
                ));
            }
            depths[i] = if p == ROOT { 1 } else { depths[p as usize] + 1 };
            // Row p + 1 is counted two places on, so that filling its list moves its start to its end, one place on.
            child_start[(p + 3) as usize] += 1;
        }
        for r in 0..=n {
            child_start[r + 1] += child_start[r];
        }
        for (i, &p) in parents.iter().enumerate() {
            let slot = &mut child_start[(p + 2) as usize];
            child_ids[*slot as usize] = i as u32;
            *slot += 1;
        }
        Ok(Self { tokens, parents, derived })
    }

    /// Number of nodes n.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether nothing was drafted.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Number of target rows, n + 1.
    pub fn rows(&self) -> usize {
        self.len() + 1
    }

    /// Tokens, one a node.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Parents, one a node; -1 for children of the root.
    pub fn parents(&self) -> &[i32] {
        &self.parents
    }

    /// Depths, one a node; children of the root have depth 1.
    pub fn depths(&self) -> &[u32] {
        &self.derived[..self.len()]
    }

    /// Depth of a row: 0 for the root's row, `depths[r - 1]` for row r. Its token's position is `position + depth`.
    pub fn row_depth(&self, row: usize) -> u32 {
        if row == 0 { 0 } else { self.depths()[row - 1] }
    }

    /// Node ids of the children of a row, in draw order.
    pub fn children(&self, row: usize) -> &[u32] {
        let (child_start, child_ids) = self.derived[self.len()..].split_at(self.len() + 2);
        &child_ids[child_start[row] as usize..child_start[row + 1] as usize]
    }

    /// The child of `row` that holds `token`; the first of equal siblings.
    pub fn child_with(&self, row: usize, token: u32) -> Option<u32> {
        self.children(row).iter().copied().find(|&c| self.tokens[c as usize] == token)
    }

    /// Whether every node is its predecessor's child.
    pub fn is_chain(&self) -> bool {
        self.parents.iter().enumerate().all(|(i, &p)| p == i as i32 - 1)
    }

    /// Node ids from the root down to the node of `row`, that node included; empty for row 0.
    pub fn path(&self, row: usize) -> Vec<u32> {
        let mut path = Vec::with_capacity(self.row_depth(row) as usize);
        let mut node = row as i32 - 1;
        while node != ROOT {
            path.push(node as u32);
            node = self.parents[node as usize];
        }
        path.reverse();
        path
    }

    /// Words of one row of [`Topology::ancestor_bits`].
    pub fn words(&self) -> usize {
        self.len().div_ceil(64)
    }

    /// `[n + 1, ceil(n / 64)]` words, row-major: row 0 is zero, row i + 1 has bit j where j is i or an ancestor of i.
    pub fn ancestor_bits(&self) -> Vec<u64> {
        let words = self.words();
        let mut bits = vec![0u64; self.rows() * words];
        for (i, &p) in self.parents.iter().enumerate() {
            let (above, row) = bits.split_at_mut((i + 1) * words);
            let parent_row = (p + 1) as usize * words;
            row[..words].copy_from_slice(&above[parent_row..parent_row + words]);
            row[i / 64] |= 1 << (i % 64);
        }
        bits
    }

    /// Checks that every token is an id of a vocabulary of `vocab` tokens.
    ///
    /// # Errors
    /// [`Error::Tree`] that names the node.
    pub fn check_vocab(&self, vocab: usize) -> Result<()> {
        match self.tokens.iter().position(|&t| t as usize >= vocab) {
            Some(i) => Err(Error::tree(format!("tokens[{i}]"), self.tokens[i], format!("an id below {vocab}"))),
            None => Ok(()),
        }
    }

    /// Two equal siblings, the earlier first, if there are any.
    pub fn equal_siblings(&self) -> Option<(u32, u32)> {
        let named = |&id: &u32| (id, self.tokens[id as usize]);
        (0..self.rows()).find_map(|row| {
            let children = self.children(row);
            twins(children.len(), children.iter().map(named))
        })
    }
}

/// Names of two equal tokens among at most `most` (name, token) pairs, the earlier first.
fn twins(most: usize, mut siblings: impl Iterator<Item = (u32, u32)> + Clone) -> Option<(u32, u32)> {
    // Up to here comparing all pairs is the faster way.
    if most <= 64 {
        return siblings.clone().enumerate().find_map(|(before, (b, token))| {
            let twin = siblings.clone().take(before).find(|&(_, other)| other == token);
            twin.map(|(a, _)| (a, b))
        });
    }
    let mut seen = HashMap::with_capacity(most);
    siblings.find_map(|(b, token)| seen.insert(token, b).map(|a| (a, b)))
}

mod sealed {
    pub trait Sealed {}
}

/// How the nodes of a tree came to be. Sealed: what may verify a tree depends on it.
pub trait Draws: sealed::Sealed + Clone + std::fmt::Debug {
    /// The name used in Python and in messages.
    const NAME: &'static str;
}

/// Draws of which the law is known, so that a ratio rule may verify them.
pub trait Sampled: Draws {
    /// Whether the children of a row were drawn without replacement.
    const WITHOUT_REPLACEMENT: bool;
}

/// Chosen, not drawn: top-k, n-gram, suffix, coupled children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deterministic;

/// The children of a row are i.i.d. draws from its q; equal siblings may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Independent;

/// The children of a row were drawn from its q one after another, without replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WithoutReplacement;

/// K i.i.d. paths from q, merged into a trie; each path keeps its node ids.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Paths {
    /// Node ids of each path, root first.
    pub nodes: Vec<Vec<u32>>,
}

macro_rules! draws {
    ($($name:ident = $text:literal),*) => {$(
        impl sealed::Sealed for $name {}
        impl Draws for $name { const NAME: &'static str = $text; }
    )*};
}
draws!(
    Deterministic = "deterministic",
    Independent = "independent",
    WithoutReplacement = "without_replacement",
    Paths = "paths"
);

impl Sampled for Independent {
    const WITHOUT_REPLACEMENT: bool = false;
}
impl Sampled for WithoutReplacement {
    const WITHOUT_REPLACEMENT: bool = true;
}

/// A draft tree whose type says how its nodes were drawn, and so which rules may verify it.
///
/// These pairings compile:
/// ```
/// # use specverify::verify::{Chooser, Decision, Drafted, Target, block, multipath, recursive, traversal};
/// # use specverify::{Deterministic, DraftTree, Independent, Paths, Result, WithoutReplacement};
/// fn verify_0<T: Target, Q: Drafted>(p: &mut T, q: &Q, tree: &DraftTree<Independent>, c: &mut impl Chooser) -> Result<Decision> {
///     recursive::verify(p, q, tree, c)
/// }
/// fn verify_1<T: Target, Q: Drafted>(p: &mut T, q: &Q, tree: &DraftTree<WithoutReplacement>, c: &mut impl Chooser) -> Result<Decision> {
///     traversal::verify(p, q, tree, c)
/// }
/// fn verify_2<T: Target, Q: Drafted>(p: &mut T, q: &Q, tree: &DraftTree<Independent>, c: &mut impl Chooser) -> Result<Decision> {
///     block::verify(p, q, tree.as_chain()?, c)
/// }
/// fn verify_3<T: Target, Q: Drafted>(p: &mut T, q: &Q, tree: &DraftTree<Paths>, c: &mut impl Chooser) -> Result<Decision> {
///     multipath::verify(p, q, tree, c)
/// }
/// ```
///
/// These, of which the rule is not proved for the draws, don't:
/// ```compile_fail
/// # use specverify::verify::{Chooser, Decision, Drafted, Target, block, multipath, recursive, traversal};
/// # use specverify::{Deterministic, DraftTree, Independent, Paths, Result, WithoutReplacement};
/// fn verify<T: Target, Q: Drafted>(p: &mut T, q: &Q, tree: &DraftTree<Deterministic>, c: &mut impl Chooser) -> Result<Decision> {
///     recursive::verify(p, q, tree, c)
/// }
/// ```
/// ```compile_fail
/// # use specverify::verify::{Chooser, Decision, Drafted, Target, block, multipath, recursive, traversal};
/// # use specverify::{Deterministic, DraftTree, Independent, Paths, Result, WithoutReplacement};
/// fn verify<T: Target, Q: Drafted>(p: &mut T, q: &Q, tree: &DraftTree<Deterministic>, c: &mut impl Chooser) -> Result<Decision> {
///     block::verify(p, q, tree.as_chain()?, c)
/// }
/// ```
/// ```compile_fail
/// # use specverify::verify::{Chooser, Decision, Drafted, Target, block, multipath, recursive, traversal};
/// # use specverify::{Deterministic, DraftTree, Independent, Paths, Result, WithoutReplacement};
/// fn verify<T: Target, Q: Drafted>(p: &mut T, q: &Q, tree: &DraftTree<WithoutReplacement>, c: &mut impl Chooser) -> Result<Decision> {
///     block::verify(p, q, tree.as_chain()?, c)
/// }
/// ```
/// ```compile_fail
/// # use specverify::verify::{Chooser, Decision, Drafted, Target, block, multipath, recursive, traversal};
/// # use specverify::{Deterministic, DraftTree, Independent, Paths, Result, WithoutReplacement};
/// fn verify<T: Target, Q: Drafted>(p: &mut T, q: &Q, tree: &DraftTree<Paths>, c: &mut impl Chooser) -> Result<Decision> {
///     traversal::verify(p, q, tree, c)
/// }
/// ```
/// ```compile_fail
/// # use specverify::verify::{Chooser, Decision, Drafted, Target, block, multipath, recursive, traversal};
/// # use specverify::{Deterministic, DraftTree, Independent, Paths, Result, WithoutReplacement};
/// fn verify<T: Target, Q: Drafted>(p: &mut T, q: &Q, tree: &DraftTree<Independent>, c: &mut impl Chooser) -> Result<Decision> {
///     multipath::verify(p, q, tree, c)
/// }
/// ```
/// ```compile_fail
/// # use specverify::verify::{Chooser, Decision, Drafted, Target, block, multipath, recursive, traversal};
/// # use specverify::{Deterministic, DraftTree, Independent, Paths, Result, WithoutReplacement};
/// fn verify<T: Target, Q: Drafted>(p: &mut T, q: &Q, tree: &DraftTree<Deterministic>, c: &mut impl Chooser) -> Result<Decision> {
///     multipath::verify(p, q, tree, c)
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftTree<D: Draws = Deterministic> {
    topology: Topology,
    draws: D,
}

impl<D: Draws> Deref for DraftTree<D> {
    type Target = Topology;
    fn deref(&self) -> &Topology {
        &self.topology
    }
}

impl<D: Draws> DraftTree<D> {
    /// The topology alone.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// How the nodes were drawn.
    pub fn draws(&self) -> &D {
        &self.draws
    }
}

fn refuse_equal_siblings(topology: &Topology, draws: &str) -> Result<()> {
    match topology.equal_siblings() {
        None => Ok(()),
        Some((a, b)) => Err(Error::tree(
            format!("tokens[{b}]"),
            topology.tokens()[b as usize],
            format!("a token that its sibling {a} does not hold: {draws} siblings differ"),
        )),
    }
}

impl DraftTree<Deterministic> {
    /// A tree of chosen nodes.
    ///
    /// # Errors
    /// As [`Topology::new`], and [`Error::Tree`] on equal siblings.
    pub fn new(tokens: Vec<u32>, parents: Vec<i32>) -> Result<Self> {
        let topology = Topology::new(tokens, parents)?;
        refuse_equal_siblings(&topology, Deterministic::NAME)?;
        Ok(Self { topology, draws: Deterministic })
    }
}

impl DraftTree<Independent> {
    /// A tree whose siblings are i.i.d. draws; equal siblings are kept, in draw order.
    ///
    /// # Errors
    /// As [`Topology::new`].
    pub fn independent(tokens: Vec<u32>, parents: Vec<i32>) -> Result<Self> {
        Ok(Self { topology: Topology::new(tokens, parents)?, draws: Independent })
    }
}

impl DraftTree<WithoutReplacement> {
    /// A tree whose siblings were drawn without replacement, in draw order.
    ///
    /// # Errors
    /// As [`Topology::new`], and [`Error::Tree`] on equal siblings.
    pub fn without_replacement(tokens: Vec<u32>, parents: Vec<i32>) -> Result<Self> {
        let topology = Topology::new(tokens, parents)?;
        refuse_equal_siblings(&topology, WithoutReplacement::NAME)?;
        Ok(Self { topology, draws: WithoutReplacement })
    }
}

/// A chain of draws, which the rules `token` and `block` verify.
#[derive(Debug, Clone, Copy)]
pub struct Chain<'a>(&'a DraftTree<Independent>);

impl Deref for Chain<'_> {
    type Target = Topology;
    fn deref(&self) -> &Topology {
        self.0
    }
}

impl DraftTree<Independent> {
    /// This tree as a chain.
    ///
    /// # Errors
    /// [`Error::Tree`] that names the first node which is not its predecessor's child.
    pub fn as_chain(&self) -> Result<Chain<'_>> {
        match self.parents().iter().enumerate().find(|&(i, &p)| p != i as i32 - 1) {
            None => Ok(Chain(self)),
            Some((i, p)) => Err(Error::tree(format!("parents[{i}]"), p, format!("{}: a chain", i as i32 - 1))),
        }
    }
}
