//! `DraftTree`: the crate's typed trees behind one Python class.

use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use specverify::tree::{Candidates, Draws, Scored, Shape};
use specverify::verify::AnyTree;
use specverify::{Deterministic, Error, Independent, WithoutReplacement};

use crate::args::{TOKEN_ID, floats, integer, integers, items, optional, refuse, rows, token_ids, word};
use crate::errors::{OrRaise, exception};

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
        How::Deterministic => specverify::DraftTree::new(tokens, parents).map(AnyTree::Deterministic),
        How::Independent => specverify::DraftTree::independent(tokens, parents).map(AnyTree::Independent),
        How::WithoutReplacement => {
            specverify::DraftTree::without_replacement(tokens, parents).map(AnyTree::WithoutReplacement)
        }
    };
    tree.or_raise(py).map(DraftTree::from)
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
pub struct DraftTree {
    /// The typed tree.
    pub tree: AnyTree,
    scores: Option<Vec<f64>>,
}

impl From<AnyTree> for DraftTree {
    fn from(tree: AnyTree) -> Self {
        Self { tree, scores: None }
    }
}

impl From<Scored> for DraftTree {
    fn from(scored: Scored) -> Self {
        Self { tree: AnyTree::Deterministic(scored.tree), scores: Some(scored.scores) }
    }
}

/// `[depth, k]` tokens and log-probabilities, and k.
fn candidates(tokens: &Bound<'_, PyAny>, logprobs: &Bound<'_, PyAny>) -> PyResult<(Vec<u32>, Vec<f32>, usize)> {
    let (ids, k) = rows("tokens", tokens, token_ids)?;
    let (weights, width) = rows("logprobs", logprobs, floats)?;
    if width != k && !weights.is_empty() {
        let error = Error::shape(
            "logprobs",
            format!("[{}, {width}]", weights.len() / width.max(1)),
            format!("[depth, {k}] as tokens"),
        );
        return Err(exception(tokens.py(), &error));
    }
    Ok((ids, weights, k))
}

const PARENT: &str = "an int: -1 (the root) or an earlier node";

/// Sequences of ints, each of its own length.
fn lists(name: &str, values: &Bound<'_, PyAny>, expected: &str) -> PyResult<Vec<Vec<u32>>> {
    let values = items(name, values, "a sequence of ints")?;
    values.iter().enumerate().map(|(i, list)| integers(&format!("{name}[{i}]"), list, expected)).collect()
}

fn fill(shape: &Shape, candidates: &Bound<'_, PyAny>) -> PyResult<DraftTree> {
    let tree = shape.fill(&lists("candidates", candidates, TOKEN_ID)?).or_raise(candidates.py())?;
    Ok(AnyTree::Deterministic(tree).into())
}

fn nodes(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    integer("nodes", value, "a number of nodes: an int in [1, 2^31)")
}

#[pymethods]
impl DraftTree {
    #[new]
    #[pyo3(signature = (tokens, parents, *, draws=None), text_signature = "(tokens, parents, *, draws='deterministic')")]
    fn new(tokens: Bound<'_, PyAny>, parents: Bound<'_, PyAny>, draws: Option<Bound<'_, PyAny>>) -> PyResult<Self> {
        build(tokens.py(), token_ids("tokens", &tokens)?, integers("parents", &parents, PARENT)?, how(&draws)?)
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

    /// K i.i.d. paths from the drafter's distribution, merged into a trie in which each path keeps its node ids.
    ///
    /// Parameters
    /// ----------
    /// paths : sequence of sequences of int
    ///     [K, depth] token ids; equal paths count as draws of their own.
    ///
    /// Returns
    /// -------
    /// DraftTree
    ///     With `draws` 'paths' and `paths` set.
    ///
    /// Examples
    /// --------
    /// >>> import specverify as sv
    /// >>> tree = sv.DraftTree.from_paths([[5, 7], [5, 9]])
    /// >>> tree.tokens, tree.parents, tree.paths
    /// ([5, 7, 9], [-1, 0, 0], [[0, 1], [0, 2]])
    #[staticmethod]
    fn from_paths(paths: Bound<'_, PyAny>) -> PyResult<Self> {
        let (tokens, depth) = rows("paths", &paths, token_ids)?;
        let expected = "at least one path of at least one token";
        if depth == 0 {
            return Err(exception(paths.py(), &Error::shape("paths", format!("[{}, 0]", tokens.len()), expected)));
        }
        specverify::DraftTree::from_paths(&tokens, depth).or_raise(paths.py()).map(|tree| AnyTree::Paths(tree).into())
    }

    /// The best candidate of each depth as a chain, with the other candidates of the depth as its siblings.
    ///
    /// Of all these, the `nodes` of largest cumulative log-probability, best first: any prefix is a good tree too.
    ///
    /// Parameters
    /// ----------
    /// tokens : array_like of int
    ///     [depth, k] candidate ids.
    /// logprobs : array_like of float
    ///     [depth, k] log-probabilities given the chain so far; -inf marks an empty place.
    /// nodes : int
    ///     The most nodes wanted.
    ///
    /// Returns
    /// -------
    /// DraftTree
    ///     With `scores`.
    ///
    /// Examples
    /// --------
    /// >>> import specverify as sv
    /// >>> sv.DraftTree.siblings([[5, 6], [7, 8]], [[-0.1, -2.0], [-0.2, -3.0]], nodes=3)
    /// DraftTree([5, 7, 6], [-1, 0, -1], draws='deterministic')
    #[staticmethod]
    #[pyo3(signature = (tokens, logprobs, *, nodes))]
    fn siblings(tokens: Bound<'_, PyAny>, logprobs: Bound<'_, PyAny>, nodes: Bound<'_, PyAny>) -> PyResult<Self> {
        let (py, nodes) = (tokens.py(), self::nodes(&nodes)?);
        let (tokens, logprobs, k) = candidates(&tokens, &logprobs)?;
        let candidates = Candidates::new(&tokens, &logprobs, k).or_raise(py)?;
        specverify::tree::siblings(&candidates, nodes).or_raise(py).map(Self::from)
    }

    /// The likeliest nodes when positions are guessed independently of each other, as DDTree (arXiv 2604.12989) has it.
    ///
    /// Parameters
    /// ----------
    /// tokens : array_like of int
    ///     [depth, k] candidate ids.
    /// logprobs : array_like of float
    ///     [depth, k] marginal log-probabilities; -inf marks an empty place.
    /// nodes : int
    ///     The most nodes wanted.
    ///
    /// Returns
    /// -------
    /// DraftTree
    ///     Best node first, with `scores`; any prefix is the best tree of its size.
    ///
    /// Examples
    /// --------
    /// >>> import specverify as sv
    /// >>> sv.DraftTree.product([[5, 6], [7, 8]], [[-0.1, -2.0], [-0.2, -3.0]], nodes=4)
    /// DraftTree([5, 7, 6, 7], [-1, 0, -1, 2], draws='deterministic')
    #[staticmethod]
    #[pyo3(signature = (tokens, logprobs, *, nodes))]
    fn product(tokens: Bound<'_, PyAny>, logprobs: Bound<'_, PyAny>, nodes: Bound<'_, PyAny>) -> PyResult<Self> {
        let (py, nodes) = (tokens.py(), self::nodes(&nodes)?);
        let (tokens, logprobs, k) = candidates(&tokens, &logprobs)?;
        let candidates = Candidates::new(&tokens, &logprobs, k).or_raise(py)?;
        specverify::tree::product(&candidates, nodes).or_raise(py).map(Self::from)
    }

    /// The likeliest nodes when a position's guess depends on the one before it (DSpark's Markov head, DFlash2's selector).
    ///
    /// Parameters
    /// ----------
    /// tokens : array_like of int
    ///     [depth, k] candidate ids.
    /// logprobs : array_like of float
    ///     [depth, k]; row 0 starts the paths, later rows only say which places are in use (not -inf).
    /// transitions : array_like of float
    ///     [depth - 1, k, k]: entry (d, i, j) is the log-probability of candidate j of row d + 1 after candidate i of row d.
    /// nodes : int
    ///     The most nodes wanted.
    ///
    /// Returns
    /// -------
    /// DraftTree
    ///     Best node first, with `scores`.
    ///
    /// Examples
    /// --------
    /// >>> import specverify as sv
    /// >>> transitions = [[[-3.0, -0.1], [-0.5, -1.0]]]
    /// >>> sv.DraftTree.lattice([[5, 6], [7, 8]], [[-0.1, -2.0], [0.0, 0.0]], transitions, nodes=2)
    /// DraftTree([5, 8], [-1, 0], draws='deterministic')
    #[staticmethod]
    #[pyo3(signature = (tokens, logprobs, transitions, *, nodes))]
    fn lattice(
        tokens: Bound<'_, PyAny>,
        logprobs: Bound<'_, PyAny>,
        transitions: Bound<'_, PyAny>,
        nodes: Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let (py, nodes) = (tokens.py(), self::nodes(&nodes)?);
        let (tokens, logprobs, k) = candidates(&tokens, &logprobs)?;
        let plane = |name: &str, plane: &Bound<'_, PyAny>| rows(name, plane, floats).map(|(flat, _)| flat);
        let (transitions, _) = rows("transitions", &transitions, plane)?;
        let candidates = Candidates::new(&tokens, &logprobs, k).or_raise(py)?;
        specverify::tree::lattice(&candidates, &transitions, nodes).or_raise(py).map(Self::from)
    }

    /// A fixed topology, filled: the r-th child of a row takes the candidate of rank r at its depth.
    ///
    /// Parameters
    /// ----------
    /// parents : sequence of int
    ///     One parent a node: an earlier node, or -1 for a child of the root.
    /// candidates : sequence of sequences of int
    ///     Token ids of each depth, best first.
    ///
    /// Returns
    /// -------
    /// DraftTree
    ///
    /// Examples
    /// --------
    /// >>> import specverify as sv
    /// >>> sv.DraftTree.shape([-1, -1, 0], [[5, 6], [7]])
    /// DraftTree([5, 6, 7], [-1, -1, 0], draws='deterministic')
    #[staticmethod]
    fn shape(parents: Bound<'_, PyAny>, candidates: Bound<'_, PyAny>) -> PyResult<Self> {
        let shape = Shape::from_parents(integers("parents", &parents, PARENT)?).or_raise(parents.py())?;
        fill(&shape, &candidates)
    }

    /// A fixed topology in the form in which Medusa's choices are published (arXiv 2401.10774), filled.
    ///
    /// Parameters
    /// ----------
    /// choices : sequence of sequences of int
    ///     Ranks along each node's path; a path's own beginning stands before it.
    /// candidates : sequence of sequences of int
    ///     Token ids of each depth, best first.
    ///
    /// Returns
    /// -------
    /// DraftTree
    ///
    /// Examples
    /// --------
    /// >>> import specverify as sv
    /// >>> sv.DraftTree.medusa([[0], [1], [0, 0]], [[5, 6], [7]])
    /// DraftTree([5, 6, 7], [-1, -1, 0], draws='deterministic')
    #[staticmethod]
    fn medusa(choices: Bound<'_, PyAny>, candidates: Bound<'_, PyAny>) -> PyResult<Self> {
        let shape = Shape::from_ranks(&lists("choices", &choices, "a rank: an int in [0, 2^32)")?);
        fill(&shape.or_raise(choices.py())?, &candidates)
    }

    #[staticmethod]
    fn _scored(py: Python<'_>, tokens: Vec<u32>, parents: Vec<i32>, scores: Vec<f64>) -> PyResult<Self> {
        Ok(Self { scores: Some(scores), ..build(py, tokens, parents, How::Deterministic)? })
    }

    /// Token ids, one a node.
    #[getter]
    fn tokens(&self) -> Vec<u32> {
        self.tree.topology().tokens().to_vec()
    }

    /// Parents, one a node; -1 for children of the root.
    #[getter]
    fn parents(&self) -> Vec<i32> {
        self.tree.topology().parents().to_vec()
    }

    /// Depths, one a node; children of the root have depth 1.
    #[getter]
    fn depths(&self) -> Vec<u32> {
        self.tree.topology().depths().to_vec()
    }

    /// How the nodes were drawn: 'deterministic', 'independent', 'without_replacement' or 'paths'.
    #[getter]
    fn draws(&self) -> &'static str {
        self.tree.draws()
    }

    /// Node ids of each drawn path where `draws` is 'paths', else None.
    #[getter]
    fn paths(&self) -> Option<Vec<Vec<u32>>> {
        match &self.tree {
            AnyTree::Paths(tree) => Some(tree.draws().nodes.clone()),
            _ => None,
        }
    }

    /// Cumulative log-probability of each node where a builder chose them by it, else None.
    #[getter]
    fn scores(&self) -> Option<Vec<f64>> {
        self.scores.clone()
    }

    /// uint64 array [n + 1, ceil(n / 64)]: row i + 1 has bit j where j is i or an ancestor of i; row 0 is zero.
    #[getter]
    fn ancestor_bits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<u64>>> {
        let topology = self.tree.topology();
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
        Ok(self.tree.topology().children(self.row(&row)?).to_vec())
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
        Ok(self.tree.topology().path(self.row(&row)?))
    }

    fn __len__(&self) -> usize {
        self.tree.topology().len()
    }

    fn __repr__(&self) -> String {
        let topology = self.tree.topology();
        match &self.tree {
            AnyTree::Paths(_) => format!("DraftTree.from_paths({:?})", self.path_tokens()),
            tree => format!("DraftTree({:?}, {:?}, draws='{}')", topology.tokens(), topology.parents(), tree.draws()),
        }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let class = slf.get_type();
        let tree = slf.get();
        if let AnyTree::Paths(_) = tree.tree {
            return (class.getattr("from_paths")?, (tree.path_tokens(),)).into_pyobject(py);
        }
        if let Some(scores) = tree.scores() {
            return (class.getattr("_scored")?, (tree.tokens(), tree.parents(), scores)).into_pyobject(py);
        }
        let keywords = PyDict::new(py);
        keywords.set_item("draws", tree.draws())?;
        let rebuild = py.import("copyreg")?.getattr("__newobj_ex__")?;
        (rebuild, (class, (tree.tokens(), tree.parents()), keywords)).into_pyobject(py)
    }
}

impl DraftTree {
    fn row(&self, row: &Bound<'_, PyAny>) -> PyResult<usize> {
        let rows = self.tree.topology().rows();
        let expected = format!("a row of the tree: an int in [0, {rows})");
        match integer::<usize>("row", row, &expected)? {
            inside if inside < rows => Ok(inside),
            _ => Err(refuse("row", row, &expected)),
        }
    }

    fn path_tokens(&self) -> Vec<Vec<u32>> {
        let tokens = self.tree.topology().tokens();
        let spelled = |path: Vec<u32>| path.iter().map(|&node| tokens[node as usize]).collect();
        self.paths().unwrap_or_default().into_iter().map(spelled).collect()
    }
}

/// A `DraftTree` argument.
pub fn one<'py>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, DraftTree>> {
    value.cast::<DraftTree>().cloned().map_err(|_| refuse(name, value, "a DraftTree"))
}

/// The `trees` of a batch.
pub fn list<'py>(trees: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, DraftTree>>> {
    let trees = items("trees", trees, "a DraftTree")?;
    trees.iter().enumerate().map(|(b, tree)| one(&format!("trees[{b}]"), tree)).collect()
}
