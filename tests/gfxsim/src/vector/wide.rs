//! Arithmetic on 64 bits a lane, in pairs of registers.

use super::Form;
use crate::decode::Action;
use crate::fault::Result;
use crate::operand::{Type, scalar, vector};
use crate::wave::Wave;

/// Widths of destination and sources (true: 64 bits), the type of the constants, and the function.
type Wide = (&'static [bool], Type, fn([u64; 3]) -> u64);

fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// As [`crate::float::maximum`].
fn maximum(a: f64, b: f64) -> f64 {
    let signalling = |x: f64| x.is_nan() && x.to_bits() >> 51 & 1 == 0;
    if signalling(a) || signalling(b) {
        f64::NAN
    } else if a.is_nan() || b > a || a == b && a.is_sign_negative() {
        b
    } else {
        a
    }
}

/// value * 2^by, rounded once: exact for as long as the number is normal, and the rest of the way at once.
fn ldexp(value: f64, by: i32) -> f64 {
    let scale = |mut value: f64, mut by: i32| {
        while by != 0 {
            let step = by.clamp(-1000, 1000);
            (value, by) = (value * f64::from(step).exp2(), by - step);
        }
        value
    };
    let by = by.clamp(-2200, 2200);
    let (value, by) = if value.is_subnormal() { (value * 64_f64.exp2(), by - 64) } else { (value, by) };
    let exponent = (value.to_bits() >> 52 & 0x7FF) as i32 - 1023;
    let normal = by.max(-1022 - exponent);
    scale(scale(value, normal), (by - normal).max(-1000))
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
        "v_max_f64" => (DD, Type::F64, |[a, b, _]| maximum(d(a), d(b)).to_bits()),
        "v_min_f64" => (DD, Type::F64, |[a, b, _]| (-maximum(-d(a), -d(b))).to_bits()),
        "v_fma_f64" => (&[true, true, true, true], Type::F64, |[a, b, c]| d(a).mul_add(d(b), d(c)).to_bits()),
        "v_ldexp_f64" => (&[true, true, false], Type::F64, |[a, b, _]| ldexp(d(a), b as i32).to_bits()),
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

pub(super) fn decode(form: &Form<'_>) -> Result<Option<Action>> {
    if form.name == "v_mad_u64_u32" || form.name == "v_mad_i64_i32" {
        return multiply_add(form).map(Some);
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
        let written = a.lanes(wave, &mut x)? & b.lanes(wave, &mut y)?;
        // Compilers multiply and add 32 bits with it, and leave the high half of the addend to chance: the low half of the sum is sound.
        let low_written = written & c.lanes(wave, &mut [0; 64])?;
        let written = written & c.wide(wave, &mut z)?;
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
        wave.set_vector(d, &z.map(|value| value as u32), exec, low_written)?;
        wave.set_vector(d + 1, &z.map(|value| (value >> 32) as u32), exec, written)?;
        wave.set_pair(flag, carries & exec)
    }))
}
