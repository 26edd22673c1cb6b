//! `verify` and `verify_batch`.

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use specverify::Error;
use specverify::request::Request;
use specverify::rows::{LogprobsMode, Matrix};
use specverify::verify::AnyTree;

use crate::args::{float, integer, items, optional, optional_token_ids, refuse, token_ids, word};
use crate::arrays::{Holds, View};
use crate::couple::POSITION;
use crate::errors::{OrRaise, exception};
use crate::params::SamplingParams;

/// What a step of one request emitted, or why it emitted nothing. Immutable; can be pickled.
#[pyclass(frozen, module = "specverify")]
#[derive(Debug)]
pub struct Outcome {
    seed: u64,
    result: Result<specverify::request::Outcome, Py<PyAny>>,
}

impl Outcome {
    fn step(&self) -> Option<&specverify::request::Outcome> {
        self.result.as_ref().ok()
    }

    fn logprob_rows(&self) -> &[specverify::rows::Logprobs] {
        self.step().and_then(|step| step.logprobs.as_deref()).unwrap_or_default()
    }
}

#[pymethods]
impl Outcome {
    /// Emitted token ids: those of the path and one more, none after a stop token. Empty where `error` is set.
    #[getter]
    fn tokens(&self) -> Vec<u32> {
        self.step().map_or_else(Vec::new, |step| step.tokens.clone())
    }

    /// Node ids of the accepted path, root first.
    #[getter]
    fn path(&self) -> Vec<u32> {
        self.step().map_or_else(Vec::new, |step| step.path.clone())
    }

    /// Log-probability of each emitted token; empty where none were asked for.
    #[getter]
    fn logprobs(&self) -> Vec<f32> {
        self.logprob_rows().iter().map(|row| row.token).collect()
    }

    /// For each emitted token its rank in its row: 1 is the most likely. Empty where `logprobs` is.
    #[getter]
    fn ranks(&self) -> Vec<u32> {
        self.logprob_rows().iter().map(|row| row.rank).collect()
    }

    /// For each emitted token the (token id, log-probability) of the `sampling.logprobs` most likely, best first.
    #[getter]
    fn top_logprobs(&self) -> Vec<Vec<(u32, f32)>> {
        self.logprob_rows().iter().map(|row| row.top.clone()).collect()
    }

    /// Whether the last token is a stop token.
    #[getter]
    fn finished(&self) -> bool {
        self.step().is_some_and(|step| step.finished)
    }

    /// The seed that was used: with it the step can be replayed.
    #[getter]
    fn seed(&self) -> u64 {
        self.seed
    }

    /// The rule that was used: what 'auto' chose. None where `error` is set.
    #[getter]
    fn rule(&self) -> Option<&'static str> {
        self.step().map(|step| step.rule.name())
    }

    /// None, or the SpecVerifyError of this request of a batch.
    #[getter]
    fn error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.result.as_ref().err().map(|error| error.clone_ref(py))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match &self.result {
            Ok(step) => format!(
                "Outcome(tokens={:?}, path={:?}, finished={}, rule='{}', seed={})",
                step.tokens,
                step.path,
                if step.finished { "True" } else { "False" },
                step.rule.name(),
                self.seed
            ),
            Err(error) => format!("Outcome(error={}, seed={})", crate::args::shown(error.bind(py)), self.seed),
        }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let (py, class, outcome) = (slf.py(), slf.get_type(), slf.get());
        match &outcome.result {
            Err(error) => (class.getattr("_failed")?, (outcome.seed, error.clone_ref(py))).into_pyobject(py),
            Ok(step) => {
                let parameters = match step.rule {
                    specverify::verify::Rule::LossyTypical { epsilon, delta } => Some((epsilon, delta)),
                    _ => None,
                };
                let rows = step.logprobs.as_ref();
                let logprobs: Option<Vec<LogprobsRow>> =
                    rows.map(|rows| rows.iter().map(|row| (row.token, row.rank, row.top.clone())).collect());
                let rule = (step.rule.name(), parameters);
                let state = (outcome.seed, &step.tokens, &step.path, step.finished, rule, logprobs);
                (class.getattr("_emitted")?, state).into_pyobject(py)
            }
        }
    }

    #[staticmethod]
    fn _failed(seed: u64, error: Py<PyAny>) -> Self {
        Self { seed, result: Err(error) }
    }

    #[staticmethod]
    fn _emitted(
        py: Python<'_>,
        seed: u64,
        tokens: Vec<u32>,
        path: Vec<u32>,
        finished: bool,
        rule: (String, Option<(f64, f64)>),
        logprobs: Option<Vec<LogprobsRow>>,
    ) -> PyResult<Self> {
        let rule = match rule {
            (_, Some((epsilon, delta))) => specverify::verify::Rule::LossyTypical { epsilon, delta },
            (name, None) => name.parse().or_raise(py)?,
        };
        let row = |(token, rank, top)| specverify::rows::Logprobs { token, rank, top };
        let logprobs = logprobs.map(|rows| rows.into_iter().map(row).collect());
        let step = specverify::request::Outcome { path, tokens, logprobs, finished, rule, seed };
        Ok(Self { seed, result: Ok(step) })
    }
}

/// [`specverify::rows::Logprobs`] as it is pickled.
type LogprobsRow = (f32, u32, Vec<(u32, f32)>);

/// A `rule` argument: a rule, or the choice that `auto` makes of each request.
#[derive(Debug, Clone, Copy)]
pub struct Rule(Option<specverify::verify::Rule>);

impl Rule {
    /// Reads `rule`, `epsilon` and `delta`.
    pub fn of(
        rule: Option<&Bound<'_, PyAny>>,
        epsilon: Option<&Bound<'_, PyAny>>,
        delta: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let Some(value) = rule else { return Ok(Self(None)) };
        let name = match value.cast::<PyString>() {
            Ok(name) => name.to_string_lossy().into_owned(),
            Err(_) => return Err(refuse("rule", value, "the name of a rule")),
        };
        let number = |name: &str, value: Option<&Bound<'_, PyAny>>, default: f64| {
            value.map_or(Ok(default), |value| float(name, value, "a number"))
        };
        Ok(Self(match name.as_str() {
            "auto" => None,
            name => Some(match name.parse().or_raise(value.py())? {
                specverify::verify::Rule::LossyTypical { epsilon: e, delta: d } => {
                    let (epsilon, delta) = (number("epsilon", epsilon, e)?, number("delta", delta, d)?);
                    specverify::verify::Rule::LossyTypical { epsilon, delta }
                }
                fixed => fixed,
            }),
        }))
    }

    /// The rule, or None for `auto`.
    pub fn fixed(self) -> Option<specverify::verify::Rule> {
        self.0
    }
}

fn mode(value: Option<&Bound<'_, PyAny>>) -> PyResult<LogprobsMode> {
    let words = [("raw_logprobs", LogprobsMode::Raw), ("processed_logprobs", LogprobsMode::Processed)];
    value.map_or(Ok(LogprobsMode::Raw), |value| word("logprobs_mode", value, &words))
}

fn fresh_seed(py: Python<'_>) -> PyResult<u64> {
    getrandom::u64().map_err(|fault| {
        let error =
            Error::argument("sampling.seed", "None", format!("a seed: the system gives no random numbers ({fault})"));
        exception(py, &error)
    })
}

/// What one request brings besides its arrays.
struct Part {
    params: specverify::SamplingParams,
    seed: u64,
    position: u32,
    prompt: Vec<u32>,
    output: Vec<u32>,
    stop: Vec<u32>,
}

impl Part {
    fn new(
        py: Python<'_>,
        params: specverify::SamplingParams,
        position: Option<u32>,
        [prompt, output, stop]: [Vec<u32>; 3],
    ) -> PyResult<Self> {
        let seed = match params.seed {
            Some(seed) => seed,
            // Nothing is drawn at T = 0.
            None if params.temperature == 0.0 => 0,
            None => fresh_seed(py)?,
        };
        let position = match position {
            Some(position) => position,
            None => u32::try_from(prompt.len() + output.len()).map_err(|_| {
                exception(py, &Error::argument("prompt_token_ids", "too long", "fewer than 2^32 tokens"))
            })?,
        };
        Ok(Self { params, seed, position, prompt, output, stop })
    }

    fn request<'a>(
        &'a self,
        logits: Matrix<'a>,
        tree: &'a AnyTree,
        rule: Rule,
        draft_probs: Option<Matrix<'a>>,
        logprobs_mode: LogprobsMode,
    ) -> Request<'a> {
        Request {
            logits,
            tree,
            rule: rule.fixed(),
            draft_probs,
            params: &self.params,
            seed: self.seed,
            position: self.position,
            prompt: &self.prompt,
            output: &self.output,
            stop_token_ids: &self.stop,
            logprobs_mode,
        }
    }
}

fn position(name: &str, value: &Bound<'_, PyAny>) -> PyResult<u32> {
    integer(name, value, POSITION)
}

/// Logits and draft probabilities are of one vocabulary.
fn check_vocab(py: Python<'_>, name: &str, q: &View, vocab: usize) -> PyResult<()> {
    if q.columns() == vocab {
        return Ok(());
    }
    let found = format!("[{}, {}]", q.rows(), q.columns());
    Err(exception(py, &Error::shape(name, found, format!("{vocab} columns, as logits has"))))
}

fn check_rows(py: Python<'_>, name: &str, view: &View, fits: bool, expected: usize) -> PyResult<()> {
    if fits {
        return Ok(());
    }
    let found = format!("[{}, {}]", view.rows(), view.columns());
    Err(exception(py, &Error::shape(name, found, format!("{expected} rows: one for the root and one a node"))))
}

/// q of one request: [n + 1, V], or [n, V] for a chain.
fn draft_view(name: &str, value: &Bound<'_, PyAny>, tree: &AnyTree, vocab: usize) -> PyResult<View> {
    let rows = tree.rows();
    let expected = match tree.is_chain() {
        true => format!("[n, V] or [n + 1, V] for a chain of n = {}, V = {vocab}", rows - 1),
        false => format!("[n + 1, V] for a tree of n = {}, V = {vocab}", rows - 1),
    };
    let view = View::matrix(name, value, Holds::Probabilities, &expected)?;
    if view.rows() != rows && !(tree.is_chain() && view.rows() + 1 == rows) {
        let found = format!("[{}, {}]", view.rows(), view.columns());
        return Err(exception(value.py(), &Error::shape(name, found, expected)));
    }
    check_vocab(value.py(), name, &view, vocab)?;
    Ok(view)
}

/// Decide which drafts of one request stand, without changing the target's distribution.
///
/// Parameters
/// ----------
/// logits : array or tensor of float32, float16 or bfloat16
///     [n + 1, V], in host memory, read in place: row 0 follows the root, row i + 1 follows node i. A row that the walk does not
///     reach is not read.
/// tree : DraftTree
///     The drafts.
/// rule : str, default 'auto'
///     'greedy', 'target_only', 'token', 'block', 'recursive', 'traversal', 'multipath', 'lossy_typical'; 'auto' is greedy at
///     temperature 0, block or traversal for drawn trees that come with `draft_probs`, and target_only otherwise.
/// draft_probs : array or tensor of float32, float16, bfloat16 or float64, optional
///     [n + 1, V] probabilities (no logits): row r is what the children of row r were drawn from, after the drafter's own temperature
///     and filters. Rows without children are not read; [n, V] is accepted for a chain. A row that is read is divided by its sum, in
///     float64, so it need not add up to 1; NaN, a negative or infinite entry or a sum of 0 is a RowError.
/// sampling : SamplingParams, optional
///     `SamplingParams()` by default. Without a seed a fresh one is drawn; `Outcome.seed` has it.
/// position : int, optional
///     Position in the whole text of the first token this step emits. Seed and position decide the noise. By default it is the number
///     of prompt and output tokens given, so 0 where none are: a loop with a fixed seed that passes neither repeats the noise of its
///     first step in every step, and its text is no sample of the model's law. Pass the true position.
/// prompt_token_ids, output_token_ids : sequence of int, default ()
///     Tokens before this step, for penalties, bad words and min_tokens.
/// stop_token_ids : sequence of int, default ()
///     Nothing is emitted after one of these.
/// logprobs_mode : {'raw_logprobs', 'processed_logprobs'}, default 'raw_logprobs'
///     Of the logits as they came, or after the sampling parameters.
/// epsilon, delta : float, default 0.09 and 0.3
///     Of 'lossy_typical' (arXiv 2401.10774).
///
/// Returns
/// -------
/// Outcome
///     `tokens`, `path`, `logprobs` (of every emitted token, whatever `sampling.logprobs`), `top_logprobs`, `finished`, `seed`.
///
/// Raises
/// ------
/// ShapeError, DtypeError
///     An array does not fit the tree or can't be read in place.
/// PairingError
///     The rule is not proved for the way the drafts were drawn.
/// RowError
///     A row that was reached holds NaN, +inf or no usable mass.
/// ArgumentError, TreeError
///     Anything else outside its domain.
///
/// Examples
/// --------
/// >>> import numpy as np
/// >>> import specverify as sv
/// >>> logits = np.zeros((3, 10), np.float32)
/// >>> logits[0, 5] = logits[1, 7] = logits[2, 9] = 4.0
/// >>> out = sv.verify(logits, sv.DraftTree.chain([5, 6]), sampling=sv.SamplingParams(temperature=0), position=128)
/// >>> out.tokens, out.path, out.finished
/// ([5, 7], [0], False)
#[pyfunction]
#[pyo3(
    signature = (
        logits, tree, *, rule=None, draft_probs=None, sampling=None, position=None, prompt_token_ids=None,
        output_token_ids=None, stop_token_ids=None, logprobs_mode=None, epsilon=None, delta=None
    ),
    text_signature = "(logits, tree, *, rule='auto', draft_probs=None, sampling=None, position=None, \
                      prompt_token_ids=(), output_token_ids=(), stop_token_ids=(), logprobs_mode='raw_logprobs', \
                      epsilon=0.09, delta=0.3)"
)]
#[expect(clippy::too_many_arguments, reason = "a request has as many parts")]
pub fn verify(
    py: Python<'_>,
    logits: Bound<'_, PyAny>,
    tree: Bound<'_, PyAny>,
    rule: Option<Bound<'_, PyAny>>,
    draft_probs: Option<Bound<'_, PyAny>>,
    sampling: Option<Bound<'_, PyAny>>,
    position: Option<Bound<'_, PyAny>>,
    prompt_token_ids: Option<Bound<'_, PyAny>>,
    output_token_ids: Option<Bound<'_, PyAny>>,
    stop_token_ids: Option<Bound<'_, PyAny>>,
    logprobs_mode: Option<Bound<'_, PyAny>>,
    epsilon: Option<Bound<'_, PyAny>>,
    delta: Option<Bound<'_, PyAny>>,
) -> PyResult<Outcome> {
    let tree = crate::tree::one("tree", &tree)?;
    let tree = &tree.get().tree;
    let view = View::matrix("logits", &logits, Holds::Logits, "[n + 1, V]")?;
    check_rows(py, "logits", &view, view.rows() == tree.rows(), tree.rows())?;
    let q = optional(&draft_probs).map(|q| draft_view("draft_probs", q, tree, view.columns())).transpose()?;
    let rule = Rule::of(optional(&rule), optional(&epsilon), optional(&delta))?;
    let mode = mode(optional(&logprobs_mode))?;
    let mut params = match optional(&sampling) {
        Some(sampling) => SamplingParams::of("sampling", sampling)?.get().0.clone(),
        None => specverify::SamplingParams::default(),
    };
    // One request's log-probabilities cost little; in a batch they are computed where asked for.
    params.logprobs.get_or_insert(0);
    let ids = [
        optional_token_ids("prompt_token_ids", &prompt_token_ids)?,
        optional_token_ids("output_token_ids", &output_token_ids)?,
        optional_token_ids("stop_token_ids", &stop_token_ids)?,
    ];
    let position = optional(&position).map(|value| self::position("position", value)).transpose()?;
    let part = Part::new(py, params, position, ids)?;
    let q = q.as_ref().map(|q| q.slice(py, 0, q.rows())).transpose()?;
    let request = part.request(view.slice(py, 0, view.rows())?, tree, rule, q, mode);
    let step = py.detach(|| request.verify()).or_raise(py)?;
    Ok(Outcome { seed: part.seed, result: Ok(step) })
}

/// A list with one entry a request, `None` where nothing was given.
fn each<'py>(
    py: Python<'py>,
    name: &str,
    values: &Option<Bound<'py, PyAny>>,
    count: usize,
    expected: &str,
) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    let Some(values) = optional(values) else { return Ok(None) };
    let values = items(name, values, expected)?;
    if values.len() == count {
        return Ok(Some(values));
    }
    Err(exception(py, &Error::shape(name, values.len(), format!("{count} (one a tree)"))))
}

/// Token ids of each request; an entry may be None.
fn each_ids(py: Python<'_>, name: &str, values: &Option<Bound<'_, PyAny>>, count: usize) -> PyResult<Vec<Vec<u32>>> {
    let Some(values) = each(py, name, values, count, "a sequence of token ids")? else {
        return Ok(vec![Vec::new(); count]);
    };
    let ids = |(b, ids): (usize, &Bound<'_, PyAny>)| match ids.is_none() {
        true => Ok(Vec::new()),
        false => token_ids(&format!("{name}[{b}]"), ids),
    };
    values.iter().enumerate().map(ids).collect()
}

/// q of each request: views, and for each request which view holds its rows, from which one on and how many.
struct DraftProbs {
    views: Vec<View>,
    places: Vec<Option<(usize, usize, usize)>>,
}

impl DraftProbs {
    fn new(py: Python<'_>, values: &Bound<'_, PyAny>, trees: &[&AnyTree], vocab: usize) -> PyResult<Self> {
        let listed = values.is_instance_of::<pyo3::types::PyList>() || values.is_instance_of::<pyo3::types::PyTuple>();
        if !listed {
            let view = View::matrix("draft_probs", values, Holds::Probabilities, "[sum of n + 1, V]")?;
            let rows = trees.iter().map(|tree| tree.rows()).sum();
            check_rows(py, "draft_probs", &view, view.rows() == rows, rows)?;
            check_vocab(py, "draft_probs", &view, vocab)?;
            let mut start = 0;
            let place = |tree: &&AnyTree| {
                let place = (0, start, tree.rows());
                start += tree.rows();
                Some(place)
            };
            return Ok(Self { places: trees.iter().map(place).collect(), views: vec![view] });
        }
        let values = items("draft_probs", values, "an array or None")?;
        if values.len() != trees.len() {
            let expected = format!("{} (one a tree), or one array of all rows", trees.len());
            return Err(exception(py, &Error::shape("draft_probs", values.len(), expected)));
        }
        let (mut views, mut places) = (Vec::new(), Vec::new());
        for (b, (value, tree)) in values.iter().zip(trees).enumerate() {
            if value.is_none() {
                places.push(None);
                continue;
            }
            let view = draft_view(&format!("draft_probs[{b}]"), value, tree, vocab)?;
            places.push(Some((views.len(), 0, view.rows())));
            views.push(view);
        }
        Ok(Self { views, places })
    }

    fn of(&self, py: Python<'_>, request: usize) -> PyResult<Option<Matrix<'_>>> {
        self.places[request].map(|(view, start, rows)| self.views[view].slice(py, start, rows)).transpose()
    }
}

/// Verify a batch, in parallel over its requests, without the GIL.
///
/// A fault of one request (a row without mass, a token outside the vocabulary, a rule not proved for its draws) is its
/// `Outcome.error` and leaves the others alone; malformed calls raise.
///
/// Parameters
/// ----------
/// logits : array or tensor of float32, float16 or bfloat16
///     [sum of n + 1, V]: the requests' rows one after another.
/// trees : sequence of DraftTree
///     The drafts of each request; a tree without nodes where nothing was drafted.
/// rule : str, default 'auto'
///     As in `verify`, for all requests.
/// draft_probs : array, tensor or list, optional
///     [sum of n + 1, V], or a list with [n + 1, V] (or [n, V] for a chain) or None for each request.
/// samplings : sequence of SamplingParams, or SamplingParams, optional
///     One a request, or one for all. Log-probabilities are computed where `logprobs` is not None.
/// positions : sequence of int, optional
///     As `position` in `verify`, where it says what goes wrong when a loop leaves it out.
/// prompt_token_ids, output_token_ids, stop_token_ids : sequence of sequences of int, optional
///     One a request; an entry may be None.
/// logprobs_mode : {'raw_logprobs', 'processed_logprobs'}, default 'raw_logprobs'
///     As in `verify`.
/// epsilon, delta : float, default 0.09 and 0.3
///     Of 'lossy_typical'.
///
/// Returns
/// -------
/// list of Outcome
///     In the order of the trees.
///
/// Examples
/// --------
/// >>> import numpy as np
/// >>> import specverify as sv
/// >>> logits = np.zeros((3, 10), np.float32)
/// >>> logits[0, 5] = logits[1, 7] = 4.0
/// >>> logits[2] = np.nan
/// >>> trees = [sv.DraftTree.chain([5]), sv.DraftTree.chain([])]
/// >>> outs = sv.verify_batch(logits, trees, samplings=sv.SamplingParams(temperature=0))
/// >>> outs[0].tokens, outs[0].error
/// ([5, 7], None)
/// >>> outs[1].tokens, type(outs[1].error).__name__
/// ([], 'RowError')
#[pyfunction]
#[pyo3(
    signature = (
        logits, trees, *, rule=None, draft_probs=None, samplings=None, positions=None, prompt_token_ids=None,
        output_token_ids=None, stop_token_ids=None, logprobs_mode=None, epsilon=None, delta=None
    ),
    text_signature = "(logits, trees, *, rule='auto', draft_probs=None, samplings=None, positions=None, \
                      prompt_token_ids=None, output_token_ids=None, stop_token_ids=None, \
                      logprobs_mode='raw_logprobs', epsilon=0.09, delta=0.3)"
)]
#[expect(clippy::too_many_arguments, reason = "a request has as many parts")]
pub fn verify_batch(
    py: Python<'_>,
    logits: Bound<'_, PyAny>,
    trees: Bound<'_, PyAny>,
    rule: Option<Bound<'_, PyAny>>,
    draft_probs: Option<Bound<'_, PyAny>>,
    samplings: Option<Bound<'_, PyAny>>,
    positions: Option<Bound<'_, PyAny>>,
    prompt_token_ids: Option<Bound<'_, PyAny>>,
    output_token_ids: Option<Bound<'_, PyAny>>,
    stop_token_ids: Option<Bound<'_, PyAny>>,
    logprobs_mode: Option<Bound<'_, PyAny>>,
    epsilon: Option<Bound<'_, PyAny>>,
    delta: Option<Bound<'_, PyAny>>,
) -> PyResult<Vec<Outcome>> {
    let trees = crate::tree::list(&trees)?;
    let trees: Vec<&AnyTree> = trees.iter().map(|tree| &tree.get().tree).collect();
    let count = trees.len();
    let view = View::matrix("logits", &logits, Holds::Logits, "[sum of n + 1, V]")?;
    let rows = trees.iter().map(|tree| tree.rows()).sum();
    check_rows(py, "logits", &view, view.rows() == rows, rows)?;
    let q = optional(&draft_probs).map(|q| DraftProbs::new(py, q, &trees, view.columns())).transpose()?;
    let rule = Rule::of(optional(&rule), optional(&epsilon), optional(&delta))?;
    let mode = mode(optional(&logprobs_mode))?;
    let params: Vec<specverify::SamplingParams> = match optional(&samplings) {
        None => vec![specverify::SamplingParams::default(); count],
        Some(one) if one.is_instance_of::<SamplingParams>() => {
            vec![SamplingParams::of("samplings", one)?.get().0.clone(); count]
        }
        Some(_) => {
            let list = each(py, "samplings", &samplings, count, "a SamplingParams")?.unwrap_or_default();
            let one = |(b, value): (usize, &Bound<'_, PyAny>)| {
                SamplingParams::of(&format!("samplings[{b}]"), value).map(|params| params.get().0.clone())
            };
            list.iter().enumerate().map(one).collect::<PyResult<_>>()?
        }
    };
    let positions = match each(py, "positions", &positions, count, POSITION)? {
        None => vec![None; count],
        Some(list) => {
            let one = |(b, value): (usize, &Bound<'_, PyAny>)| position(&format!("positions[{b}]"), value).map(Some);
            list.iter().enumerate().map(one).collect::<PyResult<_>>()?
        }
    };
    let prompts = each_ids(py, "prompt_token_ids", &prompt_token_ids, count)?;
    let outputs = each_ids(py, "output_token_ids", &output_token_ids, count)?;
    let stops = each_ids(py, "stop_token_ids", &stop_token_ids, count)?;
    let ids = prompts.into_iter().zip(outputs).zip(stops).map(|((prompt, output), stop)| [prompt, output, stop]);
    let parts = params.into_iter().zip(positions).zip(ids);
    let parts: Vec<Part> =
        parts.map(|((params, position), ids)| Part::new(py, params, position, ids)).collect::<PyResult<_>>()?;
    let mut requests = Vec::with_capacity(count);
    let mut start = 0;
    for (b, (part, tree)) in parts.iter().zip(&trees).enumerate() {
        let logits = view.slice(py, start, tree.rows())?;
        let q = q.as_ref().map(|q| q.of(py, b)).transpose()?.flatten();
        requests.push(part.request(logits, tree, rule, q, mode));
        start += tree.rows();
    }
    let results = py.detach(|| specverify::request::verify_batch(&requests)).or_raise(py)?;
    let outcome = |(part, result): (&Part, specverify::Result<specverify::request::Outcome>)| Outcome {
        seed: part.seed,
        result: result.map_err(|error| exception(py, &error).into_value(py).into_any()),
    };
    Ok(parts.iter().zip(results).map(outcome).collect())
}
