//! Matrix instructions against a product that Triton compiled (`triton/make.py`): its layouts are nobody's here.

use gfxsim::{Launch, Memory, Program};

/// What an 8-bit pattern means, from the definition; only ordinary numbers are used.
fn float8(bits: u8, bias: i32) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 3 & 15), f32::from(bits & 7));
    let magnitude = if exponent == 0 {
        fraction / 8.0 * 2_f32.powi(1 - bias)
    } else {
        (1.0 + fraction / 8.0) * 2_f32.powi(exponent - bias)
    };
    if bits >> 7 == 1 { -magnitude } else { magnitude }
}

/// Elements in memory and their values. Small whole numbers and quarters: every sum of products is exact.
fn matrix(kind: &str, elements: usize, seed: u32) -> (Vec<u8>, Vec<f32>) {
    let mut state = seed;
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    for _ in 0..elements {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let value = ((state >> 24) as i32 % 9 - 4) as f32 * 0.25;
        match kind {
            "bf16" => bytes.extend(half::bf16::from_f32(value).to_le_bytes()),
            "fp16" => bytes.extend(half::f16::from_f32(value).to_le_bytes()),
            _ => {
                let bias = if kind == "fp8e4b8" { 8 } else { 7 };
                // -0 is NaN in one kind: zero is always positive.
                let bits = (0..=255).find(|&bits| bits != 0x80 && float8(bits, bias) == value).unwrap();
                bytes.push(bits);
            }
        }
        values.push(value);
    }
    (bytes, values)
}

fn product(text: &str, kind: &str, size: usize) {
    const K: usize = 64;
    let program = Program::parse(text).unwrap();
    let ((a_bytes, a), (b_bytes, b)) = (matrix(kind, size * K, 1), matrix(kind, K * size, 2));
    let mut memory = Memory::new();
    let out = memory.reserve("c", 4 * size * size);
    let addresses =
        [memory.add_read_only("a", &a_bytes), memory.add_read_only("b", &b_bytes), out].map(|buffer| buffer.address());
    let mut kernarg: Vec<u8> = addresses.iter().flat_map(|address| address.to_le_bytes()).collect();
    // Triton adds pointers to scratch that this kernel has none of.
    let &(offset, bytes) = program.metadata("product").unwrap().arguments.last().unwrap();
    kernarg.resize((offset + bytes) as usize, 0);
    let launch =
        Launch { kernel: "product", grid: [1, 1, 1], block: [64, 1, 1], dynamic_lds: 1 << 15, kernarg: &kernarg };
    let report = program.launch(&launch, &mut memory).unwrap();
    assert_eq!(report.matrix_flops, (2 * size * size * K) as u64);
    let c: Vec<f32> = memory.bytes(out).as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect();
    for row in 0..size {
        for column in 0..size {
            let exact: f32 = (0..K).map(|k| a[row * K + k] * b[k * size + column]).sum();
            assert_eq!(c[row * size + column], exact, "{kind} {size} [{row}, {column}]");
        }
    }
}

macro_rules! products {
    ($($test:ident $arch:literal $kind:literal $size:literal;)*) => {
        $(
            #[test]
            fn $test() {
                product(include_str!(concat!("triton/product_", $size, "_", $kind, ".", $arch, ".s")), $kind, $size.parse().unwrap());
            }
        )*
    };
}

products! {
    bf16_16_on_gfx942 "gfx942" "bf16" "16";
    bf16_32_on_gfx942 "gfx942" "bf16" "32";
    f16_16_on_gfx942 "gfx942" "fp16" "16";
    f16_32_on_gfx942 "gfx942" "fp16" "32";
    fp8_16_on_gfx942 "gfx942" "fp8e4b8" "16";
    fp8_32_on_gfx942 "gfx942" "fp8e4b8" "32";
    bf16_16_on_gfx950 "gfx950" "bf16" "16";
    bf16_32_on_gfx950 "gfx950" "bf16" "32";
    f16_16_on_gfx950 "gfx950" "fp16" "16";
    f16_32_on_gfx950 "gfx950" "fp16" "32";
    fp8_16_on_gfx950 "gfx950" "fp8e4nv" "16";
}
