//! Sampling parameters of one request, with vLLM's names, defaults and meaning.

use crate::error::{Error, Result};

/// Temperatures in (0, this) are raised to it, as vLLM does.
pub const MIN_TEMPERATURE: f32 = 0.01;

/// How a request's rows become distributions. Applied in this order: allowed ids, bad words and min_tokens, bias,
/// penalties, temperature, min_p, top_k, top_p.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// 0 is greedy.
    pub temperature: f32,
    /// Mass kept, in (0, 1].
    pub top_p: f32,
    /// Ids kept; 0 or -1 keeps all.
    pub top_k: i64,
    /// Least probability kept, relative to the largest, in [0, 1].
    pub min_p: f32,
    /// In [-2, 2]; over output tokens.
    pub presence_penalty: f32,
    /// In [-2, 2]; over output tokens.
    pub frequency_penalty: f32,
    /// In (0, 2] as vLLM has it: above 1 discourages; over prompt and output tokens.
    pub repetition_penalty: f32,
    /// `None`: the caller derives one (see [`crate::coins::derive_seed`]).
    pub seed: Option<u64>,
    /// Stop tokens are banned until that many output tokens stand.
    pub min_tokens: u32,
    /// Added to the logit of an id.
    pub logit_bias: Vec<(u32, f32)>,
    /// When given, nothing else is drawn.
    pub allowed_token_ids: Option<Vec<u32>>,
    /// Token sequences that may not be completed.
    pub bad_words_token_ids: Vec<Vec<u32>>,
    /// Logprobs of that many others a position; `None` for none (the emitted token's are then not computed either).
    pub logprobs: Option<u32>,
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            repetition_penalty: 1.0,
            seed: None,
            min_tokens: 0,
            logit_bias: Vec::new(),
            allowed_token_ids: None,
            bad_words_token_ids: Vec::new(),
            logprobs: None,
        }
    }
}

impl SamplingParams {
    /// Checks every field's domain and raises a temperature in (0, [`MIN_TEMPERATURE`]).
    ///
    /// # Errors
    /// [`Error::Argument`] that names the field.
    pub fn validated(mut self) -> Result<Self> {
        fn within(name: &str, value: f32, ok: bool, expected: &str) -> Result<()> {
            if ok && value.is_finite() { Ok(()) } else { Err(Error::argument(name, value, expected)) }
        }
        within("temperature", self.temperature, self.temperature >= 0.0, "a finite number >= 0")?;
        within("top_p", self.top_p, self.top_p > 0.0 && self.top_p <= 1.0, "a number in (0, 1]")?;
        within("min_p", self.min_p, (0.0..=1.0).contains(&self.min_p), "a number in [0, 1]")?;
        let penalty = "a number in [-2, 2]";
        within("presence_penalty", self.presence_penalty, self.presence_penalty.abs() <= 2.0, penalty)?;
        within("frequency_penalty", self.frequency_penalty, self.frequency_penalty.abs() <= 2.0, penalty)?;
        within("repetition_penalty", self.repetition_penalty, self.repetition_penalty > 0.0, "a finite number > 0")?;
        if self.top_k < -1 {
            return Err(Error::argument("top_k", self.top_k, "-1 or 0 (all), or a number of ids"));
        }
        if let Some((id, bias)) = self.logit_bias.iter().find(|(_, bias)| !bias.is_finite()) {
            return Err(Error::argument(format!("logit_bias[{id}]"), bias, "a finite number"));
        }
        if self.allowed_token_ids.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::argument("allowed_token_ids", "[]", "at least one id, or None"));
        }
        if let Some(i) = self.bad_words_token_ids.iter().position(Vec::is_empty) {
            return Err(Error::argument(format!("bad_words_token_ids[{i}]"), "[]", "at least one id"));
        }
        if self.temperature > 0.0 {
            self.temperature = self.temperature.max(MIN_TEMPERATURE);
        }
        Ok(self)
    }
}
