//! The exact law of a rule: `specverify.oracle`.

use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use specverify::Error;
use specverify::oracle::Drafts;
use specverify::tree::Draws;
use specverify::verify::AnyTree;
use specverify::{Independent, WithoutReplacement};

use crate::args::{integer, integers, items, optional, refuse, word};
use crate::errors::{OrRaise, exception};
use crate::tree::DraftTree;
use crate::verify::Rule;

const LENGTH: &str = "a number of tokens: an int >= 0";

/// A language model as a table: a distribution over the next token after every text shorter than `depth`.
///
/// Parameters
/// ----------
/// rows : ndarray of float64
///     [1 + V + V**2 + ... + V**(depth - 1), V] probabilities: texts by length, then in lexicographic order.
///
/// Examples
/// --------
/// >>> import numpy as np
/// >>> from specverify import oracle
/// >>> table = oracle.Table(np.full((1 + 3, 3), 1 / 3))
/// >>> table.vocab, table.depth, len(table.texts(2))
/// (3, 2, 9)
#[pyclass(frozen, eq, module = "specverify.oracle")]
#[derive(Debug, PartialEq)]
pub struct Table(specverify::oracle::Table);

#[pymethods]
impl Table {
    #[new]
    fn new(rows: Bound<'_, PyAny>) -> PyResult<Self> {
        let py = rows.py();
        let expected = "a [texts, V] array of float64";
        let array: PyReadonlyArray2<'_, f64> = rows.extract().map_err(|_| refuse("rows", &rows, expected))?;
        let array = array.as_array();
        let (count, vocab) = array.dim();
        // The depth is that of which the texts come nearest to the number of rows; `new` says where they differ.
        let (mut depth, mut texts, mut level) = (0, 0usize, 1usize);
        while vocab > 0 && texts < count {
            (depth, texts, level) = (depth + 1, texts.saturating_add(level), level.saturating_mul(vocab));
        }
        specverify::oracle::Table::new(vocab, depth, array.iter().copied().collect()).or_raise(py).map(Self)
    }

    /// Size of the vocabulary.
    #[getter]
    fn vocab(&self) -> usize {
        self.0.vocab()
    }

    /// Texts shorter than this have a row.
    #[getter]
    fn depth(&self) -> usize {
        self.0.depth()
    }

    /// The probability of each text of a length.
    ///
    /// Parameters
    /// ----------
    /// length : int
    ///     At most `depth`.
    ///
    /// Returns
    /// -------
    /// ndarray of float64
    ///     [V**length], in lexicographic order.
    fn texts<'py>(&self, py: Python<'py>, length: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let texts = self.0.texts(integer("length", &length, LENGTH)?).or_raise(py)?;
        Ok(PyArray1::from_vec(py, texts))
    }

    fn __repr__(&self) -> String {
        format!("<Table vocab={} depth={}>", self.0.vocab(), self.0.depth())
    }
}

/// The law of what a rule emits: `texts` and `mean_emitted`.
#[pyclass(frozen, eq, module = "specverify.oracle")]
#[derive(Debug, PartialEq)]
pub struct Law(specverify::oracle::Law);

#[pymethods]
impl Law {
    /// Float64 array [V**length]: probability of each text, in lexicographic order.
    #[getter]
    fn texts<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.0.texts)
    }

    /// Mean number of tokens that one step emits: accepted and one more.
    #[getter]
    fn mean_emitted(&self) -> f64 {
        self.0.mean_emitted
    }

    fn __repr__(&self) -> String {
        format!("<Law of {} texts, mean_emitted={}>", self.0.texts.len(), self.0.mean_emitted)
    }
}

fn table<'py>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Table>> {
    value.cast::<Table>().cloned().map_err(|_| refuse(name, value, "an oracle.Table"))
}

/// (probability, tree) pairs whose tokens the tables know.
fn given(trees: &Bound<'_, PyAny>, vocab: usize) -> PyResult<Vec<(f64, AnyTree)>> {
    let pair = |(i, pair): (usize, &Bound<'_, PyAny>)| {
        let expected = "a pair of a probability and a DraftTree";
        let (probability, tree): (f64, Bound<'_, DraftTree>) =
            pair.extract().map_err(|_| refuse(&format!("trees[{i}]"), pair, expected))?;
        let tree = tree.get().tree.clone();
        tree.check_vocab(vocab).or_raise(pair.py())?;
        Ok((probability, tree))
    };
    let pairs = items("trees", trees, "a pair")?;
    if pairs.is_empty() {
        return Err(refuse("trees", trees, "at least one pair of a probability and a DraftTree"));
    }
    pairs.iter().enumerate().map(pair).collect()
}

/// The exact law of the texts of a length when one step of a rule is followed by the target, over all drafts and coins.
///
/// The shipped rule runs under a chooser that follows every outcome of every coin. The time is exponential in everything: small
/// vocabularies and trees only.
///
/// Parameters
/// ----------
/// rule : str
///     As in `verify`, but for 'auto'.
/// target, drafter : Table
///     The models.
/// length : int
///     Tokens a text; more than the drafts are deep.
/// parents : sequence of int, optional
///     Shape of the tree whose siblings are drawn from the drafter's rows.
/// draws : {'independent', 'without_replacement'}, default 'independent'
///     How they are drawn.
/// trees : sequence of (float, DraftTree), optional
///     Instead of `parents`: trees as they stand, with their probabilities. What a false label costs can be seen here.
/// epsilon, delta : float, default 0.09 and 0.3
///     Of 'lossy_typical'.
///
/// Returns
/// -------
/// Law
///
/// Examples
/// --------
/// >>> import numpy as np
/// >>> from specverify import oracle
/// >>> target = oracle.Table(np.tile([0.5, 0.3, 0.2], (1 + 3, 1)))
/// >>> drafter = oracle.Table(np.tile([0.2, 0.2, 0.6], (1 + 3, 1)))
/// >>> law = oracle.law("token", target, drafter, length=2, parents=[-1])
/// >>> oracle.total_variation(law.texts, target.texts(2)) < 1e-12
/// True
/// >>> round(law.mean_emitted, 12)  # 1 + sum of min(p, q)
/// 1.6
#[pyfunction]
#[pyo3(
    signature = (rule, target, drafter, *, length, parents=None, draws=None, trees=None, epsilon=None, delta=None),
    text_signature = "(rule, target, drafter, *, length, parents=None, draws='independent', trees=None, epsilon=0.09, delta=0.3)"
)]
#[expect(clippy::too_many_arguments, reason = "the parts of an experiment")]
pub fn law(
    py: Python<'_>,
    rule: Bound<'_, PyAny>,
    target: Bound<'_, PyAny>,
    drafter: Bound<'_, PyAny>,
    length: Bound<'_, PyAny>,
    parents: Option<Bound<'_, PyAny>>,
    draws: Option<Bound<'_, PyAny>>,
    trees: Option<Bound<'_, PyAny>>,
    epsilon: Option<Bound<'_, PyAny>>,
    delta: Option<Bound<'_, PyAny>>,
) -> PyResult<Law> {
    let fixed = Rule::of(Some(&rule), optional(&epsilon), optional(&delta))?
        .fixed()
        .ok_or_else(|| refuse("rule", &rule, "the rule itself: 'auto' looks at the temperature"))?;
    let (target, drafter) = (table("target", &target)?, table("drafter", &drafter)?);
    let length = integer("length", &length, LENGTH)?;
    let words = [(Independent::NAME, false), (WithoutReplacement::NAME, true)];
    let without_replacement = optional(&draws).map_or(Ok(false), |draws| word("draws", draws, &words))?;
    let (pairs, shape): (Vec<(f64, AnyTree)>, Vec<i32>);
    let drafts = match (optional(&parents), optional(&trees)) {
        (Some(parents), None) => {
            shape = integers("parents", parents, "an int: -1 (the root) or an earlier node")?;
            Drafts::Drawn { parents: &shape, without_replacement }
        }
        (None, Some(trees)) => {
            pairs = given(trees, target.get().0.vocab())?;
            Drafts::Given(&pairs)
        }
        (Some(parents), Some(_)) => return Err(refuse("parents", parents, "None, since trees are given")),
        (None, None) => return Err(exception(py, &Error::argument("parents", "None", "a shape, or trees"))),
    };
    let (target, drafter) = (&target.get().0, &drafter.get().0);
    py.detach(|| specverify::oracle::law(fixed, &drafts, target, drafter, length)).or_raise(py).map(Law)
}

/// Half the sum of absolute differences of two laws.
///
/// Parameters
/// ----------
/// a, b : ndarray of float64
///     Laws over the same set.
///
/// Returns
/// -------
/// float
#[pyfunction]
pub fn total_variation(a: Bound<'_, PyAny>, b: Bound<'_, PyAny>) -> PyResult<f64> {
    let law = |name: &str, value: &Bound<'_, PyAny>| {
        let array: PyResult<PyReadonlyArray1<'_, f64>> = value.extract().map_err(PyErr::from);
        array.map(|array| array.as_array().to_vec()).map_err(|_| refuse(name, value, "a 1-d array of float64"))
    };
    let (p, q) = (law("a", &a)?, law("b", &b)?);
    if p.len() != q.len() {
        return Err(exception(a.py(), &Error::shape("b", q.len(), format!("{}, as a has", p.len()))));
    }
    Ok(specverify::oracle::total_variation(&p, &q))
}

/// Every draw of K i.i.d. paths from the drafter, with its probability: what `law` takes as `trees` for 'multipath'.
///
/// Parameters
/// ----------
/// drafter : Table
///     The model that draws.
/// paths, depth : int
///     How many, how long.
///
/// Returns
/// -------
/// list of (float, DraftTree)
#[pyfunction]
pub fn path_draws(
    drafter: Bound<'_, PyAny>,
    paths: Bound<'_, PyAny>,
    depth: Bound<'_, PyAny>,
) -> PyResult<Vec<(f64, DraftTree)>> {
    let py = drafter.py();
    let count = integer("paths", &paths, "a number of paths: an int >= 1")?;
    let depth = integer("depth", &depth, LENGTH)?;
    let draws = specverify::oracle::path_draws(&table("drafter", &drafter)?.get().0, count, depth).or_raise(py)?;
    Ok(draws.into_iter().map(|(probability, tree)| (probability, DraftTree::from(tree))).collect())
}
