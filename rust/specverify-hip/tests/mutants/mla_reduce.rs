//! What the mutants of `mla_tree_attention_reduce_{q}` run on.

use gfxsim::Memory;
use specverify_hip::abi::MlaTreeAttentionArgs;
use specverify_hip::mla_tree_attention::{LATENT, MAX_SPLITS, Plan};
use specverify_hip::tree_attention::{Cache, Query};

use crate::common::{Numbers, input, launch};
use crate::survey::Case;

/// As many parts as there may be, some of them empty, of two rows and three heads; a row that no request has.
pub fn cases(_: &'static str, kernel: &str) -> Vec<Case> {
    let query = if kernel.ends_with("_bf16") { Query::Bf16 } else { Query::F16 };
    let (rows, heads, splits) = (3, 3, MAX_SPLITS as usize);
    let parts = splits * rows * heads;
    let mut numbers = Numbers(8);
    let mut fraction = || numbers.word() as f32 * 2.0_f32.powi(-32);
    let out: Vec<f32> = (0..parts * LATENT as usize).map(|_| fraction()).collect();
    let stats: Vec<f32> = (0..parts)
        .flat_map(|part| if part % 5 == 1 { [f32::NEG_INFINITY, 0.0] } else { [8.0 * fraction(), 1.0 + fraction()] })
        .collect();

    let mut memory = Memory::new();
    let a = MlaTreeAttentionArgs {
        out: memory.reserve("out", rows * heads * LATENT as usize * 2).address(),
        cu_rows: input(&mut memory, "cu_rows", &[0, 1, rows as i32 - 1]).address(),
        partial_out: input(&mut memory, "partial_out", &out).address(),
        partial_stats: input(&mut memory, "partial_stats", &stats).address(),
        kv_scale: input(&mut memory, "kv_scale", &[0.5_f32]).address(),
        out_stride_row: (heads * LATENT as usize) as i64,
        out_stride_head: i64::from(LATENT),
        requests: 2,
        rows: rows as i32,
        heads: heads as i32,
        page_size: 16,
        words: 1,
        splits: splits as i32,
        ..MlaTreeAttentionArgs::default()
    };
    let (name, geometry) = Plan::new(query, Cache::Query, rows as u32, &a).unwrap().reduction.unwrap();
    assert_eq!(name, kernel);
    vec![Box::new(move |program| {
        let mut memory = memory.clone();
        launch(program, &name, geometry.grid, geometry.block, &a, &mut memory)?;
        Ok(memory.writable())
    })]
}
