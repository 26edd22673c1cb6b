//! What the mutants of the kernels of logit rows run on.

use gfxsim::{Fault, Memory, Program};
use specverify::SamplingParams;
use specverify_hip::abi::{Arguments, CoupledChildrenArgs, LogitRowsArgs, TargetTokensArgs};
use specverify_hip::logit_rows::{Logits, Pass};
use specverify_hip::{coupled_children, target_tokens};

use crate::common::logits::{Batch, Request, normal, parameters, shapes};
use crate::common::{Numbers, input, launch, program as shipped};

const VOCAB: usize = 700;
const PLACES: usize = 5;
const TOP: usize = 3;

/// Runs the passes of a plan: one of them by the program, the others as they are shipped.
fn run<A: Arguments>(
    mutant: (&Program, &str),
    passes: &[Pass],
    rows: &LogitRowsArgs,
    arguments: &A,
    memory: &mut Memory,
) -> Result<(), Fault> {
    for pass in passes {
        let (program, kernel) = mutant;
        let program = if pass.kernel == kernel { program } else { shipped(pass.source, program.arch()) };
        let (grid, block) = (pass.geometry.grid, pass.geometry.block);
        if pass.kernel.starts_with("row_") {
            launch(program, pass.kernel, grid, block, rows, memory)?;
        } else {
            launch(program, pass.kernel, grid, block, arguments, memory)?;
        }
    }
    Ok(())
}

/// A row or two under parameters of every kind, crowded cuts among them; with log-probabilities raw and processed, and children.
pub fn mutant_run(program: &Program, kernel: &str) -> Result<Vec<u8>, Fault> {
    let logits = match kernel {
        kernel if kernel.ends_with("_bf16") => Logits::Bf16,
        kernel if kernel.ends_with("_f16") => Logits::F16,
        _ => Logits::F32,
    };
    let mut numbers = Numbers(3);
    let mut requests: Vec<Request> = parameters(&mut numbers, VOCAB)
        .into_iter()
        .enumerate()
        .filter(|(i, _)| i % 2 == 0)
        .map(|(i, params)| Request {
            params: params.validated().unwrap(),
            seed: 1 << 40 | i as u64,
            position: 7,
            rows: vec![shapes(&mut numbers, VOCAB).swap_remove(i % 9)],
        })
        .collect();
    let crowded = SamplingParams { top_k: 200, top_p: 0.7, ..SamplingParams::default() };
    requests.push(Request {
        params: crowded.validated().unwrap(),
        seed: 2,
        position: 9,
        rows: vec![normal(&mut numbers, VOCAB, 0.003)],
    });
    let coupled = kernel.starts_with("coupled");
    let mut bytes = Vec::new();
    for raw in [false, true] {
        let batch = Batch {
            units: 4 * requests.len() as u32,
            totals: true,
            raw,
            ..Batch::new(logits, VOCAB, requests.clone())
        };
        let mut memory = Memory::new();
        let (rows, _) = batch.upload(&mut memory);
        let n = rows.rows as usize;
        let mut results = Vec::new();
        let mut reserve = |memory: &mut Memory, name, words: usize| {
            let buffer = memory.reserve(name, 4 * words);
            results.push(buffer);
            buffer.address()
        };
        let (tokens, status) = (reserve(&mut memory, "tokens", n * PLACES), reserve(&mut memory, "status", n));
        if coupled {
            let scores = reserve(&mut memory, "scores", n * PLACES);
            let a = CoupledChildrenArgs { rows, tokens, scores, status, places: PLACES as i32, reserved: 0 };
            let plan = coupled_children::Plan::new(logits, &a).unwrap();
            run((program, kernel), &plan.passes, &rows, &a, &mut memory)?;
        } else {
            let offsets: Vec<i32> = (0..=n as i32).map(|row| 2 * row).collect();
            let ids: Vec<i32> = (0..2 * n).map(|_| numbers.below(VOCAB) as i32).collect();
            let a = TargetTokensArgs {
                rows,
                tokens,
                status,
                child_offsets: input(&mut memory, "child_offsets", &offsets).address(),
                child_ids: input(&mut memory, "child_ids", &ids).address(),
                child_probabilities: reserve(&mut memory, "child_probabilities", 2 * n),
                token_logprobs: reserve(&mut memory, "token_logprobs", n),
                top_ids: reserve(&mut memory, "top_ids", n * TOP),
                top_logprobs: reserve(&mut memory, "top_logprobs", n * TOP),
                top: TOP as i32,
                raw: raw.into(),
            };
            let plan = target_tokens::Plan::new(logits, &a).unwrap();
            run((program, kernel), &plan.passes, &rows, &a, &mut memory)?;
        }
        results.iter().for_each(|&buffer| bytes.extend(memory.bytes(buffer)));
        if coupled {
            break;
        }
    }
    Ok(bytes)
}
