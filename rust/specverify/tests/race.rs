//! The law of the race, and of coupled drafting on it. Seeds are fixed; each test states its false-alarm rate for fresh seeds.

use specverify::coins::{Coins, ln};
use specverify::couple::{Drafting, coupled_children};
use specverify::rows::{Context, Matrix, TargetRows, Values};
use specverify::verify::Target;
use specverify::{Error, SamplingParams, Topology};

/// Standard normal quantile of 1 - 1e-6 (one-sided).
const Z: f64 = 4.753_4;

/// Quantile 1 - 1e-6 of chi-square (Wilson and Hilferty).
fn chi_square_limit(degrees: usize) -> f64 {
    let k = degrees as f64;
    k * (1.0 - 2.0 / (9.0 * k) + Z * (2.0 / (9.0 * k)).sqrt()).powi(3)
}

fn chi_square(observed: &[u64], law: &[f64]) -> f64 {
    let n = observed.iter().sum::<u64>() as f64;
    observed.iter().zip(law).map(|(&o, p)| (o as f64 - n * p).powi(2) / (n * p)).sum()
}

fn draw(matrix: Matrix<'_>, params: &SamplingParams, seed: u64, position: u32) -> u32 {
    let tree = Topology::new(vec![], vec![]).unwrap();
    let context = Context { params, seed, position, prompt: &[], output: &[], stop_token_ids: &[], tree: &tree };
    TargetRows::new(matrix, context).unwrap().token(0).unwrap()
}

fn softmax(logits: &[f32], temperature: f32) -> Vec<f64> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let w: Vec<f64> = logits.iter().map(|&x| (f64::from(x - max) / f64::from(temperature)).exp()).collect();
    let sum: f64 = w.iter().sum();
    w.into_iter().map(|w| w / sum).collect()
}

/// V = 151,936 with logits made to hurt: one token of a third, a group whose 64 members are equal, a pair of rivals in one group, a
/// third of the mass spread over 100,000 tokens, the rest -inf. 30,000 draws, two chi-squares (bins of expectation >= 20): false
/// alarm 1e-6 each. Power: a bin of probability .01 that is off by a tenth adds 3 to a statistic of standard deviation 16; a lost
/// group member (1/192 of the mass) adds 156.
#[test]
fn the_race_draws_from_the_row_at_full_vocabulary() {
    const V: usize = 151_936;
    let mut p = vec![0.0_f64; V];
    p[70_001] = 1.0 / 3.0;
    p[64..128].fill(1.0 / 6.0 / 64.0);
    (p[150_016], p[150_017]) = (0.1, 1.0 / 15.0);
    for (i, p) in p[20_000..].iter_mut().step_by(1).take(100_000).enumerate() {
        *p += (1.0 / 3.0) / 100_000.0 * (0.5 + (i % 64) as f64 / 63.0);
    }
    let logits: Vec<f32> = p.iter().map(|p| p.ln() as f32 * 0.8).collect();
    let law = softmax(&logits, 0.8);
    let matrix = Matrix::new(Values::F32(&logits), 1, V, V).unwrap();
    let params = SamplingParams { temperature: 0.8, ..Default::default() };

    let (mut by_token, mut by_member) = (vec![0_u64; 256], vec![0_u64; 64]);
    let (mut token_law, mut member_law) = (vec![0.0; 256], vec![0.0; 64]);
    let is_tail = |id: usize| law[id] < 1e-4;
    let bin = |id: usize| match id {
        64..128 => id,
        70_001 => 0,
        150_016 | 150_017 => id - 150_015,
        _ => 128 + id / 1200,
    };
    for (id, &p) in law.iter().enumerate() {
        token_law[bin(id)] += p;
        member_law[id % 64] += if is_tail(id) { p } else { 0.0 };
    }
    for n in 0..30_000_u32 {
        let id = draw(matrix, &params, u64::from(n / 100), n % 100) as usize;
        assert!(law[id] > 0.0);
        by_token[bin(id)] += 1;
        by_member[id % 64] += u64::from(is_tail(id));
    }
    let kept: Vec<usize> = (0..256).filter(|&b| token_law[b] > 0.0).collect();
    let pick = |b: &usize| (by_token[*b], token_law[*b]);
    let (observed, law): (Vec<u64>, Vec<f64>) = kept.iter().map(pick).unzip();
    let statistic = chi_square(&observed, &law);
    assert!(statistic < chi_square_limit(kept.len() - 1), "{statistic} with {} bins", kept.len());
    let tail: f64 = member_law.iter().sum();
    member_law.iter_mut().for_each(|p| *p /= tail);
    let statistic = chi_square(&by_member, &member_law);
    assert!(statistic < chi_square_limit(63), "{statistic}");
}

/// Filters move mass, never the winner among those kept: 40,000 draws at V = 300 with top-k 40, top-p .9 (false alarm 1e-6).
#[test]
fn the_race_draws_from_the_filtered_row() {
    let logits: Vec<f32> = (0..300_u32).map(|i| -1.1 * ((i * 77 % 300 + 1) as f32).ln()).collect();
    let params = SamplingParams { temperature: 0.9, top_k: 40, top_p: 0.9, ..Default::default() };
    let mut order: Vec<usize> = (0..300).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    order.truncate(40);
    let p = softmax(&order.iter().map(|&i| logits[i]).collect::<Vec<_>>(), 0.9);
    let kept = p.iter().scan(0.0, |above, &p| Some(std::mem::replace(above, *above + p))).filter(|&a| a < 0.9).count();
    let mass: f64 = p[..kept].iter().sum();
    let law: Vec<f64> = p[..kept].iter().map(|p| p / mass).collect();
    let matrix = Matrix::new(Values::F32(&logits), 1, 300, 300).unwrap();
    let mut observed = vec![0_u64; kept];
    for n in 0..40_000 {
        let id = draw(matrix, &params, 5, n) as usize;
        observed[order[..kept].iter().position(|&o| o == id).expect("an id outside the support")] += 1;
    }
    let statistic = chi_square(&observed, &law);
    assert!(statistic < chi_square_limit(kept - 1), "{statistic}");
}

fn drafting(params: &SamplingParams, seed: u64, position: u32) -> Drafting<'_> {
    Drafting { params, seed, position, prompt: &[], output: &[], path: &[], stop_token_ids: &[], target_ids: None }
}

fn closed_form(p: &[f64], q: &[f64]) -> f64 {
    let held = |i: &usize| p[*i] > 0.0 && q[*i] > 0.0;
    let ratio = |i: usize| (0..p.len()).map(|j| (p[j] / p[i]).max(q[j] / q[i])).sum::<f64>();
    (0..p.len()).filter(held).map(|i| 1.0 / ratio(i)).sum()
}

/// One coupled child holds the target's token with probability sum_i 1 / sum_j max(p_j / p_i, q_j / q_i) (2408.07978): 100,000 draws,
/// z within 4.9 (false alarm 1e-6 a case). Power: independent noise or the top-1 of q would be off by more than 10 z.
#[test]
fn one_coupled_child_matches_with_the_closed_form() {
    for (vocab, drafter_vocab, shift) in [(3, 3, 0.5_f32), (8, 6, 1.0), (200, 200, 0.8), (500, 300, 1.5)] {
        let target: Vec<f32> = (0..vocab as u32).map(|i| (i.wrapping_mul(2_654_435_769) >> 8) as f32 / 8e6).collect();
        // Case 17: a drafter with fewer ids, in another order.
        let ids: Vec<u32> = (0..drafter_vocab as u32).rev().collect();
        let noise = |i: u32| (i.wrapping_mul(0x85EB_CA6B).wrapping_add(77) >> 8) as f32 / 16_777_216.0;
        let row: Vec<f32> = ids.iter().map(|&id| target[id as usize] + shift * noise(id)).collect();
        let params = SamplingParams { temperature: 0.7, ..Default::default() };
        let mut spread = vec![f32::NEG_INFINITY; vocab];
        ids.iter().zip(&row).for_each(|(&id, &x)| spread[id as usize] = x);
        let expected = closed_form(&softmax(&target, 0.7), &softmax(&spread, 0.7));
        let (target, row) = (
            Matrix::new(Values::F32(&target), 1, vocab, vocab).unwrap(),
            Matrix::new(Values::F32(&row), 1, drafter_vocab, drafter_vocab).unwrap(),
        );
        let n = 100_000;
        let matches = (0..n).filter(|&position| {
            let context = Drafting { target_ids: Some(&ids), ..drafting(&params, 9, position) };
            let children = coupled_children(row, 1, &context).unwrap();
            children.tokens == [draw(target, &params, 9, position)]
        });
        let rate = matches.count() as f64 / f64::from(n);
        let error = (expected * (1.0 - expected) / f64::from(n)).sqrt();
        assert!((rate - expected).abs() < 4.9 * error, "V = {vocab}: {rate} {expected} {}", (rate - expected) / error);
    }
}

/// The closed form itself, against integration of the races' joint law on a grid: i wins both when every E_j exceeds
/// E_i max(p_j / p_i, q_j / q_i).
#[test]
fn the_closed_form_is_the_integral_of_the_joint_law() {
    let (p, q) = ([0.5, 0.3, 0.2], [0.2, 0.2, 0.6]);
    let mut integral = 0.0;
    for i in 0..3 {
        let step = 1e-4;
        integral += (0..400_000)
            .map(|n| {
                let t = (f64::from(n) + 0.5) * step;
                let others = (0..3).filter(|&j| j != i).map(|j| (-t * f64::max(p[j] / p[i], q[j] / q[i])).exp());
                (-t).exp() * others.product::<f64>() * step
            })
            .sum::<f64>();
    }
    assert!((integral - closed_form(&p, &q)).abs() < 1e-8);
    let variation: f64 = p.iter().zip(&q).map(|(p, q): (&f64, &f64)| (p - q).abs()).sum::<f64>() / 2.0;
    assert!(closed_form(&p, &q) >= (1.0 - variation) / (1.0 + variation));
}

#[test]
fn children_are_the_first_finishers_distinct_and_best_first() {
    let params = SamplingParams { temperature: 0.8, top_k: 200, ..Default::default() };
    let logits: Vec<f32> = (0..5000_u32).map(|i| (i.wrapping_mul(2_654_435_769) >> 8) as f32 / 2e6).collect();
    let row = Matrix::new(Values::F32(&logits), 1, 5000, 5000).unwrap();
    let mut order: Vec<u32> = (0..5000).collect();
    order.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b)));
    let max = logits[order[0] as usize];
    for seed in 0..200 {
        let coins = Coins::new(seed);
        let score = |id: u32| (logits[id as usize] - max) * (1.0 / 0.8) - ln(coins.exponential(40, id));
        let mut finishers: Vec<u32> = order[..200].to_vec();
        finishers.sort_by(|&a, &b| score(b).total_cmp(&score(a)).then(a.cmp(&b)));
        for k in [1, 2, 3, 8, 64, 200, 300] {
            let children = coupled_children(row, k, &drafting(&params, seed, 40)).unwrap();
            assert_eq!(children.tokens, finishers[..k.min(200)]);
            assert!(children.tokens.iter().zip(&children.scores).all(|(&id, &s)| s == score(id)));
        }
        assert_eq!(draw(row, &params, seed, 40), finishers[0]);
    }
    let greedy = SamplingParams { temperature: 0.0, ..Default::default() };
    let children = coupled_children(row, 5, &drafting(&greedy, 0, 40)).unwrap();
    assert_eq!(children.tokens, order[..5]);
    assert_eq!(children.scores, order[..5].iter().map(|&id| logits[id as usize]).collect::<Vec<_>>());
    assert!(coupled_children(row, 0, &drafting(&params, 0, 40)).unwrap().tokens.is_empty());
}

/// Case 17: a drafter with fewer ids and a map. The noise and the parameters are those of the target's ids.
#[test]
fn case_17_a_smaller_draft_vocabulary_races_on_the_targets_ids() {
    let target: Vec<f32> = (0..8).map(|i| f32::from(i as u8) * 0.3).collect();
    let ids = [7_u32, 5, 3, 1, 0, 6];
    let row: Vec<f32> = ids.iter().map(|&id| target[id as usize]).collect();
    let bans: Vec<(u32, f32)> = vec![(2, -1e9), (4, -1e9)];
    let (params, free) = (SamplingParams { logit_bias: bans, ..Default::default() }, SamplingParams::default());
    let target = Matrix::new(Values::F32(&target), 1, 8, 8).unwrap();
    let row = Matrix::new(Values::F32(&row), 1, 6, 6).unwrap();
    for position in 0..500 {
        // Without the two ids that the drafter lacks, the target's race is the drafter's.
        let context = Drafting { target_ids: Some(&ids), ..drafting(&free, 1, position) };
        let children = coupled_children(row, 6, &context).unwrap();
        assert_eq!(children.tokens[0], draw(target, &params, 1, position));
        let mut sorted = children.tokens.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 3, 5, 6, 7]);
    }
    for bad in [&[0_u32, 1, 2, 3, 4][..], &[0, 1, 2, 3, 4, 4], &[0, 1, 2, 3, 4, u32::MAX]] {
        let context = Drafting { target_ids: Some(bad), ..drafting(&free, 1, 0) };
        let error = coupled_children(row, 1, &context).unwrap_err();
        assert!(matches!(error, Error::Shape { .. } | Error::Argument { .. }), "{error}");
    }
}
