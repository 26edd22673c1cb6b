//! K i.i.d. paths, merged into a trie for the forward pass; each path keeps its node ids.

use super::{DraftTree, Independent, Paths, ROOT, Topology};
use crate::error::{Error, Result};

impl DraftTree<Paths> {
    /// Merges K paths of one length, each drawn token by token from q, into a trie in which a shared beginning is one run of nodes.
    /// Equal paths stay apart in [`Paths::nodes`]: each counts as a draw of its own (multi-path block verification,
    /// arXiv 2602.16961).
    ///
    /// `tokens` is `[K, depth]`, row-major. Nodes are numbered path after path.
    ///
    /// # Errors
    /// [`Error::Shape`] when `tokens` is empty or no multiple of `depth`, [`Error::Argument`] for `depth` = 0.
    pub fn from_paths(tokens: &[u32], depth: usize) -> Result<Self> {
        if depth == 0 {
            return Err(Error::argument("depth", depth, "at least 1 token a path"));
        }
        if tokens.is_empty() || !tokens.len().is_multiple_of(depth) {
            return Err(Error::shape("paths", tokens.len(), format!("K x depth with K >= 1 and depth = {depth}")));
        }
        let paths: Vec<&[u32]> = tokens.chunks_exact(depth).collect();
        let (mut node_tokens, mut parents) = (Vec::with_capacity(tokens.len()), Vec::with_capacity(tokens.len()));
        let mut nodes: Vec<Vec<u32>> = Vec::with_capacity(paths.len());
        for (k, path) in paths.iter().enumerate() {
            // The earlier path that shares most with this one lends its nodes.
            let shared = |a: &[u32]| a.iter().zip(*path).take_while(|(x, y)| x == y).count();
            let (length, lender) = (0..k).map(|a| (shared(paths[a]), a)).max().unwrap_or((0, 0));
            let mut ids = nodes.get(lender).map_or_else(Vec::new, |lent| lent[..length].to_vec());
            for &token in &path[length..] {
                parents.push(ids.last().map_or(ROOT, |&parent| parent as i32));
                ids.push(node_tokens.len() as u32);
                node_tokens.push(token);
            }
            nodes.push(ids);
        }
        Ok(Self { topology: Topology::new(node_tokens, parents)?, draws: Paths { nodes } })
    }

    /// The paths side by side, unmerged, as the rules for `independent` trees take them: node `k * depth + d` is token d of path k, and
    /// equal siblings stay. Its rows are the merged tree's, repeated: see [`DraftTree::unmerged_rows`].
    ///
    /// # Errors
    /// As [`Topology::new`].
    pub fn unmerged(&self) -> Result<DraftTree<Independent>> {
        let nodes = || self.draws.nodes.iter().flatten();
        let tokens = nodes().map(|&id| self.tokens()[id as usize]).collect();
        let mut parents = Vec::with_capacity(nodes().count());
        for path in &self.draws.nodes {
            let first = parents.len() as i32;
            parents.extend((0..path.len() as i32).map(|d| if d == 0 { ROOT } else { first + d - 1 }));
        }
        DraftTree::independent(tokens, parents)
    }

    /// For each row of [`DraftTree::unmerged`] the row of this tree that holds its logits and its q.
    pub fn unmerged_rows(&self) -> Vec<usize> {
        std::iter::once(0).chain(self.draws.nodes.iter().flatten().map(|&id| id as usize + 1)).collect()
    }
}
