//! Vector instructions: the table of [`crate::lanes`] with its variants (DPP, SDWA), comparisons, carries, 64-bit and packed arithmetic,
//! and moves between lanes and scalars.

use crate::decode::Action;
use crate::fault::{Fault, Kind, Result};
use crate::float::{Float8, fma};
use crate::lanes::{LaneOp, lane_op};
use crate::operand::{Place, Source, Type, scalar, vector};
use crate::parse::Operands;
use crate::scalar::ordering;
use crate::wave::{EXEC, Lanes, VCC, Wave};

/// Modifiers that the assembler prints where they change nothing.
const HARMLESS: &[&str] = &["bound_ctrl", "row_mask", "bank_mask", "op_sel", "op_sel_hi", "neg_lo", "neg_hi", "bitop3"];

struct Form<'a> {
    name: &'a str,
    list: Vec<&'a str>,
    operands: &'a Operands,
}

impl Form<'_> {
    fn unknown(&self) -> Fault {
        let modifiers: Vec<&str> = self.operands.modifiers().collect();
        Kind::Unknown(format!("{} {} {}", self.name, self.list.join(", "), modifiers.join(" "))).into()
    }

    fn text(&self, i: usize) -> Result<&str> {
        self.list.get(i).copied().ok_or_else(|| self.unknown())
    }

    fn source(&self, i: usize, kind: Type) -> Result<Source> {
        Source::parse(self.text(i)?, kind)
    }

    /// Refuses modifiers other than those given.
    fn only(&self, known: &[&str]) -> Result<()> {
        if self.operands.modifiers().all(|modifier| known.contains(&modifier)) { Ok(()) } else { Err(self.unknown()) }
    }
}

pub(crate) fn decode(full: &str, operands: &Operands, fp8_is_fnuz: bool) -> Result<Action> {
    let (name, variant) = ["_e32", "_e64", "_dpp", "_sdwa"]
        .iter()
        .find_map(|suffix| full.strip_suffix(suffix).map(|name| (name, *suffix)))
        .unwrap_or((full, ""));
    let form = Form { name, list: operands.list.iter().map(String::as_str).collect(), operands };
    if let Some(op) = lane_op(name) {
        return match variant {
            "_dpp" => dpp(&form, op),
            "_sdwa" => sdwa(&form, op),
            _ => plain(&form, op),
        };
    }
    if name.starts_with("v_cmp") {
        return compare(&form);
    }
    if name.starts_with("v_pk_") {
        return packed(&form);
    }
    if name.contains("fp8") || name.contains("bf8") {
        return float8(&form, variant, fp8_is_fnuz);
    }
    if let Some(action) = wide(&form)? {
        return Ok(action);
    }
    form.only(&[])?;
    match name {
        "v_nop" => Ok(Box::new(|_, _| Ok(()))),
        "v_cndmask_b32" => select(&form),
        "v_add_co_u32" | "v_sub_co_u32" | "v_subrev_co_u32" | "v_addc_co_u32" | "v_subb_co_u32"
        | "v_subbrev_co_u32" => carry(&form),
        "v_readfirstlane_b32" | "v_readlane_b32" | "v_writelane_b32" => one_lane(&form),
        "v_mbcnt_lo_u32_b32" | "v_mbcnt_hi_u32_b32" => lane_count(&form),
        "v_div_scale_f32" => div_scale(&form),
        "v_div_fmas_f32" => div_fmas(&form),
        "v_permlane32_swap_b32" | "v_permlane16_swap_b32" => swap(&form),
        "v_swap_b32" => {
            let (a, b) = (vector(form.text(0)?)?, vector(form.text(1)?)?);
            Ok(Box::new(move |wave, _| {
                let ((x, x_written), (y, y_written)) = (wave.vector(a)?, wave.vector(b)?);
                let (x, y, mask) = (*x, *y, wave.exec());
                wave.set_vector(a, &y, mask, y_written)?;
                wave.set_vector(b, &x, mask, x_written)
            }))
        }
        _ => Err(form.unknown()),
    }
}

/// The sources of a table instruction; the destination itself is the last of one that accumulates.
fn table_sources(form: &Form<'_>, op: LaneOp) -> Result<Vec<Source>> {
    let given = op.sources - usize::from(op.accumulates);
    if form.list.len() != given + 1 {
        return Err(form.unknown());
    }
    let mut sources = (1..=given).map(|i| form.source(i, op.kind)).collect::<Result<Vec<_>>>()?;
    if op.accumulates {
        sources.push(form.source(0, op.kind)?);
    }
    Ok(sources)
}

fn plain(form: &Form<'_>, op: LaneOp) -> Result<Action> {
    if form.operands.has("clamp") || form.operands.has("mul") || form.operands.has("div") {
        return Err(form.unknown());
    }
    let halves = form.operands.numbers("op_sel")?.unwrap_or_default();
    form.only(&["op_sel"])?;
    let (d, sources) = (vector(form.text(0)?)?, table_sources(form, op)?);
    let upper: Vec<bool> = (0..=sources.len()).map(|i| halves.get(i) == Some(&1)).collect();
    if upper[sources.len()] {
        return Err(form.unknown());
    }
    Ok(Box::new(move |wave, _| {
        let mut values = [[0; 64]; 3];
        let mut written = u64::MAX;
        for (i, source) in sources.iter().enumerate() {
            written &= source.lanes(wave, &mut values[i])?;
            if upper[i] {
                values[i].iter_mut().for_each(|value| *value >>= 16);
            }
        }
        let mut out = [0; 64];
        (op.run)(&values, &mut out);
        wave.set_vector(d, &out, wave.exec(), written)
    }))
}

/// Data-parallel primitives: the first source comes from another lane.
fn dpp(form: &Form<'_>, op: LaneOp) -> Result<Action> {
    let from = dpp_lanes(form)?;
    let number = |name: &str| Ok::<_, Fault>(form.operands.number(name)?.unwrap_or(15) as u64);
    let (rows, banks) = (number("row_mask")?, number("bank_mask")?);
    let zero_outside = form.operands.has("bound_ctrl");
    let enabled = (0..64_u64).fold(0, |mask, lane| mask | (rows >> (lane / 16) & banks >> (lane % 16 / 4) & 1) << lane);
    let (d, sources) = (vector(form.text(0)?)?, table_sources(form, op)?);
    Ok(Box::new(move |wave, _| {
        let exec = wave.exec();
        let mut values = [[0; 64]; 3];
        let mut written = u64::MAX;
        for (i, source) in sources.iter().enumerate() {
            let also = source.lanes(wave, &mut values[i])?;
            if i > 0 {
                written &= also;
                continue;
            }
            let (here, mut moved, mut known) = (values[0], [0; 64], 0);
            for lane in 0..64 {
                match from[lane].filter(|&other| exec >> other & 1 == 1) {
                    Some(other) => {
                        moved[lane] = here[other];
                        known |= (also >> other & 1) << lane;
                    }
                    None => known |= 1 << lane,
                }
            }
            values[0] = moved;
            written &= known;
        }
        let valid = (0..64).fold(0_u64, |mask, lane| {
            mask | u64::from(zero_outside || from[lane].is_some_and(|other| exec >> other & 1 == 1)) << lane
        });
        let mut out = [0; 64];
        (op.run)(&values, &mut out);
        wave.set_vector(d, &out, exec & enabled & valid, written)
    }))
}

/// The lane that each lane reads; `None` outside the row.
fn dpp_lanes(form: &Form<'_>) -> Result<[Option<usize>; 64]> {
    let known =
        ["quad_perm", "row_shl", "row_shr", "row_ror", "row_newbcast", "row_mirror", "row_half_mirror", "row_bcast"];
    let control = form.operands.modifiers().find(|name| known.contains(name)).ok_or_else(|| form.unknown())?;
    form.only(&[control, "row_mask", "bank_mask", "bound_ctrl"])?;
    let amount = match form.operands.text(control) {
        Some(text) if !text.is_empty() && !text.starts_with('[') => {
            form.operands.number(control)?.unwrap_or(0) as usize
        }
        _ => 0,
    };
    let quad = form.operands.numbers("quad_perm").ok().flatten().unwrap_or_default();
    let mut lanes = [None; 64];
    for (lane, from) in lanes.iter_mut().enumerate() {
        let (row, i) = (lane & !15, lane & 15);
        *from = match control {
            "quad_perm" => quad.get(lane & 3).map(|&other| lane & !3 | other as usize),
            "row_shl" => (i + amount < 16).then_some(row + i + amount),
            "row_shr" => i.checked_sub(amount).map(|i| row + i),
            "row_ror" => Some(row + (i + 16 - amount) % 16),
            "row_newbcast" => Some(row + amount),
            "row_mirror" => Some(row + 15 - i),
            "row_half_mirror" => Some((lane & !7) + 7 - (lane & 7)),
            _ if amount == 15 => row.checked_sub(1),
            _ => (lane >= 32).then_some(31),
        };
    }
    Ok(lanes)
}

/// Sub-dword addressing: sources are bytes or halves of registers, the destination may be a part of one.
fn sdwa(form: &Form<'_>, op: LaneOp) -> Result<Action> {
    form.only(&["dst_sel", "dst_unused", "src0_sel", "src1_sel"])?;
    let part = |name: &str| -> Result<(u32, u32)> {
        match form.operands.text(name).unwrap_or("DWORD") {
            "DWORD" => Ok((0, u32::MAX)),
            text => {
                let (kind, index) = text.split_once('_').ok_or_else(|| form.unknown())?;
                let index: u32 = index.parse()?;
                Ok(if kind == "BYTE" { (8 * index, 0xFF) } else { (16 * index, 0xFFFF) })
            }
        }
    };
    let parts = [part("src0_sel")?, part("src1_sel")?];
    let (shift, keep) = part("dst_sel")?;
    let preserve = match form.operands.text("dst_unused") {
        None | Some("UNUSED_PAD") => false,
        Some("UNUSED_PRESERVE") => true,
        _ => return Err(form.unknown()),
    };
    let (d, sources) = (vector(form.text(0)?)?, table_sources(form, op)?);
    Ok(Box::new(move |wave, _| {
        let mut values = [[0; 64]; 3];
        let mut written = u64::MAX;
        for (i, source) in sources.iter().enumerate() {
            written &= source.lanes(wave, &mut values[i])?;
            if let Some(&(shift, keep)) = parts.get(i) {
                values[i].iter_mut().for_each(|value| *value = *value >> shift & keep);
            }
        }
        let mut out = [0; 64];
        (op.run)(&values, &mut out);
        if keep != u32::MAX {
            let old = *wave.vector(d)?.0;
            for (out, old) in out.iter_mut().zip(old) {
                *out = (*out & keep) << shift | if preserve { old & !(keep << shift) } else { 0 };
            }
        }
        wave.set_vector(d, &out, wave.exec(), written)
    }))
}

/// Comparisons write a bit a lane, 0 for inactive lanes.
fn compare(form: &Form<'_>) -> Result<Action> {
    form.only(&[])?;
    let writes_exec = form.name.starts_with("v_cmpx_");
    let rest = form.name.strip_prefix("v_cmpx_").or_else(|| form.name.strip_prefix("v_cmp_")).unwrap_or(form.name);
    let (relation, kind) = rest.rsplit_once('_').ok_or_else(|| form.unknown())?;
    let d = scalar(form.text(0)?)?;
    let wide = kind.ends_with("64");
    let types = match kind {
        "f32" => Type::F32,
        "f16" => Type::F16,
        "f64" => Type::F64,
        _ => Type::Int,
    };
    let (a, b) = (form.source(1, types)?, form.source(2, types)?);
    let test: Box<dyn Fn(u64, u64) -> bool + Send + Sync> = if relation == "class" {
        Box::new(|value, classes| class_of(f32::from_bits(value as u32)) & classes as u32 != 0)
    } else if types == Type::Int {
        let test = ordering(relation).ok_or_else(|| form.unknown())?;
        match kind {
            "u32" | "u64" => Box::new(move |a, b| test(a.cmp(&b))),
            "i32" => Box::new(move |a, b| test((a as i32).cmp(&(b as i32)))),
            "i64" => Box::new(move |a, b| test((a as i64).cmp(&(b as i64)))),
            "u16" => Box::new(move |a, b| test((a as u16).cmp(&(b as u16)))),
            "i16" => Box::new(move |a, b| test((a as i16).cmp(&(b as i16)))),
            _ => return Err(form.unknown()),
        }
    } else {
        let test = float_relation(relation).ok_or_else(|| form.unknown())?;
        let value: fn(u64) -> f64 = match types {
            Type::F32 => |bits| f64::from(f32::from_bits(bits as u32)),
            Type::F16 => |bits| half::f16::from_bits(bits as u16).to_f64(),
            _ => f64::from_bits,
        };
        Box::new(move |a, b| test(value(a), value(b)))
    };
    Ok(Box::new(move |wave, _| {
        let (mut x, mut y) = ([0_u64; 64], [0_u64; 64]);
        let written = if wide {
            a.wide(wave, &mut x)? & b.wide(wave, &mut y)?
        } else {
            let (mut low, mut other) = ([0; 64], [0; 64]);
            let written = a.lanes(wave, &mut low)? & b.lanes(wave, &mut other)?;
            x = low.map(u64::from);
            y = other.map(u64::from);
            written
        };
        let exec = wave.exec();
        if exec & !written != 0 {
            let lane = (exec & !written).trailing_zeros() as usize;
            let fault = Kind::UnwrittenRegister { register: "a source".into(), by: "a comparison" };
            return Err(Fault::from(fault).on_lane(lane));
        }
        let mut mask = 0;
        for lane in 0..64 {
            mask |= u64::from(test(x[lane], y[lane])) << lane;
        }
        wave.set_pair(d, mask & exec)?;
        if writes_exec {
            wave.set_mask(EXEC, mask & exec);
        }
        Ok(())
    }))
}

fn float_relation(relation: &str) -> Option<fn(f64, f64) -> bool> {
    Some(match relation {
        "lt" => |a, b| a < b,
        "eq" => |a, b| a == b,
        "le" => |a, b| a <= b,
        "gt" => |a, b| a > b,
        "lg" => |a, b| a.partial_cmp(&b).is_some_and(std::cmp::Ordering::is_ne),
        "ge" => |a, b| a >= b,
        "o" => |a, b| !a.is_nan() && !b.is_nan(),
        "u" => |a, b| a.is_nan() || b.is_nan(),
        "nge" => |a: f64, b: f64| !a.ge(&b),
        "nlg" => |a, b| !a.partial_cmp(&b).is_some_and(std::cmp::Ordering::is_ne),
        "ngt" => |a: f64, b: f64| !a.gt(&b),
        "nle" => |a: f64, b: f64| !a.le(&b),
        "neq" => |a, b| a != b,
        "nlt" => |a: f64, b: f64| !a.lt(&b),
        _ => return None,
    })
}

/// The bit of v_cmp_class: signalling NaN, quiet NaN, then -inf, -normal, -denormal, -0, 0, denormal, normal, inf.
fn class_of(value: f32) -> u32 {
    use std::num::FpCategory;
    let negative = value.is_sign_negative();
    let bit = match value.classify() {
        FpCategory::Nan => u32::from(value.to_bits() >> 22 & 1 == 1),
        FpCategory::Infinite => {
            if negative {
                2
            } else {
                9
            }
        }
        FpCategory::Normal => {
            if negative {
                3
            } else {
                8
            }
        }
        FpCategory::Subnormal => {
            if negative {
                4
            } else {
                7
            }
        }
        FpCategory::Zero => {
            if negative {
                5
            } else {
                6
            }
        }
    };
    1 << bit
}

fn select(form: &Form<'_>) -> Result<Action> {
    let (d, a, b) = (vector(form.text(0)?)?, form.source(1, Type::F32)?, form.source(2, Type::F32)?);
    let condition = form.list.get(3).map_or(Ok(VCC), |name| scalar(name))?;
    Ok(Box::new(move |wave, _| {
        let (mut x, mut y) = ([0; 64], [0; 64]);
        let (x_written, y_written) = (a.lanes(wave, &mut x)?, b.lanes(wave, &mut y)?);
        let choose = wave.mask(condition)?;
        for lane in 0..64 {
            if choose >> lane & 1 == 1 {
                x[lane] = y[lane];
            }
        }
        wave.set_vector(d, &x, wave.exec(), x_written & !choose | y_written & choose)
    }))
}

/// Addition and subtraction that write, and with a third source read, a carry a lane.
fn carry(form: &Form<'_>) -> Result<Action> {
    let (d, out) = (vector(form.text(0)?)?, scalar(form.text(1)?)?);
    let (mut a, mut b) = (form.source(2, Type::Int)?, form.source(3, Type::Int)?);
    let subtracts = form.name.contains("sub");
    if form.name.contains("rev") {
        std::mem::swap(&mut a, &mut b);
    }
    let carried = form.list.get(4).map(|name| scalar(name)).transpose()?;
    Ok(Box::new(move |wave, _| {
        let (mut x, mut y) = ([0; 64], [0; 64]);
        let written = a.lanes(wave, &mut x)? & b.lanes(wave, &mut y)?;
        let (exec, carried) = (wave.exec(), carried.map_or(Ok(0), |index| wave.mask(index))?);
        let mut carries = 0;
        for lane in 0..64 {
            let (p, q, c) = (u64::from(x[lane]), u64::from(y[lane]), carried >> lane & 1);
            let sum = if subtracts { p.wrapping_sub(q).wrapping_sub(c) } else { p + q + c };
            x[lane] = sum as u32;
            carries |= (sum >> 32 & 1) << lane;
        }
        wave.set_vector(d, &x, exec, written)?;
        wave.set_pair(out, carries & exec)
    }))
}

fn one_lane(form: &Form<'_>) -> Result<Action> {
    if form.name == "v_writelane_b32" {
        let (d, value, lane) = (vector(form.text(0)?)?, form.source(1, Type::Int)?, form.source(2, Type::Int)?);
        return Ok(Box::new(move |wave, _| {
            let values = [value.uniform(wave)?; 64];
            wave.set_vector(d, &values, 1 << (lane.uniform(wave)? & 63), u64::MAX)
        }));
    }
    let (d, from) = (scalar(form.text(0)?)?, vector(form.text(1)?)?);
    let lane = if form.name == "v_readlane_b32" { Some(form.source(2, Type::Int)?) } else { None };
    Ok(Box::new(move |wave, _| {
        let lane = match &lane {
            Some(lane) => lane.uniform(wave)? as usize & 63,
            // With no lane active the first is read.
            None => wave.exec().trailing_zeros() as usize & 63,
        };
        let value = wave.vector_for(from, 1 << lane, "a scalar")?[lane];
        wave.set_scalar(d, value)
    }))
}

/// How many of a mask's bits lie below each lane.
fn lane_count(form: &Form<'_>) -> Result<Action> {
    let (d, mask, add) = (vector(form.text(0)?)?, form.source(1, Type::Int)?, form.source(2, Type::Int)?);
    let first = if form.name.contains("_lo_") { 0 } else { 32 };
    Ok(Box::new(move |wave, _| {
        let (mut bits, mut sum) = ([0; 64], [0; 64]);
        let written = mask.lanes(wave, &mut bits)? & add.lanes(wave, &mut sum)?;
        for lane in 0..64_u32 {
            let below = lane.saturating_sub(first).min(32);
            let counted = u64::from(bits[lane as usize]) & ((1_u64 << below) - 1);
            sum[lane as usize] = sum[lane as usize].wrapping_add(counted.count_ones());
        }
        wave.set_vector(d, &sum, wave.exec(), written)
    }))
}

/// The scaling step of a division: operands whose quotient needs none pass through. Others are refused rather than got wrong.
fn div_scale(form: &Form<'_>) -> Result<Action> {
    let (d, flag) = (vector(form.text(0)?)?, scalar(form.text(1)?)?);
    let sources = [form.source(2, Type::F32)?, form.source(3, Type::F32)?, form.source(4, Type::F32)?];
    Ok(Box::new(move |wave, _| {
        let mut values = [[0; 64]; 3];
        let mut written = u64::MAX;
        for (source, values) in sources.iter().zip(&mut values) {
            written &= source.lanes(wave, values)?;
        }
        wave.set_vector(d, &values[0], wave.exec(), written)?;
        wave.set_pair(flag, 0)
    }))
}

fn div_fmas(form: &Form<'_>) -> Result<Action> {
    let d = vector(form.text(0)?)?;
    let sources = [form.source(1, Type::F32)?, form.source(2, Type::F32)?, form.source(3, Type::F32)?];
    Ok(Box::new(move |wave, _| {
        let mut values = [[0; 64]; 3];
        let mut written = u64::MAX;
        for (source, values) in sources.iter().zip(&mut values) {
            written &= source.lanes(wave, values)?;
        }
        let mut out = [0; 64];
        for lane in 0..64 {
            let [a, b, c] = [0, 1, 2].map(|i| f32::from_bits(values[i][lane]));
            out[lane] = fma(a, b, c).to_bits();
        }
        wave.set_vector(d, &out, wave.exec(), written)
    }))
}

/// gfx950: halves (or odd and even rows) of two registers change places.
fn swap(form: &Form<'_>) -> Result<Action> {
    let (a, b) = (vector(form.text(0)?)?, vector(form.text(1)?)?);
    let width = if form.name.contains("lane32") { 32 } else { 16 };
    Ok(Box::new(move |wave, _| {
        let (mut x, mut y) =
            (*wave.vector_for(a, u64::MAX, "another lane")?, *wave.vector_for(b, u64::MAX, "another lane")?);
        for start in (0..64).step_by(2 * width) {
            for i in 0..width {
                std::mem::swap(&mut x[start + width + i], &mut y[start + i]);
            }
        }
        let mask = wave.exec();
        wave.set_vector(a, &x, mask, u64::MAX)?;
        wave.set_vector(b, &y, mask, u64::MAX)
    }))
}

/// Widths of destination and sources (true: 64 bits), the type of the constants, and the function.
type Wide = (&'static [bool], Type, fn([u64; 3]) -> u64);

fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}

fn wide_op(name: &str) -> Option<Wide> {
    const SHIFT: &[bool] = &[true, false, true];
    const DD: &[bool] = &[true, true, true];
    Some(match name {
        "v_mov_b64" => (&[true, true], Type::Int, |[a, ..]| a),
        "v_lshlrev_b64" => (SHIFT, Type::Int, |[a, b, _]| b << (a & 63)),
        "v_lshrrev_b64" => (SHIFT, Type::Int, |[a, b, _]| b >> (a & 63)),
        "v_ashrrev_i64" => (SHIFT, Type::Int, |[a, b, _]| (b as i64 >> (a & 63)) as u64),
        "v_lshl_add_u64" => (&[true, true, false, true], Type::Int, |[a, b, c]| (a << (b & 7)).wrapping_add(c)),

        "v_add_f64" => (DD, Type::F64, |[a, b, _]| (d(a) + d(b)).to_bits()),
        "v_mul_f64" => (DD, Type::F64, |[a, b, _]| (d(a) * d(b)).to_bits()),
        "v_max_f64" => (DD, Type::F64, |[a, b, _]| d(a).max(d(b)).to_bits()),
        "v_min_f64" => (DD, Type::F64, |[a, b, _]| d(a).min(d(b)).to_bits()),
        "v_fma_f64" => (&[true, true, true, true], Type::F64, |[a, b, c]| d(a).mul_add(d(b), d(c)).to_bits()),
        "v_ldexp_f64" => (&[true, true, false], Type::F64, |[a, b, _]| {
            (d(a) * f64::from((b as i32).clamp(-1000, 1000)).exp2()).to_bits()
        }),
        "v_cvt_f64_u32" => (&[true, false], Type::Int, |[a, ..]| f64::from(a as u32).to_bits()),
        "v_cvt_f64_i32" => (&[true, false], Type::Int, |[a, ..]| f64::from(a as u32 as i32).to_bits()),
        "v_cvt_f64_f32" => (&[true, false], Type::F32, |[a, ..]| f64::from(f32::from_bits(a as u32)).to_bits()),
        "v_cvt_f32_f64" => (&[false, true], Type::F64, |[a, ..]| u64::from((d(a) as f32).to_bits())),
        "v_cvt_u32_f64" => (&[false, true], Type::F64, |[a, ..]| u64::from(d(a) as u32)),
        "v_cvt_i32_f64" => (&[false, true], Type::F64, |[a, ..]| d(a) as i32 as u32 as u64),
        "v_floor_f64" => (&[true, true], Type::F64, |[a, ..]| d(a).floor().to_bits()),
        "v_trunc_f64" => (&[true, true], Type::F64, |[a, ..]| d(a).trunc().to_bits()),
        "v_rndne_f64" => (&[true, true], Type::F64, |[a, ..]| d(a).round_ties_even().to_bits()),
        _ => return None,
    })
}

fn wide(form: &Form<'_>) -> Result<Option<Action>> {
    if form.name == "v_mad_u64_u32" || form.name == "v_mad_i64_i32" {
        return multiply_add(form).map(Some);
    }
    if form.name == "v_bitop3_b32" {
        return bitop3(form).map(Some);
    }
    let Some((widths, kind, function)) = wide_op(form.name) else { return Ok(None) };
    form.only(&[])?;
    let d = vector(form.text(0)?)?;
    let sources = (1..widths.len()).map(|i| form.source(i, kind)).collect::<Result<Vec<_>>>()?;
    Ok(Some(Box::new(move |wave, _| {
        let mut values = [[0_u64; 64]; 3];
        let mut written = u64::MAX;
        for (i, source) in sources.iter().enumerate() {
            if widths[i + 1] {
                written &= source.wide(wave, &mut values[i])?;
            } else {
                let mut low = [0; 64];
                written &= source.lanes(wave, &mut low)?;
                values[i] = low.map(u64::from);
            }
        }
        let mut out = [0_u64; 64];
        for (lane, out) in out.iter_mut().enumerate() {
            *out = function([values[0][lane], values[1][lane], values[2][lane]]);
        }
        write_wide(wave, d, &out, widths[0], written)
    })))
}

fn write_wide(wave: &mut Wave, d: usize, values: &[u64; 64], wide: bool, written: u64) -> Result<()> {
    let mask = wave.exec();
    wave.set_vector(d, &values.map(|value| value as u32), mask, written)?;
    if wide {
        wave.set_vector(d + 1, &values.map(|value| (value >> 32) as u32), mask, written)?;
    }
    Ok(())
}

fn multiply_add(form: &Form<'_>) -> Result<Action> {
    let signed = form.name.contains("i64");
    let (d, flag) = (vector(form.text(0)?)?, scalar(form.text(1)?)?);
    let (a, b, c) = (form.source(2, Type::Int)?, form.source(3, Type::Int)?, form.source(4, Type::Int)?);
    Ok(Box::new(move |wave, _| {
        let (mut x, mut y, mut z) = ([0; 64], [0; 64], [0; 64]);
        let written = a.lanes(wave, &mut x)? & b.lanes(wave, &mut y)? & c.wide(wave, &mut z)?;
        let mut carries = 0;
        for lane in 0..64 {
            let product = if signed {
                (i64::from(x[lane] as i32) * i64::from(y[lane] as i32)) as u64
            } else {
                u64::from(x[lane]) * u64::from(y[lane])
            };
            let (sum, carried) = product.overflowing_add(z[lane]);
            z[lane] = sum;
            carries |= u64::from(carried) << lane;
        }
        let exec = wave.exec();
        write_wide(wave, d, &z, true, written)?;
        wave.set_pair(flag, carries & exec)
    }))
}

/// Any function of three bits, from its truth table.
fn bitop3(form: &Form<'_>) -> Result<Action> {
    form.only(&["bitop3"])?;
    let table = form.operands.number("bitop3")?.unwrap_or(0) as u32;
    let d = vector(form.text(0)?)?;
    let sources = [form.source(1, Type::Int)?, form.source(2, Type::Int)?, form.source(3, Type::Int)?];
    Ok(Box::new(move |wave, _| {
        let mut values = [[0; 64]; 3];
        let mut written = u64::MAX;
        for (source, values) in sources.iter().zip(&mut values) {
            written &= source.lanes(wave, values)?;
        }
        let mut out = [0_u32; 64];
        for row in (0..8).filter(|row| table >> row & 1 == 1) {
            for lane in 0..64 {
                let term = |i: usize| if row >> (2 - i) & 1 == 1 { values[i][lane] } else { !values[i][lane] };
                out[lane] |= term(0) & term(1) & term(2);
            }
        }
        wave.set_vector(d, &out, wave.exec(), written)
    }))
}

/// Two results a lane: in a register pair (f32) or in the halves of one register.
fn packed(form: &Form<'_>) -> Result<Action> {
    form.only(HARMLESS)?;
    let pair = form.name.ends_with("_f32") || form.name == "v_pk_mov_b32";
    type Function = fn([u32; 3]) -> u32;
    fn f(bits: u32) -> f32 {
        f32::from_bits(bits)
    }
    fn h(bits: u32) -> f32 {
        half::f16::from_bits(bits as u16).to_f32()
    }
    fn to_h(value: f32) -> u32 {
        u32::from(half::f16::from_f32(value).to_bits())
    }
    let (count, kind, function): (usize, Type, Function) = match form.name {
        "v_pk_fma_f32" => (3, Type::F32, |[a, b, c]| fma(f(a), f(b), f(c)).to_bits()),
        "v_pk_mul_f32" => (2, Type::F32, |[a, b, _]| (f(a) * f(b)).to_bits()),
        "v_pk_add_f32" => (2, Type::F32, |[a, b, _]| (f(a) + f(b)).to_bits()),
        "v_pk_mov_b32" => (2, Type::Int, |[a, ..]| a),
        "v_pk_add_f16" => (2, Type::F16, |[a, b, _]| to_h(h(a) + h(b))),
        "v_pk_mul_f16" => (2, Type::F16, |[a, b, _]| to_h(h(a) * h(b))),
        "v_pk_max_f16" => (2, Type::F16, |[a, b, _]| to_h(h(a).max(h(b)))),
        "v_pk_min_f16" => (2, Type::F16, |[a, b, _]| to_h(h(a).min(h(b)))),
        "v_pk_add_u16" => (2, Type::Int, |[a, b, _]| a.wrapping_add(b) & 0xFFFF),
        "v_pk_lshlrev_b16" => (2, Type::Int, |[a, b, _]| (b << (a & 15)) & 0xFFFF),
        "v_pk_lshrrev_b16" => (2, Type::Int, |[a, b, _]| b >> (a & 15)),
        _ => return Err(form.unknown()),
    };
    let bits = |name: &str, otherwise: i64| -> Result<Vec<bool>> {
        let given = form.operands.numbers(name)?.unwrap_or_else(|| vec![otherwise; count]);
        Ok((0..count).map(|i| given.get(i) == Some(&1)).collect())
    };
    let moves = form.name == "v_pk_mov_b32";
    let (low, high) = (bits("op_sel", 0)?, bits("op_sel_hi", 1)?);
    let (negate_low, negate_high) = (bits("neg_lo", 0)?, bits("neg_hi", 0)?);
    let d = vector(form.text(0)?)?;
    let sources = (0..count).map(|i| form.source(i + 1, kind)).collect::<Result<Vec<_>>>()?;
    let sign = if pair { 1 << 31 } else { 1 << 15 };
    Ok(Box::new(move |wave, _| {
        let mut results = [[0_u32; 64]; 2];
        let mut written = u64::MAX;
        for (half, result) in results.iter_mut().enumerate() {
            // v_pk_mov_b32 selects by op_sel alone: the first half of the first source, the second of the second.
            let (select, negate) = if half == 0 || moves { (&low, &negate_low) } else { (&high, &negate_high) };
            let mut values = [[0; 64]; 3];
            for (i, source) in sources.iter().enumerate() {
                written &= part(source, wave, select[i], pair, &mut values[i])?;
                if negate[i] {
                    values[i].iter_mut().for_each(|value| *value ^= sign);
                }
            }
            if moves && half == 1 {
                values[0] = values[1];
            }
            for lane in 0..64 {
                result[lane] = function([values[0][lane], values[1][lane], values[2][lane]]);
            }
        }
        let mask = wave.exec();
        let [first, second] = results;
        if pair {
            wave.set_vector(d, &first, mask, written)?;
            return wave.set_vector(d + 1, &second, mask, written);
        }
        let mut both = first;
        for lane in 0..64 {
            both[lane] = first[lane] & 0xFFFF | second[lane] << 16;
        }
        wave.set_vector(d, &both, mask, written)
    }))
}

/// One half of a packed source.
fn part(source: &Source, wave: &Wave, upper: bool, pair: bool, out: &mut Lanes) -> Result<u64> {
    if !pair {
        let written = source.lanes(wave, out)?;
        let constant = matches!(source.place, Place::Constant(_));
        // An inline constant stands in the low half.
        let shift = if upper && !constant { 16 } else { 0 };
        out.iter_mut().for_each(|value| *value = *value >> shift & 0xFFFF);
        return Ok(written);
    }
    match source.place {
        Place::Vector(index) => {
            let (values, written) = wave.vector(index + usize::from(upper))?;
            *out = *values;
            Ok(written)
        }
        Place::Scalar(index) => {
            *out = [wave.scalar(index + usize::from(upper))?; 64];
            Ok(u64::MAX)
        }
        _ => source.lanes(wave, out),
    }
}

/// Conversions from float8.
fn float8(form: &Form<'_>, variant: &str, fnuz: bool) -> Result<Action> {
    form.only(&["src0_sel", "op_sel", "dst_sel", "dst_unused"])?;
    let kind = if form.name.ends_with("fp8") { Float8::e4m3(fnuz) } else { Float8::e5m2(fnuz) };
    let (d, source) = (vector(form.text(0)?)?, form.source(1, Type::Int)?);
    let select = match (variant, form.operands.text("src0_sel")) {
        ("_sdwa", Some(text)) => text.rsplit('_').next().and_then(|index| index.parse().ok()).unwrap_or(0),
        _ => 0_u32,
    };
    let halves = form.operands.numbers("op_sel")?.unwrap_or_default();
    let upper = u32::from(halves.first() == Some(&1));
    let pair = match form.name {
        "v_cvt_f32_fp8" | "v_cvt_f32_bf8" => false,
        "v_cvt_pk_f32_fp8" | "v_cvt_pk_f32_bf8" => true,
        _ => return Err(form.unknown()),
    };
    let shift = if pair { 16 * (select + upper) } else { 8 * select };
    Ok(Box::new(move |wave, _| {
        let mut bits = [0; 64];
        let written = source.lanes(wave, &mut bits)?;
        let mask = wave.exec();
        for i in 0..1 + usize::from(pair) {
            let at = shift + 8 * i as u32;
            let values = bits.map(|bits| kind.decode((bits >> at) as u8).to_bits());
            wave.set_vector(d + i, &values, mask, written)?;
        }
        Ok(())
    }))
}
