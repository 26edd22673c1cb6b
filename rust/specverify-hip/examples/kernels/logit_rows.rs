//! Passes of the kernels over rows of logits.

use gfxsim::Memory;
use specverify::SamplingParams;
use specverify_hip::abi::{CoupledChildrenArgs, TargetTokensArgs};
use specverify_hip::logit_rows::{Logits, Pass};
use specverify_hip::{coupled_children, target_tokens};

use crate::common::logits::{Batch, Request, normal};
use crate::common::{Numbers, launch, program};

/// Ids of a row: Qwen's vocabulary.
const VOCAB: usize = 151_936;
/// Children that `coupled_children` is asked for, and log-probabilities of a row.
const PLACES: usize = 8;

/// What [`counted`] says of a kernel.
pub const COLUMNS: &[&str] = &["unfiltered", "top_p", "conflicts"];

/// Bytes of logits that each kernel asked for, over those of the rows, and its LDS conflicts.
fn passes(arch: &'static str, logits: Logits, top_p: f32, children: bool) -> Vec<(&'static str, f64, u64)> {
    let mut numbers = Numbers(5);
    let params = SamplingParams { top_p, ..SamplingParams::default() }.validated().unwrap();
    let rows = (0..2).map(|_| normal(&mut numbers, VOCAB, 3.0)).collect();
    let batch = Batch {
        totals: !children && top_p < 1.0,
        ..Batch::new(logits, VOCAB, vec![Request { params, seed: 1, position: 7, rows }])
    };
    let mut memory = Memory::new();
    let (rows, buffer) = batch.upload(&mut memory);
    let n = rows.rows as usize;
    let mut reserve = |name, words: usize| memory.reserve(name, 4 * words).address();
    let (tokens, status) = (reserve("tokens", n * PLACES), reserve("status", n));
    let mut found = Vec::new();
    let mut run = |pass: &Pass, memory: &mut Memory, coupled: &CoupledChildrenArgs, target: &TargetTokensArgs| {
        let before = memory.traffic(buffer).requested_read;
        let (program, grid, block) = (program(pass.source, arch), pass.geometry.grid, pass.geometry.block);
        let report = if pass.kernel.starts_with("row_") {
            launch(program, pass.kernel, grid, block, &rows, memory)
        } else if children {
            launch(program, pass.kernel, grid, block, coupled, memory)
        } else {
            launch(program, pass.kernel, grid, block, target, memory)
        };
        let conflicts = report.unwrap_or_else(|fault| panic!("{}: {fault}", pass.kernel)).lds_conflict_cycles;
        let size = if logits == Logits::F32 { 4 } else { 2 };
        let read = memory.traffic(buffer).requested_read - before;
        found.push((pass.kernel, read as f64 / (n * VOCAB * size) as f64, conflicts));
    };
    let mut target = TargetTokensArgs { rows, tokens, status, ..TargetTokensArgs::default() };
    let coupled = CoupledChildrenArgs {
        rows,
        tokens,
        scores: reserve("scores", n * PLACES),
        status,
        places: PLACES as i32,
        reserved: 0,
    };
    if !children && batch.totals {
        target.token_logprobs = reserve("token_logprobs", n);
        target.top_ids = reserve("top_ids", n * PLACES);
        target.top_logprobs = reserve("top_logprobs", n * PLACES);
        target.top = PLACES as i32;
    }
    let plan = if children {
        coupled_children::Plan::new(logits, &coupled).unwrap().passes
    } else {
        target_tokens::Plan::new(logits, &target).unwrap().passes
    };
    plan.iter().for_each(|pass| run(pass, &mut memory, &coupled, &target));
    found
}

/// Passes over a row without filters and with top_p, and bank conflicts in both, for a kernel of any element type.
pub fn counted(arch: &'static str, kernel: &str) -> Vec<String> {
    let logits = match kernel.rsplit('_').next() {
        Some("f32") => Logits::F32,
        Some("bf16") => Logits::Bf16,
        _ => Logits::F16,
    };
    let mut conflicts = 0;
    let mut columns: Vec<_> = [1.0, 0.9]
        .map(|top_p| {
            let found = passes(arch, logits, top_p, kernel.starts_with("coupled"));
            let one = found.into_iter().find(|(name, ..)| *name == kernel);
            conflicts += one.map_or(0, |(.., conflicts)| conflicts);
            one.map_or("-".to_owned(), |(_, share, _)| format!("{share:.4}"))
        })
        .into();
    columns.push(conflicts.to_string());
    columns
}
