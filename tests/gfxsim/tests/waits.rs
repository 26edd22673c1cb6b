//! What the dataflow over a kernel's text must find and must not.

mod common;

use common::text;
use gfxsim::{Hazard, Program, Redundant};

/// The kernel, and the last line that is a piece of its text.
fn kernel(body: &str) -> (Program, impl Fn(&str) -> usize + use<>) {
    let text = text("gfx942", 512, body);
    (Program::parse(&text).unwrap(), move |piece: &str| {
        text.lines().collect::<Vec<_>>().iter().rposition(|line| *line == piece).unwrap() + 1
    })
}

const LOAD: &str = "v_lshlrev_b32_e32 v1, 2, v0\nglobal_load_dword v2, v1, s[4:5]";

#[test]
fn a_wait_that_one_of_two_paths_lacks() {
    // A run sees one of the paths.
    let (program, line) = kernel(&format!(
        "{LOAD}\ns_cmp_eq_u32 s4, 0\ns_cbranch_scc1 .L1\ns_waitcnt vmcnt(0)\n.L1:\nv_add_u32_e32 v3, v2, v2\ns_endpgm"
    ));
    let expected =
        Hazard::Register { line: line("v_add_u32_e32 v3, v2, v2"), load: line("global_load_dword v2, v1, s[4:5]") };
    assert_eq!(program.hazards("k").unwrap().into_iter().collect::<Vec<_>>(), [expected]);
    assert_eq!(program.redundant("k", line("s_waitcnt vmcnt(0)")).unwrap(), None);
}

#[test]
fn a_wait_for_some_of_the_loads() {
    for (left, safe) in [(0, true), (1, true), (2, false)] {
        let wait = format!("s_waitcnt vmcnt({left})");
        let (program, line) =
            kernel(&format!("{LOAD}\nglobal_load_dword v4, v1, s[4:5]\n{wait}\nv_mov_b32_e32 v3, v2\ns_endpgm"));
        assert_eq!(program.hazards("k").unwrap().is_empty(), safe, "{left}");
        let redundant = program.redundant("k", line(&wait)).unwrap();
        assert_eq!(redundant, (!safe).then_some(Redundant::NothingLeft), "{left}");
    }
}

#[test]
fn scalar_and_flat_loads_answer_in_any_order() {
    for (left, safe) in [(0, true), (1, false)] {
        let (program, _) = kernel(&format!(
            "s_load_dword s8, s[4:5], 0x0\ns_load_dword s9, s[4:5], 0x4\ns_waitcnt lgkmcnt({left})\ns_mov_b32 s10, s8\ns_endpgm"
        ));
        assert_eq!(program.hazards("k").unwrap().is_empty(), safe, "{left}");
    }
    for (wait, safe) in [("vmcnt(0) lgkmcnt(0)", true), ("vmcnt(0)", false), ("lgkmcnt(0)", false)] {
        let (program, _) =
            kernel(&format!("flat_load_dword v2, v[4:5]\ns_waitcnt {wait}\nv_mov_b32_e32 v3, v2\ns_endpgm"));
        assert_eq!(program.hazards("k").unwrap().is_empty(), safe, "{wait}");
    }
}

#[test]
fn a_loop_brings_a_load_back_to_its_beginning() {
    let (program, line) = kernel(&format!(
        "v_mov_b32_e32 v2, 0\n.L1:\nv_mov_b32_e32 v3, v2\n{LOAD}\ns_cmp_eq_u32 s4, 0\ns_cbranch_scc1 .L1\ns_endpgm"
    ));
    let expected =
        Hazard::Register { line: line("v_mov_b32_e32 v3, v2"), load: line("global_load_dword v2, v1, s[4:5]") };
    assert_eq!(program.hazards("k").unwrap().into_iter().collect::<Vec<_>>(), [expected]);
}

/// A branch that is taken when no lane runs is not taken where one does.
#[test]
fn lanes_that_run() {
    let body = |masked: &str| {
        format!("{LOAD}\n{masked}\ns_cbranch_execz .L1\ns_waitcnt vmcnt(0)\n.L1:\nv_mov_b32_e32 v3, v2\ns_endpgm")
    };
    assert!(kernel(&body("")).0.hazards("k").unwrap().is_empty());
    assert!(kernel(&body("s_or_b64 exec, exec, s[8:9]")).0.hazards("k").unwrap().is_empty());
    assert!(!kernel(&body("s_and_saveexec_b64 s[8:9], vcc")).0.hazards("k").unwrap().is_empty());
}

#[test]
fn waits_that_may_go() {
    let (program, line) = kernel(&format!(
        "{LOAD}\ns_waitcnt vmcnt(0)\ns_nop 0\ns_waitcnt vmcnt(0) lgkmcnt(0)\nv_mov_b32_e32 v3, v2\ns_barrier\ns_endpgm"
    ));
    assert_eq!(program.redundant("k", line("s_waitcnt vmcnt(0)")).unwrap(), Some(Redundant::Covered));
    let second = program.redundant("k", line("s_waitcnt vmcnt(0) lgkmcnt(0)")).unwrap();
    assert_eq!(second, Some(Redundant::NothingLeft));
}

#[test]
fn lds_accesses_before_a_barrier() {
    let (program, line) =
        kernel("v_lshlrev_b32_e32 v1, 2, v0\nds_write_b32 v1, v0\ns_waitcnt lgkmcnt(0)\ns_barrier\ns_endpgm");
    let wait = line("s_waitcnt lgkmcnt(0)");
    assert!(program.hazards("k").unwrap().is_empty());
    assert_eq!(program.redundant("k", wait).unwrap(), None);
    let expected = Hazard::Barrier { line: line("s_barrier"), access: line("ds_write_b32 v1, v0") };
    assert_eq!(program.without(wait).unwrap().hazards("k").unwrap().into_iter().collect::<Vec<_>>(), [expected]);
}
