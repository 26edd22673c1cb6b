//! `DraftTree`: the crate's typed trees behind one Python class.

use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use specverify::tree::Draws;
use specverify::{Deterministic, Independent, Paths, Topology, WithoutReplacement};

use crate::args::{integer, integers, optional, token_ids, word};
use crate::errors::OrRaise;

/// A draft tree, whose type in Rust says how its nodes were drawn; in Python `draws` says it.
#[derive(Debug, Clone, PartialEq)]
pub enum Tree {
    /// Chosen, not drawn.
    Deterministic(specverify::DraftTree<Deterministic>),
    /// Siblings are i.i.d. draws.
    Independent(specverify::DraftTree<Independent>),
    /// Siblings were drawn without replacement.
    WithoutReplacement(specverify::DraftTree<WithoutReplacement>),
    /// K i.i.d. paths merged into a trie.
    Paths(specverify::DraftTree<Paths>),
}

impl Tree {
    /// Tokens and parents.
    pub fn topology(&self) -> &Topology {
        match self {
            Tree::Deterministic(tree) => tree.topology(),
            Tree::Independent(tree) => tree.topology(),
            Tree::WithoutReplacement(tree) => tree.topology(),
            Tree::Paths(tree) => tree.topology(),
        }
    }

    fn draws(&self) -> &'static str {
        match self {
            Tree::Deterministic(_) => Deterministic::NAME,
            Tree::Independent(_) => Independent::NAME,
            Tree::WithoutReplacement(_) => WithoutReplacement::NAME,
            Tree::Paths(_) => Paths::NAME,
        }
    }
}

#[derive(Clone, Copy)]
enum How {
    Deterministic,
    Independent,
    WithoutReplacement,
}

fn how(draws: &Option<Bound<'_, PyAny>>) -> PyResult<How> {
    let words = [
        (Deterministic::NAME, How::Deterministic),
        (Independent::NAME, How::Independent),
        (WithoutReplacement::NAME, How::WithoutReplacement),
    ];
    optional(draws).map_or(Ok(How::Deterministic), |draws| word("draws", draws, &words))
}

fn build(py: Python<'_>, tokens: Vec<u32>, parents: Vec<i32>, how: How) -> PyResult<DraftTree> {
    let tree = match how {
        How::Deterministic => specverify::DraftTree::new(tokens, parents).map(Tree::Deterministic),
        How::Independent => specverify::DraftTree::independent(tokens, parents).map(Tree::Independent),
        How::WithoutReplacement => {
            specverify::DraftTree::without_replacement(tokens, parents).map(Tree::WithoutReplacement)
        }
    };
    tree.or_raise(py).map(DraftTree)
}

/// Tokens and parents of a draft, in topological order, and how its nodes were drawn.
///
/// The root is the last committed token and is not in the list. Row 0 of the target's logits follows the root and row
/// i + 1 follows node i, so a tree of n nodes has n + 1 rows. Immutable; can be compared and pickled.
///
/// Parameters
/// ----------
/// tokens : sequence of int
///     One token id a node; also a 1-d array or tensor.
/// parents : sequence of int
///     One parent a node: an earlier node, or -1 for a child of the root.
/// draws : {'deterministic', 'independent', 'without_replacement'}, default 'deterministic'
///     How the children of a row came to be: chosen (top-k, n-gram, coupled), i.i.d. draws from the drafter's
///     distribution, or draws without replacement. A rule verifies only what it is proved for.
///
/// Raises
/// ------
/// TreeError
///     A parent is missing or not before its child, or equal siblings stand where they can't.
/// ShapeError
///     `tokens` and `parents` differ in length.
/// ArgumentError
///     Something is not a token id, not a node id or no known `draws`.
///
/// Examples
/// --------
/// >>> import specverify as sv
/// >>> tree = sv.DraftTree([5, 7, 9], [-1, -1, 0])
/// >>> tree.depths, tree.children(0), tree.path(3)
/// ([1, 1, 2], [0, 1], [0, 2])
/// >>> tree.ancestor_bits.tolist()
/// [[0], [1], [2], [5]]
#[pyclass(frozen, eq, module = "specverify")]
#[derive(Debug, Clone, PartialEq)]
pub struct DraftTree(pub Tree);

#[pymethods]
impl DraftTree {
    #[new]
    #[pyo3(signature = (tokens, parents, *, draws=None), text_signature = "(tokens, parents, *, draws='deterministic')")]
    fn new(tokens: Bound<'_, PyAny>, parents: Bound<'_, PyAny>, draws: Option<Bound<'_, PyAny>>) -> PyResult<Self> {
        let parent = "an int: -1 (the root) or an earlier node";
        build(tokens.py(), token_ids("tokens", &tokens)?, integers("parents", &parents, parent)?, how(&draws)?)
    }

    /// A chain: every node is its predecessor's child.
    ///
    /// Parameters
    /// ----------
    /// tokens : sequence of int
    ///     Token ids, first position first.
    /// draws : {'deterministic', 'independent', 'without_replacement'}, default 'deterministic'
    ///     'independent' where the tokens were drawn from the drafter's distribution.
    ///
    /// Returns
    /// -------
    /// DraftTree
    ///
    /// Examples
    /// --------
    /// >>> import specverify as sv
    /// >>> sv.DraftTree.chain([5, 7], draws="independent")
    /// DraftTree([5, 7], [-1, 0], draws='independent')
    #[staticmethod]
    #[pyo3(signature = (tokens, *, draws=None), text_signature = "(tokens, *, draws='deterministic')")]
    fn chain(tokens: Bound<'_, PyAny>, draws: Option<Bound<'_, PyAny>>) -> PyResult<Self> {
        let ids = token_ids("tokens", &tokens)?;
        let parents = (-1..).take(ids.len()).collect();
        build(tokens.py(), ids, parents, how(&draws)?)
    }

    /// Token ids, one a node.
    #[getter]
    fn tokens(&self) -> Vec<u32> {
        self.0.topology().tokens().to_vec()
    }

    /// Parents, one a node; -1 for children of the root.
    #[getter]
    fn parents(&self) -> Vec<i32> {
        self.0.topology().parents().to_vec()
    }

    /// Depths, one a node; children of the root have depth 1.
    #[getter]
    fn depths(&self) -> Vec<u32> {
        self.0.topology().depths().to_vec()
    }

    /// How the nodes were drawn: 'deterministic', 'independent', 'without_replacement' or 'paths'.
    #[getter]
    fn draws(&self) -> &'static str {
        self.0.draws()
    }

    /// Node ids of each drawn path where `draws` is 'paths', else None.
    #[getter]
    fn paths(&self) -> Option<Vec<Vec<u32>>> {
        match &self.0 {
            Tree::Paths(tree) => Some(tree.draws().nodes.clone()),
            _ => None,
        }
    }

    /// uint64 array [n + 1, ceil(n / 64)]: row i + 1 has bit j where j is i or an ancestor of i; row 0 is zero.
    #[getter]
    fn ancestor_bits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<u64>>> {
        let topology = self.0.topology();
        PyArray1::from_vec(py, topology.ancestor_bits()).reshape([topology.rows(), topology.words()])
    }

    /// Node ids of the children of a row, in draw order.
    ///
    /// Parameters
    /// ----------
    /// row : int
    ///     0 for the root, i + 1 for node i.
    ///
    /// Returns
    /// -------
    /// list of int
    fn children(&self, row: Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
        Ok(self.0.topology().children(self.row(&row)?).to_vec())
    }

    /// Node ids from the root down to the node of a row, that node included; empty for row 0.
    ///
    /// Parameters
    /// ----------
    /// row : int
    ///     0 for the root, i + 1 for node i.
    ///
    /// Returns
    /// -------
    /// list of int
    fn path(&self, row: Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
        Ok(self.0.topology().path(self.row(&row)?))
    }

    fn __len__(&self) -> usize {
        self.0.topology().len()
    }

    fn __repr__(&self) -> String {
        let topology = self.0.topology();
        match &self.0 {
            Tree::Paths(_) => format!("DraftTree.from_paths({:?})", self.path_tokens()),
            tree => format!("DraftTree({:?}, {:?}, draws='{}')", topology.tokens(), topology.parents(), tree.draws()),
        }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let class = slf.get_type();
        let tree = slf.get();
        if let Tree::Paths(_) = tree.0 {
            return (class.getattr("from_paths")?, (tree.path_tokens(),)).into_pyobject(py);
        }
        let keywords = PyDict::new(py);
        keywords.set_item("draws", tree.draws())?;
        let rebuild = py.import("copyreg")?.getattr("__newobj_ex__")?;
        (rebuild, (class, (tree.tokens(), tree.parents()), keywords)).into_pyobject(py)
    }
}

impl DraftTree {
    fn row(&self, row: &Bound<'_, PyAny>) -> PyResult<usize> {
        let rows = self.0.topology().rows();
        let expected = format!("a row of the tree: an int in [0, {rows})");
        match integer::<usize>("row", row, &expected)? {
            inside if inside < rows => Ok(inside),
            _ => Err(crate::args::refuse("row", row, &expected)),
        }
    }

    fn path_tokens(&self) -> Vec<Vec<u32>> {
        let tokens = self.0.topology().tokens();
        let spelled = |path: Vec<u32>| path.iter().map(|&node| tokens[node as usize]).collect();
        self.paths().unwrap_or_default().into_iter().map(spelled).collect()
    }
}
