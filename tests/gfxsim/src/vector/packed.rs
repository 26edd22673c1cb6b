//! Packed arithmetic.

use super::Form;
use crate::decode::Action;
use crate::fault::Result;
use crate::float::{f16, fma, maximum_f16, minimum_f16, to_f16};
use crate::operand::{Place, Source, Type, vector};
use crate::wave::{Lanes, Wave};

/// Two results a lane: in a register pair (f32) or in the halves of one register.
pub(super) fn decode(form: &Form<'_>) -> Result<Action> {
    form.only(&["op_sel", "op_sel_hi", "neg_lo", "neg_hi"])?;
    let pair = form.name.ends_with("_f32") || form.name == "v_pk_mov_b32";
    type Function = fn([u32; 3]) -> u32;
    fn f(bits: u32) -> f32 {
        f32::from_bits(bits)
    }
    let (count, kind, function): (usize, Type, Function) = match form.name {
        "v_pk_fma_f32" => (3, Type::F32, |[a, b, c]| fma(f(a), f(b), f(c)).to_bits()),
        "v_pk_mul_f32" => (2, Type::F32, |[a, b, _]| (f(a) * f(b)).to_bits()),
        "v_pk_add_f32" => (2, Type::F32, |[a, b, _]| (f(a) + f(b)).to_bits()),
        "v_pk_mov_b32" => (2, Type::Int, |[a, ..]| a),
        "v_pk_add_f16" => (2, Type::F16, |[a, b, _]| to_f16(f16(a) + f16(b))),
        "v_pk_mul_f16" => (2, Type::F16, |[a, b, _]| to_f16(f16(a) * f16(b))),
        "v_pk_max_f16" => (2, Type::F16, |[a, b, _]| maximum_f16(a, b)),
        "v_pk_min_f16" => (2, Type::F16, |[a, b, _]| minimum_f16(a, b)),
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
    // The upper half of a constant pair is not documented; compilers take the lower one twice.
    let constant = |i: &usize| pair && !moves && high[*i] && matches!(sources[*i].place, Place::Constant(_));
    if (0..count).any(|i| constant(&i)) {
        return Err(form.unknown());
    }
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
