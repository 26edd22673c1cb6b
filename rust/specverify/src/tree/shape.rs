//! A fixed shape: the topology is known before the drafts, and candidates of each depth fill it by rank.

use std::collections::HashMap;

use super::{Deterministic, DraftTree, ROOT, Topology};
use crate::error::{Error, Result};

/// A static topology, checked once and filled every step, as Medusa (arXiv 2401.10774) uses it.
///
/// Each node has a rank: node i takes the candidate of that rank at its depth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    parents: Vec<i32>,
    depths: Vec<u32>,
    ranks: Vec<u32>,
}

impl Shape {
    /// A shape from parents: the r-th child of a row takes the candidate of rank r.
    ///
    /// # Errors
    /// As [`Topology::new`].
    pub fn from_parents(parents: Vec<i32>) -> Result<Self> {
        let topology = Topology::new(vec![0; parents.len()], parents)?;
        let mut ranks = vec![0; topology.len()];
        for row in 0..topology.rows() {
            for (rank, &child) in topology.children(row).iter().enumerate() {
                ranks[child as usize] = rank as u32;
            }
        }
        Ok(Self { depths: topology.depths().to_vec(), parents: topology.parents().to_vec(), ranks })
    }

    /// A shape from the ranks along each node's path, the form in which Medusa's choices are published: `[[0], [1], [0, 0]]` is two
    /// children of the root and one of the first. The order is kept, best first in the published lists.
    ///
    /// # Errors
    /// [`Error::Tree`] for an empty or repeated path, and for one whose own beginning does not stand before it.
    pub fn from_ranks<P: AsRef<[u32]>>(paths: &[P]) -> Result<Self> {
        let mut ids = HashMap::with_capacity(paths.len());
        let mut parents = Vec::with_capacity(paths.len());
        for (i, path) in paths.iter().map(AsRef::as_ref).enumerate() {
            let refuse = |expected: String| Err(Error::tree(format!("paths[{i}]"), format_args!("{path:?}"), expected));
            let Some((_, above)) = path.split_last() else {
                return refuse("at least one rank".into());
            };
            let parent = if above.is_empty() { Some(ROOT) } else { ids.get(above).copied() };
            let Some(parent) = parent else {
                return refuse(format!("{above:?} before it: no parent may be missing"));
            };
            if ids.insert(path, i as i32).is_some() {
                return refuse("each path once".into());
            }
            parents.push(parent);
        }
        let ranks = paths.iter().filter_map(|p| p.as_ref().last().copied()).collect();
        let depths = paths.iter().map(|p| p.as_ref().len() as u32).collect();
        Ok(Self { parents, depths, ranks })
    }

    /// Parents, one a node. A tree of this shape whose nodes were sampled, in draw order, is built from them by
    /// [`DraftTree::without_replacement`] or [`DraftTree::independent`].
    pub fn parents(&self) -> &[i32] {
        &self.parents
    }

    /// Candidates that [`Shape::fill`] needs at each depth.
    pub fn widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.depths.iter().max().map_or(0, |&d| d as usize)];
        for (&depth, &rank) in self.depths.iter().zip(&self.ranks) {
            let width = &mut widths[depth as usize - 1];
            *width = (*width).max(rank as usize + 1);
        }
        widths
    }

    /// The shape with tokens: node i takes `candidates[depth - 1][rank]`, ranked tokens of each depth.
    ///
    /// # Errors
    /// [`Error::Shape`] when a depth has too few candidates, [`Error::Tree`] when siblings come out equal.
    pub fn fill<R: AsRef<[u32]>>(&self, candidates: &[R]) -> Result<DraftTree<Deterministic>> {
        let widths = self.widths();
        if candidates.len() < widths.len() {
            return Err(Error::shape("candidates", candidates.len(), format!("{} depths", widths.len())));
        }
        for (depth, (row, width)) in candidates.iter().map(AsRef::as_ref).zip(widths).enumerate() {
            if row.len() < width {
                return Err(Error::shape(
                    format!("candidates[{depth}]"),
                    row.len(),
                    format!("at least {width} tokens, as many as the shape has ranks there"),
                ));
            }
        }
        let nodes = self.depths.iter().zip(&self.ranks);
        let tokens = nodes.map(|(&d, &r)| candidates[d as usize - 1].as_ref()[r as usize]).collect();
        DraftTree::new(tokens, self.parents.clone())
    }
}
