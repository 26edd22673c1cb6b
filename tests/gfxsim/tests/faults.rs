//! What the simulator must refuse, each fault beside the same kernel without it.

mod common;

use common::{kernarg, launch, run, text};
use gfxsim::{Fault, Kind, Launch, Memory, Program};

const LDS: usize = 512;

/// A load, what stands between it and its use, and a store of twice the value.
fn load_and_use(between: &str) -> String {
    let body = format!(
        "v_lshlrev_b32_e32 v1, 2, v0\nglobal_load_dword v2, v1, s[4:5]\n{between}\nv_add_u32_e32 v3, v2, v2\n\
         global_store_dword v1, v3, s[6:7]\ns_endpgm"
    );
    text("gfx942", 0, &body)
}

/// Each work-item writes its number to LDS and reads that of the other wave's.
fn exchange(before: &str, barrier: &str) -> String {
    let body = format!(
        "v_lshlrev_b32_e32 v1, 2, v0\nds_write_b32 v1, v0\n{before}\n{barrier}\nv_xor_b32_e32 v2, 0x100, v1\nds_read_b32 v3, v2\n\
         s_waitcnt lgkmcnt(0)\nglobal_store_dword v1, v3, s[6:7]\ns_endpgm"
    );
    text("gfx950", LDS, &body)
}

fn fault(text: &str, waves: u32) -> Fault {
    run(text, waves, &[1; 256]).expect_err("a fault")
}

#[test]
fn a_register_used_before_its_wait() {
    let (_, out) = run(&load_and_use("s_waitcnt vmcnt(0)"), 1, &[21; 64]).unwrap();
    assert_eq!(out, [42; 64]);
    for missing in ["", "s_waitcnt vmcnt(1)", "s_waitcnt lgkmcnt(0)"] {
        let fault = fault(&load_and_use(missing), 1);
        assert_eq!(fault.kind, Kind::MissingWait { register: "v2".into() });
        let line = load_and_use(missing).lines().position(|line| line.starts_with("v_add_u32")).unwrap() + 1;
        assert_eq!(fault.line, line);
    }
}

#[test]
fn a_register_overwritten_while_a_load_into_it_is_under_way() {
    let fault = fault(&load_and_use("v_mov_b32_e32 v2, 0"), 1);
    assert_eq!(fault.kind, Kind::MissingWait { register: "v2".into() });
}

/// Loads of one kind answer in order: the halves of a wave may load into one register without a wait between them. Global memory and LDS do
/// not wait for each other.
#[test]
fn a_register_that_two_loads_fill() {
    let body = |second: &str, wait: &str| {
        text(
            "gfx942",
            256,
            &format!(
                "v_lshlrev_b32_e32 v1, 2, v0\nds_write_b32 v1, v0\ns_waitcnt lgkmcnt(0)\nv_cmp_gt_u32_e32 vcc, 32, v0\n\
                 s_and_saveexec_b64 s[8:9], vcc\nglobal_load_dword v2, v1, s[4:5]\ns_xor_b64 exec, exec, s[8:9]\n{second}\n\
                 s_or_b64 exec, exec, s[8:9]\n{wait}\nglobal_store_dword v1, v2, s[6:7]\ns_endpgm"
            ),
        )
    };
    let inputs: Vec<u32> = (0..64).map(|i| 100 + i).collect();
    let same = "global_load_dword v2, v1, s[4:5] offset:-128";
    let expected: Vec<u32> = (0..64).map(|i| 100 + i % 32).collect();
    assert_eq!(run(&body(same, "s_waitcnt vmcnt(0)"), 1, &inputs).unwrap().1, expected);
    for (second, wait) in [(same, "s_waitcnt vmcnt(1)"), ("ds_read_b32 v2, v1", "s_waitcnt vmcnt(0) lgkmcnt(0)")] {
        let fault = run(&body(second, wait), 1, &inputs).unwrap_err();
        assert_eq!(fault.kind, Kind::MissingWait { register: "v2".into() });
    }
}

/// lgkmcnt(1) says nothing of a scalar load: these answer in any order.
#[test]
fn scalar_loads_answer_in_any_order() {
    let body = |left: u32| {
        text(
            "gfx942",
            0,
            &format!(
                "s_load_dword s8, s[4:5], 0x0\ns_load_dword s9, s[4:5], 0x4\ns_waitcnt lgkmcnt({left})\nv_mov_b32_e32 v1, s8\n\
                 v_lshlrev_b32_e32 v2, 2, v0\nglobal_store_dword v2, v1, s[6:7]\ns_endpgm"
            ),
        )
    };
    assert_eq!(run(&body(0), 1, &[7, 8]).unwrap().1, [7; 64]);
    assert_eq!(fault(&body(1), 1).kind, Kind::MissingWait { register: "s8".into() });
}

/// The hardware does not know where a flat address leads: both counters count it.
#[test]
fn flat_loads_count_in_both_counters() {
    let body = |wait: &str| {
        text(
            "gfx942",
            0,
            &format!(
                "v_lshlrev_b32_e32 v1, 2, v0\nv_mov_b32_e32 v2, s4\nv_mov_b32_e32 v3, s5\nflat_load_dword v4, v[2:3]\n{wait}\n\
                 global_store_dword v1, v4, s[6:7]\ns_endpgm"
            ),
        )
    };
    assert_eq!(run(&body("s_waitcnt vmcnt(0) lgkmcnt(0)"), 1, &[7]).unwrap().1, [7; 64]);
    for wait in ["s_waitcnt vmcnt(0)", "s_waitcnt lgkmcnt(0)"] {
        assert_eq!(fault(&body(wait), 1).kind, Kind::MissingWait { register: "v4".into() });
    }
}

#[test]
fn lds_shared_without_a_barrier_or_without_the_wait_before_it() {
    let (_, out) = run(&exchange("s_waitcnt lgkmcnt(0)", "s_barrier"), 2, &[0]).unwrap();
    assert_eq!(out, (0..128_u32).map(|item| item ^ 64).collect::<Vec<_>>());
    for (before, barrier) in [("s_waitcnt lgkmcnt(0)", ""), ("", "s_barrier")] {
        // Without a barrier the first wave reads what nobody has written yet.
        let kind = fault(&exchange(before, barrier), 2).kind;
        assert!(matches!(kind, Kind::LdsRace { .. } | Kind::LdsUninitialised(_)), "{kind}");
    }
}

#[test]
fn lds_overwritten_while_another_wave_may_still_read_it() {
    let body = |barrier: &str| {
        text(
            "gfx942",
            256,
            &format!(
                "v_and_b32_e32 v1, 63, v0\nv_lshlrev_b32_e32 v1, 2, v1\nv_cmp_gt_u32_e32 vcc, 64, v0\ns_and_saveexec_b64 s[8:9], vcc\n\
                 ds_write_b32 v1, v0\ns_or_b64 exec, exec, s[8:9]\ns_waitcnt lgkmcnt(0)\ns_barrier\nds_read_b32 v3, v1\n\
                 s_waitcnt lgkmcnt(0)\n{barrier}\nv_cmp_lt_u32_e32 vcc, 63, v0\ns_and_saveexec_b64 s[8:9], vcc\nds_write_b32 v1, v0\n\
                 s_or_b64 exec, exec, s[8:9]\nv_lshlrev_b32_e32 v2, 2, v0\nglobal_store_dword v2, v3, s[6:7]\ns_endpgm"
            ),
        )
    };
    let (_, out) = run(&body("s_barrier"), 2, &[0]).unwrap();
    assert_eq!(out, (0..128_u32).map(|item| item % 64).collect::<Vec<_>>());
    assert!(matches!(fault(&body(""), 2).kind, Kind::LdsRace { did: "read", first: 0, second: 1, .. }));
}

/// Two waves add to one word, which is as it should be; a barrier, with the wait before it, must stand between the additions and the first
/// wave's write before them, and between them and its read after them.
#[test]
fn lds_added_to_while_another_wave_reads_or_writes() {
    let body = |before: &str, wait: &str, after: &str| {
        text(
            "gfx942",
            256,
            &format!(
                "v_mov_b32_e32 v1, 0\nv_mov_b32_e32 v2, 3\nv_lshlrev_b32_e32 v4, 2, v0\nv_cmp_gt_u32_e32 vcc, 64, v0\n\
                 s_and_saveexec_b64 s[8:9], vcc\nds_write_b32 v1, v1\ns_or_b64 exec, exec, s[8:9]\ns_waitcnt lgkmcnt(0)\n{before}\n\
                 ds_add_u32 v1, v2\n{wait}\n{after}\nds_read_b32 v3, v1\ns_waitcnt lgkmcnt(0)\n\
                 global_store_dword v4, v3, s[6:7]\ns_endpgm"
            ),
        )
    };
    let (wait, barrier) = ("s_waitcnt lgkmcnt(0)", "s_barrier");
    let (_, out) = run(&body(barrier, wait, barrier), 2, &[0]).unwrap();
    assert_eq!(out, [384; 128]);
    let kind = |before, wait, after| fault(&body(before, wait, after), 2).kind;
    assert!(matches!(kind("", wait, barrier), Kind::LdsRace { did: "wrote", first: 0, second: 1, .. }));
    // Waves run in turn from barrier to barrier: the first reads, then the second adds.
    assert!(matches!(kind(barrier, wait, ""), Kind::LdsRace { did: "read", first: 0, second: 1, .. }));
    assert!(matches!(kind(barrier, "", barrier), Kind::LdsRace { did: "added to", .. }));
}

#[test]
fn memory_outside_buffers_unwritten_poisoned_or_read_only() {
    let at = |offset: i32, base: &str| {
        text(
            "gfx942",
            0,
            &format!(
                "v_lshlrev_b32_e32 v1, 2, v0\nglobal_load_dword v2, v1, {base} offset:{offset}\ns_waitcnt vmcnt(0)\n\
                 global_store_dword v1, v2, s[6:7]\ns_endpgm"
            ),
        )
    };
    let before = fault(&at(-4, "s[4:5]"), 1);
    assert!(matches!(before.kind, Kind::OutOfBounds { what: "load", bytes: 4, .. }));
    assert_eq!(before.lane, Some(0));
    let after = run(&at(4, "s[4:5]"), 1, &[1; 64]).unwrap_err();
    assert!(matches!(after.kind, Kind::OutOfBounds { .. }));
    assert_eq!(after.lane, Some(63));
    let unwritten = fault(&at(0, "s[6:7]"), 1);
    assert!(matches!(unwritten.kind, Kind::Uninitialised { why: "never written", offset: 0, .. }));
    let to_input = text("gfx942", 0, "v_lshlrev_b32_e32 v1, 2, v0\nglobal_store_dword v1, v0, s[4:5]\ns_endpgm");
    assert_eq!(fault(&to_input, 1).kind, Kind::ReadOnly("inputs".into()));

    let program = gfxsim::Program::parse(&at(0, "s[4:5]")).unwrap();
    let mut memory = gfxsim::Memory::new();
    let (input, output) = (memory.add("inputs", &[0; 256]), memory.reserve("outputs", 256));
    memory.poison(input, 40..44);
    let poisoned = program.launch(&common::launch(&common::kernarg(input, output), 1), &mut memory).unwrap_err();
    assert!(matches!(poisoned.kind, Kind::Uninitialised { why: "poisoned", offset: 40, .. }));
    assert_eq!(poisoned.lane, Some(10));
}

#[test]
fn lds_outside_the_allocation() {
    let body = "v_lshlrev_b32_e32 v1, 3, v0\nds_write_b64 v1, v[0:1]\ns_endpgm";
    assert!(run(&text("gfx942", 512, body), 1, &[0]).is_ok());
    let kind = fault(&text("gfx942", 508, body), 1).kind;
    assert_eq!(kind, Kind::LdsOutOfBounds { address: 504, bytes: 8, size: 508 });
}

#[test]
fn unwritten_registers_where_they_leave_the_registers() {
    // Copying one is no fault: compilers do where the value is never used.
    let stored = text(
        "gfx942",
        0,
        "v_lshlrev_b32_e32 v1, 2, v0\nv_mov_b32_e32 v2, v9\nglobal_store_dword v1, v2, s[6:7]\ns_endpgm",
    );
    assert_eq!(fault(&stored, 1).kind, Kind::UnwrittenRegister { register: "v2".into(), by: "a store" });
    let compared = text("gfx942", 0, "v_cmp_eq_u32_e32 vcc, v9, v0\ns_endpgm");
    assert!(matches!(fault(&compared, 1).kind, Kind::UnwrittenRegister { by: "a comparison", .. }));
    let scalar = text("gfx942", 0, "s_add_u32 s9, s20, 1\ns_endpgm");
    assert!(matches!(fault(&scalar, 1).kind, Kind::UnwrittenRegister { .. }));
    let some_lanes = text(
        "gfx942",
        0,
        "v_cmp_gt_u32_e32 vcc, 32, v0\ns_and_saveexec_b64 s[8:9], vcc\nv_mov_b32_e32 v2, 1\ns_or_b64 exec, exec, s[8:9]\n\
         v_lshlrev_b32_e32 v1, 2, v0\nglobal_store_dword v1, v2, s[6:7]\ns_endpgm",
    );
    assert_eq!(fault(&some_lanes, 1).lane, Some(32));
}

/// The high half of what is added to a product says nothing about the low half of the sum.
#[test]
fn an_unwritten_high_half_is_not_in_the_low_half_of_a_sum() {
    let body = |stored: &str| {
        let add = "v_mov_b32_e32 v4, 5\nv_mad_u64_u32 v[2:3], s[8:9], v0, v0, v[4:5]";
        let text = format!("v_lshlrev_b32_e32 v1, 2, v0\n{add}\nglobal_store_dword v1, {stored}, s[6:7]\ns_endpgm");
        self::text("gfx942", 0, &text)
    };
    let (_, out) = run(&body("v2"), 1, &[0; 64]).unwrap();
    assert_eq!(out[..3], [5, 6, 9]);
    assert_eq!(fault(&body("v3"), 1).kind, Kind::UnwrittenRegister { register: "v3".into(), by: "a store" });
}

#[test]
fn waves_that_wait_for_ended_ones() {
    let body = "v_readfirstlane_b32 s8, v0\ns_cmp_eq_u32 s8, 0\ns_cbranch_scc1 .LEND\ns_barrier\n.LEND:\ns_endpgm";
    assert_eq!(fault(&text("gfx942", 0, body), 2).kind, Kind::Barrier);
}

#[test]
fn unknown_instructions_are_a_fault_when_they_are_reached() {
    let reached = text("gfx942", 0, "v_frobnicate_b32 v1, v2\ns_endpgm");
    assert!(matches!(fault(&reached, 1).kind, Kind::Unknown(name) if name.contains("v_frobnicate_b32")));
    assert!(run(&text("gfx942", 0, "s_endpgm\nv_frobnicate_b32 v1, v2"), 1, &[0]).is_ok());
    let modified = text("gfx942", 0, "v_add_f32_e64 v1, v0, v0 clamp\ns_endpgm");
    assert!(matches!(fault(&modified, 1).kind, Kind::Unknown(_)));
}

/// Every kind of fault that a run can meet, with the line that it names and the wave and lane that met it.
#[test]
fn faults_name_the_line() {
    const OUT: &str = "v_lshlrev_b32_e32 v1, 2, v0\nglobal_store_dword v1, v2, s[6:7]";
    let one_wave_adds = "v_mov_b32_e32 v1, 0\nv_readfirstlane_b32 s8, v0\ns_cmp_eq_u32 s8, 0\ns_cbranch_scc1 .LEND";
    type Check = fn(&Kind) -> bool;
    type Case = (String, &'static str, Check, Option<usize>, Option<usize>);
    let cases: [Case; 12] = [
        ("v_frob_b32 v1, v2".into(), "v_frob_b32 v1, v2", |kind| matches!(kind, Kind::Unknown(_)), Some(0), None),
        (
            "v_lshlrev_b32_e32 v1, 20, v0\nglobal_load_dword v2, v1, s[4:5]".into(),
            "global_load_dword v2, v1, s[4:5]",
            |kind| matches!(kind, Kind::OutOfBounds { what: "load", .. }),
            Some(0),
            Some(1),
        ),
        (
            "v_lshlrev_b32_e32 v1, 20, v0\nglobal_store_dword v1, v0, s[6:7]".into(),
            "global_store_dword v1, v0, s[6:7]",
            |kind| matches!(kind, Kind::OutOfBounds { what: "store", .. }),
            Some(0),
            Some(1),
        ),
        (
            "s_load_dword s8, s[6:7], 0x0".into(),
            "s_load_dword s8, s[6:7], 0x0",
            |kind| matches!(kind, Kind::Uninitialised { .. }),
            Some(0),
            None,
        ),
        (
            "v_lshlrev_b32_e32 v1, 2, v0\nglobal_store_dword v1, v0, s[4:5]".into(),
            "global_store_dword v1, v0, s[4:5]",
            |kind| matches!(kind, Kind::ReadOnly(_)),
            Some(0),
            Some(0),
        ),
        (
            format!("v_nop\n{OUT}"),
            "global_store_dword v1, v2, s[6:7]",
            |kind| matches!(kind, Kind::UnwrittenRegister { .. }),
            Some(0),
            Some(0),
        ),
        (
            "s_load_dword s8, s[4:5], 0x0\ns_add_u32 s9, s8, 1".into(),
            "s_add_u32 s9, s8, 1",
            |kind| matches!(kind, Kind::MissingWait { .. }),
            Some(0),
            None,
        ),
        (
            "v_lshlrev_b32_e32 v1, 4, v0\nds_write_b32 v1, v0".into(),
            "ds_write_b32 v1, v0",
            |kind| matches!(kind, Kind::LdsOutOfBounds { .. }),
            Some(0),
            Some(32),
        ),
        (
            "v_mov_b32_e32 v1, 0\nds_read_b32 v2, v1".into(),
            "ds_read_b32 v2, v1",
            |kind| *kind == Kind::LdsUninitialised(0),
            Some(0),
            Some(0),
        ),
        (
            "v_mov_b32_e32 v1, 0\nds_write_b32 v1, v0".into(),
            "ds_write_b32 v1, v0",
            |kind| matches!(kind, Kind::LdsRace { first: 0, second: 1, .. }),
            Some(1),
            Some(0),
        ),
        (format!("{one_wave_adds}\ns_barrier\n.LEND:"), "s_barrier", |kind| *kind == Kind::Barrier, Some(1), None),
        (".L1:\ns_branch .L1".into(), "s_branch .L1", |kind| matches!(kind, Kind::Endless(_)), Some(0), None),
    ];
    for (body, at, is_expected, wave, lane) in cases {
        let text = text("gfx950", LDS, &format!("{body}\ns_endpgm"));
        let fault = fault(&text, 2);
        assert!(is_expected(&fault.kind), "{body}: {fault}");
        assert_eq!(text.lines().nth(fault.line.wrapping_sub(1)), Some(at), "{fault}");
        assert_eq!((fault.wave, fault.lane), (wave, lane), "{fault}");
        assert!(fault.to_string().contains(&format!("(line {}", fault.line)), "{fault}");
    }
    // Some are of the text or of the launch as a whole.
    let end = fault(&text("gfx942", 0, "s_nop 0"), 1);
    assert!(matches!(end.kind, Kind::Malformed(_)), "{end}");
}

#[test]
fn endless_loops_end() {
    assert!(matches!(fault(&text("gfx942", 0, ".LBB0_1:\ns_branch .LBB0_1"), 1).kind, Kind::Endless(_)));
}

#[test]
fn other_architectures_and_wrong_arguments_are_refused() {
    assert!(run(&text("gfx90a", 0, "s_endpgm"), 1, &[0]).unwrap_err().to_string().contains("gfx90a"));
    let program = gfxsim::Program::parse(&text("gfx942", 0, "s_endpgm")).unwrap();
    let fault = program.launch(&common::launch(&[0; 8], 1), &mut gfxsim::Memory::new()).unwrap_err();
    assert!(fault.to_string().contains("kernarg of k has 8 bytes"), "{fault}");
}

/// The simulator uses the registers and the LDS of a workgroup for the next one, which must not notice.
#[test]
fn a_workgroup_finds_nothing_of_the_one_before() {
    let two = |body: &str| {
        let program = Program::parse(&text("gfx942", 256, body)).unwrap();
        let mut memory = Memory::new();
        let (input, output) = (memory.add("inputs", &[0; 4]), memory.reserve("outputs", 256));
        let arguments = kernarg(input, output);
        program.launch(&Launch { grid: [2, 1, 1], ..launch(&arguments, 1) }, &mut memory)
    };
    let first_writes = |second: &str| {
        two(&format!(
            "v_lshlrev_b32_e32 v1, 2, v0\ns_cmp_lg_u32 s2, 0\ns_cbranch_scc1 .L1\nv_mov_b32_e32 v5, v0\nds_write_b32 v1, v0\n\
             s_mov_b32 s20, 1\ns_endpgm\n.L1:\n{second}\ns_endpgm"
        ))
    };
    assert!(first_writes("ds_write_b32 v1, v0").is_ok());
    assert_eq!(first_writes("ds_read_b32 v5, v1").unwrap_err().kind, Kind::LdsUninitialised(0));
    let stored = first_writes("global_store_dword v1, v5, s[6:7]").unwrap_err().kind;
    assert_eq!(stored, Kind::UnwrittenRegister { register: "v5".into(), by: "a store" });
    assert!(matches!(first_writes("s_add_u32 s9, s20, 1").unwrap_err().kind, Kind::UnwrittenRegister { .. }));
}
