//! Vector instructions: the table of [`crate::lanes`] with its variants (DPP, SDWA), carries, and moves between lanes and scalars.
//! Comparisons, 64-bit and packed arithmetic and conversions from float8 have files of their own.

mod compare;
mod float8;
mod packed;
mod wide;

use crate::decode::Action;
use crate::fault::{Fault, Kind, Result};
use crate::lanes::{LaneOp, lane_op};
use crate::operand::{Source, Type, scalar, vector};
use crate::parse::Operands;
use crate::wave::{Lanes, VCC, Wave};

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
        return compare::decode(&form);
    }
    if name.starts_with("v_pk_") {
        return packed::decode(&form);
    }
    if name.contains("fp8") || name.contains("bf8") {
        return float8::decode(&form, variant, fp8_is_fnuz);
    }
    if let Some(action) = wide::decode(&form)? {
        return Ok(action);
    }
    if name == "v_bitop3_b32" {
        return bitop3(&form);
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
        "v_permlane32_swap_b32" | "v_permlane16_swap_b32" => swap_rows(&form),
        "v_swap_b32" => swap(&form),
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

/// The 32-bit values of up to three sources, and the lanes of which all were written.
fn gather(sources: &[Source], wave: &Wave) -> Result<([Lanes; 3], u64)> {
    let mut values = [[0; 64]; 3];
    let mut written = u64::MAX;
    for (source, values) in sources.iter().zip(&mut values) {
        written &= source.lanes(wave, values)?;
    }
    Ok((values, written))
}

fn plain(form: &Form<'_>, op: LaneOp) -> Result<Action> {
    let halves = form.operands.numbers("op_sel")?.unwrap_or_default();
    form.only(&["op_sel"])?;
    let (d, sources) = (vector(form.text(0)?)?, table_sources(form, op)?);
    let upper: Vec<bool> = (0..=sources.len()).map(|i| halves.get(i) == Some(&1)).collect();
    // Signs are of the half that is read.
    if upper[sources.len()] || upper.contains(&true) && sources.iter().any(Source::is_modified) {
        return Err(form.unknown());
    }
    Ok(Box::new(move |wave, _| {
        let (mut values, written) = gather(&sources, wave)?;
        for (values, _) in values.iter_mut().zip(&upper).filter(|&(_, &upper)| upper) {
            values.iter_mut().for_each(|value| *value >>= 16);
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
    // Signs are of the part that is read.
    if sources.iter().any(Source::is_modified) || op.accumulates {
        return Err(form.unknown());
    }
    Ok(Box::new(move |wave, _| {
        let (mut values, written) = gather(&sources, wave)?;
        for (values, (shift, keep)) in values.iter_mut().zip(parts) {
            values.iter_mut().for_each(|value| *value = *value >> shift & keep);
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

/// The scaling step of a division: scales nothing, so that quotients near the ends of f32's range come out wrong.
fn div_scale(form: &Form<'_>) -> Result<Action> {
    let (d, flag) = (vector(form.text(0)?)?, scalar(form.text(1)?)?);
    let sources = [form.source(2, Type::F32)?, form.source(3, Type::F32)?, form.source(4, Type::F32)?];
    Ok(Box::new(move |wave, _| {
        let (values, written) = gather(&sources, wave)?;
        wave.set_vector(d, &values[0], wave.exec(), written)?;
        wave.set_pair(flag, 0)
    }))
}

/// gfx950: halves (or odd and even rows) of two registers change places.
fn swap_rows(form: &Form<'_>) -> Result<Action> {
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

/// Two registers change places.
fn swap(form: &Form<'_>) -> Result<Action> {
    let (a, b) = (vector(form.text(0)?)?, vector(form.text(1)?)?);
    Ok(Box::new(move |wave, _| {
        let ((x, x_written), (y, y_written)) = (wave.vector(a)?, wave.vector(b)?);
        let (x, y, mask) = (*x, *y, wave.exec());
        wave.set_vector(a, &y, mask, y_written)?;
        wave.set_vector(b, &x, mask, x_written)
    }))
}

/// Any function of three bits, from its truth table.
fn bitop3(form: &Form<'_>) -> Result<Action> {
    form.only(&["bitop3"])?;
    let table = form.operands.number("bitop3")?.unwrap_or(0) as u32;
    let d = vector(form.text(0)?)?;
    let sources = [form.source(1, Type::Int)?, form.source(2, Type::Int)?, form.source(3, Type::Int)?];
    Ok(Box::new(move |wave, _| {
        let (values, written) = gather(&sources, wave)?;
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
