//! Comparisons: a bit a lane, in a scalar pair.

use std::cmp::Ordering;
use std::num::FpCategory;

use super::Form;
use crate::decode::Action;
use crate::fault::{Fault, Kind, Result};
use crate::operand::{Type, scalar};
use crate::scalar::ordering;
use crate::wave::EXEC;

/// Comparisons write a bit a lane, 0 for inactive lanes.
pub(super) fn decode(form: &Form<'_>) -> Result<Action> {
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
        if kind != "f32" {
            return Err(form.unknown());
        }
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
        "lg" => |a, b| a.partial_cmp(&b).is_some_and(Ordering::is_ne),
        "ge" => |a, b| a >= b,
        "o" => |a, b| !a.is_nan() && !b.is_nan(),
        "u" => |a, b| a.is_nan() || b.is_nan(),
        "nge" => |a: f64, b: f64| !a.ge(&b),
        "nlg" => |a, b| !a.partial_cmp(&b).is_some_and(Ordering::is_ne),
        "ngt" => |a: f64, b: f64| !a.gt(&b),
        "nle" => |a: f64, b: f64| !a.le(&b),
        "neq" => |a, b| a != b,
        "nlt" => |a: f64, b: f64| !a.lt(&b),
        _ => return None,
    })
}

/// The bit of v_cmp_class: signalling NaN, quiet NaN, then -inf, -normal, -denormal, -0, 0, denormal, normal, inf.
fn class_of(value: f32) -> u32 {
    let [negative, positive] = match value.classify() {
        FpCategory::Nan => [u32::from(value.to_bits() >> 22 & 1 == 1); 2],
        FpCategory::Infinite => [2, 9],
        FpCategory::Normal => [3, 8],
        FpCategory::Subnormal => [4, 7],
        FpCategory::Zero => [5, 6],
    };
    1 << if value.is_sign_negative() { negative } else { positive }
}
