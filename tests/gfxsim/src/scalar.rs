//! Scalar instructions: arithmetic on 32 and 64 bits, comparisons, masks of lanes and branches.

use std::collections::HashMap;

use crate::decode::Action;
use crate::fault::{Kind, Result};
use crate::operand::{Place, Source, Type, scalar as destination};
use crate::parse::{Operands, integer};
use crate::wave::{EXEC, VCC, Wave};

/// (result, condition code) of two sources; `None` leaves the condition code.
type Compute = fn(u64, u64, bool) -> (u64, Option<bool>);

fn nonzero(value: u64) -> (u64, Option<bool>) {
    (value, Some(value != 0))
}

fn low(value: u64) -> (u64, Option<bool>) {
    nonzero(value & 0xFFFF_FFFF)
}

fn signed(value: u64) -> i64 {
    i64::from(value as u32 as i32)
}

fn overflows(value: i64) -> (u64, Option<bool>) {
    (value as u32 as u64, Some(value != i64::from(value as i32)))
}

fn carry(value: u64) -> (u64, Option<bool>) {
    (value & 0xFFFF_FFFF, Some(value >> 32 & 1 == 1))
}

fn shifted_add(a: u64, b: u64, by: u32) -> (u64, Option<bool>) {
    let sum = ((a & 0xFFFF_FFFF) << by) + (b & 0xFFFF_FFFF);
    (sum & 0xFFFF_FFFF, Some(sum >> 32 != 0))
}

fn field32(a: u64, b: u64) -> u64 {
    let (start, width) = (b & 31, (b >> 16 & 0x7F).min(32));
    ((a & 0xFFFF_FFFF) >> start) & ((1 << width) - 1)
}

fn field64(a: u64, b: u64) -> u64 {
    let (start, width) = (b & 63, b >> 16 & 0x7F);
    if width == 0 { 0 } else { (a >> start) & (u64::MAX >> (64 - width.min(64))) }
}

/// Arithmetic by name: number of sources, whether they and the result are 64 bits wide, and the function.
fn compute(name: &str) -> Option<(usize, [bool; 3], Compute)> {
    const N: [bool; 3] = [false; 3];
    const W: [bool; 3] = [true; 3];
    /// 64-bit value and result, 32-bit amount.
    const SHIFT: [bool; 3] = [true, false, true];
    Some(match name {
        "s_mov_b32" | "s_movk_i32" => (1, N, |a, _, _| (a, None)),
        "s_mov_b64" => (1, W, |a, _, _| (a, None)),
        "s_not_b32" => (1, N, |a, _, _| low(!a)),
        "s_not_b64" => (1, W, |a, _, _| nonzero(!a)),
        "s_brev_b32" => (1, N, |a, _, _| (u64::from((a as u32).reverse_bits()), None)),
        "s_abs_i32" => (1, N, |a, _, _| low(u64::from((a as u32 as i32).unsigned_abs()))),
        "s_sext_i32_i16" => (1, N, |a, _, _| (a as u16 as i16 as i32 as u32 as u64, None)),
        "s_sext_i32_i8" => (1, N, |a, _, _| (a as u8 as i8 as i32 as u32 as u64, None)),
        "s_bcnt1_i32_b32" => (1, N, |a, _, _| nonzero(u64::from((a as u32).count_ones()))),
        "s_bcnt1_i32_b64" => (1, [true, false, false], |a, _, _| nonzero(u64::from(a.count_ones()))),
        "s_ff1_i32_b32" => {
            (1, N, |a, _, _| (if a as u32 == 0 { 0xFFFF_FFFF } else { u64::from(a.trailing_zeros()) }, None))
        }
        "s_ff1_i32_b64" => (1, [true, false, false], |a, _, _| {
            (if a == 0 { 0xFFFF_FFFF } else { u64::from(a.trailing_zeros()) }, None)
        }),
        "s_flbit_i32_b32" => {
            (1, N, |a, _, _| (if a as u32 == 0 { 0xFFFF_FFFF } else { u64::from((a as u32).leading_zeros()) }, None))
        }
        "s_flbit_i32_b64" => {
            (1, [true, false, false], |a, _, _| (if a == 0 { 0xFFFF_FFFF } else { u64::from(a.leading_zeros()) }, None))
        }
        "s_add_u32" => (2, N, |a, b, _| carry((a & 0xFFFF_FFFF) + (b & 0xFFFF_FFFF))),
        "s_addc_u32" => (2, N, |a, b, c| carry((a & 0xFFFF_FFFF) + (b & 0xFFFF_FFFF) + u64::from(c))),
        "s_sub_u32" => (2, N, |a, b, _| carry((a & 0xFFFF_FFFF).wrapping_sub(b & 0xFFFF_FFFF))),
        "s_subb_u32" => {
            (2, N, |a, b, c| carry((a & 0xFFFF_FFFF).wrapping_sub(b & 0xFFFF_FFFF).wrapping_sub(u64::from(c))))
        }
        "s_add_i32" | "s_addk_i32" => (2, N, |a, b, _| overflows(signed(a) + signed(b))),
        "s_sub_i32" => (2, N, |a, b, _| overflows(signed(a) - signed(b))),
        "s_mul_i32" | "s_mulk_i32" => (2, N, |a, b, _| (u64::from((a as u32).wrapping_mul(b as u32)), None)),
        "s_mul_hi_u32" => (2, N, |a, b, _| (((a & 0xFFFF_FFFF) * (b & 0xFFFF_FFFF)) >> 32, None)),
        "s_mul_hi_i32" => (2, N, |a, b, _| (((signed(a) * signed(b)) >> 32) as u32 as u64, None)),
        "s_min_i32" => (2, N, |a, b, _| (signed(a).min(signed(b)) as u32 as u64, Some(signed(a) < signed(b)))),
        "s_max_i32" => (2, N, |a, b, _| (signed(a).max(signed(b)) as u32 as u64, Some(signed(a) > signed(b)))),
        "s_min_u32" => (2, N, |a, b, _| (u64::from((a as u32).min(b as u32)), Some((a as u32) < b as u32))),
        "s_max_u32" => (2, N, |a, b, _| (u64::from((a as u32).max(b as u32)), Some(a as u32 > b as u32))),
        "s_and_b32" => (2, N, |a, b, _| low(a & b)),
        "s_and_b64" => (2, W, |a, b, _| nonzero(a & b)),
        "s_or_b32" => (2, N, |a, b, _| low(a | b)),
        "s_or_b64" => (2, W, |a, b, _| nonzero(a | b)),
        "s_xor_b32" => (2, N, |a, b, _| low(a ^ b)),
        "s_xor_b64" => (2, W, |a, b, _| nonzero(a ^ b)),
        "s_andn2_b32" => (2, N, |a, b, _| low(a & !b)),
        "s_andn2_b64" => (2, W, |a, b, _| nonzero(a & !b)),
        "s_orn2_b32" => (2, N, |a, b, _| low(a | !b)),
        "s_orn2_b64" => (2, W, |a, b, _| nonzero(a | !b)),
        "s_nand_b64" => (2, W, |a, b, _| nonzero(!(a & b))),
        "s_nor_b64" => (2, W, |a, b, _| nonzero(!(a | b))),
        "s_xnor_b64" => (2, W, |a, b, _| nonzero(!(a ^ b))),
        "s_lshl_b32" => (2, N, |a, b, _| low(a << (b & 31))),
        "s_lshl_b64" => (2, SHIFT, |a, b, _| nonzero(a << (b & 63))),
        "s_lshr_b32" => (2, N, |a, b, _| low((a & 0xFFFF_FFFF) >> (b & 31))),
        "s_lshr_b64" => (2, SHIFT, |a, b, _| nonzero(a >> (b & 63))),
        "s_ashr_i32" => (2, N, |a, b, _| low((signed(a) >> (b & 31)) as u64)),
        "s_ashr_i64" => (2, SHIFT, |a, b, _| nonzero((a as i64 >> (b & 63)) as u64)),
        "s_lshl1_add_u32" => (2, N, |a, b, _| shifted_add(a, b, 1)),
        "s_lshl2_add_u32" => (2, N, |a, b, _| shifted_add(a, b, 2)),
        "s_lshl3_add_u32" => (2, N, |a, b, _| shifted_add(a, b, 3)),
        "s_lshl4_add_u32" => (2, N, |a, b, _| shifted_add(a, b, 4)),
        "s_bfm_b32" => (2, N, |a, b, _| ((((1_u64 << (a & 31)) - 1) << (b & 31)) & 0xFFFF_FFFF, None)),
        "s_bfm_b64" => (2, [false, false, true], |a, b, _| (((1_u64 << (a & 63)) - 1) << (b & 63), None)),
        "s_bfe_u32" => (2, N, |a, b, _| nonzero(field32(a, b))),
        "s_bfe_u64" => (2, SHIFT, |a, b, _| nonzero(field64(a, b))),
        "s_bfe_i32" => (2, N, |a, b, _| {
            let width = (b >> 16 & 0x7F).min(32) as u32;
            let value = field32(a, b) as u32;
            low(if width == 0 { 0 } else { ((value << (32 - width)) as i32 >> (32 - width)) as u32 as u64 })
        }),
        "s_pack_ll_b32_b16" => (2, N, |a, b, _| (a & 0xFFFF | (b & 0xFFFF) << 16, None)),
        "s_pack_lh_b32_b16" => (2, N, |a, b, _| (a & 0xFFFF | b & 0xFFFF_0000, None)),
        "s_pack_hh_b32_b16" => (2, N, |a, b, _| ((a >> 16) & 0xFFFF | b & 0xFFFF_0000, None)),
        "s_cselect_b32" => (2, N, |a, b, c| (if c { a } else { b } & 0xFFFF_FFFF, None)),
        "s_cselect_b64" => (2, W, |a, b, c| (if c { a } else { b }, None)),
        _ => return None,
    })
}

fn read(source: &Source, wave: &Wave, wide: bool) -> Result<u64> {
    if wide { source.uniform_wide(wave) } else { source.uniform(wave).map(u64::from) }
}

fn write(wave: &mut Wave, index: usize, wide: bool, value: u64) -> Result<()> {
    if wide { wave.set_pair(index, value) } else { wave.set_scalar(index, value as u32) }
}

pub(crate) fn decode(name: &str, operands: &Operands, labels: &HashMap<String, usize>) -> Result<Action> {
    let unknown = || Kind::Unknown(format!("{name} {}", operands.list.join(", ")));
    let text = |i: usize| operands.list.get(i).map(String::as_str).ok_or_else(unknown);
    let source = |i: usize| Source::parse(text(i)?, Type::Int);
    if name == "s_branch" || name.starts_with("s_cbranch_") {
        return branch(name, *labels.get(text(0)?).ok_or_else(unknown)?);
    }
    if let Some(rest) = name.strip_prefix("s_cmp_").or_else(|| name.strip_prefix("s_cmpk_")) {
        let (relation, kind) = rest.split_once('_').ok_or_else(unknown)?;
        let (a, mut b) = (source(0)?, source(1)?);
        if name.starts_with("s_cmpk_") {
            // 16 bits, which the assembler prints as they are.
            let bits = integer(text(1)?)?;
            b.place =
                Place::Constant(if kind == "i32" { i64::from(bits as i16) as u64 } else { u64::from(bits as u16) });
        }
        let test = ordering(relation).ok_or_else(unknown)?;
        let (wide, is_signed) = (kind.ends_with("64"), kind.starts_with('i'));
        return Ok(Box::new(move |wave, _| {
            let (a, b) = (read(&a, wave, wide)?, read(&b, wave, wide)?);
            wave.scc = test(if is_signed { (a as u32 as i32).cmp(&(b as u32 as i32)) } else { a.cmp(&b) });
            Ok(())
        }));
    }
    if let Some(rest) = name.strip_prefix("s_bitcmp") {
        let (a, b, one) = (source(0)?, source(1)?, rest.starts_with('1'));
        let wide = rest.ends_with("64");
        return Ok(Box::new(move |wave, _| {
            let bit = read(&a, wave, wide)? >> (read(&b, wave, false)? & if wide { 63 } else { 31 }) & 1;
            wave.scc = (bit == 1) == one;
            Ok(())
        }));
    }
    if let Some(operation) = name.strip_suffix("_saveexec_b64") {
        let combine: fn(u64, u64) -> u64 = match operation {
            "s_and" => |s, exec| s & exec,
            "s_or" => |s, exec| s | exec,
            "s_xor" => |s, exec| s ^ exec,
            "s_andn2" => |s, exec| s & !exec,
            "s_andn1" => |s, exec| !s & exec,
            "s_orn2" => |s, exec| s | !exec,
            _ => return Err(unknown().into()),
        };
        let (d, s) = (destination(text(0)?)?, source(1)?);
        return Ok(Box::new(move |wave, _| {
            let (old, value) = (wave.exec(), read(&s, wave, true)?);
            wave.set_pair(d, old)?;
            let new = combine(value, old);
            wave.set_mask(EXEC, new);
            wave.scc = new != 0;
            Ok(())
        }));
    }
    if name == "s_bitset0_b32" || name == "s_bitset1_b32" {
        let (d, s, one) = (destination(text(0)?)?, source(1)?, name == "s_bitset1_b32");
        return Ok(Box::new(move |wave, _| {
            let bit = 1 << (s.uniform(wave)? & 31);
            let old = wave.scalar(d)?;
            wave.set_scalar(d, if one { old | bit } else { old & !bit })
        }));
    }
    if name == "s_cmov_b32" || name == "s_cmov_b64" {
        let (d, s, wide) = (destination(text(0)?)?, source(1)?, name.ends_with("64"));
        return Ok(Box::new(move |wave, _| {
            if wave.scc {
                let value = read(&s, wave, wide)?;
                write(wave, d, wide, value)?;
            }
            Ok(())
        }));
    }
    let (sources, wide, function) = compute(name).ok_or_else(unknown)?;
    let d = destination(text(0)?)?;
    // s_movk_i32 and its kin hold 16 bits, which the assembler prints sign-extended or not.
    let short = |s: Source| -> Result<Source> {
        if !name.contains('k') || !name.ends_with("k_i32") {
            return Ok(s);
        }
        let value = integer(text(1)?)? as i16;
        Source::parse(&value.to_string(), Type::Int)
    };
    let (a, b) = match sources {
        1 => (short(source(1)?)?, None),
        _ if name == "s_addk_i32" || name == "s_mulk_i32" => {
            (Source::parse(text(0)?, Type::Int)?, Some(short(source(1)?)?))
        }
        _ => (source(1)?, Some(source(2)?)),
    };
    Ok(Box::new(move |wave, _| {
        let a = read(&a, wave, wide[0])?;
        let b = b.as_ref().map_or(Ok(0), |b| read(b, wave, wide[1]))?;
        let (value, condition) = function(a, b, wave.scc);
        write(wave, d, wide[2], value)?;
        wave.scc = condition.unwrap_or(wave.scc);
        Ok(())
    }))
}

/// The test that a relation's name means.
pub(crate) fn ordering(relation: &str) -> Option<fn(std::cmp::Ordering) -> bool> {
    use std::cmp::Ordering;
    Some(match relation {
        "eq" => Ordering::is_eq,
        "lg" | "ne" => Ordering::is_ne,
        "gt" => Ordering::is_gt,
        "ge" => Ordering::is_ge,
        "lt" => Ordering::is_lt,
        "le" => Ordering::is_le,
        _ => return None,
    })
}

fn branch(name: &str, target: usize) -> Result<Action> {
    let taken: fn(&Wave) -> Result<bool> = match name {
        "s_branch" => |_| Ok(true),
        "s_cbranch_scc0" => |wave| Ok(!wave.scc),
        "s_cbranch_scc1" => |wave| Ok(wave.scc),
        "s_cbranch_execz" => |wave| Ok(wave.exec() == 0),
        "s_cbranch_execnz" => |wave| Ok(wave.exec() != 0),
        "s_cbranch_vccz" => |wave| Ok(wave.mask(VCC)? == 0),
        "s_cbranch_vccnz" => |wave| Ok(wave.mask(VCC)? != 0),
        _ => return Err(Kind::Unknown(name.to_owned()).into()),
    };
    Ok(Box::new(move |wave, _| {
        if taken(wave)? {
            wave.pc = target;
        }
        Ok(())
    }))
}
