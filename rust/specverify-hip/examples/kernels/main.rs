//! The table of `make kernels`: what the compiler says of each kernel and what the simulator counts; and `bench/hip_counts.json`, which
//! `bench/roofline.py` estimates times from. `--all` prints every variant instead of one or two of each family.

#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "../../tests/counts/counts.rs"]
mod counts;
#[path = "../../tests/kv_compact/problem.rs"]
#[allow(dead_code, reason = "its tests use the rest")]
mod kv_compact;
mod logit_rows;
#[path = "../../tests/mla_tree_attention/problem.rs"]
#[allow(dead_code, reason = "its tests use the rest")]
mod mla;
#[path = "../../tests/tree_attention/problem.rs"]
#[allow(dead_code, reason = "its tests use the rest")]
mod tree;
#[path = "../../tests/tree_walk/problem.rs"]
#[allow(dead_code, reason = "its tests use the rest")]
mod tree_walk;

use std::error::Error;
use std::path::Path;
use std::time::Instant;
use std::{env, fs};

use common::request::Request;
use common::{ARCHITECTURES, Numbers, program};
use counts::Subject;
use specverify_hip::tree_attention::{Cache, Query};

/// Kernels of a family, what of each is shown without `--all`, and what the columns beside the compiler's say.
struct Family {
    title: &'static str,
    source: &'static str,
    shown: &'static [&'static str],
    columns: &'static [&'static str],
}

const ATTENTION: &[&str] = &["lines", "bytes", "MFMA %", "flop/B", "conflicts"];
const FAMILIES: [Family; 8] = [
    Family {
        title: "tree_attention: R = 64 query rows a workgroup, a query row being one head of a tree row",
        source: "tree_attention",
        shown: &["tree_attention_bf16_bf16_d128", "tree_attention_bf16_fp8_d128", "tree_attention_reduce_bf16_d128"],
        columns: ATTENTION,
    },
    Family {
        title: "mla_tree_attention: R = 64",
        source: "mla_tree_attention",
        shown: &["mla_tree_attention_bf16_bf16", "mla_tree_attention_bf16_fp8", "mla_tree_attention_reduce_bf16"],
        columns: ATTENTION,
    },
    Family {
        title: "logit rows: passes over a row of 151,936 ids, unfiltered and with top_p 0.9",
        source: "logit_rows",
        shown: &["row_maxima_bf16", "row_masses_bf16"],
        columns: logit_rows::COLUMNS,
    },
    Family { title: "", source: "row_cuts", shown: &["row_cuts_bf16"], columns: logit_rows::COLUMNS },
    Family {
        title: "",
        source: "target_tokens",
        shown: &["target_tokens_bf16", "target_logprobs_bf16"],
        columns: logit_rows::COLUMNS,
    },
    Family { title: "", source: "coupled_children", shown: &["coupled_children_bf16"], columns: logit_rows::COLUMNS },
    Family {
        title: "tree_walk: wave-instructions for a random tree of 127 nodes",
        source: "tree_walk",
        shown: &["tree_walk"],
        columns: &["instructions"],
    },
    Family {
        title: "kv_compact: bytes read and written over twice those that move",
        source: "kv_compact",
        shown: &["kv_compact_16", "kv_move_16"],
        columns: &["bytes"],
    },
];

/// What the simulator counts of a kernel, as text for its family's columns.
fn counted(family: &Family, arch: &'static str, kernel: &str) -> Vec<String> {
    match family.source {
        "tree_attention" | "mla_tree_attention" => {
            let Some(subject) = Subject::of(arch, kernel) else { return Vec::new() };
            let counts = subject.count();
            let size = if subject.cache == Cache::Fp8 { 1 } else { 2 };
            let key = size * subject.dim.map_or(mla::KEY, |dim| 2 * dim);
            let flops = counts.costs[3].tile.counts[3] * 4.0 / (counts.keys * key) as f64;
            vec![
                format!("{:.3}", counts.lines),
                format!("{:.3}", counts.requested),
                format!("{:.1}", 100.0 * counts.matrix_share),
                format!("{flops:.0}"),
                counts.conflicts.to_string(),
            ]
        }
        "tree_walk" => {
            let request = tree_walk::random(&mut Numbers(3), 127);
            let outcome = tree_walk::walk(program("tree_walk", arch), &[request], 127, None).unwrap();
            vec![outcome.instructions.to_string()]
        }
        "kv_compact" => {
            let width = kernel.rsplit('_').next().unwrap().parse().unwrap();
            let mut numbers = Numbers(7);
            let program = program("kv_compact", arch);
            let moved = if kernel.starts_with("kv_move") {
                kv_compact::move_in_order(program, width, &mut numbers)
            } else {
                let (_, layout) = kv_compact::SHAPES.into_iter().find(|(other, _)| *other == width).unwrap();
                kv_compact::compact(program, width, layout, &mut numbers)
            };
            let moved = moved.unwrap();
            let bytes: u64 = moved.traffic.iter().map(|one| one.requested_read + one.requested_written).sum();
            vec![format!("{:.3}", bytes as f64 / (2 * moved.bytes * moved.traffic.len()) as f64)]
        }
        _ => logit_rows::counted(arch, kernel),
    }
}

fn table(all: bool) {
    for family in FAMILIES {
        if !family.title.is_empty() {
            println!("\n{}", family.title);
            print!(
                "  {:33} {:6} {:>4} {:>4} {:>4} {:>7} {:>5}",
                "kernel", "arch", "VGPR", "AGPR", "SGPR", "LDS KiB", "waves"
            );
            family.columns.iter().for_each(|column| print!(" {column:>12}"));
            println!();
        }
        let mut kernels: Vec<_> = program(family.source, ARCHITECTURES[0]).kernels().collect();
        kernels.sort_unstable();
        for kernel in kernels.into_iter().filter(|kernel| all || family.shown.contains(kernel)) {
            for arch in ARCHITECTURES {
                let m = program(family.source, arch).metadata(kernel).unwrap();
                let lds = f64::from(m.lds) / 1024.0;
                print!("  {kernel:33} {arch:6} {:4} {:4} {:4} {lds:7.1} {:5}", m.vgprs, m.agprs, m.sgprs, m.occupancy);
                counted(&family, arch, kernel).iter().for_each(|column| print!(" {column:>12}"));
                println!();
            }
        }
    }
}

/// Wave-instructions a second: eight workgroups of `tree_attention`, 512 query rows over 2048 keys and more, in about a second.
fn speed() {
    for arch in ARCHITECTURES {
        let settings =
            tree::Settings { group: 8, page_size: 64, ..tree::Settings::new(arch, Query::Bf16, Cache::Query, 128) };
        let problem = tree::Problem::new(settings, vec![Request::chain(2048, 64)], 3);
        let (start, mut instructions) = (Instant::now(), 0);
        while start.elapsed().as_secs_f64() < 1.0 {
            instructions += problem.run_on(program(tree::SOURCE, arch)).unwrap().report.instructions;
        }
        let seconds = start.elapsed().as_secs_f64();
        println!("  {arch}: {:.1} million wave-instructions a second, one core", instructions as f64 / seconds / 1e6);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut all = false;
    for argument in env::args().skip(1) {
        if argument != "--all" {
            return Err(format!("argument is {argument:?}; expected --all or nothing").into());
        }
        all = true;
    }
    println!(
        "VGPR, AGPR, SGPR: registers. waves: a SIMD, by registers and LDS. lines: distinct 128-byte lines of the cache over the fewest;"
    );
    println!(
        "bytes: requested ones over those of ceil(query rows / R) readings. MFMA %: of a tile's instructions. flop/B: matrix operations for"
    );
    println!(
        "each byte of the cache at 64 query rows. conflicts: LDS cycles lost.{}",
        if all { "" } else { " More variants: KERNELS_ARGS=--all." }
    );
    table(all);
    println!("\nsimulator");
    speed();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/hip_counts.json");
    fs::write(&path, counts::json())?;
    Ok(())
}
