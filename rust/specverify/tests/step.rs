//! One step of one request: what is emitted, and the faults that users met elsewhere.

use specverify::coins::{Coins, Stream};
use specverify::request::{Outcome, Request};
use specverify::rows::{LogprobsMode, Matrix, Values};
use specverify::verify::{AnyTree, Rule};
use specverify::{DraftTree, Error, Result, SamplingParams};

struct Step {
    logits: Vec<f32>,
    vocab: usize,
    tree: AnyTree,
    rule: Option<Rule>,
    draft_probs: Option<Vec<f32>>,
    params: SamplingParams,
    seed: u64,
    stop: Vec<u32>,
}

impl Step {
    fn new(logits: &[&[f32]], tree: impl Into<AnyTree>) -> Self {
        Self {
            vocab: logits[0].len(),
            logits: logits.concat(),
            tree: tree.into(),
            rule: None,
            draft_probs: None,
            params: SamplingParams::default(),
            seed: 7,
            stop: vec![],
        }
    }

    fn greedy(mut self) -> Self {
        self.params.temperature = 0.0;
        self
    }

    fn verify(&self) -> Result<Outcome> {
        let matrix = |values| Matrix::new(Values::F32(values), values.len() / self.vocab, self.vocab, self.vocab);
        Request {
            logits: matrix(&self.logits)?,
            tree: &self.tree,
            rule: self.rule,
            draft_probs: self.draft_probs.as_deref().map(matrix).transpose()?,
            params: &self.params,
            seed: self.seed,
            position: 3,
            prompt: &[],
            output: &[],
            stop_token_ids: &self.stop,
            logprobs_mode: LogprobsMode::Processed,
        }
        .verify()
    }
}

fn chain(tokens: &[u32]) -> DraftTree {
    DraftTree::new(tokens.to_vec(), (0..tokens.len() as i32).map(|i| i - 1).collect()).unwrap()
}

fn drawn_chain(tokens: &[u32]) -> DraftTree<specverify::Independent> {
    DraftTree::independent(tokens.to_vec(), (0..tokens.len() as i32).map(|i| i - 1).collect()).unwrap()
}

/// Logits of one id far above the others.
fn sure(id: usize) -> Vec<f32> {
    let mut row = vec![0.0; 5];
    row[id] = 50.0;
    row
}

#[test]
fn greedy_accepts_while_a_child_holds_the_argmax() {
    let tree = DraftTree::new(vec![1, 2, 3, 4], vec![-1, -1, 1, 2]).unwrap();
    let rows = [sure(2), sure(0), sure(3), sure(0), sure(0)];
    let outcome = Step::new(&rows.each_ref().map(Vec::as_slice), tree).greedy().verify().unwrap();
    assert_eq!((outcome.path, outcome.tokens), (vec![1, 2], vec![2, 3, 0]));
    assert_eq!((outcome.rule, outcome.finished, outcome.logprobs), (Rule::Greedy, false, None));
}

/// Case 30: drafts past the end-of-sequence token.
#[test]
fn nothing_follows_a_stop_token_inside_the_path() {
    let rows = [sure(4), sure(1), sure(2)];
    let mut step = Step::new(&rows.each_ref().map(Vec::as_slice), chain(&[4, 1])).greedy();
    assert_eq!(step.verify().unwrap().tokens, [4, 1, 2]);
    step.stop = vec![4];
    let outcome = step.verify().unwrap();
    assert_eq!((outcome.tokens, outcome.path, outcome.finished), (vec![4], vec![0], true));
    step.stop = vec![2];
    let outcome = step.verify().unwrap();
    assert_eq!((outcome.tokens, outcome.path, outcome.finished), (vec![4, 1, 2], vec![0, 1], true));
}

/// Case 29: logprobs of the wrong rows, or 0.0 (vllm #34497): accept 1 of 3.
#[test]
fn logprobs_are_of_the_rows_that_were_emitted_from() {
    let rows: Vec<Vec<f32>> = (0..4).map(|r| (0..5).map(|i| ((r * 7 + i * 3) % 5) as f32).collect()).collect();
    let argmax = |r: usize| rows[r].iter().position(|&x| x == 4.0).unwrap() as u32;
    let mut step =
        Step::new(&[&rows[0], &rows[1], &rows[2], &rows[3]], chain(&[argmax(0), (argmax(1) + 1) % 5, 0])).greedy();
    step.params.logprobs = Some(2);
    let outcome = step.verify().unwrap();
    assert_eq!(outcome.tokens, [argmax(0), argmax(1)]);
    let logprobs = outcome.logprobs.unwrap();
    assert_eq!(logprobs.len(), 2);
    for (r, logprobs) in logprobs.iter().enumerate() {
        let total: f64 = rows[r].iter().map(|&x| f64::from(x).exp()).sum();
        assert!((f64::from(logprobs.token) - (4.0 - total.ln())).abs() < 1e-5, "{logprobs:?}");
        assert_eq!((logprobs.rank, logprobs.top.len(), logprobs.top[0].0), (1, 2, argmax(r)));
    }
}

/// Cases 2 and 3: u = 0 or 1 never lets a token of target probability 0 through, for any rule that reads q.
#[test]
fn a_token_of_probability_zero_is_never_emitted() {
    let never = [0.0, f32::NEG_INFINITY];
    for rule in [Rule::Token, Rule::Block, Rule::Recursive, Rule::Traversal] {
        let mut step = Step::new(&[&never, &never], drawn_chain(&[1]));
        step.rule = Some(rule);
        step.draft_probs = Some(vec![0.0, 1.0, 0.5, 0.5]);
        for seed in 0..20_000 {
            step.seed = seed;
            let outcome = step.verify().unwrap();
            assert_eq!((outcome.tokens.as_slice(), outcome.path.len()), (&[0_u32][..], 0), "{rule:?}");
        }
    }
}

/// Case 20: a rejection at the last position.
#[test]
fn a_rejection_at_the_last_position_leaves_no_node() {
    let outcome = Step::new(&[&sure(2), &sure(3)], chain(&[1])).verify().unwrap();
    assert_eq!((outcome.path, outcome.tokens), (vec![], vec![2]));
}

/// Case 5: proposal and residual from one noise stream are biased. V=16, q-logits = -p-logits, same seed and position for both.
///
/// Chi-square of 40,000 first tokens, 15 degrees of freedom, threshold 61 (false alarm 1.6e-7); a law off by total variation .05
/// has a non-centrality of 400: found with power > 1 - 1e-9.
#[test]
fn the_draft_and_its_residual_do_not_share_a_coin() {
    let logits: Vec<f32> = (0..16).map(|i| (i as f32 - 7.5) / 5.0).collect();
    let softmax = |sign: f32| {
        let weights: Vec<f64> = logits.iter().map(|x| f64::from(sign * x).exp()).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|w| w / total).collect::<Vec<f64>>()
    };
    let (p, q) = (softmax(1.0), softmax(-1.0));
    let cumulative: Vec<f64> = (1..=16).map(|i| q[..i].iter().sum()).collect();
    let draws = 40_000;
    for rule in [Rule::Token, Rule::Block, Rule::Traversal] {
        let mut counts = [0_u32; 16];
        for seed in 0..draws {
            let u = Coins::new(seed).uniform(3, Stream::Draft, 0);
            let token = cumulative.iter().position(|&c| u < c).unwrap_or(15);
            let mut step = Step::new(&[&logits, &logits], drawn_chain(&[token as u32]));
            step.rule = Some(rule);
            step.seed = seed;
            step.draft_probs = Some([q.as_slice(), &q].concat().iter().map(|&q| q as f32).collect());
            counts[step.verify().unwrap().tokens[0] as usize] += 1;
        }
        let chi2: f64 =
            counts.iter().zip(&p).map(|(&n, p)| (f64::from(n) - p * draws as f64).powi(2) / (p * draws as f64)).sum();
        assert!(chi2 < 61.0, "{rule:?}: {chi2}");
    }
}

#[test]
fn auto_takes_the_rule_that_the_draws_are_proved_for() {
    let rows = vec![sure(1); 3];
    let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
    let q = Some(vec![0.2; 15]);
    let wide = || DraftTree::independent(vec![1, 1], vec![-1, -1]).unwrap();
    let distinct = || DraftTree::without_replacement(vec![1, 2], vec![-1, -1]).unwrap();
    let paths = || DraftTree::from_paths(&[1, 2], 1).unwrap();
    let cases: [(AnyTree, Option<Vec<f32>>, Rule); 7] = [
        (chain(&[1, 1]).into(), None, Rule::TargetOnly),
        (chain(&[1, 1]).into(), q.clone(), Rule::TargetOnly),
        (drawn_chain(&[1, 1]).into(), q.clone(), Rule::Block),
        (drawn_chain(&[1, 1]).into(), None, Rule::TargetOnly),
        (wide().into(), q.clone(), Rule::Traversal),
        (distinct().into(), q.clone(), Rule::Traversal),
        (paths().into(), q, Rule::Traversal),
    ];
    for (tree, q, rule) in cases {
        let mut step = Step::new(&rows, tree);
        step.draft_probs = q;
        assert_eq!(step.verify().unwrap().rule, rule, "{:?}", step.tree);
        assert_eq!(step.greedy().verify().unwrap().rule, Rule::Greedy);
    }
}

#[test]
fn faults_are_named() {
    let message = |step: Step| step.verify().unwrap_err().to_string();
    let rows = || [sure(1), sure(1), sure(1)];
    let step = |tree: AnyTree, rule: Rule, q: Option<Vec<f32>>| {
        let rows = rows();
        let mut step = Step::new(&rows.each_ref().map(Vec::as_slice), tree);
        step.rule = Some(rule);
        step.draft_probs = q;
        step
    };
    let drawn = || -> AnyTree { drawn_chain(&[1, 1]).into() };
    assert!(message(step(drawn(), Rule::Block, None)).starts_with("draft_probs is None"));
    assert!(message(step(drawn(), Rule::Block, Some(vec![0.2; 5]))).contains("draft_probs has shape [1, 5]"));
    assert!(message(step(drawn_chain(&[9, 1]).into(), Rule::Block, None)).contains("tokens[0] is 9"));
    let zero = vec![0.5, 0.0, 0.5, 0.0, 0.0, 0.2, 0.2, 0.2, 0.2, 0.2];
    assert!(message(step(drawn(), Rule::Token, Some(zero))).starts_with("draft_probs[0][1] is 0"));
    let nan = vec![f32::NAN; 10];
    assert!(message(step(drawn(), Rule::Traversal, Some(nan))).contains("draft_probs row 0 contains NaN"));
    let typical = Rule::LossyTypical { epsilon: f64::NAN, delta: 0.3 };
    assert!(message(step(drawn(), typical, None)).starts_with("epsilon is NaN"));
    assert!(matches!(step(drawn(), Rule::Multipath, None).verify(), Err(Error::Pairing { .. })));
    // A row that no rule reaches may hold anything.
    let mut step = step(drawn(), Rule::Greedy, None);
    step.logits[10..].fill(f32::NAN);
    step.logits[..5].copy_from_slice(&sure(2));
    assert_eq!(step.verify().unwrap().tokens, [2]);
}
