//! What the simulator counts, against numbers worked out by hand.

mod common;

use common::{kernarg, launch, run, text};
use gfxsim::{Class, Issued, Memory, Program};

const STORE: &str = "v_lshlrev_b32_e32 v61, 2, v0\nglobal_store_dword v61, v2, s[6:7]\ns_endpgm";

/// Bytes asked for: those that lanes share count once an instruction. Lines: each once a launch.
#[test]
fn traffic() {
    // An address for each lane, and what two loads ask for: bytes, lines. (The inputs have 2 KiB.)
    let cases = [
        ("v_lshlrev_b32_e32 v1, 2, v0", "dword v2", 2 * 256, 2),
        ("v_mov_b32_e32 v1, 0", "dword v2", 2 * 4, 1),
        ("v_lshrrev_b32_e32 v1, 1, v0\nv_lshlrev_b32_e32 v1, 2, v1", "dword v2", 2 * 128, 1),
        ("v_lshlrev_b32_e32 v1, 4, v0", "dword v2", 2 * 256, 8),
        ("v_lshlrev_b32_e32 v1, 4, v0", "dwordx4 v[2:5]", 2 * 1024, 8),
        // A wide access may reach two lines.
        ("v_mov_b32_e32 v1, 0x7c", "dwordx2 v[2:3]", 2 * 8, 2),
        ("v_lshlrev_b32_e32 v1, 1, v0", "ushort v2", 2 * 128, 1),
    ];
    for (address, width, bytes, lines) in cases {
        let load = format!("global_load_{}, v1, s[4:5]\ns_waitcnt vmcnt(0)", width);
        let program = Program::parse(&text("gfx942", 0, &format!("{address}\n{load}\n{load}\n{STORE}"))).unwrap();
        let mut memory = Memory::new();
        let (input, output) = (memory.add_read_only("inputs", &[0; 2048]), memory.reserve("outputs", 256));
        program.launch(&launch(&kernarg(input, output), 1), &mut memory).unwrap();
        let (read, written) = (memory.traffic(input), memory.traffic(output));
        assert_eq!((read.requested_read, read.lines_read), (bytes, lines), "{address} {width}");
        assert_eq!((read.requested_written, read.lines_written), (0, 0));
        assert_eq!((written.requested_written, written.lines_written), (256, 2));
        memory.forget_traffic();
        assert_eq!(memory.traffic(input), gfxsim::Traffic::default());
    }
}

#[test]
fn instructions_by_class() {
    let body = format!(
        "v_mov_b32_e32 v2, 0\nv_mov_b32_e32 v3, 0\ns_mov_b32 s8, 1\ns_nop 0\nds_write_b32 v2, v3\ns_waitcnt lgkmcnt(0)\ns_barrier\n{STORE}"
    );
    let (report, _) = run(&text("gfx942", 4, &body), 1, &[0]).unwrap();
    // With the loading of the arguments: a scalar load and a wait.
    let expected = [
        (Class::Vector, 3),
        (Class::Scalar, 1),
        (Class::ScalarLoad, 1),
        (Class::Global, 1),
        (Class::Local, 1),
        (Class::Wait, 2),
        (Class::Barrier, 1),
        (Class::Other, 2),
        (Class::Matrix, 0),
    ];
    assert!(expected.iter().all(|(class, count)| report.by_class[class] == *count), "{:?}", report.by_class);
    assert_eq!((report.instructions, report.lds_accesses), (12, 1));
}

/// Cycles lost by one access of 64 lanes.
fn lost(arch: &str, address: &str, access: &str) -> u64 {
    let write = access.contains("write");
    let fill: String = (0..16).map(|i| format!("ds_write_b128 v9, v[4:7] offset:{}\n", 1024 * i)).collect();
    let fill = if write { String::new() } else { format!("v_lshlrev_b32_e32 v9, 4, v0\n{fill}s_waitcnt lgkmcnt(0)") };
    let body = format!(
        "v_mov_b32_e32 v2, 0\nv_mov_b32_e32 v3, 0\nv_mov_b32_e32 v4, 0\nv_mov_b32_e32 v5, 0\nv_mov_b32_e32 v6, 0\nv_mov_b32_e32 v7, 0\n\
         {fill}\n{address}\n{access}\ns_waitcnt lgkmcnt(0)\n{STORE}"
    );
    run(&text(arch, 16_384, &body), 1, &[0]).unwrap_or_else(|fault| panic!("{fault}")).0.lds_conflict_cycles
}

/// The model is that of `Lds::count`: 32 banks of four bytes, and 64 for what gfx950 reads. An instruction's lanes go in groups that together
/// want as many words as there are banks; the lanes of a group that want different words of a bank wait for each other.
#[test]
fn bank_conflicts() {
    let words = |by: u32| format!("v_mul_u32_u24_e32 v1, {}, v0", 4 * by);
    let (read, write) = ("ds_read_b32 v2, v1", "ds_write_b32 v1, v2");
    let (read2, write2) = ("ds_read_b64 v[2:3], v1", "ds_write_b64 v1, v[2:3]");
    let (read4, write4) = ("ds_read_b128 v[4:7], v1", "ds_write_b128 v1, v[4:7]");
    // Address, access, and cycles lost on gfx942 and on gfx950.
    let cases = [
        (words(1), read, 0, 0),
        (words(1), write, 0, 0),
        // All want one word.
        ("v_mov_b32_e32 v1, 0".into(), read, 0, 0),
        // Two groups of 32 lanes, of which two (four, all) share a bank; with 64 banks one group.
        (words(2), read, 2, 1),
        (words(4), read, 2 * 3, 3),
        (words(32), read, 2 * 31, 31),
        (words(64), read, 2 * 31, 63),
        (words(64), write, 2 * 31, 2 * 31),
        (words(33), read, 0, 0),
        (words(65), read, 0, 0),
        // Groups of 16 (32) lanes of two words.
        (words(2), read2, 0, 0),
        (words(4), read2, 4, 2),
        (words(4), write2, 4, 4),
        (words(34), read2, 0, 0),
        // Groups of 8 (16) lanes of four words.
        (words(4), read4, 0, 0),
        (words(4), write4, 0, 0),
        (words(32), read4, 8 * 7, 4 * 7),
        (words(32), write4, 8 * 7, 8 * 7),
        (words(36), read4, 0, 0),
        (words(36), write4, 0, 0),
    ];
    for (address, access, of_32, of_64) in cases {
        assert_eq!(lost("gfx942", &address, access), of_32, "{address} {access}");
        assert_eq!(lost("gfx950", &address, access), of_64, "{address} {access}");
    }
    // A read of four words serves lanes 0 to 3 with 20 to 23, 4 to 7 with 16 to 19, and so on, on gfx950 0 to 3 with 12 to 15 and 20 to 27, and so
    // on; a write serves 0 to 7, 8 to 15, and so on. Bit i of a mask: whether lanes 4 i to 4 i + 3 want the second half of 32 banks, not the
    // first, of the i-th row of 128 bytes.
    let address = |mask: u32| {
        format!(
            "v_lshrrev_b32_e32 v8, 2, v0\nv_and_b32_e32 v7, 7, v8\nv_lshrrev_b32_e64 v7, v7, {mask}\nv_and_b32_e32 v7, 1, v7\n\
             v_lshlrev_b32_e32 v7, 6, v7\nv_lshl_add_u32 v7, v8, 7, v7\nv_and_b32_e32 v1, 3, v0\nv_lshl_add_u32 v1, v1, 4, v7\n\
             v_mov_b32_e32 v7, 0"
        )
    };
    for (mask, of_read, of_wide_read, of_write) in
        [(0b1010_1010, 0, 4, 0), (0b1001_1010, 4, 4, 0), (0b1011_1000, 0, 2, 4), (0b1111_0000, 0, 0, 8)]
    {
        for (arch, of_read) in [("gfx942", of_read), ("gfx950", of_wide_read)] {
            assert_eq!(lost(arch, &address(mask), read4), of_read, "{mask:b} {arch}");
            assert_eq!(lost(arch, &address(mask), write4), of_write, "{mask:b} {arch}");
        }
    }
    // Two accesses in one instruction are counted apart.
    assert_eq!(lost("gfx942", &words(2), "ds_read2_b32 v[2:3], v1 offset1:1"), 4);
}

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
