//! Rows against a plain reference that copies, sorts and scores everything, on every instruction set.

use std::collections::HashMap;

use half::{bf16, f16};
use proptest::prelude::*;
use specverify::coins::{Coins, ln};
use specverify::error::RowFault;
use specverify::rows::{Context, DraftRows, LogprobsMode, Matrix, Simd, TargetRows, Values};
use specverify::verify::{Drafted, Row, Target};
use specverify::{Error, SamplingParams, Topology};

/// A small generator, so that the inputs are fixed.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
    fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }
    fn normal(&mut self, sd: f64) -> f32 {
        let (u, v) = (self.unit().max(1e-300), self.unit());
        (sd * (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()) as f32
    }
}

#[derive(Clone, Default)]
struct History {
    prompt: Vec<u32>,
    output: Vec<u32>,
    stop: Vec<u32>,
}

/// The edits of one row, as the documentation of vLLM's parameters has them, on a dense copy.
fn edited(raw: &[f32], p: &SamplingParams, h: &History, path: &[u32]) -> Vec<f32> {
    let mut x = raw.to_vec();
    let past: Vec<u32> = h.output.iter().chain(path).copied().collect();
    if let Some(allowed) = &p.allowed_token_ids {
        for (id, x) in x.iter_mut().enumerate() {
            if !allowed.contains(&(id as u32)) {
                *x = f32::NEG_INFINITY;
            }
        }
    }
    for word in &p.bad_words_token_ids {
        let (last, before) = word.split_last().unwrap();
        if past.ends_with(before) {
            x[*last as usize] = f32::NEG_INFINITY;
        }
    }
    if past.len() < p.min_tokens as usize {
        h.stop.iter().for_each(|&id| x[id as usize] = f32::NEG_INFINITY);
    }
    for &(id, bias) in &p.logit_bias {
        x[id as usize] += bias;
    }
    for (id, x) in x.iter_mut().enumerate() {
        let id = id as u32;
        let count = past.iter().filter(|&&t| t == id).count();
        if count > 0 || h.prompt.contains(&id) {
            *x *= if *x > 0.0 { 1.0 / p.repetition_penalty } else { p.repetition_penalty };
        }
        *x -= p.frequency_penalty * count as f32;
        if count > 0 {
            *x -= p.presence_penalty;
        }
    }
    x
}

/// Ids kept and their probabilities, by sorting and f64.
fn law(x: &[f32], p: &SamplingParams) -> HashMap<u32, f64> {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut order: Vec<u32> = (0..x.len() as u32).filter(|&i| x[i as usize] > f32::NEG_INFINITY).collect();
    order.sort_by(|&a, &b| x[b as usize].partial_cmp(&x[a as usize]).unwrap().then(a.cmp(&b)));
    if p.temperature == 0.0 {
        return HashMap::from([(order[0], 1.0)]);
    }
    let weight = |id: u32| (f64::from(x[id as usize] - max) / f64::from(p.temperature)).exp();
    order.retain(|&id| weight(id) >= f64::from(p.min_p) && weight(id) >= (0.5_f64).powi(40));
    if p.top_k > 0 {
        order.truncate(p.top_k as usize);
    }
    let total: f64 = order.iter().map(|&id| weight(id)).sum();
    let mut above = 0.0;
    order.retain(|&id| {
        let kept = above < f64::from(p.top_p) * total;
        above += weight(id);
        kept
    });
    let total: f64 = order.iter().map(|&id| weight(id)).sum();
    order.iter().map(|&id| (id, weight(id) / total)).collect()
}

/// The winner of the race among the kept ids, scored one by one.
fn winner(x: &[f32], p: &SamplingParams, kept: &HashMap<u32, f64>, seed: u64, position: u32) -> u32 {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let coins = Coins::new(seed);
    let inverse = 1.0 / p.temperature;
    let score = |id: u32| (x[id as usize] - max) * inverse - ln(coins.exponential(position, id));
    let mut ids: Vec<u32> = kept.keys().copied().collect();
    ids.sort_unstable();
    ids.into_iter()
        .fold(None, |best: Option<(f32, u32)>, id| match best {
            Some((s, _)) if s >= score(id) => best,
            _ => Some((score(id), id)),
        })
        .unwrap()
        .1
}

fn context<'a>(params: &'a SamplingParams, h: &'a History, tree: &'a Topology, seed: u64) -> Context<'a> {
    Context { params, seed, position: 100, prompt: &h.prompt, output: &h.output, stop_token_ids: &h.stop, tree }
}

fn random_params(r: &mut Random, vocab: usize) -> (SamplingParams, History) {
    let mut p = SamplingParams { temperature: [0.0, 0.3, 0.8, 1.0, 2.5][r.below(5)], ..Default::default() };
    let mut h = History::default();
    let ids = |r: &mut Random, n: usize| (0..n).map(|_| r.below(vocab) as u32).collect::<Vec<_>>();
    if r.below(2) == 0 {
        p.top_k = 1 + r.below(2 * vocab) as i64;
    }
    if r.below(2) == 0 {
        p.top_p = (0.05 + 0.95 * r.unit()) as f32;
    }
    if r.below(3) == 0 {
        p.min_p = (0.3 * r.unit()) as f32;
    }
    if r.below(2) == 0 {
        h.prompt = ids(r, 12);
        h.output = ids(r, 6);
        h.stop = ids(r, 1);
        p.repetition_penalty = (0.5 + r.unit()) as f32;
        p.frequency_penalty = (4.0 * r.unit() - 2.0) as f32;
        p.presence_penalty = (4.0 * r.unit() - 2.0) as f32;
        p.min_tokens = r.below(12) as u32;
        p.bad_words_token_ids = vec![ids(r, 1), ids(r, 2), vec![*h.output.last().unwrap(), r.below(vocab) as u32]];
        let mut biased = ids(r, 4);
        biased.sort_unstable();
        biased.dedup();
        p.logit_bias = biased.into_iter().map(|id| (id, r.normal(2.0))).collect();
    }
    if r.below(4) == 0 {
        p.allowed_token_ids = Some(ids(r, 1 + vocab / 4));
    }
    (p.validated().unwrap(), h)
}

/// One random tree with random logits: tokens, laws and errors of every row on every instruction set.
fn check_case(case: u64) {
    let mut r = Random(case);
    let vocab = [1, 2, 63, 64, 65, 127, 200, 1000, 4097][r.below(9)];
    let (p, h) = random_params(&mut r, vocab);
    let nodes = r.below(5);
    let tokens: Vec<u32> = (0..nodes).map(|_| r.below(vocab) as u32).collect();
    let parents: Vec<i32> = (0..nodes).map(|i| r.below(i + 1) as i32 - 1).collect();
    let tree = Topology::new(tokens, parents).unwrap();
    let stride = vocab + r.below(3);
    let kind = r.below(3);
    let sd = [0.0, 1.0, 3.0, 20.0][r.below(4)];
    let mut wide = vec![0.0_f32; tree.rows() * stride];
    for x in &mut wide {
        *x = if r.below(20) == 0 { f32::NEG_INFINITY } else { r.normal(sd) };
        if kind != 0 {
            // Coarse values tie often, and both half types hold them exactly.
            *x = (*x * 4.0).round() / 4.0;
        }
    }
    let brain: Vec<bf16> = wide.iter().map(|&x| bf16::from_f32(x)).collect();
    let half: Vec<f16> = wide.iter().map(|&x| f16::from_f32(x)).collect();
    let values = match kind {
        0 => Values::F32(&wide),
        1 => Values::Bf16(&brain),
        _ => Values::F16(&half),
    };
    let seed = r.bits();
    for simd in Simd::available() {
        let matrix = Matrix::new(values, tree.rows(), vocab, stride).unwrap();
        let mut rows = TargetRows::new(matrix, context(&p, &h, &tree, seed)).unwrap().with_simd(simd);
        for row in 0..tree.rows() {
            let label = format!("case {case} row {row} {} {p:?}", simd.name());
            let raw: Vec<f32> = (row * stride..row * stride + vocab)
                .map(|i| match kind {
                    0 => wide[i],
                    1 => brain[i].to_f32(),
                    _ => half[i].to_f32(),
                })
                .collect();
            let path: Vec<u32> = tree.path(row).iter().map(|&n| tree.tokens()[n as usize]).collect();
            let x = edited(&raw, &p, &h, &path);
            assert!(!rows.is_reached(row));
            if x.iter().all(|&x| x == f32::NEG_INFINITY) {
                assert_eq!(rows.token(row), Err(Error::row(row, RowFault::NoMass)), "{label}");
                continue;
            }
            let expected = law(&x, &p);
            let token = rows.token(row).unwrap();
            let got = rows.row(row).unwrap();
            let mut block = vec![f64::NAN; vocab];
            got.read(0, &mut block);
            let mut sum = 0.0;
            for id in 0..vocab as u32 {
                assert_eq!(got.get(id), block[id as usize], "{label}");
                sum += got.get(id);
                let e = expected.get(&id).copied().unwrap_or(0.0);
                // f32 scaling errs by 2^-24 of the scaled logit; a cut may fall between ids of equal mass only if the law says so.
                assert!((got.get(id) - e).abs() < 1e-5 * e.max(1e-3), "{label}: id {id} {} {e}", got.get(id));
            }
            assert!((sum - 1.0).abs() < 1e-12, "{label}: {sum}");
            assert!(got.get(token) > 0.0, "{label}");
            if p.temperature == 0.0 {
                assert!(expected.contains_key(&token), "{label}");
            } else {
                let position = 100 + tree.row_depth(row);
                assert_eq!(token, winner(&x, &p, &expected, seed, position), "{label}");
            }
            let (start, n) = (r.below(vocab), r.below(200));
            let mut part = vec![f64::NAN; n.min(vocab - start)];
            rows.row(row).unwrap().read(start, &mut part);
            assert_eq!(part, block[start..start + part.len()], "{label}");
            check_logprobs(&mut rows, row, &raw, &block, token, &label);
        }
    }
}

fn check_logprobs(rows: &mut TargetRows<'_>, row: usize, raw: &[f32], p: &[f64], token: u32, label: &str) {
    let got = rows.logprobs(row, token, 5, LogprobsMode::Raw).unwrap();
    let max = raw.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let log_sum = raw.iter().map(|&x| f64::from(x - max).exp()).sum::<f64>().ln();
    let exact = |id: u32| f64::from(raw[id as usize] - max) - log_sum;
    let near = |a: f32, b: f64| f64::from(a) == b || (f64::from(a) - b).abs() < 1e-5 * b.abs().max(1.0);
    assert!(near(got.token, exact(token)), "{label}: {} {}", got.token, exact(token));
    if raw[token as usize] > f32::NEG_INFINITY {
        let rank = raw.iter().filter(|&&x| x >= raw[token as usize]).count();
        assert_eq!(got.rank as usize, rank, "{label}");
    }
    let mut order: Vec<u32> = (0..raw.len() as u32).filter(|&i| raw[i as usize] > f32::NEG_INFINITY).collect();
    order.sort_by(|&a, &b| raw[b as usize].partial_cmp(&raw[a as usize]).unwrap().then(a.cmp(&b)));
    order.truncate(5);
    assert_eq!(got.top.iter().map(|t| t.0).collect::<Vec<_>>(), order, "{label}");
    assert!(got.top.iter().all(|&(id, l)| near(l, exact(id))), "{label}");
    if rows.context().params.temperature > 0.0 {
        let got = rows.logprobs(row, token, 3, LogprobsMode::Processed).unwrap();
        // Masses are floored: a probability p errs by up to 2^-40, its logarithm by 2^-40 / p.
        let near = |l: f32, p: f64| (f64::from(l) - p.ln()).abs() < 1e-5 * l.abs().max(1.0) as f64 + 1e-12 / p;
        assert!(near(got.token, p[token as usize]), "{label}");
        assert!(got.top.iter().all(|&(id, l)| near(l, p[id as usize])), "{label}");
        assert_eq!(got.top.len(), p.iter().filter(|&&p| p > 0.0).count().min(3), "{label}");
    }
}

#[test]
fn rows_agree_with_the_reference_on_every_instruction_set() {
    for case in 0..1500 {
        check_case(case);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn any_case_agrees_with_the_reference(case in any::<u64>()) {
        check_case(case);
    }
}

/// Wide vocabularies with realistic and with adversarial logits: the same tokens and masses on every instruction set, and as scored
/// one by one.
#[test]
fn wide_rows_give_the_same_tokens_on_every_instruction_set() {
    let mut r = Random(11);
    let (h, tree) = (History::default(), Topology::new(vec![], vec![]).unwrap());
    for (vocab, sd) in [(151_936, 3.0), (32_000, 0.0), (248_320, 8.0), (49_152, 2.0), (151_937, 1.0)] {
        let logits: Vec<f32> = (0..vocab).map(|_| r.normal(sd)).collect();
        let brain: Vec<bf16> = logits.iter().map(|&x| bf16::from_f32(x)).collect();
        for (top_k, top_p, min_p) in [(0, 1.0, 0.0), (20, 0.95, 0.0), (0, 0.9, 0.0), (5000, 0.99, 0.0), (0, 1.0, 0.05)]
        {
            let p = SamplingParams { temperature: 0.8, top_k, top_p, min_p, ..Default::default() };
            for values in [Values::F32(&logits), Values::Bf16(&brain)] {
                let matrix = Matrix::new(values, 1, vocab, vocab).unwrap();
                let run = |simd: Simd, seed: u64| {
                    let mut rows = TargetRows::new(matrix, context(&p, &h, &tree, seed)).unwrap().with_simd(simd);
                    let token = rows.token(0).unwrap();
                    let row = rows.row(0).unwrap();
                    let mut block = vec![0.0; 1000];
                    row.read(vocab - 1000, &mut block);
                    (token, row.get(token).to_bits(), block)
                };
                for seed in 0..4 {
                    let outcomes: Vec<_> = Simd::available().into_iter().map(|simd| run(simd, seed)).collect();
                    assert!(outcomes.windows(2).all(|pair| pair[0] == pair[1]), "{vocab} {p:?}");
                    assert!(f64::from_bits(outcomes[0].1) > 0.0);
                }
            }
        }
        let p = SamplingParams { temperature: 0.8, ..Default::default() };
        let all = law(&logits, &p);
        for seed in 0..3 {
            let matrix = Matrix::new(Values::F32(&logits), 1, vocab, vocab).unwrap();
            let mut rows = TargetRows::new(matrix, context(&p, &h, &tree, seed)).unwrap();
            assert_eq!(rows.token(0).unwrap(), winner(&logits, &p, &all, seed, 100));
        }
    }
}

fn single(logits: &[f32], p: &SamplingParams) -> Result<u32, Error> {
    let (h, tree) = (History::default(), Topology::new(vec![], vec![]).unwrap());
    let matrix = Matrix::new(Values::F32(logits), 1, logits.len(), logits.len()).unwrap();
    let outcomes: Vec<_> = Simd::available()
        .into_iter()
        .map(|simd| TargetRows::new(matrix, context(p, &h, &tree, 3)).unwrap().with_simd(simd).token(0))
        .collect();
    assert!(outcomes.windows(2).all(|pair| pair[0] == pair[1]));
    outcomes[0].clone()
}

/// Case 1: an all-NaN row gave token id = V (vllm #53029, #50183). And every other place a bad value may hide in.
#[test]
fn case_01_nan_and_inf_rows_are_errors_that_name_the_row() {
    for temperature in [0.0, 1.0] {
        let p = SamplingParams { temperature, ..Default::default() };
        assert_eq!(single(&[f32::NAN; 5], &p), Err(Error::row(0, RowFault::Nan)));
        assert_eq!(single(&[f32::NEG_INFINITY; 5], &p), Err(Error::row(0, RowFault::NoMass)));
        for at in [0, 1, 15, 16, 63, 64, 200, 255, 256, 299] {
            for (bad, fault) in
                [(f32::NAN, RowFault::Nan), (-f32::NAN, RowFault::Nan), (f32::INFINITY, RowFault::PosInf)]
            {
                let mut logits = vec![-1.0; 300];
                logits[at] = bad;
                assert_eq!(single(&logits, &p), Err(Error::row(0, fault)), "{at}");
                let mut logits = vec![f32::NEG_INFINITY; 300];
                logits[at] = bad;
                assert_eq!(single(&logits, &p), Err(Error::row(0, fault)), "{at}");
            }
            let mut logits = vec![f32::NEG_INFINITY; 300];
            logits[at] = 5.0;
            assert_eq!(single(&logits, &p), Ok(at as u32));
        }
        // Finite values whose sum overflows are no fault.
        assert!(single(&[f32::MAX; 200], &p).is_ok());
        assert!(single(&[f32::MIN; 200], &p).is_ok());
        let spread: Vec<f32> = (0..200).map(|i| if i % 2 == 0 { f32::MAX } else { f32::MIN }).collect();
        assert_eq!(single(&spread, &p).map(|t| t % 2), Ok(0));
    }
}

/// Cases 2 and 3: no coin, however extreme, gives a token of probability 0.
#[test]
fn case_03_a_token_of_probability_zero_is_never_drawn() {
    let (h, tree) = (History::default(), Topology::new(vec![], vec![]).unwrap());
    let p = SamplingParams::default();
    let mut logits = vec![-28.0_f32; 151_936];
    logits[77] = 0.0;
    let matrix = Matrix::new(Values::F32(&logits), 1, logits.len(), logits.len()).unwrap();
    for seed in 0..200 {
        let mut rows = TargetRows::new(matrix, context(&p, &h, &tree, seed)).unwrap();
        assert_eq!(rows.token(0), Ok(77));
        assert_eq!(rows.row(0).unwrap().get(77), 1.0);
    }
}

/// Case 13: a frequency penalty must see the drafted tokens before it on its own path (vllm #18902): draft [7, 7], penalty 2.
#[test]
fn case_13_penalties_follow_each_nodes_own_path() {
    let h = History::default();
    let p = SamplingParams { temperature: 0.0, frequency_penalty: 2.0, ..Default::default() };
    // Two chains from the root: 7 7 and 8. Logit of 7 is 3 above that of 1.
    let tree = Topology::new(vec![7, 7, 8], vec![-1, 0, -1]).unwrap();
    let mut logits = vec![0.0_f32; 4 * 10];
    for row in 0..4 {
        logits[row * 10 + 7] = 4.0;
        logits[row * 10 + 1] = 1.0;
    }
    let matrix = Matrix::new(Values::F32(&logits), 4, 10, 10).unwrap();
    let mut rows = TargetRows::new(matrix, context(&p, &h, &tree, 0)).unwrap();
    let tokens: Vec<u32> = (0..4).map(|row| rows.token(row).unwrap()).collect();
    // 4, 4 - 2, 4 - 4 on the first chain; the sibling has not emitted a 7.
    assert_eq!(tokens, [7, 7, 1, 7]);
}

/// Case 14: min_p and logit_bias with drafts: p = [.6, .3, .1], min_p just above a half leaves {0}; a bias brings 1 back.
#[test]
fn case_14_min_p_and_logit_bias_act_on_draft_rows() {
    let h = History::default();
    let tree = Topology::new(vec![0], vec![-1]).unwrap();
    let logits: Vec<f32> = [0.6_f32, 0.3, 0.1, 0.6, 0.3, 0.1].iter().map(|p| p.ln()).collect();
    let matrix = Matrix::new(Values::F32(&logits), 2, 3, 3).unwrap();
    let mut p = SamplingParams { min_p: 0.5, ..Default::default() };
    let law = |p: &SamplingParams, row: usize| {
        let mut rows = TargetRows::new(matrix, context(p, &h, &tree, 0)).unwrap();
        let row = rows.row(row).unwrap();
        [row.get(0), row.get(1), row.get(2)]
    };
    assert_eq!(law(&p, 0), [1.0, 0.0, 0.0]);
    assert_eq!(law(&p, 1), [1.0, 0.0, 0.0]);
    p.logit_bias = vec![(1, 0.5)];
    let [a, b, c] = law(&p, 1);
    assert!((b / a - 0.5 * 0.5_f64.exp()).abs() < 1e-6 && c == 0.0);
}

/// Case 29's rows: the first of equal logits wins, and exactly k ids are kept among ties.
#[test]
fn ties_go_to_the_lower_id_and_top_k_keeps_exactly_k() {
    let (h, tree) = (History::default(), Topology::new(vec![], vec![]).unwrap());
    let logits = vec![1.0_f32; 1000];
    assert_eq!(single(&logits, &SamplingParams { temperature: 0.0, ..Default::default() }), Ok(0));
    let matrix = Matrix::new(Values::F32(&logits), 1, 1000, 1000).unwrap();
    for k in [1, 7, 64, 65, 999] {
        let p = SamplingParams { top_k: k, ..Default::default() };
        let mut rows = TargetRows::new(matrix, context(&p, &h, &tree, 0)).unwrap();
        let row = rows.row(0).unwrap();
        let kept: Vec<u32> = (0..1000).filter(|&id| row.get(id) > 0.0).collect();
        assert_eq!(kept, (0..k as u32).collect::<Vec<_>>());
    }
}

/// A row the walk does not reach is not read: here it would be an error.
#[test]
fn rows_that_are_not_reached_are_not_read() {
    let h = History::default();
    let p = SamplingParams::default();
    let tree = Topology::new(vec![0, 1], vec![-1, 0]).unwrap();
    let mut logits = vec![0.5_f32; 3 * 70];
    logits[2 * 70 + 69] = f32::NAN;
    let matrix = Matrix::new(Values::F32(&logits), 3, 70, 70).unwrap();
    let mut rows = TargetRows::new(matrix, context(&p, &h, &tree, 0)).unwrap();
    assert!(rows.token(0).is_ok() && rows.token(1).is_ok());
    assert_eq!(rows.token(2), Err(Error::row(2, RowFault::Nan)));
}

#[test]
fn ids_outside_the_vocabulary_are_named() {
    let (h, tree) = (History::default(), Topology::new(vec![], vec![]).unwrap());
    let logits = [0.0_f32; 4];
    let matrix = Matrix::new(Values::F32(&logits), 1, 4, 4).unwrap();
    for (p, name) in [
        (SamplingParams { logit_bias: vec![(4, 1.0)], ..Default::default() }, "logit_bias is 4"),
        (SamplingParams { allowed_token_ids: Some(vec![9]), ..Default::default() }, "allowed_token_ids is 9"),
        (SamplingParams { bad_words_token_ids: vec![vec![5]], ..Default::default() }, "bad_words_token_ids is 5"),
    ] {
        let message = TargetRows::new(matrix, context(&p, &h, &tree, 0)).unwrap_err().to_string();
        assert!(message.starts_with(name), "{message}");
    }
}

#[test]
fn draft_rows_are_checked_when_reached_and_read_as_a_law() {
    let q = [0.5_f64, 0.25, 0.25, 0.5, f64::NAN, 0.5, 1.5, -0.5, 0.0, 0.0, 0.0, 0.0];
    let rows = DraftRows::new(Matrix::new(Values::F64(&q), 4, 3, 3).unwrap()).unwrap();
    assert_eq!(rows.row(0).unwrap().get(1), 0.25);
    let fault = |row| match rows.row(row) {
        Err(Error::Row { argument, row: named, fault }) => (argument, named, fault),
        other => panic!("{other:?}"),
    };
    assert_eq!(fault(1), ("draft_probs".into(), 1, RowFault::Nan));
    assert_eq!(fault(2), ("draft_probs".into(), 2, RowFault::Negative));
    assert_eq!(fault(3), ("draft_probs".into(), 3, RowFault::NoMass));
    assert!(rows.row(4).is_err());
    let mut r = Random(5);
    let wide: Vec<f32> = (0..10_000).map(|_| r.unit() as f32).collect();
    let matrix = Matrix::new(Values::F32(&wide), 1, 10_000, 10_000).unwrap();
    let read = |simd: Simd| {
        let rows = DraftRows::new(matrix).unwrap().with_simd(simd);
        let mut out = vec![0.0; 10_000];
        rows.row(0).unwrap().read(0, &mut out);
        out
    };
    let outs: Vec<_> = Simd::available().into_iter().map(read).collect();
    assert!(outs.windows(2).all(|pair| pair[0] == pair[1]));
    assert!((outs[0].iter().sum::<f64>() - 1.0).abs() < 1e-12);
}
