//! The children that a drafter's rows give on the device against those of the crate: the same tokens with the same scores.

mod common;

use common::logits::{Batch, Elements, Request, TYPES, faulty, requests, run, status_of};
use common::{ARCHITECTURES, Numbers, read_i32};
use gfxsim::{Buffer, Memory};
use specverify::SamplingParams;
use specverify::couple::{Children, Drafting, coupled_children};
use specverify_hip::abi::{Arguments, CoupledChildrenArgs};
use specverify_hip::coupled_children::Plan;

/// Of every row the children, or a status.
fn expected(batch: &Batch, places: usize, target_ids: Option<&[u32]>) -> Vec<Result<Children, i32>> {
    let of_row = |&row: &Option<(usize, usize)>| {
        let (b, row) = row.ok_or(4)?;
        let request = &batch.requests[b];
        let elements = Elements::of(batch.logits, &request.rows[row]);
        let drafting = Drafting {
            params: &request.params,
            seed: request.seed,
            position: request.position + row as u32,
            prompt: &[],
            output: &[],
            path: &[],
            stop_token_ids: &[],
            target_ids,
        };
        coupled_children(elements.matrix(1, batch.width, batch.width), places, &drafting)
            .map_err(|error| status_of(&error))
    };
    batch.rows().iter().map(of_row).collect()
}

/// A batch in memory: the arguments, and the buffers of tokens, scores and statuses.
fn upload(batch: &Batch, places: usize, memory: &mut Memory) -> (CoupledChildrenArgs, [Buffer; 3]) {
    let (rows, _) = batch.upload(memory);
    let n = rows.rows as usize;
    let mut reserve = |name, words: usize| memory.reserve(name, 4 * words);
    let (tokens, scores, status) = (reserve("tokens", n * places), reserve("scores", n * places), reserve("status", n));
    let arguments = CoupledChildrenArgs {
        rows,
        tokens: tokens.address(),
        scores: scores.address(),
        status: status.address(),
        places: places as i32,
        reserved: 0,
    };
    (arguments, [tokens, scores, status])
}

fn launched(
    arch: &str,
    batch: &Batch,
    arguments: &CoupledChildrenArgs,
    buffers: [Buffer; 3],
    memory: &mut Memory,
) -> Vec<Result<Children, i32>> {
    let plan = Plan::new(batch.logits, arguments).unwrap();
    run(arch, &plan.passes, &arguments.rows, arguments, memory).unwrap_or_else(|fault| panic!("{fault}"));
    let [tokens, scores, status] = buffers.map(|buffer| read_i32(memory, buffer));
    let (n, places) = (status.len(), arguments.places as usize);
    let of_row = |row: usize| {
        let (tokens, scores) = (&tokens[row * places..][..places], &scores[row * places..][..places]);
        let filled = tokens.iter().take_while(|&&token| token >= 0).count();
        let score = |&bits: &i32| f32::from_bits(bits as u32);
        assert!(tokens[filled..].iter().all(|&token| token == -1));
        assert!(scores[filled..].iter().all(|bits| score(bits) == f32::NEG_INFINITY));
        if status[row] != 0 {
            assert_eq!(filled, 0);
            return Err(status[row]);
        }
        Ok(Children {
            tokens: tokens[..filled].iter().map(|&token| token as u32).collect(),
            scores: scores[..filled].iter().map(score).collect(),
        })
    };
    (0..n).map(of_row).collect()
}

fn check(arch: &str, batch: &Batch, places: usize, target_ids: Option<&[u32]>) {
    let mut memory = Memory::new();
    let (arguments, buffers) = upload(batch, places, &mut memory);
    let got = launched(arch, batch, &arguments, buffers, &mut memory);
    let expected = expected(batch, places, target_ids);
    for (i, row) in batch.rows().iter().enumerate() {
        let told = row.map(|(b, row)| (row, &batch.requests[b].params));
        assert_eq!(got[i], expected[i], "row {i}, {places} places, {arch}, {:?} {told:?}", batch.logits);
    }
}

#[test]
fn children_and_scores_equal_the_crates() {
    for (i, arch) in ARCHITECTURES.into_iter().enumerate() {
        for (j, logits) in TYPES.into_iter().enumerate() {
            for (k, (vocab, places)) in [(1531, 8), (70, 64), (5003, 33), (400, 1)].into_iter().enumerate() {
                let mut numbers = Numbers((i + 2 * j) as u64);
                let mut requests = requests(&mut numbers, vocab, vocab);
                requests.retain(|_| numbers.below(8) == 0);
                if k == 0 {
                    requests.extend(faulty(&mut numbers, vocab));
                }
                check(arch, &Batch { stride: vocab + k, ..Batch::new(logits, vocab, requests) }, places, None);
            }
        }
    }
}

/// A drafter with a vocabulary of its own: noise, bias and mask go by the target's ids.
#[test]
fn children_are_ids_of_the_target() {
    for (i, logits) in TYPES.into_iter().enumerate() {
        let (width, vocab) = (501, 1403);
        let mut numbers = Numbers(77);
        // Distinct, in no order; the last of the target's is among them.
        let mut target_ids: Vec<u32> = (0..width as u32).map(|column| 1 + column * 2801 % 1402).collect();
        target_ids[3] = vocab as u32 - 1;
        target_ids.sort_unstable();
        target_ids.dedup();
        let width = target_ids.len();
        for at in (1..width).rev() {
            target_ids.swap(at, numbers.below(at + 1));
        }
        let mut columns = vec![-1; vocab];
        target_ids.iter().enumerate().for_each(|(column, &id)| columns[id as usize] = column as i32);
        let mut requests = requests(&mut numbers, width, vocab);
        requests.retain(|_| numbers.below(6) == 0);
        let batch = Batch { width, stride: width + 1, columns: Some(columns), ..Batch::new(logits, vocab, requests) };
        check(ARCHITECTURES[i % 2], &batch, 8, Some(&target_ids));
    }
}

/// A captured launch: the same arguments while rows, requests and all their parameters change on the device. What the launch before left in
/// the workspace and in the results is there.
#[test]
fn a_captured_launch_serves_whatever_the_device_holds() {
    for (i, logits) in TYPES.into_iter().enumerate() {
        let arch = ARCHITECTURES[1 - i % 2];
        let mut numbers = Numbers(50 + i as u64);
        let mut requests = requests(&mut numbers, 700, 700);
        requests.retain(|_| numbers.below(8) == 0);
        let backwards = requests.iter().rev().cloned().collect();
        let batches = [requests, backwards].map(|requests| Batch::new(logits, 700, requests));
        assert_ne!(batches[0].rows(), batches[1].rows());
        let mut memory = Memory::new();
        let (captured, buffers) = upload(&batches[0], 9, &mut memory);
        for batch in [&batches[0], &batches[1], &batches[0]] {
            let mut wanted = Memory::new();
            assert_eq!(upload(batch, 9, &mut wanted).0.bytes(), captured.bytes());
            memory.refill(&wanted);
            assert_eq!(launched(arch, batch, &captured, buffers, &mut memory), expected(batch, 9, None));
        }
    }
}

/// No rows, and rows of no request alone.
#[test]
fn a_batch_without_rows() {
    for arch in ARCHITECTURES {
        for logits in TYPES {
            let request = |rows| Request { params: SamplingParams::default(), seed: 0, position: 0, rows };
            check(arch, &Batch::new(logits, 300, vec![request(vec![]), request(vec![]), request(vec![])]), 3, None);
            let none = Batch::new(logits, 300, vec![request(vec![])]);
            let (arguments, _) = upload(&none, 3, &mut Memory::new());
            let plan = Plan::new(logits, &arguments).unwrap();
            assert!(plan.passes.iter().all(|pass| pass.geometry.grid.contains(&0)), "nothing is launched");
        }
    }
}
