//! Drafter invariance: for one seed, target_only emits the same text whatever was drafted, nothing included.

use proptest::prelude::*;
use specverify::couple::{Drafting, coupled_children};
use specverify::request::{Outcome, Request, verify_batch};
use specverify::rows::{LogprobsMode, Matrix, Values};
use specverify::verify::{AnyTree, Rule};
use specverify::{DraftTree, SamplingParams};

const VOCAB: usize = 150;
const LENGTH: usize = 24;

fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A random model: logits are a hash of the model, the last two tokens and the id, in steps of 1/16 so that ties occur.
fn logits(model: u64, text: &[u32]) -> Vec<f32> {
    let context = text.iter().rev().take(2).fold(mix(model), |h, &t| mix(h ^ u64::from(t)));
    (0..VOCAB as u64)
        .map(|id| ((mix(context ^ id << 32) >> 40) as f32 / 2_f32.powi(24) * 96.0).floor() / 16.0)
        .collect()
}

/// What a drafter does; each is a function of the step alone.
#[derive(Debug, Clone, Copy)]
enum Drafter {
    Nothing,
    /// A tree of random shape and random tokens.
    Random(u64),
    /// The target's own race, on the target's rows (never wrong) or on another model's.
    Coupled {
        same: bool,
    },
    /// The argmax of each row, as a chain.
    Greedy,
    /// Random siblings, one of which is the target's token, as drafting nothing finds it.
    Oracle(u64),
    /// The worst tokens of the row.
    Adversarial,
}

/// At most four tokens, each of which `next` names after the ones before it.
fn chain(mut next: impl FnMut(&[u32]) -> Option<u32>) -> (Vec<u32>, Vec<i32>) {
    let mut path = Vec::new();
    while path.len() < 4
        && let Some(token) = next(&path)
    {
        path.push(token);
    }
    let parents = (0..path.len() as i32).map(|i| i - 1).collect();
    (path, parents)
}

#[derive(Debug)]
struct Job {
    model: u64,
    params: SamplingParams,
    prompt: Vec<u32>,
    stop: Vec<u32>,
    seed: u64,
}

impl Job {
    fn position(&self, output: &[u32]) -> u32 {
        (self.prompt.len() + output.len()) as u32
    }

    fn text(&self, output: &[u32], path: &[u32]) -> Vec<u32> {
        [&self.prompt, output, path].concat()
    }

    fn logits(&self, tree: &AnyTree, output: &[u32]) -> Vec<f32> {
        let rows = 0..tree.rows();
        rows.flat_map(|row| {
            let path: Vec<u32> = tree.path(row).iter().map(|&node| tree.tokens()[node as usize]).collect();
            logits(self.model, &self.text(output, &path))
        })
        .collect()
    }

    fn request<'a>(&'a self, tree: &'a AnyTree, logits: &'a [f32], output: &'a [u32]) -> Request<'a> {
        Request {
            logits: Matrix::new(Values::F32(logits), tree.rows(), VOCAB, VOCAB).unwrap(),
            tree,
            rule: Some(Rule::TargetOnly),
            draft_probs: None,
            params: &self.params,
            seed: self.seed,
            position: self.position(output),
            prompt: &self.prompt,
            output,
            stop_token_ids: &self.stop,
            logprobs_mode: LogprobsMode::Processed,
        }
    }

    fn coupled(&self, model: u64, output: &[u32], path: &[u32], k: usize) -> Vec<u32> {
        let row = logits(model, &self.text(output, path));
        let drafting = Drafting {
            params: &self.params,
            seed: self.seed,
            position: self.position(output) + path.len() as u32,
            prompt: &self.prompt,
            output,
            path,
            stop_token_ids: &self.stop,
            target_ids: None,
        };
        coupled_children(Matrix::new(Values::F32(&row), 1, VOCAB, VOCAB).unwrap(), k, &drafting).unwrap().tokens
    }

    fn draft(&self, drafter: Drafter, output: &[u32]) -> AnyTree {
        let by_logit = |path: &[u32]| {
            let row = logits(self.model, &self.text(output, path));
            let mut ids: Vec<u32> = (0..VOCAB as u32).collect();
            ids.sort_by(|&a, &b| row[b as usize].total_cmp(&row[a as usize]));
            ids
        };
        let (tokens, parents) = match drafter {
            Drafter::Nothing => (vec![], vec![]),
            Drafter::Coupled { same } => {
                let model = if same { self.model } else { self.model + 1 };
                chain(|path| self.coupled(model, output, path, 1).first().copied())
            }
            Drafter::Greedy => chain(|path| by_logit(path).first().copied()),
            Drafter::Adversarial => {
                let worst = by_logit(&[]);
                (worst[VOCAB - 5..].to_vec(), vec![-1; 5])
            }
            Drafter::Random(seed) => {
                let mut state = mix(seed ^ output.len() as u64);
                let (mut tokens, mut parents): (Vec<u32>, Vec<i32>) = (vec![], vec![]);
                for _ in 0..12 {
                    state = mix(state);
                    let token = (state % VOCAB as u64) as u32;
                    let parent = ((state >> 32) % (tokens.len() as u64 + 1)) as i32 - 1;
                    if !tokens.iter().zip(&parents).any(|(&t, &p)| t == token && p == parent) {
                        tokens.push(token);
                        parents.push(parent);
                    }
                }
                (tokens, parents)
            }
            Drafter::Oracle(seed) => {
                let next = self.step(Drafter::Nothing, output).tokens[0];
                let mut tokens: Vec<u32> = (0..4).map(|i| (mix(seed ^ i) % VOCAB as u64) as u32).collect();
                tokens.push(next);
                tokens.sort_unstable();
                tokens.dedup();
                let parents = vec![-1; tokens.len()];
                (tokens, parents)
            }
        };
        DraftTree::new(tokens, parents).unwrap().into()
    }

    fn step(&self, drafter: Drafter, output: &[u32]) -> Outcome {
        let tree = self.draft(drafter, output);
        let logits = self.logits(&tree, output);
        self.request(&tree, &logits, output).verify().unwrap()
    }

    /// The text, and how many drafted tokens of it were accepted.
    fn generate(&self, drafter: Drafter) -> (Vec<u32>, usize) {
        let (mut output, mut accepted) = (Vec::new(), 0);
        while output.len() < LENGTH {
            let outcome = self.step(drafter, &output);
            output.extend(&outcome.tokens);
            accepted += outcome.path.len();
            if outcome.finished {
                break;
            }
        }
        // A last step may overshoot, also with a stop token.
        output.truncate(LENGTH);
        (output, accepted)
    }
}

fn jobs() -> impl Strategy<Value = Job> {
    let temperature = prop_oneof![Just(0.0_f32), 0.2_f32..2.0];
    let filters = (prop_oneof![Just(1.0_f32), 0.3_f32..1.0], prop_oneof![Just(0_i64), 1_i64..40], 0.0_f32..0.2);
    let penalties = (-1.0_f32..1.0, -1.0_f32..1.0, 0.8_f32..1.5);
    let ids = || prop::collection::vec(0..VOCAB as u32, 1..6);
    (any::<u64>(), temperature, filters, penalties, ids(), ids(), any::<u64>(), 0..8_u32).prop_map(
        |(model, temperature, (top_p, top_k, min_p), (presence, frequency, repetition), prompt, ids, seed, min)| Job {
            model: model >> 1,
            params: SamplingParams {
                temperature,
                top_p,
                top_k,
                min_p,
                presence_penalty: presence,
                frequency_penalty: frequency,
                repetition_penalty: repetition,
                min_tokens: min,
                logit_bias: vec![(ids[0], 2.0)],
                bad_words_token_ids: vec![ids.clone(), vec![ids[ids.len() - 1]]],
                ..SamplingParams::default()
            }
            .validated()
            .unwrap(),
            prompt,
            stop: vec![3],
            seed,
        },
    )
}

fn drafters(seed: u64) -> [Drafter; 6] {
    [
        Drafter::Random(seed),
        Drafter::Coupled { same: true },
        Drafter::Coupled { same: false },
        Drafter::Greedy,
        Drafter::Oracle(seed),
        Drafter::Adversarial,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_text_does_not_depend_on_the_drafts(job in jobs(), drafts in any::<u64>()) {
        let (alone, _) = job.generate(Drafter::Nothing);
        for drafter in drafters(drafts) {
            let (text, accepted) = job.generate(drafter);
            prop_assert_eq!(&text, &alone, "{:?}", drafter);
            match drafter {
                // The target's own race on its own row is never wrong, and a sibling that holds its token is found.
                Drafter::Coupled { same: true } => prop_assert!(5 * accepted >= 3 * text.len() || text.len() < 5),
                Drafter::Oracle(_) => prop_assert!(accepted > 0),
                _ => {}
            }
        }
    }

    /// Cases 11 and 12 of public faults: a seed that depends on the batch (vllm #6038), or is lost beside others (vllm #9441).
    #[test]
    fn a_request_does_not_depend_on_its_batch(
        jobs in prop::collection::vec(jobs(), 8),
        drafts in any::<u64>(),
        order in Just((0..8_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let trees: Vec<_> = jobs.iter().zip(drafters(drafts).into_iter().cycle()).map(|(j, d)| j.draft(d, &[])).collect();
        let rows: Vec<_> = jobs.iter().zip(&trees).map(|(job, tree)| job.logits(tree, &[])).collect();
        let request = |i: usize| jobs[i].request(&trees[i], &rows[i], &[]);
        let batch: Vec<_> = order.iter().map(|&i| request(i)).collect();
        for (&i, outcome) in order.iter().zip(verify_batch(&batch).unwrap()) {
            prop_assert_eq!(outcome, request(i).verify());
        }
    }

    /// The ratio rules depend on seed and step only, too.
    #[test]
    fn the_same_seed_gives_the_same_tokens_with_every_rule(job in jobs(), other in any::<u64>()) {
        let q: Vec<f32> = vec![1.0 / VOCAB as f32; 3 * VOCAB];
        let tree: AnyTree = DraftTree::independent(vec![1, 2], vec![-1, 0]).unwrap().into();
        let rows = job.logits(&tree, &[]);
        for rule in [Rule::Token, Rule::Block, Rule::Recursive, Rule::Traversal] {
            let mut request = job.request(&tree, &rows, &[]);
            request.rule = Some(rule);
            request.draft_probs = Some(Matrix::new(Values::F32(&q), 3, VOCAB, VOCAB).unwrap());
            prop_assert_eq!(request.verify().unwrap(), request.verify().unwrap());
            request.seed = other;
            prop_assert_eq!(request.verify().unwrap().seed, other);
        }
    }
}

#[test]
fn a_fault_of_one_request_leaves_the_others_alone() {
    let job = Job { model: 1, params: SamplingParams::default(), prompt: vec![1], stop: vec![], seed: 5 };
    let tree = job.draft(Drafter::Greedy, &[]);
    let good = job.logits(&tree, &[]);
    let bad = vec![f32::NAN; good.len()];
    let outcomes = verify_batch(&[
        job.request(&tree, &good, &[]),
        job.request(&tree, &bad, &[]),
        Request { rule: Some(Rule::Block), ..job.request(&tree, &good, &[]) },
        job.request(&tree, &good, &[]),
    ])
    .unwrap();
    assert_eq!(outcomes[0], job.request(&tree, &good, &[]).verify());
    assert_eq!(outcomes[3], outcomes[0]);
    assert!(outcomes[1].as_ref().unwrap_err().to_string().contains("logits row 0 contains NaN"));
    assert!(matches!(outcomes[2], Err(specverify::Error::Pairing { .. })));
}
