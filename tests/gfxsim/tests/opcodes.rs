//! Every instruction outside the lane table against results worked out by hand, through the assembler text.

mod common;

use common::{run, text};

/// Runs instructions and stores v2 (and v3) of every lane.
fn vector(body: &str) -> [Vec<u32>; 2] {
    let two = |register: &str| {
        let body = format!(
            "v_mov_b32_e32 v60, 0\n{body}\nv_lshlrev_b32_e32 v61, 2, v0\nglobal_store_dword v61, {register}, s[6:7]\ns_endpgm"
        );
        run(&text("gfx950", 0, &body), 1, &[0]).unwrap_or_else(|fault| panic!("{fault}\n{body}")).1
    };
    let high = if body.contains("v3") || body.contains("v[2:3]") { two("v3") } else { two("v60") };
    [two("v2"), high]
}

/// The 64 bits of v[2:3], which all lanes must agree on.
fn uniform(body: &str) -> u64 {
    let [low, high] = vector(body);
    assert!(low.iter().all(|word| *word == low[0]) && high.iter().all(|word| *word == high[0]), "{body}");
    u64::from(low[0]) | u64::from(high[0]) << 32
}

/// Sets s[10:11], s[12:13] and the condition code, runs, and returns s[20:21] and the condition code.
fn scalar(instruction: &str, a: u64, b: u64, condition: bool) -> (u64, bool) {
    let body = format!(
        "s_mov_b32 s10, {:#x}\ns_mov_b32 s11, {:#x}\ns_mov_b32 s12, {:#x}\ns_mov_b32 s13, {:#x}\ns_mov_b32 s20, 0\ns_mov_b32 s21, 0\n\
         s_cmp_eq_u32 s20, {}\n{instruction}\ns_cselect_b32 s22, 1, 0\nv_mov_b32_e32 v2, s20\nv_mov_b32_e32 v3, s21",
        a as u32,
        a >> 32,
        b as u32,
        b >> 32,
        u32::from(!condition)
    );
    let value = uniform(&body);
    let flag = uniform(&body.replace("v_mov_b32_e32 v2, s20\nv_mov_b32_e32 v3, s21", "v_mov_b32_e32 v2, s22"));
    (value, flag == 1)
}

const S: &str = "s20, s10";
const SS: &str = "s20, s10, s12";
const W: &str = "s[20:21], s[10:11]";
const WW: &str = "s[20:21], s[10:11], s[12:13]";
const WS: &str = "s[20:21], s[10:11], s12";
const ALL: u64 = 0xFFFF_FFFF;

#[test]
fn scalar_arithmetic() {
    // Name, operands, sources, condition before, result, condition after.
    let cases: &[(&str, &str, u64, u64, bool, u64, bool)] = &[
        ("s_mov_b32", S, 5, 0, true, 5, true),
        ("s_mov_b64", W, 5 << 32, 0, true, 5 << 32, true),
        ("s_not_b32", S, ALL, 0, true, 0, false),
        ("s_not_b64", W, 0, 0, false, u64::MAX, true),
        ("s_brev_b32", S, 1, 0, true, 1 << 31, true),
        ("s_abs_i32", S, ALL - 4, 0, false, 5, true),
        ("s_sext_i32_i16", S, 0x8000, 0, true, 0xFFFF_8000, true),
        ("s_sext_i32_i8", S, 0x80, 0, true, 0xFFFF_FF80, true),
        ("s_bcnt1_i32_b32", S, 0xF0F0, 0, false, 8, true),
        ("s_bcnt1_i32_b64", "s20, s[10:11]", 0xF0_0000_00FF, 0, false, 12, true),
        ("s_ff1_i32_b32", S, 0x50, 0, true, 4, true),
        ("s_ff1_i32_b64", "s20, s[10:11]", 1 << 40, 0, true, 40, true),
        ("s_flbit_i32_b32", S, 1, 0, true, 31, true),
        ("s_flbit_i32_b64", "s20, s[10:11]", 1, 0, true, 63, true),
        ("s_add_u32", SS, ALL, 2, false, 1, true),
        ("s_addc_u32", SS, 1, 2, true, 4, false),
        ("s_sub_u32", SS, 1, 2, false, ALL, true),
        ("s_subb_u32", SS, 5, 2, true, 2, false),
        ("s_add_i32", SS, 0x7FFF_FFFF, 1, false, 0x8000_0000, true),
        ("s_sub_i32", SS, 1, 2, true, ALL, false),
        ("s_mul_i32", SS, ALL, 3, true, ALL - 2, true),
        ("s_mul_hi_u32", SS, 1 << 31, 6, true, 3, true),
        ("s_mul_hi_i32", SS, ALL, 6, true, ALL, true),
        ("s_min_i32", SS, ALL, 1, false, ALL, true),
        ("s_max_i32", SS, ALL, 1, true, 1, false),
        ("s_min_u32", SS, ALL, 1, true, 1, false),
        ("s_max_u32", SS, ALL, 1, false, ALL, true),
        ("s_and_b32", SS, 12, 10, false, 8, true),
        ("s_and_b64", WW, 3 << 40, 1 << 40, false, 1 << 40, true),
        ("s_or_b32", SS, 12, 10, false, 14, true),
        ("s_or_b64", WW, 1 << 40, 1, false, (1 << 40) + 1, true),
        ("s_xor_b32", SS, 12, 12, true, 0, false),
        ("s_xor_b64", WW, 3 << 40, 1 << 40, false, 2 << 40, true),
        ("s_andn2_b32", SS, 12, 10, false, 4, true),
        ("s_andn2_b64", WW, 3 << 40, 1 << 40, false, 2 << 40, true),
        ("s_orn2_b32", SS, 0, ALL - 1, false, 1, true),
        ("s_orn2_b64", WW, 0, u64::MAX - 1, false, 1, true),
        ("s_nand_b64", WW, u64::MAX, u64::MAX - 1, false, 1, true),
        ("s_nor_b64", WW, u64::MAX - 1, 0, false, 1, true),
        ("s_xnor_b64", WW, 5, !5, true, 0, false),
        ("s_lshl_b32", SS, 3, 33, false, 6, true),
        ("s_lshl_b64", WS, 3, 40, false, 3 << 40, true),
        ("s_lshr_b32", SS, 1 << 31, 31, false, 1, true),
        ("s_lshr_b64", WS, 1 << 63, 63, false, 1, true),
        ("s_ashr_i32", SS, 1 << 31, 31, false, ALL, true),
        ("s_ashr_i64", WS, 1 << 63, 63, false, u64::MAX, true),
        ("s_lshl1_add_u32", SS, 3, 1, true, 7, false),
        ("s_lshl2_add_u32", SS, 3, 1, true, 13, false),
        ("s_lshl3_add_u32", SS, 3, 1, true, 25, false),
        ("s_lshl4_add_u32", SS, 1 << 28, 1, false, 1, true),
        ("s_bfm_b32", SS, 4, 8, true, 0xF00, true),
        ("s_bfm_b64", "s[20:21], s10, s12", 4, 40, true, 0xF << 40, true),
        ("s_bfe_u32", SS, 0xABCD, 4 | 8 << 16, false, 0xBC, true),
        ("s_bfe_u64", WS, 0xABCD << 32, 36 | 8 << 16, false, 0xBC, true),
        ("s_bfe_i32", SS, 0xABCD, 4 | 8 << 16, false, 0xFFFF_FFBC, true),
        ("s_pack_ll_b32_b16", SS, 0x1234, 0x5678, true, 0x5678_1234, true),
        ("s_pack_lh_b32_b16", SS, 0x1234, 0x5678_0000, true, 0x5678_1234, true),
        ("s_pack_hh_b32_b16", SS, 0x1234_0000, 0x5678_0000, true, 0x5678_1234, true),
        ("s_cselect_b32", SS, 1, 2, false, 2, false),
        ("s_cselect_b64", WW, 1 << 40, 2, true, 1 << 40, true),
        ("s_bitset0_b32", "s20, 3", 0, 0, true, 0, true),
        ("s_bitset1_b32", "s20, 3", 0, 0, true, 8, true),
        ("s_cmov_b32", S, 9, 0, false, 0, false),
        ("s_cmov_b64", W, 9 << 32, 0, true, 9 << 32, true),
        ("s_movk_i32", "s20, 0xfffb", 0, 0, true, ALL - 4, true),
        ("s_addk_i32", "s20, -5", 0, 0, true, ALL - 4, false),
        ("s_mulk_i32", "s20, 7", 0, 0, true, 0, true),
        ("s_cmp_eq_u32", "s10, s12", 3, 3, false, 0, true),
        ("s_cmp_lg_u32", "s10, s12", 3, 3, true, 0, false),
        ("s_cmp_gt_i32", "s10, s12", ALL, 1, true, 0, false),
        ("s_cmp_ge_u32", "s10, s12", ALL, 1, false, 0, true),
        ("s_cmp_lt_i32", "s10, s12", ALL, 1, false, 0, true),
        ("s_cmp_le_u32", "s10, s12", ALL, 1, true, 0, false),
        ("s_cmp_eq_u64", "s[10:11], s[12:13]", 1 << 40, 1, true, 0, false),
        ("s_cmpk_lg_u32", "s10, 0x3", 4, 0, false, 0, true),
        ("s_cmpk_lt_i32", "s10, 0xff80", ALL - 200, 0, false, 0, true),
        ("s_cmpk_gt_i32", "s10, -128", ALL, 0, false, 0, true),
        ("s_cmpk_gt_u32", "s10, 0xff80", 0xFF81, 0, false, 0, true),
        ("s_bitcmp1_b32", "s10, s12", 8, 3, false, 0, true),
        ("s_bitcmp0_b64", "s[10:11], s12", 1 << 40, 40, true, 0, false),
    ];
    for &(name, operands, a, b, before, result, after) in cases {
        assert_eq!(scalar(&format!("{name} {operands}"), a, b, before), (result, after), "{name} {a:#x} {b:#x}");
    }
}

#[test]
fn masks_of_lanes_that_run() {
    // Name, the mask given, and the lanes (of the lower 8) that run afterwards when the lower four did before.
    let cases = [
        ("s_and_saveexec_b64", 0b0110_0110, 0b0110),
        ("s_or_saveexec_b64", 0b0110_0110, 0b0110_1111),
        ("s_xor_saveexec_b64", 0b0110_0110, 0b0110_1001),
        ("s_andn2_saveexec_b64", 0b0110_0110, 0b0110_0000),
        ("s_andn1_saveexec_b64", 0b0110_0110, 0b1001),
    ];
    for (name, mask, expected) in cases {
        let body = format!(
            "v_mov_b32_e32 v2, 0\ns_mov_b64 exec, 15\ns_mov_b64 s[10:11], {mask}\n{name} s[20:21], s[10:11]\nv_mov_b32_e32 v2, 1\n\
             s_mov_b64 exec, -1"
        );
        let ran = vector(&body)[0].iter().enumerate().fold(0_u64, |bits, (lane, &one)| bits | u64::from(one) << lane);
        assert_eq!(ran, expected, "{name}");
    }
}

#[test]
fn branches() {
    // Taken or not, after s_cmp_eq_u32 0, 0.
    let cases = [
        ("s_branch", true),
        ("s_cbranch_scc0", false),
        ("s_cbranch_scc1", true),
        ("s_cbranch_execz", false),
        ("s_cbranch_execnz", true),
        ("s_cbranch_vccz", true),
        ("s_cbranch_vccnz", false),
    ];
    for (name, taken) in cases {
        let body = format!(
            "v_mov_b32_e32 v2, 1\ns_mov_b64 vcc, 0\ns_cmp_eq_u32 0, 0\n{name} .LX\nv_mov_b32_e32 v2, 0\n.LX:\nv_mov_b32_e32 v4, 0"
        );
        assert_eq!(uniform(&body), u64::from(taken), "{name}");
    }
}

/// 64-bit constants into a register pair.
fn wide(first: usize, value: u64) -> String {
    format!("v_mov_b32_e32 v{first}, {:#x}\nv_mov_b32_e32 v{}, {:#x}\n", value as u32, first + 1, value >> 32)
}

#[test]
fn sixty_four_bits_a_lane() {
    let f = f64::to_bits;
    let cases: &[(&str, u64, u64, u64)] = &[
        ("v_mov_b64_e32 v[2:3], v[10:11]", 7 << 40, 0, 7 << 40),
        ("v_lshlrev_b64 v[2:3], 40, v[10:11]", 7, 0, 7 << 40),
        ("v_lshrrev_b64 v[2:3], 40, v[10:11]", 7 << 40, 0, 7),
        ("v_ashrrev_i64 v[2:3], 63, v[10:11]", 1 << 63, 0, u64::MAX),
        ("v_lshl_add_u64 v[2:3], v[10:11], 3, v[12:13]", 1 << 32, 5, (8 << 32) + 5),
        ("v_mad_u64_u32 v[2:3], s[20:21], v10, v12, v[12:13]", ALL, 3, ALL * 3 + 3),
        ("v_mad_i64_i32 v[2:3], s[20:21], v10, v12, v[12:13]", ALL, 3, 0),
        ("v_add_f64 v[2:3], v[10:11], v[12:13]", f(1.5), f(0.25), f(1.75)),
        ("v_add_f64 v[2:3], v[10:11], -1.0", f(1.5), 0, f(0.5)),
        ("v_mul_f64 v[2:3], v[10:11], v[12:13]", f(1.5), f(-2.0), f(-3.0)),
        ("v_max_f64 v[2:3], v[10:11], v[12:13]", f(1.5), f(2.5), f(2.5)),
        ("v_min_f64 v[2:3], v[10:11], |v[12:13]|", f(1.5), f(-0.5), f(0.5)),
        ("v_fma_f64 v[2:3], v[10:11], v[12:13], 1.0", f(1.5), f(2.0), f(4.0)),
        ("v_ldexp_f64 v[2:3], v[10:11], v12", f(1.5), 3, f(12.0)),
        ("v_cvt_f64_u32_e32 v[2:3], v10", ALL, 0, f(4_294_967_295.0)),
        ("v_cvt_f64_i32_e32 v[2:3], v10", ALL, 0, f(-1.0)),
        ("v_cvt_f64_f32_e32 v[2:3], v10", 0x3FC0_0000, 0, f(1.5)),
        ("v_cvt_f32_f64_e32 v2, v[10:11]", f(1.5), 0, 0x3FC0_0000),
        ("v_cvt_u32_f64_e32 v2, v[10:11]", f(5e9), 0, ALL),
        ("v_cvt_i32_f64_e32 v2, v[10:11]", f(-3.7), 0, ALL - 2),
        ("v_floor_f64_e32 v[2:3], v[10:11]", f(-1.5), 0, f(-2.0)),
        ("v_trunc_f64_e32 v[2:3], v[10:11]", f(-1.5), 0, f(-1.0)),
        ("v_rndne_f64_e32 v[2:3], v[10:11]", f(2.5), 0, f(2.0)),
        ("v_bitop3_b32 v2, v10, v11, v12 bitop3:0x96", 0b1010 | 0b1100 << 32, 0b1111, 0b1001),
        (
            "v_pk_fma_f32 v[2:3], v[10:11], v[12:13], 1.0 op_sel_hi:[1,1,0]",
            pair(2.0, 3.0),
            pair(4.0, 5.0),
            pair(9.0, 16.0),
        ),
        ("v_pk_mul_f32 v[2:3], v[10:11], v[12:13] op_sel_hi:[1,0]", pair(2.0, 3.0), pair(4.0, 5.0), pair(8.0, 12.0)),
        (
            "v_pk_add_f32 v[2:3], v[10:11], v[12:13] neg_lo:[0,1] neg_hi:[0,1]",
            pair(2.0, 3.0),
            pair(4.0, 5.0),
            pair(-2.0, -2.0),
        ),
        ("v_pk_mov_b32 v[2:3], v[10:11], v[12:13] op_sel:[1,0]", 1 | 2 << 32, 3 | 4 << 32, 2 | 3 << 32),
        ("v_pk_add_f16 v2, v10, v12", 0x4000_3C00, 0x3C00_3C00, 0x4200_4000),
        ("v_pk_mul_f16 v2, v10, v12", 0x4000_3C00, 0x4000_3C00, 0x4400_3C00),
        ("v_pk_max_f16 v2, v10, v12", 0x4000_3C00, 0x3C00_4000, 0x4000_4000),
        ("v_pk_min_f16 v2, v10, v12", 0x4000_3C00, 0x3C00_4000, 0x3C00_3C00),
        ("v_pk_add_u16 v2, v10, v12", 0xFFFF_0001, 0x0002_0003, 0x0001_0004),
        ("v_pk_lshlrev_b16 v2, v10, v12", 0x0004_0001, 0x0003_0003, 0x0030_0006),
        ("v_pk_lshrrev_b16 v2, v10, v12", 0x0004_0001, 0x0030_0006, 0x0003_0003),
        ("v_cvt_f32_fp8_sdwa v2, v10 src0_sel:BYTE_1", 0x4000, 0, 0x4000_0000),
        ("v_cvt_f32_bf8_e32 v2, v10", 0x3C, 0, 0x3F80_0000),
        ("v_cvt_pk_f32_fp8_e32 v[2:3], v10", 0x4038, 0, pair(1.0, 2.0)),
        ("v_cvt_pk_f32_bf8_sdwa v[2:3], v10 src0_sel:WORD_1", 0x403C_0000, 0, pair(1.0, 2.0)),
        ("v_add_co_u32_e32 v2, vcc, v10, v12\nv_addc_co_u32_e64 v3, s[20:21], v11, v13, vcc", ALL, 1, 1 << 32),
        ("v_sub_co_u32_e32 v2, vcc, v10, v12\nv_subb_co_u32_e64 v3, s[20:21], v11, v13, vcc", 1 << 32, 1, ALL),
        ("v_subrev_co_u32_e32 v2, vcc, v12, v10\nv_subbrev_co_u32_e64 v3, s[20:21], v13, v11, vcc", 1 << 32, 1, ALL),
        ("s_mov_b64 vcc, -1\nv_cndmask_b32_e32 v2, v10, v12, vcc", 1, 2, 2),
        ("v_readlane_b32 s20, v0, 9\nv_mov_b32_e32 v2, s20", 0, 0, 9),
        ("v_readfirstlane_b32 s20, v0\nv_mov_b32_e32 v2, s20", 0, 0, 0),
        (
            "v_div_scale_f32 v2, vcc, v10, v10, v12\nv_div_fmas_f32 v2, v2, v10, v12",
            0x4000_0000,
            0x3F80_0000,
            0x40A0_0000,
        ),
        ("v_mov_b32_e32 v2, v10\nv_mov_b32_e32 v3, v12\nv_swap_b32 v2, v3", 1, 2, 2 | 1 << 32),
        ("v_nop\nv_mov_b32_e32 v2, v10", 4, 0, 4),
        ("v_mov_b32_sdwa v2, v10 dst_sel:BYTE_1 dst_unused:UNUSED_PAD src0_sel:WORD_1", 0x0034_0000, 0, 0x3400),
        (
            "v_or_b32_sdwa v2, v10, v12 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_3 src1_sel:DWORD",
            0x1200_0000,
            1,
            0x13,
        ),
        ("v_mad_u32_u24 v2, v10, v12, 1", 3, 4, 13),
    ];
    for &(instruction, a, b, expected) in cases {
        let body = format!("{}{}{instruction}", wide(10, a), wide(12, b));
        assert_eq!(uniform(&body), expected, "{instruction} {a:#x} {b:#x}");
    }
}

fn pair(low: f32, high: f32) -> u64 {
    u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32
}

/// The lanes that a comparison with v0, the lane's number, is true for.
fn lanes_of(comparison: &str) -> u64 {
    let body = format!("{comparison}\nv_mov_b32_e32 v2, s20\nv_mov_b32_e32 v3, s21");
    uniform(&body)
}

#[test]
fn comparisons() {
    let below_five = 0b1_1111;
    let cases = [
        ("v_cmp_gt_u32_e64 s[20:21], 5, v0", below_five),
        ("v_cmp_gt_i32_e64 s[20:21], 5, v0", below_five),
        ("v_cmp_ge_u32_e64 s[20:21], 4, v0", below_five),
        ("v_cmp_eq_u32_e64 s[20:21], 5, v0", 1 << 5),
        ("v_cmp_ne_u32_e64 s[20:21], 5, v0", !(1 << 5)),
        ("v_cmp_le_u16_e64 s[20:21], v0, 4", below_five),
        ("v_cmp_lt_i16_e64 s[20:21], v0, 5", below_five),
        ("v_mov_b32_e32 v11, 0\nv_mov_b32_e32 v10, v0\nv_cmp_gt_u64_e64 s[20:21], 5, v[10:11]", below_five),
        ("v_mov_b32_e32 v11, 0\nv_mov_b32_e32 v10, v0\nv_cmp_gt_i64_e64 s[20:21], 5, v[10:11]", below_five),
        ("v_cvt_f32_u32_e32 v10, v0\nv_cmp_lt_f32_e64 s[20:21], v10, 4.0", 0b1111),
        ("v_cvt_f32_u32_e32 v10, v0\nv_cmp_nge_f32_e64 s[20:21], v10, 4.0", 0b1111),
        ("v_cvt_f32_u32_e32 v10, v0\nv_cmp_o_f32_e64 s[20:21], v10, v10", u64::MAX),
        ("v_mov_b32_e32 v10, 0x7fc00000\nv_cmp_u_f32_e64 s[20:21], v10, v10", u64::MAX),
        ("v_mov_b32_e32 v10, 0x7fc00000\nv_cmp_nlt_f32_e64 s[20:21], v10, 1.0", u64::MAX),
        ("v_mov_b32_e32 v10, 0x7fc00000\nv_cmp_neq_f32_e64 s[20:21], v10, v10", u64::MAX),
        ("v_mov_b32_e32 v10, 0x7fc00000\nv_cmp_lg_f32_e64 s[20:21], v10, 1.0", 0),
        ("v_mov_b32_e32 v10, 0x7fc00000\nv_cmp_nlg_f32_e64 s[20:21], v10, 1.0", u64::MAX),
        ("v_mov_b32_e32 v10, 0x7fc00000\nv_cmp_ngt_f32_e64 s[20:21], v10, 1.0", u64::MAX),
        ("v_mov_b32_e32 v10, 0x7fc00000\nv_cmp_nle_f32_e64 s[20:21], v10, 1.0", u64::MAX),
        ("v_mov_b32_e32 v10, 0x3c00\nv_cmp_eq_f16_e64 s[20:21], 1.0, v10", u64::MAX),
        // Class bits: 2 is -inf, 1 quiet NaN.
        ("v_mov_b32_e32 v10, 0xff800000\nv_cmp_class_f32_e64 s[20:21], v10, 4", u64::MAX),
        ("v_mov_b32_e32 v10, 0x7fc00000\nv_cmp_class_f32_e64 s[20:21], v10, 4", 0),
    ];
    for (body, expected) in cases {
        assert_eq!(lanes_of(body), expected, "{body}");
    }
    // Inactive lanes are 0, and v_cmpx narrows the lanes that run.
    let body = "v_mov_b32_e32 v2, 0\nv_cmpx_gt_u32_e64 s[20:21], 3, v0\nv_cmp_ne_u32_e64 s[22:23], 1, v0\nv_mov_b32_e32 v2, s22\ns_mov_b64 exec, -1";
    assert_eq!(vector(body)[0][..4], [0b101, 0b101, 0b101, 0]);
}

/// What lane l reads.
fn moved(body: &str, from: impl Fn(u32) -> u32) {
    let expected: Vec<u32> = (0..64).map(from).collect();
    assert_eq!(vector(body)[0], expected, "{body}");
}

#[test]
fn values_between_lanes() {
    let dpp =
        |control: &str| format!("v_mov_b32_e32 v2, 99\nv_mov_b32_dpp v2, v0 {control} row_mask:0xf bank_mask:0xf");
    moved(&dpp("row_ror:3"), |l| l / 16 * 16 + (l + 13) % 16);
    moved(&dpp("row_shl:1"), |l| if l % 16 == 15 { 99 } else { l + 1 });
    moved(&dpp("row_shr:1"), |l| if l % 16 == 0 { 99 } else { l - 1 });
    moved(&format!("{} bound_ctrl:0", dpp("row_shr:1")), |l| if l % 16 == 0 { 0 } else { l - 1 });
    moved(&dpp("quad_perm:[3,2,1,0]"), |l| l ^ 3);
    moved(&dpp("row_mirror"), |l| l ^ 15);
    moved(&dpp("row_half_mirror"), |l| l ^ 7);
    moved(&dpp("row_newbcast:5"), |l| l / 16 * 16 + 5);
    moved(&dpp("row_bcast:15"), |l| if l < 16 { 99 } else { l / 16 * 16 - 1 });
    moved(&dpp("row_bcast:31"), |l| if l < 32 { 99 } else { 31 });
    moved("v_mov_b32_e32 v2, 99\nv_mov_b32_dpp v2, v0 row_ror:1 row_mask:0x2 bank_mask:0x1", |l| {
        if l / 16 == 1 && l % 16 < 4 { l / 16 * 16 + (l + 15) % 16 } else { 99 }
    });
    moved("v_add_u32_dpp v2, v0, v0 row_ror:8 row_mask:0xf bank_mask:0xf", |l| l + (l ^ 8));
    let through_lds = |instruction: &str| {
        format!("v_xor_b32_e32 v10, 5, v0\nv_lshlrev_b32_e32 v10, 2, v10\n{instruction}\ns_waitcnt lgkmcnt(0)")
    };
    moved(&through_lds("ds_bpermute_b32 v2, v10, v0"), |l| l ^ 5);
    moved(&through_lds("ds_permute_b32 v2, v10, v0"), |l| l ^ 5);
    moved(&through_lds("ds_swizzle_b32 v2, v0 offset:0x041f"), |l| l ^ 1);
    moved(&through_lds("ds_swizzle_b32 v2, v0 offset:0x801b"), |l| l ^ 3);
    moved("v_mov_b32_e32 v2, 7\nv_writelane_b32 v2, 9, 3", |l| if l == 3 { 9 } else { 7 });
    moved("v_mbcnt_lo_u32_b32 v10, -1, 0\nv_mbcnt_hi_u32_b32 v2, -1, v10", |l| l);
    moved("v_mbcnt_lo_u32_b32 v2, 0x55555555, 0", |l| l.min(32).div_ceil(2));
    let swap = |name: &str| format!("v_mov_b32_e32 v2, v0\nv_add_u32_e32 v4, 100, v0\n{name}_e32 v2, v4");
    moved(&swap("v_permlane32_swap_b32"), |l| if l < 32 { l } else { 100 + l - 32 });
    moved(&swap("v_permlane16_swap_b32"), |l| if l / 16 % 2 == 0 { l } else { 100 + l - 16 });
}

#[test]
fn loads_and_stores_of_every_width() {
    // Four words in memory, read back in parts; the last line leaves the result in v2.
    let inputs = [0x8382_8180_u32, 0x8786_8584, 0x8B8A_8988, 0x8F8E_8D8C];
    let cases = [
        ("global_load_ubyte v2, v10, s[4:5] offset:1", 0x81),
        ("global_load_sbyte v2, v10, s[4:5] offset:1", 0xFFFF_FF81),
        ("global_load_ushort v2, v10, s[4:5] offset:2", 0x8382),
        ("global_load_sshort v2, v10, s[4:5] offset:2", 0xFFFF_8382),
        ("v_mov_b32_e32 v2, 0x11112222\nglobal_load_short_d16 v2, v10, s[4:5]", 0x1111_8180),
        ("v_mov_b32_e32 v2, 0x11112222\nglobal_load_short_d16_hi v2, v10, s[4:5]", 0x8180_2222),
        ("global_load_dword v2, v10, s[4:5] offset:4", 0x8786_8584),
        ("global_load_dwordx2 v[1:2], v10, s[4:5]", 0x8786_8584),
        (
            "v_mov_b32_e32 v4, s4\nv_mov_b32_e32 v5, s5\nglobal_load_dwordx3 v[6:8], v[4:5], off\ns_waitcnt vmcnt(0)\nv_mov_b32_e32 v2, v8",
            0x8B8A_8988,
        ),
        (
            "v_mov_b32_e32 v4, s4\nv_mov_b32_e32 v5, s5\nflat_load_dwordx4 v[6:9], v[4:5]\ns_waitcnt vmcnt(0) lgkmcnt(0)\nv_mov_b32_e32 v2, v9",
            0x8F8E_8D8C,
        ),
        ("s_load_dwordx2 s[20:21], s[4:5], 0x8\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v2, s21", 0x8F8E_8D8C),
        (
            "s_movk_i32 s9, 0x4\ns_load_dword s20, s[4:5], s9 offset:0x4\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v2, s20",
            0x8B8A_8988,
        ),
    ];
    for (load, expected) in cases {
        let body = format!(
            "v_mov_b32_e32 v10, 0\n{load}\ns_waitcnt vmcnt(0)\nv_lshlrev_b32_e32 v61, 2, v0\nglobal_store_dword v61, v2, s[6:7]\ns_endpgm"
        );
        let (_, out) = run(&text("gfx942", 0, &body), 1, &inputs).unwrap();
        assert_eq!(out, [expected; 64], "{load}");
    }
    let stores = [
        ("global_store_byte v61, v2, s[6:7]", 0xFFFF_FF44_u32),
        ("global_store_short v61, v2, s[6:7] offset:2", 0x3344_FFFF),
        ("global_store_short_d16_hi v61, v2, s[6:7]", 0xFFFF_1122),
        ("global_store_byte_d16_hi v61, v2, s[6:7]", 0xFFFF_FF22),
    ];
    for (store, expected) in stores {
        let body = format!("v_lshlrev_b32_e32 v61, 2, v0\nv_mov_b32_e32 v2, 0x11223344\n{store}\ns_endpgm");
        assert_eq!(run(&text("gfx942", 0, &body), 1, &[0]).unwrap().1, [expected; 64], "{store}");
    }
    let wide = "v_lshlrev_b32_e32 v61, 4, v0\nv_cmp_gt_u32_e32 vcc, 16, v0\ns_and_b64 exec, exec, vcc\nv_mov_b32_e32 v2, 1\n\
                v_mov_b32_e32 v3, 2\nv_mov_b32_e32 v4, 3\nv_mov_b32_e32 v5, 4\nglobal_store_dwordx4 v61, v[2:5], s[6:7]\ns_endpgm";
    assert_eq!(run(&text("gfx942", 0, wide), 1, &[0]).unwrap().1, [1, 2, 3, 4].repeat(16));
}

#[test]
fn lds_of_every_width() {
    let cases = [
        ("ds_write_b8 v61, v10\nds_write_b8 v61, v11 offset:1", "ds_read_u16 v2, v61", 0x0201),
        ("ds_write_b16 v61, v11\nds_write_b16_d16_hi v61, v12 offset:2", "ds_read_b32 v2, v61", 0x8001_0002),
        ("ds_write_b32 v61, v12", "ds_read_i8 v2, v61 offset:3", 0xFFFF_FF80),
        ("ds_write_b32 v61, v12", "ds_read_u8 v2, v61 offset:3", 0x80),
        ("ds_write_b32 v61, v12", "ds_read_i16 v2, v61 offset:2", 0xFFFF_8001),
        ("ds_write_b32 v61, v12", "v_mov_b32_e32 v2, 5\nds_read_u16_d16_hi v2, v61 offset:2", 0x8001_0005),
        ("ds_write_b64 v61, v[10:11]", "ds_read_b64 v[1:2], v61", 2),
        (
            "ds_write_b96 v61, v[10:12]",
            "ds_read_b96 v[6:8], v61\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v2, v8",
            0x8001_0003,
        ),
        ("ds_write_b128 v61, v[10:13]", "ds_read_b128 v[6:9], v61\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v2, v9", 4),
        ("ds_write2_b32 v61, v10, v11 offset1:1", "ds_read2_b32 v[1:2], v61 offset0:1 offset1:1", 2),
        (
            "ds_write2_b64 v61, v[10:11], v[12:13] offset1:1",
            "ds_read2_b64 v[6:9], v61 offset1:1\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v2, v9",
            4,
        ),
        ("ds_write2st64_b32 v60, v10, v11 offset1:1", "ds_read2st64_b32 v[1:2], v60 offset1:1", 2),
    ];
    for (write, read, expected) in cases {
        let body = format!(
            "v_mov_b32_e32 v60, 0\nv_mov_b32_e32 v10, 1\nv_mov_b32_e32 v11, 2\nv_mov_b32_e32 v12, 0x80010003\nv_mov_b32_e32 v13, 4\n\
             v_lshlrev_b32_e32 v61, 4, v0\n{write}\ns_waitcnt lgkmcnt(0)\n{read}\ns_waitcnt lgkmcnt(0)\nv_lshlrev_b32_e32 v61, 2, v0\n\
             global_store_dword v61, v2, s[6:7]\ns_endpgm"
        );
        let (_, out) = run(&text("gfx942", 1024, &body), 1, &[0]).unwrap_or_else(|fault| panic!("{fault}: {write}"));
        assert_eq!(out, [expected; 64], "{write} {read}");
    }
}

/// Every lane adds 3 to one word (or 2^32 + 2 to one pair); what was there grows by 3, lane after lane.
#[test]
fn lds_additions() {
    let start = "v_mov_b32_e32 v60, 0\nv_mov_b32_e32 v61, 0\nv_mov_b32_e32 v10, 5\nv_mov_b32_e32 v11, 7\n\
                 ds_write_b64 v60, v[10:11] offset:8\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v10, 3\nv_mov_b32_e32 v12, 2\n\
                 v_mov_b32_e32 v13, 1\n";
    let cases = [
        ("ds_add_u32 v60, v10 offset:8", "ds_read_b32 v2, v60 offset:8", [197; 64]),
        ("ds_add_u64 v60, v[12:13] offset:8", "ds_read_b32 v2, v60 offset:8", [133; 64]),
        ("ds_add_u64 v60, v[12:13] offset:8", "ds_read_b32 v2, v60 offset:12", [71; 64]),
        ("ds_add_rtn_u32 v2, v60, v10 offset:8", "", std::array::from_fn(|lane| 5 + 3 * lane as u32)),
    ];
    for (add, read, expected) in cases {
        let body = format!(
            "{start}{add}\ns_waitcnt lgkmcnt(0)\n{read}\ns_waitcnt lgkmcnt(0)\nv_lshlrev_b32_e32 v61, 2, v0\n\
             global_store_dword v61, v2, s[6:7]\ns_endpgm"
        );
        let (_, out) = run(&text("gfx942", 1024, &body), 1, &[0]).unwrap_or_else(|fault| panic!("{fault}: {add}"));
        assert_eq!(out, expected, "{add} {read}");
    }
}

/// A table without a test is a table that nobody checked: every name in the decoder's source is in a test.
#[test]
fn every_name_that_the_decoder_knows_is_tested() {
    let sources = [
        include_str!("../src/scalar.rs"),
        include_str!("../src/vector.rs"),
        include_str!("../src/vector/wide.rs"),
        include_str!("../src/vector/packed.rs"),
        include_str!("../src/vector/float8.rs"),
        include_str!("../src/access.rs"),
    ];
    let tests = concat!(include_str!("opcodes.rs"), include_str!("triton/product_16_bf16.gfx950.s"));
    for source in sources {
        for name in source.split('"').skip(1).step_by(2) {
            let whole = ["s_", "v_", "ds_"].iter().any(|prefix| name.starts_with(prefix)) && name.len() > 8;
            let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            if whole && is_name && !name.ends_with('_') {
                assert!(tests.contains(name), "no test of {name}");
            }
        }
    }
}
