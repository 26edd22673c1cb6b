//! The counts that estimates of time are made from are those of the kernels that ship.

#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code, reason = "the table of `make kernels` uses the rest")]
mod counts;
#[path = "../mla_tree_attention/problem.rs"]
#[allow(dead_code, reason = "its own tests use the rest")]
mod mla;
#[path = "../tree_attention/problem.rs"]
#[allow(dead_code, reason = "its own tests use the rest")]
mod tree;

use std::fs;
use std::path::Path;

use counts::Subject;

/// A kernel that changes changes its estimates: `make kernels` writes the file anew. (All of its kernels take longer than a test should.)
#[test]
fn the_file_of_counts_is_that_of_the_kernels() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/hip_counts.json");
    let file = fs::read_to_string(path).unwrap();
    assert_eq!(file.matches("\"kernel\"").count(), counts::estimated().count());
    for (arch, kernel) in counts::estimated().filter(|(_, kernel)| kernel.contains("_bf16_fp8")) {
        assert!(
            file.contains(&counts::entry(arch, &kernel)),
            "bench/hip_counts.json is not current about {kernel} for {arch}: run make kernels"
        );
    }
}

/// By hand: 64 keys x 16 query rows x 128 elements are 2 * 64 * 16 * 128 operations for q . k and as many for p . v; MLA has 32 keys, 576
/// and 512 elements, and two of its eight waves on each SIMD.
#[test]
fn a_tile_has_the_operations_of_its_products() {
    for arch in ["gfx942", "gfx950"] {
        let full = |kernel: &str| Subject::of(arch, kernel).unwrap().count().costs[3];
        let tree = full("tree_attention_bf16_bf16_d128");
        assert_eq!(tree.tile.counts[3], 4.0 * 64.0 * 16.0 * 128.0);
        let mla = full("mla_tree_attention_bf16_bf16");
        assert_eq!(mla.tile.counts[3], 2.0 * 32.0 * 16.0 * (576.0 + 512.0));
        for cost in [tree, mla] {
            // What a mask costs is beside the tile, and a tile takes most of its instructions in vector arithmetic.
            assert!(cost.masked.counts[0] > 0.0 && cost.masked.counts[3] == 0.0, "{cost:?}");
            assert!(cost.tile.counts[1] < cost.tile.counts[0] && cost.fixed.counts[0] > 0.0, "{cost:?}");
        }
    }
}
