//! Conversions from float8, one value or two a lane.

use super::Form;
use crate::decode::Action;
use crate::fault::Result;
use crate::float::Float8;
use crate::operand::{Type, vector};

pub(super) fn decode(form: &Form<'_>, variant: &str, fnuz: bool) -> Result<Action> {
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
