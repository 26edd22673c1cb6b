//! MLA tree attention on the device against the definition in f64, and against itself where the bits must agree.

#[path = "../common/mod.rs"]
mod common;
#[path = "../tree_attention/pairwise.rs"]
mod pairwise;
#[allow(dead_code, reason = "mutants and counts use the rest")]
mod problem;

use common::request::{Capacity, Request};
use common::{ARCHITECTURES, Numbers, program};
use gfxsim::Memory;
use pairwise::{missing, pairwise};
use problem::{KEY, Problem, SOURCE, Settings, TYPES};
use specverify_hip::abi::{Arguments, MlaTreeAttentionArgs};
use specverify_hip::mla_tree_attention::{Plan, ROWS, splits};
use specverify_hip::tree_attention::{Cache, Query};

#[test]
fn agrees_with_the_definition_on_a_pairwise_array_gfx942() {
    pairwise_array("gfx942");
}

#[test]
fn agrees_with_the_definition_on_a_pairwise_array_gfx950() {
    pairwise_array("gfx950");
}

/// The cases of an architecture, which is a factor of the array too.
fn pairwise_array(only: &str) {
    const QUERIES: [usize; 6] = [1, 3, 5, 17, 65, 128];
    const CONTEXTS: [usize; 7] = [0, 1, 15, 16, 63, 260, 1025];
    const HEADS: [usize; 5] = [4, 16, 20, 32, 128];
    const PAGES: [usize; 5] = [1, 16, 48, 64, 256];
    const SPLITS: [(usize, usize); 4] = [(1, 0), (3, 0), (8, 128), (70, 0)];
    let levels = [2, TYPES.len(), QUERIES.len(), CONTEXTS.len(), HEADS.len(), PAGES.len(), SPLITS.len(), 2, 2, 2, 3];
    // Small cases where they will do, and none beyond the time there is: larger are `all_heads_of_the_largest_tree` and `a_context_of_2048`.
    let within = |most: usize| {
        move |case: &[Option<usize>]| {
            let [queries, context, heads] = [(2, &QUERIES[..]), (3, &CONTEXTS), (4, &HEADS)]
                .map(|(i, of)| case[i].map_or(of[0], |level| of[level]));
            queries * heads * (context + queries) < most
        }
    };
    let mut cases = Vec::new();
    pairwise(&mut cases, &levels, within(100_000));
    pairwise(&mut cases, &levels, within(600_000));
    assert!(cases.len() <= 60, "{} cases", cases.len());
    let left_out = missing(&levels, &cases);
    assert_eq!(left_out, [[(2, QUERIES.len() - 1), (4, HEADS.len() - 1)]], "{left_out:?}");
    for (number, case) in cases.iter().enumerate() {
        let &[arch, types, queries, context, heads, page, splits, padded, apart, scaled, tree] = &case[..] else {
            unreachable!()
        };
        if ARCHITECTURES[arch] != only {
            continue;
        }
        let mut numbers = Numbers(number as u64);
        let settings = Settings {
            heads: HEADS[heads],
            page_size: PAGES[page],
            token_stride: [KEY, KEY + 64][padded],
            between_pages: [0, 40][padded],
            between_heads: [0, 8][apart],
            scaled: scaled == 1,
            splits: SPLITS[splits].0,
            split_keys: SPLITS[splits].1,
            implicit_chain: tree == 0,
            ..Settings::new(ARCHITECTURES[arch], TYPES[types])
        };
        let mut request = |context, rows| match tree {
            0 | 1 => Request::chain(context, rows),
            _ => Request::random(context, rows, &mut numbers),
        };
        let requests = vec![
            request(33, 2),
            Request { empty: true, ..request(7, 1) },
            request(CONTEXTS[context], QUERIES[queries]),
            Request { empty: true, ..request(0, 1) },
        ];
        let problem = Problem::new(settings, requests, number as u64);
        problem.check(&problem.run());
    }
}

#[test]
fn all_heads_of_the_largest_tree() {
    let settings = Settings { heads: 128, page_size: 64, ..Settings::new("gfx950", TYPES[2]) };
    let problem = Problem::new(settings, vec![Request::random(5, 128, &mut Numbers(128))], 128);
    problem.check(&problem.run());
}

#[test]
fn a_context_of_2048() {
    for (arch, types) in ARCHITECTURES.into_iter().zip([TYPES[1], TYPES[0]]) {
        let settings = Settings { splits: 3, page_size: 1, ..Settings::new(arch, types) };
        let problem = Problem::new(settings, vec![Request::random(2048, 5, &mut Numbers(2048))], 2048);
        problem.check(&problem.run());
    }
}

/// Case 21: two siblings; the latent of one changes, to NaN even, and the other's output does not move.
#[test]
fn case_21_a_non_ancestor_changes_nothing() {
    for arch in ARCHITECTURES {
        for types in TYPES {
            let settings = Settings::new(arch, types);
            let nan = settings.elements.not_a_number();
            let requests = vec![Request { context: 61, parents: vec![-1, -1, 0, 1], empty: false }];
            let problem = Problem::new(settings, requests, 21);
            let before = problem.run();
            problem.check(&before);
            // Node 0 is key 62; rows 1 and 3 see it, rows 0, 2 and 4 do not. The last changes one element alone, of each part.
            for (elements, value) in [(0..KEY, 0x01), (0..KEY, nan), (77..78, nan), (530..531, nan)] {
                let mut other = problem.clone();
                other.kv[0][62 * KEY..63 * KEY][elements].fill(value);
                let after = other.run();
                for unmoved in [0, 2, 4] {
                    assert_eq!(problem.row(&before, unmoved), problem.row(&after, unmoved), "{settings:?}: {value:#x}");
                }
                for moved in [1, 3] {
                    let row = problem.row(&after, moved);
                    assert_ne!(problem.row(&before, moved), row, "{settings:?}: {value:#x}");
                    let is_nan = |&bits: &u16| settings.elements.query_value(bits).is_nan();
                    assert!(value != nan || row.iter().all(is_nan), "{settings:?}: who sees NaN gets NaN");
                }
            }
        }
    }
}

/// Case 24: three queries whose outputs were all the same, and five that aborted.
#[test]
fn case_24_odd_query_lengths() {
    for arch in ARCHITECTURES {
        for rows in [3, 5] {
            let problem = Problem::new(Settings::new(arch, TYPES[0]), vec![Request::chain(100, rows)], 24);
            let outcome = problem.run();
            problem.check(&outcome);
            assert!((1..rows).all(|row| problem.row(&outcome, row) != problem.row(&outcome, row - 1)));
        }
    }
}

/// Case 25: a split in which no row sees a key gave NaN: context 260, 8 queries, 16 heads.
#[test]
fn case_25_a_split_without_visible_keys() {
    for arch in ARCHITECTURES {
        // Splits beyond the end of the keys, and one that holds a single node, which most rows do not see.
        for (context, splits, split_keys) in [(260, 64, 64), (260, 5, 0), (248, 8, 64), (260, 256, 64)] {
            let settings = Settings { splits, split_keys, ..Settings::new(arch, TYPES[0]) };
            let problem = Problem::new(settings, vec![Request::random(context, 9, &mut Numbers(25))], 25);
            problem.check(&problem.run());
        }
    }
}

/// Case 26: a kernel told of one query while four came. n queries are n decodes, bit for bit, whatever shares the launch.
#[test]
fn case_26_n_queries_equal_n_single_decodes() {
    for arch in ARCHITECTURES {
        for types in TYPES {
            for (splits, rows, context) in [(1, 4, 62), (4, 4, 190), (1, 70, 30)] {
                let split_keys = if splits > 1 { 64 } else { 0 };
                let settings = Settings { splits, split_keys, implicit_chain: true, ..Settings::new(arch, types) };
                let together = Problem::new(settings, vec![Request::chain(context, rows)], 26);
                let outcome = together.run();
                for row in [0, 1, 3, rows - 1] {
                    let width = settings.heads * KEY;
                    let single = Problem {
                        requests: vec![Request::chain(context + row, 1)],
                        q: together.q[row * width..][..width].to_vec(),
                        kv: vec![together.kv[0][..(context + row + 1) * KEY].to_vec()],
                        ..together.clone()
                    };
                    assert_eq!(single.run().bits, together.row(&outcome, row), "{settings:?}: row {row} of {rows}");
                }
            }
        }
    }
}

#[test]
fn neither_the_order_of_pages_nor_other_requests_change_a_bit() {
    for arch in ARCHITECTURES {
        for (types, page_size) in TYPES.into_iter().zip([16, 1, 1, 64]) {
            let settings = Settings { splits: 3, page_size, heads: 20, ..Settings::new(arch, types) };
            let requests = vec![Request::random(200, 9, &mut Numbers(1)), Request::random(70, 20, &mut Numbers(2))];
            let problem = Problem::new(settings, requests, 5);
            let outcome = problem.run();
            assert_eq!(Problem { page_seed: 99, ..problem.clone() }.run().bits, outcome.bits);
            assert_eq!(problem.alone(1).run().bits, outcome.bits[9 * settings.row_width()..]);
        }
    }
}

/// Padding slots of a captured graph alone: nothing is read and nothing written.
#[test]
fn a_batch_without_rows() {
    for arch in ARCHITECTURES {
        for splits in [1, 3] {
            let settings = Settings { splits, ..Settings::new(arch, TYPES[0]) };
            let empty = Request { empty: true, ..Request::chain(40, 3) };
            assert!(Problem::new(settings, vec![empty.clone(), empty], 0).run().bits.is_empty());
        }
    }
}

/// A captured launch: the same arguments and the same grid while rows, contexts, trees, pages, queries and keys change on the device. What
/// the launch before left in the workspace and in the output is there.
#[test]
fn a_captured_launch_serves_whatever_the_device_holds() {
    for arch in ARCHITECTURES {
        for types in [TYPES[0], TYPES[3]] {
            let settings = Settings { splits: 4, heads: 4, ..Settings::new(arch, types) };
            let mut numbers = Numbers(6);
            let empty = Request { empty: true, ..Request::chain(9, 1) };
            let batches = [
                vec![Request::random(300, 9, &mut numbers), Request::random(15, 3, &mut numbers), empty.clone()],
                vec![empty, Request::random(0, 1, &mut numbers), Request::random(61, 66, &mut numbers)],
            ];
            let capacity = Capacity { rows: 70, request_rows: 66, pages: 30, table: 22 };
            let problem = |(seed, requests)| Problem { capacity, ..Problem::new(settings, requests, seed) };
            let problems: Vec<_> = (10..).zip(batches).map(problem).collect();
            let mut memory = Memory::new();
            let captured = problems[0].upload(&mut memory);
            for problem in &problems {
                let mut wanted = Memory::new();
                let upload = problem.upload(&mut wanted);
                assert_eq!(upload.arguments.bytes(), captured.arguments.bytes());
                memory.refill(&wanted);
                problem.check(&problem.launch(program(SOURCE, arch), &captured, &mut memory).unwrap());
            }
        }
    }
}

/// Each byte of the cache crosses the memory bus once, and is asked for once a block of 64 query rows.
#[test]
fn traffic_is_close_to_the_least_possible() {
    for arch in ARCHITECTURES {
        for types in TYPES {
            let settings = Settings { page_size: 64, ..Settings::new(arch, types) };
            let problem = Problem::new(settings, vec![Request::random(1100, 9, &mut Numbers(3))], 3);
            let outcome = problem.run();
            let bytes = problem.requests[0].keys() * KEY * settings.elements.element_bytes();
            let passes = (9 * settings.heads).div_ceil(ROWS as usize);
            let lines = outcome.traffic.lines_read as f64 / (bytes as f64 / 128.0);
            let requested = outcome.traffic.requested_read as f64 / (passes * bytes) as f64;
            assert!(lines <= 1.10 && requested <= 1.10, "{settings:?}: lines {lines}, requested {requested}");
            assert_eq!(outcome.report.lds_conflict_cycles, 0, "{settings:?}: {:?}", outcome.report);
        }
    }
}

/// A workgroup fits a compute unit of gfx942, and products run on the matrix cores. That no kernel spills or starves, `code_objects.rs`
/// asserts of all.
#[test]
fn lds_and_matrix_instructions() {
    for arch in ARCHITECTURES {
        let program = program(SOURCE, arch);
        assert_eq!(program.kernels().count(), 6);
        for kernel in program.kernels().filter(|kernel| !kernel.contains("reduce")) {
            let m = program.metadata(kernel).unwrap();
            assert!(m.lds <= 48 * 1024, "{arch} {kernel}: {m:?}");
            let shape = if arch == "gfx942" { "16x16x16" } else { "16x16x32" };
            let kind = if kernel.starts_with("mla_tree_attention_bf16") { "bf16" } else { "f16" };
            let expected = format!("v_mfma_f32_{shape}_{kind}");
            assert!(
                program.mnemonics(kernel).unwrap().any(|(name, _)| name.starts_with(&expected)),
                "{arch} {kernel}: {expected}"
            );
        }
    }
}

#[test]
fn what_the_kernels_cannot_do_is_refused_with_the_value() {
    let good = MlaTreeAttentionArgs {
        requests: 4,
        rows: 8,
        heads: 16,
        page_size: 1,
        words: 1,
        splits: 1,
        kv_stride_token: 576,
        ..MlaTreeAttentionArgs::default()
    };
    let plan = |a: &MlaTreeAttentionArgs, rows| Plan::new(Query::Bf16, Cache::Query, rows, a);
    assert_eq!(plan(&good, 128).unwrap().attention.1.grid, [8, 32, 1]);
    let split = MlaTreeAttentionArgs { splits: 16, partial_out: 4096, partial_stats: 4096, ..good };
    let planned = plan(&split, 1).unwrap();
    assert_eq!((planned.attention.1.grid, planned.partial_out), ([8, 1, 8], 16 * 8 * 16 * 512));
    assert_eq!(planned.reduction.unwrap().1.grid, [32, 1, 1]);
    // One workgroup a compute unit, and parts of 256 keys or more.
    assert_eq!(
        [splits(1, 128, 8, 32_768, 304), splits(1, 16, 1, 3_584, 304), splits(64, 128, 8, 4_096, 304)],
        [19, 14, 1]
    );
    // Enough workgroups for two of eight dies, or for four.
    assert_eq!(
        [splits(1, 128, 64, 32_768, 256), splits(2, 128, 64, 32_768, 256), splits(1, 128, 64, 500, 256)],
        [8, 4, 2]
    );
    let bad: [(MlaTreeAttentionArgs, u32, &str); 9] = [
        (good, 129, "max_rows is 129; expected 1 to 128: the root and up to 127 nodes"),
        (MlaTreeAttentionArgs { heads: 129, ..good }, 1, "heads is 129; expected 1 to 128"),
        (MlaTreeAttentionArgs { page_size: 0, ..good }, 1, "page_size is 0; expected 1 or more"),
        (MlaTreeAttentionArgs { splits: 2, ..good }, 1, "splits is 2; expected 1, unless partial_out"),
        (MlaTreeAttentionArgs { splits: 257, ..good }, 1, "splits is 257; expected 1 to 256"),
        (MlaTreeAttentionArgs { split_keys: 100, ..good }, 1, "split_keys is 100"),
        (MlaTreeAttentionArgs { kv_stride_token: 580, ..good }, 1, "kv_stride_token is 580; expected a multiple of 8"),
        (MlaTreeAttentionArgs { kv: 8, ..good }, 1, "kv is 0x8; expected an address that is a multiple of 16"),
        (MlaTreeAttentionArgs { words: 3, ancestors: 8, ..good }, 1, "words is 3; expected 1 or 2"),
    ];
    for (arguments, rows, message) in bad {
        let said = plan(&arguments, rows).unwrap_err().to_string();
        assert!(said.starts_with(message), "{said:?}; expected {message:?}");
    }
}
