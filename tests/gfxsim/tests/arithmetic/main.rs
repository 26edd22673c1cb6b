//! Floating-point instructions on odd numbers (zeros of both signs, denormals, the ends of the ranges, ties, infinities, NaN of both kinds)
//! against arithmetic on integers.

#[path = "../common/mod.rs"]
mod common;
mod exact;

use std::cmp::Ordering;

use common::{run, text};
use exact::{BF16, F16, F32, F64, Format, Number, Rounding};
use gfxsim::Program;

const EVEN: Rounding = Rounding::Even;

/// Results of an instruction that writes v2 (and v3) from v[10:11], v[12:13] and v[14:15], a lane a case.
fn results(arch: &str, instruction: &str, cases: &[[u64; 3]]) -> Vec<u64> {
    let store = |register: &str| {
        let body = format!(
            "v_mov_b32_e32 v3, 0\nv_mul_u32_u24_e32 v1, 24, v0\nglobal_load_dwordx4 v[10:13], v1, s[4:5]\n\
             global_load_dwordx2 v[14:15], v1, s[4:5] offset:16\ns_waitcnt vmcnt(0)\nv_mov_b32_e32 v2, v14\n{instruction}\n\
             v_lshlrev_b32_e32 v61, 2, v0\nglobal_store_dword v61, {register}, s[6:7]\ns_endpgm"
        );
        text(arch, 0, &body)
    };
    let (low, high) = (store("v2"), store("v3"));
    let mut found = Vec::new();
    for some in cases.chunks(64) {
        let mut words = vec![0; 64 * 6];
        let all = some.iter().flatten().flat_map(|&value| [value as u32, (value >> 32) as u32]);
        words.iter_mut().zip(all).for_each(|(word, value)| *word = value);
        let [low, high] = [&low, &high].map(|text| run(text, 1, &words).unwrap_or_else(|fault| panic!("{fault}")).1);
        found.extend(low.into_iter().zip(high).take(some.len()).map(|(l, h)| u64::from(l) | u64::from(h) << 32));
    }
    found
}

/// What a result must be: bits, or any NaN of a format.
type Expected = Result<u64, Format>;

fn number(format: Format, value: Number) -> Expected {
    format.encode(value, EVEN).ok_or(format)
}

fn check(instruction: &str, cases: &[[u64; 3]], expected: impl Fn([u64; 3]) -> Expected) {
    check_on("gfx950", instruction, cases, expected);
}

fn check_on(arch: &str, instruction: &str, cases: &[[u64; 3]], expected: impl Fn([u64; 3]) -> Expected) {
    for (case, found) in cases.iter().zip(results(arch, instruction, cases)) {
        match expected(*case) {
            Ok(bits) => assert_eq!(found, bits, "{instruction} {case:x?}: {found:#x} instead of {bits:#x}"),
            Err(format) => assert!(format.decode(found).is_nan(), "{instruction} {case:x?}: {found:#x} instead of NaN"),
        }
    }
}

/// Random bits.
fn words(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 32
    }
}

/// Zeros, ends of the ranges, ones and their neighbours, halves, wholes near the ends of integers, ties of narrower formats, NaN; of both
/// signs.
fn odd(format: Format) -> Vec<u64> {
    let (f, sign) = (format.fraction, 1 << (format.bits - 1));
    let top = (1_u64 << (format.bits - f - 1)) - 1;
    let (one, infinity) = ((top >> 1) << f, top << f);
    let mut found = vec![0, 1, 2, (1 << f) - 1, 1 << f, (1 << f) + 1, infinity - 1, infinity];
    found.extend([infinity + 1, infinity | 1 << (f - 1), one, one + 1, one - 1]);
    for exponent in [-25, -24, -15, -14, -1, 1, 2, f as i64, f as i64 + 1, 15, 16, 31, 32, 127] {
        let power = one.wrapping_add_signed(exponent << f);
        if (1 << f..infinity).contains(&power) {
            found.extend([power, power + 1, power - 1, power + (1 << (f - 1)), power + (3 << (f - 2))]);
        }
    }
    if format == F32 {
        // Ties of f16 and bf16, their greatest numbers and what is first beyond them.
        found.extend([0x3F80_1000, 0x3F80_3000, 0x477F_E000, 0x477F_EFFF, 0x477F_F000, 0x3300_0001, 0x33C0_0000]);
        found.extend([0x3F80_8000, 0x3F81_8000, 0x7F7F_7FFF, 0x7F7F_8000, 0x0000_8000, 0x0000_8001, 0x0001_8000]);
    }
    let negative: Vec<u64> = found.iter().map(|bits| bits | sign).collect();
    found.extend(negative);
    found
}

fn singles(format: Format) -> Vec<[u64; 3]> {
    let mut next = words(1);
    let mask = u64::MAX >> (64 - format.bits);
    odd(format).into_iter().chain((0..500).map(|_| next() & mask)).map(|a| [a, 0, 0]).collect()
}

/// Some thousands of pairs and triples of odd numbers, and of any.
fn triples(format: Format) -> Vec<[u64; 3]> {
    let (odd, mut next) = (odd(format), words(2));
    let mask = u64::MAX >> (64 - format.bits);
    let mut cases = Vec::new();
    for _ in 0..3000 {
        cases.push([(); 3].map(|()| odd[(next() >> 20) as usize % odd.len()]));
        cases.push([(); 3].map(|()| next() & mask));
        // Numbers near each other, which cancel.
        let a = next() & mask;
        cases.push([a, a ^ 1 << (format.bits - 1) ^ next() & 3, a.wrapping_add(next() & 7) & mask]);
    }
    cases
}

fn with(format: Format, function: impl Fn(Number, Number, Number) -> Number) -> impl Fn([u64; 3]) -> Expected {
    move |[a, b, c]| number(format, function(format.decode(a), format.decode(b), format.decode(c)))
}

/// In IEEE mode a signalling NaN makes NaN and a quiet one gives way; 0 is above -0.
fn greater(format: Format, a: u64, b: u64, sign: u64) -> Expected {
    let [x, y] = [a, b].map(|bits| format.decode(bits ^ sign));
    let signals = |bits: u64| format.decode(bits).is_nan() && bits >> (format.fraction - 1) & 1 == 0;
    let larger = match x.compare(y) {
        _ if signals(a) || signals(b) => return Err(format),
        None => {
            if x.is_nan() {
                b
            } else {
                a
            }
        }
        Some(Ordering::Equal) => {
            if x.is_negative() {
                b
            } else {
                a
            }
        }
        Some(order) => {
            if order == Ordering::Less {
                b
            } else {
                a
            }
        }
    };
    if format.decode(larger).is_nan() { Err(format) } else { Ok(larger) }
}

#[test]
fn sums_and_products() {
    let cases = triples(F32);
    let (a, ab, abc) = ("v2, v10", "v2, v10, v12", "v2, v10, v12, v14");
    let plus = |a: Number, b: Number| a.plus(b);
    check(&format!("v_add_f32_e32 {ab}"), &cases, with(F32, |a, b, _| plus(a, b)));
    check(&format!("v_sub_f32_e32 {ab}"), &cases, with(F32, |a, b, _| plus(a, b.negated())));
    check(&format!("v_subrev_f32_e32 {ab}"), &cases, with(F32, |a, b, _| plus(b, a.negated())));
    check(&format!("v_mul_f32_e32 {ab}"), &cases, with(F32, |a, b, _| a.times(b)));
    check(&format!("v_fma_f32 {abc}"), &cases, with(F32, |a, b, c| a.times(b).plus(c)));
    check(&format!("v_fmac_f32_e32 {ab}"), &cases, with(F32, |a, b, c| a.times(b).plus(c)));
    check("v_fma_f32 v2, -v10, |v12|, -|v14|", &cases, |[a, b, c]| {
        let [a, b, c] = [a ^ 1 << 31, b & 0x7FFF_FFFF, c | 1 << 31].map(|bits| F32.decode(bits));
        number(F32, a.times(b).plus(c))
    });
    // Pairs: one half of each source by op_sel, signs of each half.
    let both = |function: fn(Number, Number) -> Number, [low, high]: [[u64; 2]; 2]| {
        let of = |[a, b]: [u64; 2]| F32.encode(function(F32.decode(a), F32.decode(b)), EVEN);
        Some(of(low)? | of(high)? << 32)
    };
    let pairs: Vec<[u64; 3]> =
        cases.chunks_exact(2).map(|x| [x[0][0] | x[1][0] << 32, x[0][1] | x[1][1] << 32, 0]).collect();
    let halves = |x: u64| [x & 0xFFFF_FFFF, x >> 32];
    let finite: Vec<[u64; 3]> = pairs
        .into_iter()
        .filter(|pair| pair.iter().flat_map(|&x| halves(x)).all(|half| half & 0x7FFF_FFFF < 0x7F80_0000))
        .collect();
    let sign = |x: u64| x ^ 1 << 31;
    check("v_pk_mul_f32 v[2:3], v[10:11], v[12:13] op_sel_hi:[0,1]", &finite, |[a, b, _]| {
        let ([a, _], [b, d]) = (halves(a), halves(b));
        both(|a, b| a.times(b), [[a, b], [a, d]]).ok_or(F32)
    });
    check("v_pk_add_f32 v[2:3], v[10:11], v[12:13] op_sel:[1,0] neg_lo:[0,1]", &finite, |[a, b, _]| {
        let ([_, c], [b, d]) = (halves(a), halves(b));
        both(|a, b| a.plus(b), [[c, sign(b)], [c, d]]).ok_or(F32)
    });

    let cases = triples(F16);
    check(&format!("v_add_f16_e32 {ab}"), &cases, with(F16, |a, b, _| plus(a, b)));
    check(&format!("v_sub_f16_e32 {ab}"), &cases, with(F16, |a, b, _| plus(a, b.negated())));
    check(&format!("v_mul_f16_e32 {ab}"), &cases, with(F16, |a, b, _| a.times(b)));
    check("v_add_f16_e64 v2, -v10, |v12|", &cases, |[a, b, _]| {
        number(F16, F16.decode(a).negated().plus(F16.decode(b & 0x7FFF)))
    });

    let cases = triples(F64);
    let (ab, abc) = ("v[2:3], v[10:11], v[12:13]", "v[2:3], v[10:11], v[12:13], v[14:15]");
    check(&format!("v_add_f64 {ab}"), &cases, with(F64, |a, b, _| plus(a, b)));
    check("v_add_f64 v[2:3], -v[10:11], |v[12:13]|", &cases, |[a, b, _]| {
        number(F64, F64.decode(a).negated().plus(F64.decode(b & !(1 << 63))))
    });
    check(&format!("v_mul_f64 {ab}"), &cases, with(F64, |a, b, _| a.times(b)));
    check(&format!("v_fma_f64 {abc}"), &cases, with(F64, |a, b, c| a.times(b).plus(c)));

    let scaled: Vec<[u64; 3]> =
        triples(F32).into_iter().map(|[a, b, _]| [a, (b as i32 % 320) as u32 as u64, 0]).collect();
    check(&format!("v_ldexp_f32 {a}, v12"), &scaled, |[a, b, _]| number(F32, F32.decode(a).scaled(b as i32)));
    let scaled: Vec<[u64; 3]> =
        triples(F64).into_iter().map(|[a, b, _]| [a, (b as i32 % 2300) as u32 as u64, 0]).collect();
    check("v_ldexp_f64 v[2:3], v[10:11], v12", &scaled, |[a, b, _]| number(F64, F64.decode(a).scaled(b as i32)));
}

#[test]
fn least_and_greatest() {
    for (format, suffix, registers) in [
        (F32, "f32_e32", ["v2", "v10", "v12"]),
        (F16, "f16_e32", ["v2", "v10", "v12"]),
        (F64, "f64", ["v[2:3]", "v[10:11]", "v[12:13]"]),
    ] {
        let (cases, list, minus) = (triples(format), registers.join(", "), 1 << (format.bits - 1));
        check(&format!("v_max_{suffix} {list}"), &cases, |[a, b, _]| greater(format, a, b, 0));
        check(&format!("v_min_{suffix} {list}"), &cases, |[a, b, _]| greater(format, a, b, minus));
    }
    // Of three, and the one in the middle, which is the least when there is a NaN.
    let cases = triples(F32);
    let of_three = |[a, b, c]: [u64; 3], sign| greater(F32, greater(F32, a, b, sign).unwrap_or(0x7FC0_0000), c, sign);
    let quiet: Vec<[u64; 3]> =
        cases.into_iter().filter(|case| case.iter().all(|&x| !F32.decode(x).is_nan() || x >> 22 & 1 == 1)).collect();
    check("v_max3_f32 v2, v10, v12, v14", &quiet, |case| of_three(case, 0));
    check("v_min3_f32 v2, v10, v12, v14", &quiet, |case| of_three(case, 1 << 31));
    check("v_med3_f32 v2, v10, v12, v14", &quiet, |mut case| {
        if case.iter().any(|&x| F32.decode(x).is_nan()) {
            return of_three(case, 1 << 31);
        }
        // By value, -0 before 0.
        case.sort_by_key(|&x| (if x >> 31 == 1 { !x } else { x | 1 << 31 }) & 0xFFFF_FFFF);
        Ok(case[1])
    });
}

#[test]
fn whole_numbers() {
    for (format, suffix, registers) in [(F32, "f32_e32", "v2, v10"), (F64, "f64_e32", "v[2:3], v[10:11]")] {
        let cases = singles(format);
        for (name, towards) in [("rndne", "even"), ("floor", "down"), ("ceil", "up"), ("trunc", "zero")] {
            if name == "ceil" && format == F64 {
                continue;
            }
            check(&format!("v_{name}_{suffix} {registers}"), &cases, |[a, ..]| {
                number(format, format.decode(a).rounded(towards))
            });
        }
    }
}

#[test]
fn conversions() {
    let (i32s, u32s) = ((i32::MIN.into(), i32::MAX.into()), (0, u32::MAX.into()));
    for (from, suffix, register) in [(F32, "f32_e32", "v10"), (F64, "f64_e32", "v[10:11]")] {
        for (name, (least, most)) in [("i32", i32s), ("u32", u32s)] {
            check(&format!("v_cvt_{name}_{suffix} v2, {register}"), &singles(from), |[a, ..]| {
                Ok(from.decode(a).integer(least, most) as u32 as u64)
            });
        }
    }
    let wholes = singles(F32);
    for (to, prefix, register) in [(F32, "v_cvt_f32", "v2"), (F64, "v_cvt_f64", "v[2:3]")] {
        check(&format!("{prefix}_i32_e32 {register}, v10"), &wholes, |[a, ..]| {
            number(to, Number::whole((a as u32 as i32).into()))
        });
        check(&format!("{prefix}_u32_e32 {register}, v10"), &wholes, |[a, ..]| number(to, Number::whole(a as i64)));
    }
    let converted = |from: Format, to: Format| move |[a, _, _]: [u64; 3]| number(to, from.decode(a));
    check("v_cvt_f64_f32_e32 v[2:3], v10", &singles(F32), converted(F32, F64));
    check("v_cvt_f32_f64_e32 v2, v[10:11]", &singles(F64), converted(F64, F32));
    check("v_cvt_f32_f64_e32 v2, v[10:11]", &narrow(), converted(F64, F32));
    check("v_cvt_f32_f16_e32 v2, v10", &singles(F16), converted(F16, F32));
    check("v_cvt_f16_f32_e32 v2, v10", &singles(F32), converted(F32, F16));
    let upper: Vec<[u64; 3]> = singles(F16).into_iter().map(|[a, ..]| [a << 16 | 0x7E01, 0, 0]).collect();
    check("v_cvt_f32_f16_sdwa v2, v10 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1", &upper, |[a, ..]| {
        number(F32, F16.decode(a >> 16))
    });
    // Two at a time.
    for (name, to, rounding) in [
        ("v_cvt_pk_bf16_f32", BF16, EVEN),
        ("v_cvt_pk_f16_f32", F16, EVEN),
        ("v_cvt_pkrtz_f16_f32", F16, Rounding::Zero),
    ] {
        let finite: Vec<[u64; 3]> = triples(F32)
            .into_iter()
            .chain(singles(F32).into_iter().map(|[a, ..]| [a, 0x3F80_8000, 0]))
            .filter(|[a, b, _]| !F32.decode(*a).is_nan() && !F32.decode(*b).is_nan())
            .collect();
        check(&format!("{name} v2, v10, v12"), &finite, |[a, b, _]| {
            let [low, high] = [a, b].map(|x| to.encode(F32.decode(x), rounding).unwrap());
            Ok(low | high << 16)
        });
        let low = |bits: u64| results("gfx950", &format!("{name} v2, v10, v12"), &[[bits, 0, 0]])[0] & 0xFFFF;
        assert!([0x7FC0_0000, 0xFF80_0001, 0x7F80_FFFF].into_iter().all(|nan| to.decode(low(nan)).is_nan()), "{name}");
    }
}

/// Doubles around the numbers of f32, and halfway between them.
fn narrow() -> Vec<[u64; 3]> {
    let around = |x: u64| {
        let wide = f64::from(f32::from_bits(x as u32)).to_bits();
        [-1, 0, 1, 1 << 28, (1 << 28) - 1, (1 << 28) + 1].map(|step| [wide.wrapping_add_signed(step), 0, 0])
    };
    odd(F32)
        .into_iter()
        .filter(|&x| f32::from_bits(x as u32).is_finite() && x & 0x7FFF_FFFF != 0)
        .flat_map(around)
        .collect()
}

/// Every pattern of both kinds of float8, on both architectures.
#[test]
fn float8() {
    let all: Vec<[u64; 3]> = (0..256_u64)
        .map(|bits| [bits | (bits ^ 0x35) << 8 | (bits ^ 0x81) << 16 | (bits ^ 0x7F) << 24, 0, 0])
        .collect();
    for (arch, fnuz) in [("gfx942", true), ("gfx950", false)] {
        for (name, fraction) in [("fp8", 3), ("bf8", 2)] {
            let value = move |bits: u64| {
                let (exponent, low) = (bits >> fraction & (0x7F >> fraction), bits & ((1 << fraction) - 1));
                let top = 0x7F >> fraction;
                // The kinds of gfx942 have one more in the bias, no infinity and no -0, whose pattern is NaN.
                let bias = (top >> 1) as i32 + i32::from(fnuz);
                let special = !fnuz && exponent == top && (fraction == 2 || low == 7);
                match (bits, special) {
                    (0x80, _) if fnuz => Number::Nan,
                    (_, true) if fraction == 2 && low == 0 => Number::Infinite { negative: bits >> 7 == 1 },
                    (_, true) => Number::Nan,
                    _ => Number::Finite {
                        negative: bits >> 7 == 1,
                        mantissa: (low | u64::from(exponent > 0) << fraction).into(),
                        exponent: exponent.max(1) as i32 - bias - fraction,
                    },
                }
            };
            for (i, select) in ["BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3"].into_iter().enumerate() {
                check_on(arch, &format!("v_cvt_f32_{name}_sdwa v2, v10 src0_sel:{select}"), &all, |[a, ..]| {
                    number(F32, value(a >> (8 * i) & 0xFF))
                });
            }
            for (i, pair) in ["e32 v[2:3], v10", "sdwa v[2:3], v10 src0_sel:WORD_1"].into_iter().enumerate() {
                let found = results(arch, &format!("v_cvt_pk_f32_{name}_{pair}"), &all);
                for ([a, ..], found) in all.iter().zip(found) {
                    for (half, found) in [(0, found & 0xFFFF_FFFF), (1, found >> 32)] {
                        let expected = F32.encode(value(a >> (16 * i + 8 * half) & 0xFF), EVEN);
                        assert!(expected.map_or(F32.decode(found).is_nan(), |bits| bits == found), "{pair} {a:#x}");
                    }
                }
            }
        }
    }
}

#[test]
fn comparisons() {
    use Ordering::{Equal, Greater, Less};
    let relations: [(&str, &[Ordering], bool); 14] = [
        ("lt", &[Less], false),
        ("eq", &[Equal], false),
        ("le", &[Less, Equal], false),
        ("gt", &[Greater], false),
        ("lg", &[Less, Greater], false),
        ("ge", &[Greater, Equal], false),
        ("o", &[Less, Equal, Greater], false),
        ("u", &[], true),
        ("nge", &[Less], true),
        ("nlg", &[Equal], true),
        ("ngt", &[Less, Equal], true),
        ("nle", &[Greater], true),
        ("neq", &[Less, Greater], true),
        ("nlt", &[Greater, Equal], true),
    ];
    for (format, kind, registers) in
        [(F32, "f32", "v10, v12"), (F16, "f16", "v10, v12"), (F64, "f64", "v[10:11], v[12:13]")]
    {
        let cases: Vec<[u64; 3]> = triples(format).into_iter().step_by(3).collect();
        for (name, orders, unordered) in relations {
            let instruction = format!("v_cmp_{name}_{kind}_e32 vcc, {registers}\nv_cndmask_b32_e64 v2, 0, 1, vcc");
            check(&instruction, &cases, |[a, b, _]| {
                let holds =
                    format.decode(a).compare(format.decode(b)).map_or(unordered, |order| orders.contains(&order));
                Ok(holds.into())
            });
        }
    }
    // Signalling NaN, quiet NaN, then -inf, -normal, -denormal, -0 and the same with plus, from 0.
    let class = |bits: u64| match (F32.decode(bits), bits >> 31 == 1) {
        (Number::Nan, _) => bits >> 22 & 1,
        (Number::Infinite { .. }, negative) => {
            if negative {
                2
            } else {
                9
            }
        }
        (number, negative) => match (number.is_zero(), bits >> 23 & 0xFF > 0) {
            (true, _) => {
                if negative {
                    5
                } else {
                    6
                }
            }
            (_, true) => {
                if negative {
                    3
                } else {
                    8
                }
            }
            _ => {
                if negative {
                    4
                } else {
                    7
                }
            }
        },
    };
    for bit in 0..10 {
        let instruction =
            format!("v_cmp_class_f32_e64 s[20:21], v10, {}\nv_cndmask_b32_e64 v2, 0, 1, s[20:21]", 1 << bit);
        let instruction =
            if bit > 5 { instruction.replace(&format!(", {}\n", 1 << bit), ", s8\n") } else { instruction };
        check(&format!("s_movk_i32 s8, {:#x}\n{instruction}", 1 << bit), &singles(F32), |[a, ..]| {
            Ok((class(a) == bit).into())
        });
    }
}

/// Forms whose meaning here would be a guess are refused when they are reached.
#[test]
fn forms_that_are_refused() {
    for instruction in [
        "v_cmp_class_f64_e64 s[20:21], v[10:11], 4",
        "v_cvt_f32_f16_sdwa v2, -v10 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1",
        "v_add_f16_e64 v2, -v10, v12 op_sel:[1,0,0]",
        "v_pk_mul_f32 v[2:3], v[10:11], 2.0",
        "v_fmac_f32_sdwa v2, v10, v12 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:DWORD",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0",
    ] {
        let fault =
            run(&text("gfx942", 0, &format!("v_mov_b32_e32 v10, 0\n{instruction}\ns_endpgm")), 1, &[0]).unwrap_err();
        assert!(matches!(fault.kind, gfxsim::Kind::Unknown(_)), "{instruction}: {fault}");
    }
    // Float modes other than those of the kernels: denormals kept, ties to even.
    for (given, other) in [
        ("denorm_mode_32 3", "denorm_mode_32 0"),
        ("denorm_mode_16_64 3", "denorm_mode_16_64 0"),
        ("denorm_mode_16_64 3", "denorm_mode_16_64 3\n.amdhsa_float_round_mode_32 3"),
    ] {
        let changed = text("gfx942", 0, "s_endpgm").replace(given, other);
        let program = Program::parse(&changed).unwrap();
        let kernarg = [0; 16];
        assert!(program.launch(&common::launch(&kernarg, 1), &mut gfxsim::Memory::new()).is_err(), "{other}");
    }
}
