//! What the mutants of the kernels of logit rows run on.

use std::ops::Range;

use gfxsim::Memory;
use specverify::SamplingParams;
use specverify_hip::abi::{Arguments, CoupledChildrenArgs, LogitRowsArgs, TargetTokensArgs};
use specverify_hip::logit_rows::{Logits, Pass};
use specverify_hip::{coupled_children, target_tokens};

use crate::common::logits::{Batch, Request, faulty, normal, parameters, shapes};
use crate::common::{Numbers, input, launch, program as shipped};
use crate::survey::Case;

const PLACES: usize = 5;
const TOP: usize = 3;

/// The kernel alone, on what the shipped passes before it leave behind.
fn case<A: Arguments + 'static>(
    arch: &'static str,
    kernel: &str,
    passes: &[Pass],
    rows: LogitRowsArgs,
    arguments: A,
    mut memory: Memory,
) -> Option<Case> {
    let run = move |pass: &Pass, program: &_, memory: &mut Memory| {
        let (grid, block) = (pass.geometry.grid, pass.geometry.block);
        if pass.kernel.starts_with("row_") {
            launch(program, pass.kernel, grid, block, &rows, memory)
        } else {
            launch(program, pass.kernel, grid, block, &arguments, memory)
        }
    };
    let at = passes.iter().position(|pass| pass.kernel == kernel)?;
    for pass in &passes[..at] {
        run(pass, shipped(pass.source, arch), &mut memory).unwrap();
    }
    let pass = passes[at];
    Some(Box::new(move |program| {
        let mut memory = memory.clone();
        run(&pass, program, &mut memory)?;
        Ok(memory.writable())
    }))
}

/// A batch with children and log-probabilities; or with the first finishers of its rows.
fn case_of(arch: &'static str, kernel: &str, batch: &Batch, numbers: &mut Numbers) -> Option<Case> {
    let mut memory = Memory::new();
    let (rows, _) = batch.upload(&mut memory);
    let n = rows.rows as usize;
    let reserve = |memory: &mut Memory, name, words: usize| memory.reserve(name, 4 * words).address();
    let (tokens, status) = (reserve(&mut memory, "tokens", n * PLACES), reserve(&mut memory, "status", n));
    if kernel.starts_with("coupled") {
        let scores = reserve(&mut memory, "scores", n * PLACES);
        let a = CoupledChildrenArgs { rows, tokens, scores, status, places: PLACES as i32, reserved: 0 };
        let plan = coupled_children::Plan::new(batch.logits, &a).unwrap();
        return case(arch, kernel, &plan.passes, rows, a, memory);
    }
    let mut a = TargetTokensArgs { rows, tokens, status, raw: batch.raw.into(), ..TargetTokensArgs::default() };
    if batch.totals {
        // More children than waves; none; ids past the end.
        let mut offsets = vec![0];
        (0..n as i32).for_each(|row| offsets.push(offsets[row as usize] + [0, 1, 20][row as usize % 3]));
        let ids: Vec<i32> = (0..offsets[n]).map(|_| numbers.below(batch.vocab + 5) as i32).collect();
        a.child_offsets = input(&mut memory, "child_offsets", &offsets).address();
        a.child_ids = input(&mut memory, "child_ids", &ids).address();
        a.child_probabilities = reserve(&mut memory, "child_probabilities", ids.len());
    }
    if batch.totals || batch.raw {
        a.token_logprobs = reserve(&mut memory, "token_logprobs", n);
        a.top_ids = reserve(&mut memory, "top_ids", n * TOP);
        a.top_logprobs = reserve(&mut memory, "top_logprobs", n * TOP);
        a.top = TOP as i32;
    }
    let plan = target_tokens::Plan::new(batch.logits, &a).unwrap();
    case(arch, kernel, &plan.passes, rows, a, memory)
}

/// Every kind of row, parameter and fault; the small batches first.
pub fn cases(arch: &'static str, kernel: &str) -> Vec<Case> {
    let logits = match kernel {
        kernel if kernel.ends_with("_bf16") => Logits::Bf16,
        kernel if kernel.ends_with("_f16") => Logits::F16,
        _ => Logits::F32,
    };
    let mut numbers = Numbers(3);
    // Odd sizes: 16 bytes at a row's end are incomplete.
    let request = |params: &SamplingParams, position, rows| Request {
        params: params.clone().validated().unwrap(),
        seed: 1 << 40 | u64::from(position),
        position,
        rows,
    };
    let of = |top_k, top_p, min_p| SamplingParams { top_k, top_p, min_p, ..SamplingParams::default() };

    // Fewer ids than top_k have mass.
    let few = SamplingParams { temperature: 0.02, ..of(1500, 0.9, 0.0) };
    let mut some = |width: usize, vocab: usize| -> Vec<Request> {
        let params = parameters(&mut numbers, vocab).into_iter().enumerate().filter(|(i, _)| i % 2 == 0);
        let row = |(i, params): (usize, SamplingParams)| {
            request(&params, i as u32, vec![shapes(&mut numbers, width).swap_remove(i % 9)])
        };
        params.map(row).collect()
    };
    let edited = some(703, 703);
    let mapped = some(251, 401);
    // One of the two edits alone.
    let mut biased = some(65, 65);
    biased.iter_mut().for_each(|request| request.params.allowed_token_ids = None);
    let columns = (0..401).map(|id| if id % 8 < 5 { id / 8 * 5 + id % 8 } else { -1 }).collect();

    let free: Vec<_> =
        (0..2).map(|i| request(&SamplingParams::default(), i, vec![normal(&mut numbers, 5003, 3.0)])).collect();
    let mut long = |deviation| normal(&mut numbers, 9003, deviation);
    let plain = [of(0, 1.0, 0.0), of(70, 1.0, 0.0), of(0, 0.9, 0.0), of(1500, 0.95, 0.0), of(0, 1.0, 0.05)]
        .iter()
        .chain([&few])
        .zip(0..)
        .map(|(params, i)| request(params, i, vec![long(3.0)]))
        .collect();
    // More ids in a bin than are sorted at once, different and equal ones; as they are, edited, and out of columns.
    let close = normal(&mut numbers, 2603, 0.003);
    let tied: Vec<f32> = (0..2603).map(|id| f32::from(id % 6 > 0)).collect();
    let edits = SamplingParams {
        logit_bias: (0..52).map(|i| (50 * i + 1, if i % 9 == 8 { 0.5 } else { 0.0 })).collect(),
        allowed_token_ids: Some((0..2603).filter(|id| id % 100 > 0).collect()),
        ..SamplingParams::default()
    };
    let crowd = |base: &SamplingParams, some: Range<usize>| -> Vec<Request> {
        let laws = [(2000, 1.0, &close), (500, 1.0, &tied), (0, 0.4, &tied), (200, 0.7, &close), (500, 0.5, &tied)];
        let params = |&(top_k, top_p, _): &(_, _, _)| SamplingParams { top_k, top_p, ..base.clone() };
        laws[some].iter().map(|law| request(&params(law), 9, vec![law.2.clone()])).collect()
    };
    let reversed = (0..2603).rev().collect();

    let batch = |vocab, requests| Batch { totals: true, ..Batch::new(logits, vocab, requests) };
    let mut batches = [
        Batch { raw: true, ..batch(201, faulty(&mut numbers, 201)) },
        Batch { totals: false, raw: true, ..batch(5003, free) },
        batch(65, biased),
        Batch { raw: true, width: 251, columns: Some(columns), ..batch(401, mapped) },
        Batch { raw: true, allowed_by_row: true, ..batch(703, edited) },
        batch(9003, plain),
        Batch { units: 0, ..batch(2603, crowd(&SamplingParams::default(), 0..5)) },
        Batch { units: 0, ..batch(2603, crowd(&edits, 2..5)) },
        Batch { columns: Some(reversed), ..batch(2603, crowd(&SamplingParams::default(), 3..5)) },
    ];
    // Its mutants run long: most are caught by crowds.
    if kernel.starts_with("row_cuts") {
        batches.reverse();
    }
    batches.iter().filter_map(|batch| case_of(arch, kernel, batch, &mut numbers)).collect()
}
