//! The target's tokens on the device against those of the crate: equal, whatever the parameters.

mod common;

use common::logits::{Batch, Elements, Request, TYPES, faulty, normal, requests, run, shapes, status_of};
use common::{ARCHITECTURES, Numbers, input, read_i32};
use gfxsim::{Buffer, Memory};
use specverify::rows::{Context, LogprobsMode, TargetRows};
use specverify::verify::{Row, Target};
use specverify::{SamplingParams, Topology};
use specverify_hip::abi::{Arguments, TargetTokensArgs};
use specverify_hip::target_tokens::Plan;

/// Asks the crate about every row of a batch, in the order of the kernels' rows; `None` for padding.
fn ask<T>(batch: &Batch, question: impl Fn(&mut TargetRows<'_>, usize) -> T) -> Vec<Option<T>> {
    let mut answers = Vec::new();
    for request in &batch.requests {
        let n = request.rows.len();
        if n == 0 {
            continue;
        }
        let tree = Topology::new(vec![0; n - 1], (0..n as i32 - 1).map(|i| i - 1).collect()).unwrap();
        let elements = Elements::of(batch.logits, &request.rows.concat());
        let context = Context {
            params: &request.params,
            seed: request.seed,
            position: request.position,
            prompt: &[],
            output: &[],
            stop_token_ids: &[],
            tree: &tree,
        };
        let mut rows = TargetRows::new(elements.matrix(n, batch.vocab, batch.vocab), context).unwrap();
        answers.extend((0..n).map(|row| question(&mut rows, row)));
    }
    let mut answers = answers.into_iter();
    batch.rows().iter().map(|row| row.and_then(|_| answers.next())).collect()
}

/// A batch in memory: the arguments, and the buffers of logits, tokens and statuses.
fn upload(batch: &Batch, memory: &mut Memory) -> (TargetTokensArgs, [Buffer; 3]) {
    let (rows, logits) = batch.upload(memory);
    let n = rows.rows as usize;
    let [tokens, status] = ["tokens", "status"].map(|name| memory.reserve(name, 4 * n));
    let arguments =
        TargetTokensArgs { rows, tokens: tokens.address(), status: status.address(), ..TargetTokensArgs::default() };
    (arguments, [logits, tokens, status])
}

/// Compares every row; returns the bytes of logits that were asked for.
fn check(arch: &str, batch: &Batch) -> u64 {
    let mut memory = Memory::new();
    let (arguments, buffers) = upload(batch, &mut memory);
    check_launch(arch, batch, &arguments, buffers, &mut memory);
    memory.traffic(buffers[0]).requested_read
}

/// Launches, and compares every row: a token and 0, or -1 and a status.
fn check_launch(
    arch: &str,
    batch: &Batch,
    arguments: &TargetTokensArgs,
    [_, tokens, status]: [Buffer; 3],
    memory: &mut Memory,
) {
    let plan = Plan::new(batch.logits, arguments).unwrap();
    run(arch, &plan.passes, &arguments.rows, arguments, memory).unwrap_or_else(|fault| panic!("{fault}"));
    assert!(memory.is_written(tokens, 0..tokens.len()) && memory.is_written(status, 0..status.len()));
    let got: Vec<_> = read_i32(memory, tokens).into_iter().zip(read_i32(memory, status)).collect();
    let expected =
        ask(batch, |rows, row| rows.token(row).map_or_else(|error| (-1, status_of(&error)), |token| (token as i32, 0)));
    for (i, row) in batch.rows().iter().enumerate() {
        let told = row.map(|(b, row)| (row, &batch.requests[b].params));
        let expected = expected[i].unwrap_or((-1, 4));
        assert_eq!(got[i], expected, "row {i} of {} ids on {arch}: {:?} {told:?}", batch.vocab, batch.logits);
    }
}

#[test]
fn tokens_equal_the_crates_under_every_parameter() {
    let mut seeds = 0..;
    for arch in ARCHITECTURES {
        for logits in TYPES {
            let mut numbers = Numbers(1 + seeds.next().unwrap());
            let vocab = 1531;
            let mut requests = requests(&mut numbers, vocab, vocab);
            // Every second, another half each time.
            requests.retain(|_| numbers.below(2) == 0);
            let batch = Batch { stride: vocab + 3, ..Batch::new(logits, vocab, requests) };
            check(arch, &batch);
        }
    }
}

#[test]
fn tokens_equal_the_crates_whatever_the_vocabulary() {
    for (i, vocab) in [1, 2, 63, 64, 65, 257, 4099].into_iter().enumerate() {
        let mut numbers = Numbers(vocab as u64);
        let mut requests = requests(&mut numbers, vocab, vocab);
        requests.retain(|_| numbers.below(6) == 0);
        let allowed_by_row = i % 2 == 0;
        let batch = Batch { stride: vocab + i, allowed_by_row, ..Batch::new(TYPES[i % 3], vocab, requests) };
        check(ARCHITECTURES[i % 2], &batch);
    }
}

/// Where more ids than can be sorted at once lie close together, or are equal, around the cut.
#[test]
fn tokens_equal_the_crates_where_the_cut_is_crowded() {
    let vocab = 9001;
    let params =
        [(0, 0.7, 1.0), (5000, 1.0, 1.0), (3000, 0.5, 1.0), (800, 1.0, 1.0), (800, 0.4, 20.0), (0, 0.999, 50.0)];
    for arch in ARCHITECTURES {
        for logits in TYPES {
            let mut numbers = Numbers(11);
            let request = |(top_k, top_p, temperature): (i64, f32, f32)| {
                let mut rows = shapes(&mut numbers, vocab);
                // All in one bin, equal, of two values, of twelve.
                rows = vec![rows.swap_remove(2), rows.swap_remove(3), rows.swap_remove(4), rows.swap_remove(5)];
                rows.push(normal(&mut numbers, vocab, 0.003));
                let params = SamplingParams { top_k, top_p, temperature, ..SamplingParams::default() };
                Request { params: params.validated().unwrap(), seed: 3, position: 4, rows }
            };
            let requests = params.into_iter().map(request).collect();
            check(arch, &Batch::new(logits, vocab, requests));
        }
    }
}

/// A captured launch: the same arguments while rows, requests and all their parameters change on the device. What the launch before left in
/// the workspace and in the results is there.
#[test]
fn a_captured_launch_serves_whatever_the_device_holds() {
    for (i, logits) in TYPES.into_iter().enumerate() {
        let arch = ARCHITECTURES[i % 2];
        let mut numbers = Numbers(40 + i as u64);
        let mut requests = requests(&mut numbers, 700, 700);
        requests.retain(|_| numbers.below(5) == 0);
        // Other rows belong to other requests, and others to none.
        let backwards = requests.iter().rev().cloned().collect();
        let batches = [requests, backwards].map(|requests| Batch::new(logits, 700, requests));
        assert_ne!(batches[0].rows(), batches[1].rows());
        let mut memory = Memory::new();
        let (captured, buffers) = upload(&batches[0], &mut memory);
        for batch in [&batches[0], &batches[1], &batches[0]] {
            let mut wanted = Memory::new();
            assert_eq!(upload(batch, &mut wanted).0.bytes(), captured.bytes());
            memory.refill(&wanted);
            check_launch(arch, batch, &captured, buffers, &mut memory);
        }
    }
}

/// Padding alone: every row has a status and no token, and no logit is read.
#[test]
fn a_batch_without_rows() {
    for arch in ARCHITECTURES {
        for logits in TYPES {
            let request = |rows| Request { params: SamplingParams::default(), seed: 0, position: 0, rows };
            // After three requests without rows comes a row of padding.
            let batch = Batch::new(logits, 300, vec![request(vec![]), request(vec![]), request(vec![])]);
            assert_eq!((batch.rows(), check(arch, &batch)), (vec![None], 0));
            let none = Batch::new(logits, 300, vec![request(vec![])]);
            let (arguments, _) = upload(&none, &mut Memory::new());
            let plan = Plan::new(logits, &arguments).unwrap();
            assert!(plan.passes.iter().all(|pass| pass.geometry.grid.contains(&0)), "nothing is launched");
        }
    }
}

#[test]
fn rows_without_a_token_say_why() {
    for arch in ARCHITECTURES {
        for logits in TYPES {
            check(arch, &Batch::new(logits, 300, faulty(&mut Numbers(2), 300)));
        }
    }
}

/// A vocabulary of 151,936 ids. Unfiltered, and at T = 0, a row is read once: a tenth more at most for the groups that the race opens. With
/// filters at most three times and that. The rows are flat, which is the worst case: the likeliest token has less than a thousandth. Where
/// both top_k and top_p cut, each cut is looked for, and it takes a peak for the second to cost little.
#[test]
fn a_row_is_read_once_and_with_filters_at_most_three_times() {
    let vocab = 151_936;
    let one = SamplingParams::default;
    let cases = [
        (one(), 0.0, 1.1),
        (SamplingParams { temperature: 0.0, ..one() }, 0.0, 1.1),
        (SamplingParams { min_p: 0.02, ..one() }, 0.0, 1.1),
        (SamplingParams { top_k: 50, ..one() }, 0.0, 1.2),
        (SamplingParams { top_p: 0.9, temperature: 1.3, ..one() }, 0.0, 3.1),
        (SamplingParams { top_p: 0.95, top_k: 2000, ..one() }, 12.0, 3.0),
    ];
    for (i, logits) in TYPES.into_iter().enumerate() {
        for (j, (params, peak, most)) in cases.iter().enumerate() {
            let mut numbers = Numbers(9 + j as u64);
            let mut rows = vec![normal(&mut numbers, vocab, 2.5)];
            rows[0][1000..1040].iter_mut().for_each(|x| *x += peak);
            let request = Request { params: params.clone().validated().unwrap(), seed: 1 << 40, position: 7, rows };
            let batch = Batch { units: 32, ..Batch::new(logits, vocab, vec![request]) };
            let bytes = check(ARCHITECTURES[(i + j) % 2], &batch);
            let times = bytes as f64 / (vocab * if i == 0 { 4 } else { 2 }) as f64;
            assert!(times <= *most, "{logits:?} {params:?}: the row is read {times:.3} times, at most {most} expected");
        }
    }
}

fn read_f32(memory: &Memory, buffer: gfxsim::Buffer) -> Vec<f32> {
    memory.bytes(buffer).as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

/// Both are rounded to f32 from f64.
fn near(a: f32, b: f32) -> bool {
    a == b || (a - b).abs() <= 2.0 * f32::EPSILON * a.abs().max(1e-6)
}

/// On request: p of children, the log-probability of the token and of the most likely.
#[test]
fn probabilities_and_log_probabilities_equal_the_crates() {
    let top = 11;
    for (i, logits) in TYPES.into_iter().enumerate() {
        for raw in [false, true] {
            let (arch, vocab) = (ARCHITECTURES[(i + usize::from(raw)) % 2], 1531);
            let mut numbers = Numbers(i as u64);
            let mut requests = requests(&mut numbers, vocab, vocab);
            requests.retain(|_| numbers.below(5) == 0);
            requests.extend(faulty(&mut numbers, vocab));
            let batch = Batch { totals: true, raw, ..Batch::new(logits, vocab, requests) };
            let mut memory = Memory::new();
            let (rows, _) = batch.upload(&mut memory);
            let n = rows.rows as usize;
            let children: Vec<Vec<i32>> =
                (0..n).map(|_| (0..numbers.below(7)).map(|_| numbers.below(vocab) as i32).collect()).collect();
            let mut offsets = vec![0];
            children.iter().for_each(|ids| offsets.push(offsets.last().unwrap() + ids.len() as i32));
            let mut reserve = |name, words: usize| memory.reserve(name, 4 * words);
            let probabilities = reserve("probabilities", children.concat().len());
            let (tokens, status, of_token) = (reserve("tokens", n), reserve("status", n), reserve("of_token", n));
            let (top_ids, top_logprobs) = (reserve("top_ids", n * top), reserve("top_logprobs", n * top));
            let arguments = TargetTokensArgs {
                rows,
                tokens: tokens.address(),
                status: status.address(),
                child_offsets: input(&mut memory, "child_offsets", &offsets).address(),
                child_ids: input(&mut memory, "child_ids", &children.concat()).address(),
                child_probabilities: probabilities.address(),
                token_logprobs: of_token.address(),
                top_ids: top_ids.address(),
                top_logprobs: top_logprobs.address(),
                top: top as i32,
                raw: raw.into(),
            };
            let plan = Plan::new(logits, &arguments).unwrap();
            run(arch, &plan.passes, &rows, &arguments, &mut memory).unwrap_or_else(|fault| panic!("{fault}"));
            let (tokens, top_ids) = (read_i32(&memory, tokens), read_i32(&memory, top_ids));
            let [of_token, top_logprobs, probabilities] =
                [of_token, top_logprobs, probabilities].map(|buffer| read_f32(&memory, buffer));

            let mode = if raw { LogprobsMode::Raw } else { LogprobsMode::Processed };
            let expected = ask(&batch, |rows, row| {
                let token = rows.token(row).ok()?;
                let logprobs = rows.logprobs(row, token, top, mode).unwrap();
                let row = rows.row(row).unwrap();
                Some((token, logprobs, (0..vocab as u32).map(|id| row.get(id) as f32).collect::<Vec<_>>()))
            });
            for (row, expected) in expected.into_iter().enumerate() {
                let (ids, logs) = (&top_ids[row * top..][..top], &top_logprobs[row * top..][..top]);
                let p = &probabilities[offsets[row] as usize..offsets[row + 1] as usize];
                let Some((token, logprobs, law)) = expected.flatten() else {
                    assert!(tokens[row] == -1 && of_token[row] == f32::NEG_INFINITY && p.iter().all(|&p| p == 0.0));
                    assert!(ids.iter().all(|&id| id == -1) && logs.iter().all(|&log| log == f32::NEG_INFINITY));
                    continue;
                };
                assert_eq!(tokens[row], token as i32);
                assert!(near(of_token[row], logprobs.token), "row {row}: {} {}", of_token[row], logprobs.token);
                for (place, (&id, &log)) in ids.iter().zip(logs).enumerate() {
                    let (also, exact) = logprobs.top.get(place).map_or((-1, f32::NEG_INFINITY), |t| (t.0 as i32, t.1));
                    assert_eq!(id, also, "row {row}, place {place}");
                    assert!(near(log, exact), "row {row}, place {place}: {log} {exact}");
                }
                for (&id, &p) in children[row].iter().zip(p) {
                    assert!(near(p, law[id as usize]), "row {row}, id {id}: {p} {}", law[id as usize]);
                }
            }
        }
    }
}

#[test]
fn a_plan_names_the_argument_that_is_out_of_range() {
    let mut memory = Memory::new();
    let request = Request { params: SamplingParams::default(), seed: 0, position: 0, rows: vec![vec![0.0; 100]] };
    let (rows, _) = Batch::new(TYPES[0], 100, vec![request]).upload(&mut memory);
    let good = TargetTokensArgs { rows, tokens: 256, status: 512, ..TargetTokensArgs::default() };
    assert_eq!(Plan::new(TYPES[0], &good).unwrap().passes.len(), 2);
    type Change = fn(&mut TargetTokensArgs);
    let refused: [(&str, Change); 12] = [
        ("vocab", |a| a.rows.vocab = 262_145),
        ("parts", |a| a.rows.parts = 65),
        ("part_groups", |a| a.rows.part_groups = 1),
        ("rows", |a| a.rows.rows = 65_536),
        ("logits", |a| a.rows.logits += 2),
        ("maxima", |a| a.rows.maxima = 0),
        ("cuts", |a| a.rows.top_k = 4),
        ("bin_masses", |a| (a.rows.top_p, a.rows.cuts) = (4, 8)),
        ("bias_offsets", |a| (a.rows.bias_ids, a.rows.bias_values) = (4, 4)),
        ("totals", |a| a.child_offsets = 4),
        ("raw_maxima", |a| (a.raw, a.token_logprobs) = (1, 4)),
        ("top", |a| a.top = 65),
    ];
    for (name, change) in refused {
        let mut arguments = good;
        change(&mut arguments);
        let message = Plan::new(TYPES[0], &arguments).unwrap_err().to_string();
        assert!(message.starts_with(&format!("{name} is ")), "{name}: {message}");
    }
}
