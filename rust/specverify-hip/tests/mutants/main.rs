//! Do the proofs notice a missing wait? Each `s_waitcnt` and `s_barrier` of the shipped assembly is left out in turn; a mutant is caught when the
//! simulator faults or the result differs. `make mutate` runs all of them, `cargo test` one variant of each kernel.

#[path = "../common/mod.rs"]
mod common;
#[path = "../kv_compact/problem.rs"]
#[allow(dead_code, reason = "its own tests use the rest")]
mod kv_compact;
mod logit_rows;
mod mla_reduce;
#[path = "../mla_tree_attention/problem.rs"]
#[allow(dead_code, reason = "its own tests use the rest")]
mod mla_tree_attention;
mod survey;
#[path = "../tree_attention/problem.rs"]
#[allow(dead_code, reason = "its own tests use the rest")]
mod tree_attention;
#[path = "../tree_walk/problem.rs"]
#[allow(dead_code, reason = "its own tests use the rest")]
mod tree_walk;

use common::program;
use specverify_hip::kernels::CODE_OBJECTS;
use survey::Inputs::{self, Many, One};
use survey::{Subject, check, survey_all};

/// Kernels by the beginning of their names (the first that fits), what runs them, and which variant `cargo test` looks at.
const KERNELS: [(&str, Inputs, &str); 13] = [
    ("mla_tree_attention_reduce", Many(mla_reduce::cases), "bf16"),
    ("mla_tree_attention", One(mla_tree_attention::mutant_run), "bf16_bf16"),
    ("tree_attention_reduce", One(tree_attention::mutant_run), "bf16_d128"),
    ("tree_attention", One(tree_attention::mutant_run), "bf16_bf16_d128"),
    ("tree_walk", One(tree_walk::mutant_run), ""),
    ("kv_compact", One(kv_compact::mutant_run), "16"),
    ("kv_move", One(kv_compact::mutant_run), "16"),
    ("row_maxima", Many(logit_rows::cases), "bf16"),
    ("row_masses", Many(logit_rows::cases), "bf16"),
    ("row_cuts", Many(logit_rows::cases), "bf16"),
    ("target_tokens", Many(logit_rows::cases), "bf16"),
    ("target_logprobs", Many(logit_rows::cases), "bf16"),
    ("coupled_children", Many(logit_rows::cases), "bf16"),
];

fn subjects() -> Vec<(Subject, bool)> {
    let mut found = Vec::new();
    for object in CODE_OBJECTS {
        for kernel in program(object.source, object.arch).kernels() {
            let (prefix, inputs, variant) = KERNELS
                .into_iter()
                .find(|(prefix, ..)| kernel.starts_with(prefix))
                .unwrap_or_else(|| panic!("no inputs for the mutants of {kernel}"));
            let in_test = kernel[prefix.len()..].trim_start_matches('_') == variant;
            found.push((Subject { source: object.source, arch: object.arch, kernel, inputs }, in_test));
        }
    }
    found
}

#[test]
fn a_variant_of_each_kernel() {
    let chosen: Vec<_> = subjects().into_iter().filter(|(_, in_test)| *in_test).map(|(subject, _)| subject).collect();
    assert_eq!(chosen.len(), 2 * KERNELS.len());
    check(&survey_all(&chosen, |_, survey| eprintln!("{survey}")));
}

/// The compiler forgot no wait: on no path, taken by some test or not, does an instruction touch a register that a load may be under way
/// to, or a wave reach a barrier before its accesses end.
#[test]
fn no_path_of_any_kernel_lacks_a_wait() {
    let mut found = Vec::new();
    for (subject, _) in subjects() {
        let hazards = program(subject.source, subject.arch).hazards(subject.kernel).unwrap();
        found.extend(hazards.into_iter().map(|hazard| (subject.arch, subject.kernel, hazard)));
    }
    assert!(found.is_empty(), "{found:?}");
}

#[test]
#[ignore = "make mutate"]
fn all() {
    let all: Vec<_> = subjects().into_iter().map(|(subject, _)| subject).collect();
    check(&survey_all(&all, |ended, survey| eprintln!("[{ended}/{}] {survey}", all.len())));
}
