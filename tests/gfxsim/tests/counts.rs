//! What a report counts, of kernels small enough to count by hand.

mod common;

use common::{run, text};
use gfxsim::{Class, Issued};

/// Lanes read at v1, which an instruction sets; the bytes of that and the cycles lost, the filling before it included.
fn lds(arch: &str, address: &str, width: &str, registers: &str) -> (u64, u64) {
    // All of it is written first: 64 lanes of 16 bytes.
    let fill = "v_lshlrev_b32_e32 v9, 4, v0\nv_mov_b32_e32 v4, 7\nv_mov_b32_e32 v5, 7\nv_mov_b32_e32 v6, 7\nv_mov_b32_e32 v7, 7\n\
                ds_write_b128 v9, v[4:7]\ns_waitcnt lgkmcnt(0)";
    let read = format!("{address}\nds_read_{width} {registers}, v1\ns_waitcnt lgkmcnt(0)");
    let store = "v_lshlrev_b32_e32 v1, 2, v0\nglobal_store_dword v1, v4, s[6:7]\ns_endpgm";
    let (report, out) = run(&text(arch, 1024, &format!("{fill}\n{read}\n{store}")), 1, &[0]).unwrap();
    assert_eq!((out, report.lds_accesses), (vec![7; 64], 2));
    (report.lds_bytes - 1024, report.lds_conflict_cycles)
}

/// 32 banks serve 32 lanes of 4 bytes at once: neighbouring words meet 32 banks, every second word 16 of them, twice; every fourth 8, four
/// times. 64 banks serve 64 lanes.
#[test]
fn bank_conflicts_and_bytes() {
    let by = |shift: u32| format!("v_lshlrev_b32_e32 v1, {shift}, v0");
    assert_eq!(lds("gfx942", &by(2), "b32", "v4"), (256, 0));
    assert_eq!(lds("gfx942", &by(3), "b32", "v4"), (256, 2));
    assert_eq!(lds("gfx942", &by(4), "b32", "v4"), (256, 2 * 3));
    assert_eq!(lds("gfx950", &by(3), "b32", "v4"), (256, 1));
    // Lanes that want one word get it together.
    assert_eq!(lds("gfx942", "v_mov_b32_e32 v1, 0", "b32", "v4"), (256, 0));
    // Lanes 0-3 with 20-23, and 64 banks: 0-3 with 12-15 and 20-27; 16 bytes a lane, each phase meets every bank once.
    for arch in ["gfx942", "gfx950"] {
        assert_eq!(lds(arch, &by(4), "b128", "v[4:7]"), (1024, 0));
    }
    // Lanes 0-15 read one chunk, 16-31 another of the same banks: in each phase of 64 banks are lanes of both.
    let apart = "v_and_b32_e32 v1, 16, v0\nv_lshlrev_b32_e32 v1, 4, v1";
    assert_eq!(lds("gfx950", apart, "b128", "v[4:7]"), (1024, 4));
}

/// Waves are dealt to four SIMDs in turn: the first of five waves and the last are on the same.
#[test]
fn instructions_by_class_and_simd() {
    let body = "v_add_f32_e32 v1, 1.0, v0\nv_exp_f32_e32 v2, v1\nv_rcp_f32_e32 v3, v1\ns_nop 0\n\
                v_mov_b32_e32 v4, 0\nv_mov_b32_e32 v5, 0\nv_mfma_f32_16x16x16_bf16 v[8:11], v[4:5], v[4:5], 0\ns_endpgm";
    let (report, _) = run(&text("gfx942", 0, body), 5, &[0]).unwrap();
    let class = |class| report.by_class[&class];
    assert_eq!([class(Class::Vector), class(Class::Transcendental), class(Class::Matrix)], [5 * 3, 5 * 2, 5]);
    // The load of the arguments, six of the above; neither waits, hints nor the end.
    let flops = 2 * 16 * 16 * 16;
    let one = Issued { instructions: 1 + 6, vector: 3, transcendental: 2, matrix_flops: flops };
    let two = Issued { instructions: 14, vector: 6, transcendental: 4, matrix_flops: 2 * flops };
    assert_eq!(report.simds, [two, one, one, one]);
    assert_eq!(report.matrix_flops, 5 * flops);
}
