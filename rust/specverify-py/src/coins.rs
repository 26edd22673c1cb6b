//! `Coins` and `derive_seed`.

use pyo3::prelude::*;
use specverify::coins::Stream;

use crate::args::{TOKEN_ID, integer, refuse, word};

const STREAMS: [(&str, Stream); 4] =
    [("draft", Stream::Draft), ("accept", Stream::Accept), ("residual", Stream::Residual), ("bonus", Stream::Bonus)];
const COUNT: &str = "an int in [0, 2^32)";
const SEED: &str = "an int in [0, 2^64)";

/// The noise of one request: a pure function of the seed and of what a coin is for, so that nothing is used twice.
///
/// Philox4x32-10; the same on every machine. A drafter draws from stream 'draft', the rules use the others.
///
/// Parameters
/// ----------
/// seed : int
///     In [0, 2**64).
///
/// Examples
/// --------
/// >>> import specverify as sv
/// >>> u = sv.Coins(seed=7).uniform(128, stream="draft", index=0)
/// >>> 0 < u < 1 and u == sv.Coins(seed=7).uniform(128, stream="draft", index=0)
/// True
#[pyclass(frozen, eq, module = "specverify")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coins(specverify::coins::Coins);

#[pymethods]
impl Coins {
    #[new]
    fn new(seed: Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(specverify::coins::Coins::new(integer("seed", &seed, SEED)?)))
    }

    /// The seed.
    #[getter]
    fn seed(&self) -> u64 {
        self.0.seed()
    }

    /// A uniform number in (0, 1), never 0 or 1.
    ///
    /// Parameters
    /// ----------
    /// step : int
    ///     Position of the step's first emitted token.
    /// stream : {'draft', 'accept', 'residual', 'bonus'}
    ///     What the coin is for.
    /// index : int
    ///     The node it is for, or a count of the caller's in stream 'draft'.
    ///
    /// Returns
    /// -------
    /// float
    #[pyo3(signature = (step, *, stream, index))]
    fn uniform(&self, step: Bound<'_, PyAny>, stream: Bound<'_, PyAny>, index: Bound<'_, PyAny>) -> PyResult<f64> {
        let stream = word("stream", &stream, &STREAMS)?;
        Ok(self.0.uniform(integer("step", &step, COUNT)?, stream, integer("index", &index, COUNT)?))
    }

    /// The race's Exp(1) variate of a token id at a position.
    ///
    /// The target's token is the one with the least of these over its probability, so a drafter that knows the seed can run the
    /// same race (see `coupled_children`).
    ///
    /// Parameters
    /// ----------
    /// position : int
    ///     Position of the emitted token.
    /// token_id : int
    ///     Of the target's vocabulary.
    ///
    /// Returns
    /// -------
    /// float
    fn exponential(&self, position: Bound<'_, PyAny>, token_id: Bound<'_, PyAny>) -> PyResult<f32> {
        Ok(self.0.exponential(integer("position", &position, COUNT)?, integer("token_id", &token_id, TOKEN_ID)?))
    }

    fn __repr__(&self) -> String {
        format!("Coins(seed={})", self.seed())
    }

    fn __getnewargs__(&self) -> (u64,) {
        (self.seed(),)
    }
}

/// The seed of a request that gave none: the same on every rank.
///
/// Parameters
/// ----------
/// engine_seed : int
///     The engine's own, in [0, 2**64).
/// request_id : str
///     The request's.
///
/// Returns
/// -------
/// int
///
/// Examples
/// --------
/// >>> import specverify as sv
/// >>> sv.derive_seed(0, "request-1") == sv.derive_seed(0, "request-1") != sv.derive_seed(0, "request-2")
/// True
#[pyfunction]
pub fn derive_seed(engine_seed: Bound<'_, PyAny>, request_id: Bound<'_, PyAny>) -> PyResult<u64> {
    let id: String = request_id.extract().map_err(|_| refuse("request_id", &request_id, "a str"))?;
    Ok(specverify::coins::derive_seed(integer("engine_seed", &engine_seed, SEED)?, &id))
}
