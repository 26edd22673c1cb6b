//! The race over many rows in flat arrays: inputs and outputs of the kernels `target_tokens` and `coupled_children` (`hip/abi.h`), for
//! tensors in host memory.

use crate::couple::{Drafting, coupled_children};
use crate::error::{Error, Result, RowFault};
use crate::params::SamplingParams;
use crate::pool;
use crate::rows::{Context, LogprobsMode, Matrix, TargetRows};
use crate::tree::Topology;
use crate::verify::{Row, Target};

/// What the rows depend on besides the logits.
#[derive(Debug, Clone, Copy, Default)]
pub struct FlatRows<'a> {
    /// \[rows\], the request of each row; negative: the row is not used.
    pub requests: &'a [i32],
    /// \[rows\], of the token that the row gives: the bits of a u32.
    pub positions: &'a [i32],
    /// \[requests\], the bits of a u64.
    pub seeds: &'a [i64],
    /// \[requests\], 0: greedy.
    pub temperatures: &'a [f32],
    /// \[requests\], 0 or less: all.
    pub top_k: Option<&'a [i32]>,
    /// \[requests\], 1: all.
    pub top_p: Option<&'a [f32]>,
    /// \[requests\], 0: all.
    pub min_p: Option<&'a [f32]>,
    /// Offsets \[requests + 1\] into ids and values.
    pub bias: Option<(&'a [i32], &'a [i32], &'a [f32])>,
    /// Words of 32 bits a request and how many they are: bit i % 32 of word i / 32 is set where id i may be drawn.
    pub allowed: Option<(&'a [i32], usize)>,
}

/// What the rows give.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Finishers {
    /// \[rows, places\], best first, -1 after the last.
    pub tokens: Vec<i32>,
    /// \[rows, places\], -inf after the last; at T = 0 logits.
    pub scores: Vec<f32>,
    /// \[rows\]: 0; 1 the row holds NaN; 2 +inf; 3 nothing is left that could be drawn; 4 the row is not used.
    pub status: Vec<i32>,
}

/// What is wanted of each row beside its token.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// How many of the most likely tokens.
    pub top: usize,
    /// Of which law the log-probabilities are.
    pub mode: LogprobsMode,
    /// Offsets \[rows + 1\] into ids, whose probabilities are wanted.
    pub children: (&'a [i32], &'a [i32]),
}

/// The tokens of rows, and how likely they and others were.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Likely {
    /// \[rows\], -1 where the status is not 0.
    pub tokens: Vec<i32>,
    /// \[rows\], as in [`Finishers`].
    pub status: Vec<i32>,
    /// \[rows\], log-probability of the token, -inf without one.
    pub logprobs: Vec<f32>,
    /// \[rows, top\], most likely first, -1 after the last.
    pub top_ids: Vec<i32>,
    /// \[rows, top\], -inf after the last.
    pub top_logprobs: Vec<f32>,
    /// Of every child: what its row draws it with, parameters and all; 0 where the status is not 0.
    pub child_probs: Vec<f32>,
}

/// The row is not used.
const NOT_USED: i32 = 4;

impl FlatRows<'_> {
    /// The first `places` finishers of each row's race: with one place the target's token, as [`crate::verify::Target::token`] gives it.
    ///
    /// # Errors
    /// [`Error::Shape`] when lengths don't fit each other; [`Error::Argument`] for a request or an id that does not exist, or parameters
    /// outside their domain. A row without a usable distribution is no error but a status.
    pub fn finishers(&self, logits: Matrix<'_>, places: usize) -> Result<Finishers> {
        let rows = logits.rows();
        let params = self.check(rows, logits.vocab())?;
        let indices: Vec<usize> = (0..rows).collect();
        let each = pool::map(&indices, |&row| -> Result<(Vec<u32>, Vec<f32>, i32)> {
            let Ok(request) = usize::try_from(self.requests[row]) else {
                return Ok((Vec::new(), Vec::new(), NOT_USED));
            };
            let drafting = Drafting {
                params: &params[request],
                seed: self.seeds[request] as u64,
                position: self.positions[row] as u32,
                prompt: &[],
                output: &[],
                path: &[],
                stop_token_ids: &[],
                target_ids: None,
            };
            let vocab = logits.vocab();
            match coupled_children(Matrix::new(logits.row(row)?, 1, vocab, vocab)?, places, &drafting) {
                Ok(children) => Ok((children.tokens, children.scores, 0)),
                Err(Error::Row { fault, .. }) => Ok((Vec::new(), Vec::new(), status(fault))),
                Err(error) => Err(error),
            }
        })?;
        let mut found = Finishers::default();
        for row in each {
            let (tokens, scores, status) = row?;
            let missing = places - tokens.len();
            found.tokens.extend(tokens.into_iter().map(|token| token as i32));
            found.tokens.extend(std::iter::repeat_n(-1, missing));
            found.scores.extend(scores);
            found.scores.extend(std::iter::repeat_n(f32::NEG_INFINITY, missing));
            found.status.push(status);
        }
        Ok(found)
    }

    /// The target's token of each row, log-probabilities, and probabilities of children.
    ///
    /// # Errors
    /// As [`FlatRows::finishers`]; children are checked as well.
    pub fn likely(&self, logits: Matrix<'_>, wanted: &Wanted<'_>) -> Result<Likely> {
        let (rows, vocab) = (logits.rows(), logits.vocab());
        let params = self.check(rows, vocab)?;
        check_lists("child", rows, "rows", wanted.children, vocab)?;
        let (offsets, ids) = wanted.children;
        let children = |row: usize| &ids[offsets[row] as usize..offsets[row + 1] as usize];
        let root = Topology::new(Vec::new(), Vec::new())?;
        let indices: Vec<usize> = (0..rows).collect();
        let each = pool::map(&indices, |&row| -> Result<Likely> {
            let mut found = Likely {
                tokens: vec![-1],
                status: vec![NOT_USED],
                logprobs: vec![f32::NEG_INFINITY],
                top_ids: vec![-1; wanted.top],
                top_logprobs: vec![f32::NEG_INFINITY; wanted.top],
                child_probs: vec![0.0; children(row).len()],
            };
            let Ok(request) = usize::try_from(self.requests[row]) else { return Ok(found) };
            let context = Context {
                params: &params[request],
                seed: self.seeds[request] as u64,
                position: self.positions[row] as u32,
                prompt: &[],
                output: &[],
                stop_token_ids: &[],
                tree: &root,
            };
            let mut target = TargetRows::new(Matrix::new(logits.row(row)?, 1, vocab, vocab)?, context)?;
            let token = match target.token(0) {
                Ok(token) => token,
                Err(Error::Row { fault, .. }) => {
                    found.status[0] = status(fault);
                    return Ok(found);
                }
                Err(error) => return Err(error),
            };
            (found.tokens[0], found.status[0]) = (token as i32, 0);
            let logprobs = target.logprobs(0, token, wanted.top, wanted.mode)?;
            found.logprobs[0] = logprobs.token;
            for (place, (id, logprob)) in logprobs.top.into_iter().enumerate() {
                (found.top_ids[place], found.top_logprobs[place]) = (id as i32, logprob);
            }
            if !found.child_probs.is_empty() {
                let law = target.row(0)?;
                for (p, &id) in found.child_probs.iter_mut().zip(children(row)) {
                    *p = law.get(id as u32) as f32;
                }
            }
            Ok(found)
        })?;
        let mut all = Likely::default();
        for row in each {
            let row = row?;
            all.tokens.extend(row.tokens);
            all.status.extend(row.status);
            all.logprobs.extend(row.logprobs);
            all.top_ids.extend(row.top_ids);
            all.top_logprobs.extend(row.top_logprobs);
            all.child_probs.extend(row.child_probs);
        }
        Ok(all)
    }

    /// Checks every length; gives each request's parameters.
    fn check(&self, rows: usize, vocab: usize) -> Result<Vec<SamplingParams>> {
        let requests = self.seeds.len();
        let length = |name: &str, found: usize, expected: usize, what: &str| match found == expected {
            true => Ok(()),
            false => Err(Error::shape(name, found, format!("{expected} ({what})"))),
        };
        length("requests", self.requests.len(), rows, "one a row")?;
        length("positions", self.positions.len(), rows, "one a row")?;
        length("temperatures", self.temperatures.len(), requests, "one a request")?;
        for (name, values) in [("top_p", self.top_p), ("min_p", self.min_p)] {
            length(name, values.map_or(requests, <[f32]>::len), requests, "one a request")?;
        }
        length("top_k", self.top_k.map_or(requests, <[i32]>::len), requests, "one a request")?;
        if let Some(row) = self.requests.iter().position(|&request| request >= requests as i32) {
            let expected = format!("a request below {requests}, or -1");
            return Err(Error::argument(format!("requests[{row}]"), self.requests[row], expected));
        }
        if let Some((offsets, ids, values)) = self.bias {
            check_lists("bias", requests, "requests", (offsets, ids), vocab)?;
            length("bias_values", values.len(), ids.len(), "one a bias id")?;
        }
        let words = vocab.div_ceil(32);
        if let Some((bits, stride)) = self.allowed
            && (stride < words || bits.len() != stride * requests)
        {
            let expected = format!("[{requests}, {words}] words of 32 ids");
            return Err(Error::shape("allowed", format!("{} words, {stride} a request", bits.len()), expected));
        }
        (0..requests).map(|b| self.params(b, vocab)).collect()
    }

    fn params(&self, b: usize, vocab: usize) -> Result<SamplingParams> {
        let logit_bias = self.bias.map_or_else(Vec::new, |(offsets, ids, values)| {
            let range = offsets[b] as usize..offsets[b + 1] as usize;
            ids[range.clone()].iter().map(|&id| id as u32).zip(values[range].iter().copied()).collect()
        });
        let allowed_token_ids = self.allowed.map(|(bits, stride)| {
            let words = &bits[b * stride..][..vocab.div_ceil(32)];
            (0..vocab as u32).filter(|&id| words[id as usize / 32] as u32 >> (id % 32) & 1 == 1).collect()
        });
        // An empty mask leaves nothing to draw: the rows' status says so.
        let checked = SamplingParams {
            temperature: self.temperatures[b],
            top_k: self.top_k.map_or(0, |k| i64::from(k[b].max(0))),
            top_p: self.top_p.map_or(1.0, |p| p[b]),
            min_p: self.min_p.map_or(0.0, |p| p[b]),
            ..SamplingParams::default()
        }
        .validated()?;
        // A temperature that vLLM would raise is taken as it is, and a bias of -inf is a ban.
        Ok(SamplingParams { temperature: self.temperatures[b], logit_bias, allowed_token_ids, ..checked })
    }
}

/// Checks lists of ids, as many as there are rows or requests, one after the other.
fn check_lists(name: &str, lists: usize, of: &str, (offsets, ids): (&[i32], &[i32]), vocab: usize) -> Result<()> {
    if offsets.len() != lists + 1 {
        return Err(Error::shape(format!("{name}_offsets"), offsets.len(), format!("{} ({of} + 1)", lists + 1)));
    }
    let ascends = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    if offsets[0] != 0 || !ascends || offsets[lists] as usize != ids.len() {
        let expected = format!("offsets that ascend from 0 to {}, the length of {name}_ids", ids.len());
        return Err(Error::argument(format!("{name}_offsets"), format!("{offsets:?}"), expected));
    }
    if let Some(i) = ids.iter().position(|&id| usize::try_from(id).map_or(true, |id| id >= vocab)) {
        return Err(Error::argument(format!("{name}_ids[{i}]"), ids[i], format!("an id below {vocab}")));
    }
    Ok(())
}

fn status(fault: RowFault) -> i32 {
    match fault {
        RowFault::Nan => 1,
        RowFault::PosInf => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Values;

    const ROWS: FlatRows<'static> = FlatRows {
        requests: &[0, 1, -1, 1],
        positions: &[3, 3, 3, 4],
        seeds: &[5, -6],
        temperatures: &[0.0, 0.8],
        top_k: None,
        top_p: None,
        min_p: None,
        bias: None,
        allowed: None,
    };

    fn logits() -> Vec<f32> {
        (0..4 * 70_u32)
            .map(|i| ((i + 1).wrapping_mul(2_654_435_761).wrapping_mul(i + 7) >> 20) as f32 / 500.0)
            .collect()
    }

    fn run(rows: FlatRows<'_>, logits: &[f32], places: usize) -> Result<Finishers> {
        rows.finishers(Matrix::new(Values::F32(logits), 4, 70, 70).unwrap(), places)
    }

    #[test]
    fn rows_race_with_their_own_request_and_position() {
        let logits = logits();
        let found = run(ROWS, &logits, 3).unwrap();
        assert_eq!(found.status, [0, 0, NOT_USED, 0]);
        let params = SamplingParams { temperature: 0.8, ..SamplingParams::default() };
        for (row, position) in [(1, 3), (3, 4)] {
            let drafting = Drafting {
                params: &params,
                seed: -6_i64 as u64,
                position,
                prompt: &[],
                output: &[],
                path: &[],
                stop_token_ids: &[],
                target_ids: None,
            };
            let one = Matrix::new(Values::F32(&logits[70 * row..][..70]), 1, 70, 70).unwrap();
            let children = coupled_children(one, 3, &drafting).unwrap();
            assert_eq!(found.tokens[3 * row..][..3], children.tokens.iter().map(|&t| t as i32).collect::<Vec<_>>());
            assert_eq!(found.scores[3 * row..][..3], children.scores);
        }
        assert_eq!(found.tokens[6..9], [-1; 3]);
        let greatest = (0..70).max_by(|&a, &b| logits[a].total_cmp(&logits[b]).then(b.cmp(&a))).unwrap();
        assert_eq!(found.tokens[0], greatest as i32);
    }

    #[test]
    fn masks_biases_and_faults() {
        let mut logits = logits();
        let allowed = [0, 1 << 5, 0, 0, 0, 0];
        let only = FlatRows { allowed: Some((&allowed, 3)), requests: &[0, -1, -1, 1], ..ROWS };
        let only = run(only, &logits, 2).unwrap();
        assert_eq!((&only.tokens[..2], &only.status[..]), (&[37, -1][..], &[0, 4, 4, 3][..]));
        let bias = FlatRows { bias: Some((&[0, 1, 1], &[9], &[1e6])), requests: &[0, -1, -1, -1], ..ROWS };
        assert_eq!(run(bias, &logits, 1).unwrap().tokens[0], 9);
        logits[70] = f32::NAN;
        logits[3 * 70 + 1] = f32::INFINITY;
        assert_eq!(run(ROWS, &logits, 1).unwrap().status, [0, 1, NOT_USED, 2]);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let logits = logits();
        for (rows, name) in [
            (FlatRows { requests: &[0], ..ROWS }, "requests"),
            (FlatRows { requests: &[0, 2, 0, 0], ..ROWS }, "requests[1]"),
            (FlatRows { positions: &[0], ..ROWS }, "positions"),
            (FlatRows { temperatures: &[0.0], ..ROWS }, "temperatures"),
            (FlatRows { temperatures: &[-1.0, 0.0], ..ROWS }, "temperature"),
            (FlatRows { top_k: Some(&[1]), ..ROWS }, "top_k"),
            (FlatRows { top_p: Some(&[0.5, 0.0]), ..ROWS }, "top_p"),
            (FlatRows { bias: Some((&[0, 1], &[1], &[1.0])), ..ROWS }, "bias_offsets"),
            (FlatRows { bias: Some((&[0, 1, 1], &[70], &[1.0])), ..ROWS }, "bias_ids[0]"),
            (FlatRows { allowed: Some((&[0; 4], 2)), ..ROWS }, "allowed"),
        ] {
            let message = run(rows, &logits, 1).unwrap_err().to_string();
            assert!(message.starts_with(name), "{message}");
        }
    }
}
