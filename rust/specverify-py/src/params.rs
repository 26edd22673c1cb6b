//! `SamplingParams`.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::args::{TOKEN_ID, float, integer, items, optional, refuse, token_ids};
use crate::errors::OrRaise;

/// The shortest f64 that names this f32: 0.8 stays 0.8 instead of 0.800000011920929.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

/// Sampling parameters of one request, with vLLM's names, defaults and meaning.
///
/// They act in this order: allowed ids, bad words and min_tokens, bias, penalties, temperature, min_p, top_k, top_p.
/// Immutable; can be compared and pickled.
///
/// Parameters
/// ----------
/// temperature : float, default 1.0
///     0 is greedy. Values in (0, 0.01) are raised to 0.01.
/// top_p : float, default 1.0
///     Mass kept, in (0, 1].
/// top_k : int, default 0
///     Ids kept; 0 or -1 keeps all.
/// min_p : float, default 0.0
///     Least probability kept, relative to the largest, in [0, 1].
/// presence_penalty, frequency_penalty : float, default 0.0
///     In [-2, 2]; over the output tokens, drafted ones of a node's own path included.
/// repetition_penalty : float, default 1.0
///     Above 0; over prompt and output tokens. Values above 1 discourage repetition.
/// seed : int or None, default None
///     In [0, 2**64), or -1 for None. The same seed gives the same tokens, whatever is drafted and whatever the batch.
/// min_tokens : int, default 0
///     Stop tokens are banned until that many output tokens stand.
/// logit_bias : dict of int to float, optional
///     Added to the logit of an id.
/// allowed_token_ids : sequence of int, optional
///     When given, nothing else is drawn.
/// bad_words_token_ids : sequence of sequences of int, optional
///     Token sequences that may not be completed.
/// logprobs : int or None, default None
///     Logprobs of that many others a position, beside the emitted token's; -1 for all, None computes none.
///
/// Raises
/// ------
/// ArgumentError
///     A value is outside its domain; the message names it.
///
/// Examples
/// --------
/// >>> import specverify as sv
/// >>> sv.SamplingParams(temperature=0.8, top_p=0.95, seed=7)
/// SamplingParams(temperature=0.8, top_p=0.95, seed=7)
#[pyclass(frozen, eq, module = "specverify")]
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SamplingParams(pub specverify::SamplingParams);

const NUMBER: &str = "a number";

fn number(name: &str, value: &Option<Bound<'_, PyAny>>, default: f32) -> PyResult<f32> {
    // f64 to f32 as numpy does it; what overflows becomes infinite and is refused by `validated`.
    optional(value).map_or(Ok(default), |value| float(name, value, NUMBER).map(|number| number as f32))
}

/// A number that `number` has read.
fn float_or_zero(value: &Option<Bound<'_, PyAny>>) -> f64 {
    optional(value).and_then(|value| value.extract().ok()).unwrap_or(0.0)
}

fn as_seed(value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    let expected = "an int in [0, 2^64), or -1 or None for no seed";
    let seed: i128 = integer("seed", value, expected)?;
    if seed == -1 {
        return Ok(None);
    }
    u64::try_from(seed).map(Some).map_err(|_| refuse("seed", value, expected))
}

/// A vocabulary has fewer ids than this.
const WHOLE_VOCABULARY: u32 = u32::MAX;

fn as_count(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    let expected = "an int in [0, 2^31), or -1 for the whole vocabulary";
    match integer::<i32>("logprobs", value, expected)? {
        -1 => Ok(WHOLE_VOCABULARY),
        count => u32::try_from(count).map_err(|_| refuse("logprobs", value, expected)),
    }
}

fn as_bias(value: &Bound<'_, PyAny>) -> PyResult<Vec<(u32, f32)>> {
    let Ok(bias) = value.cast::<PyDict>() else {
        return Err(refuse("logit_bias", value, "a dict from token id to a number"));
    };
    let entry = |(id, bias): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let id: u32 = integer("a key of logit_bias", &id, TOKEN_ID)?;
        Ok((id, float(&format!("logit_bias[{id}]"), &bias, NUMBER)? as f32))
    };
    let mut pairs = bias.iter().map(entry).collect::<PyResult<Vec<_>>>()?;
    pairs.sort_by_key(|&(id, _)| id);
    Ok(pairs)
}

fn as_words(value: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u32>>> {
    let name = "bad_words_token_ids";
    let words = items(name, value, "a sequence of token ids")?;
    let word = |(i, word): (usize, &Bound<'_, PyAny>)| match token_ids(&format!("{name}[{i}]"), word)? {
        ids if ids.is_empty() => Err(refuse(&format!("{name}[{i}]"), word, "at least one token id")),
        ids => Ok(ids),
    };
    words.iter().enumerate().map(word).collect()
}

#[pymethods]
impl SamplingParams {
    #[new]
    #[pyo3(
        signature = (
            *, temperature=None, top_p=None, top_k=None, min_p=None, presence_penalty=None, frequency_penalty=None,
            repetition_penalty=None, seed=None, min_tokens=None, logit_bias=None, allowed_token_ids=None,
            bad_words_token_ids=None, logprobs=None
        ),
        text_signature = "(*, temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, presence_penalty=0.0, \
                          frequency_penalty=0.0, repetition_penalty=1.0, seed=None, min_tokens=0, logit_bias=None, \
                          allowed_token_ids=None, bad_words_token_ids=None, logprobs=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are vLLM's")]
    fn new(
        py: Python<'_>,
        temperature: Option<Bound<'_, PyAny>>,
        top_p: Option<Bound<'_, PyAny>>,
        top_k: Option<Bound<'_, PyAny>>,
        min_p: Option<Bound<'_, PyAny>>,
        presence_penalty: Option<Bound<'_, PyAny>>,
        frequency_penalty: Option<Bound<'_, PyAny>>,
        repetition_penalty: Option<Bound<'_, PyAny>>,
        seed: Option<Bound<'_, PyAny>>,
        min_tokens: Option<Bound<'_, PyAny>>,
        logit_bias: Option<Bound<'_, PyAny>>,
        allowed_token_ids: Option<Bound<'_, PyAny>>,
        bad_words_token_ids: Option<Bound<'_, PyAny>>,
        logprobs: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let default = specverify::SamplingParams::default();
        let whole = "an int in [0, 2^32)";
        let params = specverify::SamplingParams {
            temperature: match number("temperature", &temperature, default.temperature)? {
                // 1e-50 is 0 as f32, but not greedy: `validated` raises it, and refuses its negative.
                zero if zero == 0.0 && float_or_zero(&temperature) != 0.0 => f32::MIN_POSITIVE.copysign(zero),
                rounded => rounded,
            },
            top_p: number("top_p", &top_p, default.top_p)?,
            top_k: match optional(&top_k) {
                Some(value) => integer("top_k", value, "an int: -1 or 0 (all), or a number of ids")?,
                None => default.top_k,
            },
            min_p: number("min_p", &min_p, default.min_p)?,
            presence_penalty: number("presence_penalty", &presence_penalty, default.presence_penalty)?,
            frequency_penalty: number("frequency_penalty", &frequency_penalty, default.frequency_penalty)?,
            repetition_penalty: number("repetition_penalty", &repetition_penalty, default.repetition_penalty)?,
            seed: optional(&seed).map(as_seed).transpose()?.flatten(),
            min_tokens: match optional(&min_tokens) {
                Some(value) => integer("min_tokens", value, whole)?,
                None => default.min_tokens,
            },
            logit_bias: optional(&logit_bias).map(as_bias).transpose()?.unwrap_or_default(),
            allowed_token_ids: optional(&allowed_token_ids)
                .map(|ids| token_ids("allowed_token_ids", ids))
                .transpose()?,
            bad_words_token_ids: optional(&bad_words_token_ids).map(as_words).transpose()?.unwrap_or_default(),
            logprobs: optional(&logprobs).map(as_count).transpose()?,
        };
        params.validated().or_raise(py).map(Self)
    }

    /// 0 is greedy.
    #[getter]
    fn temperature(&self) -> f64 {
        shortest(self.0.temperature)
    }

    /// Mass kept.
    #[getter]
    fn top_p(&self) -> f64 {
        shortest(self.0.top_p)
    }

    /// Ids kept; 0 or -1 keeps all.
    #[getter]
    fn top_k(&self) -> i64 {
        self.0.top_k
    }

    /// Least probability kept, relative to the largest.
    #[getter]
    fn min_p(&self) -> f64 {
        shortest(self.0.min_p)
    }

    /// Over output tokens.
    #[getter]
    fn presence_penalty(&self) -> f64 {
        shortest(self.0.presence_penalty)
    }

    /// Over output tokens.
    #[getter]
    fn frequency_penalty(&self) -> f64 {
        shortest(self.0.frequency_penalty)
    }

    /// Over prompt and output tokens.
    #[getter]
    fn repetition_penalty(&self) -> f64 {
        shortest(self.0.repetition_penalty)
    }

    /// None where the caller gave none.
    #[getter]
    fn seed(&self) -> Option<u64> {
        self.0.seed
    }

    /// Stop tokens are banned until that many output tokens stand.
    #[getter]
    fn min_tokens(&self) -> u32 {
        self.0.min_tokens
    }

    /// A dict from token id to what is added to its logit, or None.
    #[getter]
    fn logit_bias<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        if self.0.logit_bias.is_empty() {
            return Ok(None);
        }
        let bias = PyDict::new(py);
        for &(id, value) in &self.0.logit_bias {
            bias.set_item(id, shortest(value))?;
        }
        Ok(Some(bias))
    }

    /// When given, nothing else is drawn.
    #[getter]
    fn allowed_token_ids(&self) -> Option<Vec<u32>> {
        self.0.allowed_token_ids.clone()
    }

    /// Token sequences that may not be completed, or None.
    #[getter]
    fn bad_words_token_ids(&self) -> Option<Vec<Vec<u32>>> {
        Some(self.0.bad_words_token_ids.clone()).filter(|words| !words.is_empty())
    }

    /// Logprobs of that many others a position; -1 for the whole vocabulary.
    #[getter]
    fn logprobs(&self) -> Option<i64> {
        self.0.logprobs.map(|count| if count == WHOLE_VOCABULARY { -1 } else { count.into() })
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let mut shown = Vec::new();
        for (name, value) in changed(slf)? {
            shown.push(format!("{name}={}", value.repr()?));
        }
        Ok(format!("SamplingParams({})", shown.join(", ")))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let keywords = PyDict::new(py);
        for (name, value) in changed(slf)? {
            keywords.set_item(name, value)?;
        }
        let rebuild = py.import("copyreg")?.getattr("__newobj_ex__")?;
        (rebuild, (slf.get_type(), PyTuple::empty(py), keywords)).into_pyobject(py)
    }
}

impl SamplingParams {
    /// A `SamplingParams` argument.
    pub fn of<'py>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        value.cast::<Self>().cloned().map_err(|_| refuse(name, value, "a SamplingParams"))
    }
}

const FIELDS: [&str; 13] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "seed",
    "min_tokens",
    "logit_bias",
    "allowed_token_ids",
    "bad_words_token_ids",
    "logprobs",
];

/// Names and values of the fields that are not at their default.
fn changed<'py>(params: &Bound<'py, SamplingParams>) -> PyResult<Vec<(&'static str, Bound<'py, PyAny>)>> {
    let default = Bound::new(params.py(), SamplingParams::default())?;
    let mut fields = Vec::new();
    for name in FIELDS {
        let value = params.getattr(name)?;
        if !value.eq(default.getattr(name)?)? {
            fields.push((name, value));
        }
    }
    Ok(fields)
}
