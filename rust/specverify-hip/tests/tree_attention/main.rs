//! Tree attention on the device against the definition in f64, and against itself where the bits must agree.

#[path = "../common/mod.rs"]
mod common;
mod pairwise;
#[allow(dead_code, reason = "mutants and counts use the rest")]
mod problem;

use common::request::{Capacity, Request};
use common::{ARCHITECTURES, Numbers, program};
use gfxsim::Memory;
use pairwise::{missing, pairwise};
use problem::{Heads, Layout, Outcome, Problem, SOURCE, Settings};
use specverify_hip::abi::{Arguments, TreeAttentionArgs};
use specverify_hip::tree_attention::{Cache, DIMS, Plan, Query, ROWS};

const TYPES: [(Query, Cache); 4] =
    [(Query::Bf16, Cache::Query), (Query::F16, Cache::Query), (Query::Bf16, Cache::Fp8), (Query::F16, Cache::Fp8)];

#[test]
fn agrees_with_the_definition_on_a_pairwise_array() {
    const QUERIES: [usize; 7] = [1, 3, 5, 17, 64, 65, 128];
    const CONTEXTS: [usize; 8] = [0, 1, 15, 16, 63, 260, 1025, 2048];
    const GROUPS: [usize; 5] = [1, 4, 7, 8, 16];
    const PAGES: [usize; 4] = [16, 48, 64, 256];
    const SPLITS: [(usize, usize); 4] = [(1, 0), (3, 0), (8, 128), (64, 0)];
    const WINDOWS: [usize; 4] = [0, 3, 100, 1024];
    let levels = [
        2,
        DIMS.len(),
        TYPES.len(),
        QUERIES.len(),
        CONTEXTS.len(),
        GROUPS.len(),
        PAGES.len(),
        SPLITS.len(),
        WINDOWS.len(),
        2,
        Layout::ALL.len(),
        Heads::ALL.len(),
        2,
        3,
    ];
    let mut cases = Vec::new();
    pairwise(&mut cases, &levels, |_| true);
    assert!(cases.len() <= 90, "{} cases", cases.len());
    let missing = missing(&levels, &cases);
    assert!(missing.is_empty(), "{missing:?}");
    for (number, case) in cases.iter().enumerate() {
        let &[
            arch,
            dim,
            types,
            queries,
            context,
            group,
            page,
            splits,
            window,
            softcap,
            layout,
            heads_layout,
            scaled,
            tree,
        ] = &case[..]
        else {
            unreachable!()
        };
        let mut numbers = Numbers(number as u64);
        let (query, cache) = TYPES[types];
        let settings = Settings {
            kv_heads: if QUERIES[queries] * GROUPS[group] > 64 { 1 } else { 2 },
            group: GROUPS[group],
            page_size: PAGES[page],
            splits: SPLITS[splits].0,
            split_keys: SPLITS[splits].1,
            window: WINDOWS[window],
            softcap: [0.0, 5.0][softcap],
            layout: Layout::ALL[layout],
            heads_layout: Heads::ALL[heads_layout],
            scaled: scaled == 1,
            implicit_chain: tree == 0,
            ..Settings::new(ARCHITECTURES[arch], query, cache, DIMS[dim] as usize)
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

/// Case 21: two siblings; the K and V of one change, to NaN even, and the other's output does not move.
#[test]
fn case_21_a_non_ancestor_changes_nothing() {
    for arch in ARCHITECTURES {
        for ((query, cache), dim) in TYPES.into_iter().zip([128, 64, 256, 80]) {
            let settings = Settings::new(arch, query, cache, dim);
            let requests = vec![Request { context: 61, parents: vec![-1, -1, 0, 1], empty: false }];
            let problem = Problem::new(settings, requests, 21);
            let before = problem.run();
            problem.check(&before);
            for value in [0x01, settings.elements().not_a_number()] {
                let mut other = problem.clone();
                // Node 0 is key 62; rows 1 and 3 see it, rows 0, 2 and 4 do not.
                let width = problem.key_width();
                other.k[0][62 * width..63 * width].fill(value);
                other.v[0][62 * width..63 * width].fill(value);
                let after = other.run();
                let row = |outcome: &Outcome, row: usize| {
                    outcome.bits[row * problem.row_width()..(row + 1) * problem.row_width()].to_vec()
                };
                for unmoved in [0, 2, 4] {
                    assert_eq!(row(&before, unmoved), row(&after, unmoved), "{settings:?}: row {unmoved}, {value:#x}");
                }
                for moved in [1, 3] {
                    assert_ne!(row(&before, moved), row(&after, moved), "{settings:?}: row {moved}, {value:#x}");
                }
            }
            // V alone: who sees the node gets NaN, not a number that looks right.
            let mut other = problem.clone();
            let width = problem.key_width();
            other.v[0][62 * width] = settings.elements().not_a_number();
            let after = other.run();
            let head = |row: usize| settings.elements().query_value(after.bits[row * problem.row_width()]);
            assert!(head(1).is_nan() && head(3).is_nan() && !head(0).is_nan() && !head(2).is_nan());
        }
    }
}

/// Case 24: three queries whose outputs were all the same, and five that aborted.
#[test]
fn case_24_odd_query_lengths() {
    for arch in ARCHITECTURES {
        for rows in [3, 5] {
            let problem =
                Problem::new(Settings::new(arch, Query::Bf16, Cache::Query, 128), vec![Request::chain(100, rows)], 24);
            let outcome = problem.run();
            problem.check(&outcome);
            let positions: Vec<_> = outcome.bits.chunks(problem.row_width()).collect();
            assert!((1..rows).all(|i| positions[i] != positions[i - 1]));
        }
    }
}

/// Case 25: a split in which no row sees a key gave NaN: context 260, 8 queries, 16 heads.
#[test]
fn case_25_a_split_without_visible_keys() {
    for arch in ARCHITECTURES {
        for dim in [128, 256] {
            // A window that ends before the last splits begin to see, and splits beyond the end of the keys.
            for (splits, split_keys, window) in [(64, 64, 0), (8, 64, 16), (4, 64, 70), (5, 0, 2)] {
                let settings = Settings {
                    group: 16,
                    splits,
                    split_keys,
                    window,
                    ..Settings::new(arch, Query::Bf16, Cache::Query, dim)
                };
                let problem = Problem::new(settings, vec![Request::random(260, 8, &mut Numbers(25))], 25);
                problem.check(&problem.run());
            }
        }
    }
}

/// Case 26: a kernel told of one query while four came. n queries are n decodes, bit for bit, whatever shares the launch.
#[test]
fn case_26_n_queries_equal_n_single_decodes() {
    for arch in ARCHITECTURES {
        for ((query, cache), dim) in TYPES.into_iter().zip([128, 96, 112, 256]) {
            for (splits, rows, context) in [(1, 4, 62), (4, 4, 190), (1, 70, 30)] {
                let split_keys = if splits > 1 { 64 } else { 0 };
                let settings =
                    Settings { splits, split_keys, implicit_chain: true, ..Settings::new(arch, query, cache, dim) };
                let together = Problem::new(settings, vec![Request::chain(context, rows)], 26);
                let outcome = together.run();
                for row in [0, 1, 3, rows - 1] {
                    let width = together.row_width();
                    let alone = Problem {
                        requests: vec![Request::chain(context + row, 1)],
                        q: together.q[row * width..(row + 1) * width].to_vec(),
                        k: vec![together.k[0][..(context + row + 1) * together.key_width()].to_vec()],
                        v: vec![together.v[0][..(context + row + 1) * together.key_width()].to_vec()],
                        ..together.clone()
                    };
                    assert_eq!(
                        alone.run().bits,
                        outcome.bits[row * width..(row + 1) * width],
                        "{settings:?}: row {row} of {rows}"
                    );
                }
            }
        }
    }
}

#[test]
fn neither_the_order_of_pages_nor_other_requests_change_a_bit() {
    for arch in ARCHITECTURES {
        for (query, cache) in TYPES {
            let settings = Settings { splits: 3, window: 90, ..Settings::new(arch, query, cache, 112) };
            let requests = vec![Request::random(200, 9, &mut Numbers(1)), Request::random(70, 20, &mut Numbers(2))];
            let problem = Problem::new(settings, requests, 5);
            let outcome = problem.run();
            assert_eq!(Problem { page_seed: 99, ..problem.clone() }.run().bits, outcome.bits);
            let width = problem.row_width();
            let alone = Problem {
                requests: problem.requests[1..].to_vec(),
                q: problem.q[9 * width..].to_vec(),
                k: problem.k[1..].to_vec(),
                v: problem.v[1..].to_vec(),
                ..problem.clone()
            };
            assert_eq!(alone.run().bits, problem.rows_of(&outcome, 1));
        }
    }
}

/// Padding slots of a captured graph alone: nothing is read and nothing written.
#[test]
fn a_batch_without_rows() {
    for arch in ARCHITECTURES {
        for splits in [1, 3] {
            let settings = Settings { splits, ..Settings::new(arch, Query::Bf16, Cache::Query, 128) };
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
        for (query, cache) in TYPES {
            let settings = Settings { splits: 4, kv_heads: 2, ..Settings::new(arch, query, cache, 96) };
            let mut numbers = Numbers(6);
            let empty = Request { empty: true, ..Request::chain(9, 1) };
            let batches = [
                vec![Request::random(300, 17, &mut numbers), Request::random(15, 3, &mut numbers), empty.clone()],
                vec![empty, Request::random(0, 1, &mut numbers), Request::random(61, 66, &mut numbers)],
                vec![Request::chain(16, 2), Request::random(500, 5, &mut numbers), Request::chain(0, 40)],
            ];
            let capacity = Capacity { rows: 70, request_rows: 66, pages: 40, table: 33 };
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

/// Each byte of K and V crosses the memory bus once, and is asked for once a block of 64 query rows.
#[test]
fn traffic_is_close_to_the_least_possible() {
    for arch in ARCHITECTURES {
        for (query, cache) in TYPES {
            for dim in DIMS.map(|dim| dim as usize) {
                let settings = Settings { group: 8, page_size: 64, ..Settings::new(arch, query, cache, dim) };
                let problem = Problem::new(settings, vec![Request::random(1100, 17, &mut Numbers(3))], 3);
                let outcome = problem.run();
                let keys = problem.requests[0].keys();
                let bytes = 2 * keys * dim * settings.elements().element_bytes();
                let passes = (17 * settings.group).div_ceil(ROWS as usize);
                let lines = outcome.lines as f64 / (bytes as f64 / 128.0);
                let requested = outcome.requested as f64 / (passes * bytes) as f64;
                assert!(lines <= 1.10 && requested <= 1.10, "{settings:?}: lines {lines}, requested {requested}");
                assert_eq!(outcome.report.lds_conflict_cycles, 0, "{settings:?}: {:?}", outcome.report);
            }
        }
    }
}

/// Two workgroups fit a compute unit of gfx942, and products run on the matrix cores. That no kernel spills or starves, `code_objects.rs`
/// asserts of all.
#[test]
fn lds_and_matrix_instructions() {
    for arch in ARCHITECTURES {
        let program = program(SOURCE, arch);
        assert_eq!(program.kernels().count(), 6 * DIMS.len());
        for kernel in program.kernels() {
            let m = program.metadata(kernel).unwrap();
            assert!(m.lds <= 32 * 1024, "{arch} {kernel}: {m:?}");
            if kernel.contains("reduce") {
                continue;
            }
            let shape = if arch == "gfx942" { "16x16x16" } else { "16x16x32" };
            let kind = if kernel.starts_with("tree_attention_bf16") { "bf16" } else { "f16" };
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
    let good = TreeAttentionArgs {
        requests: 4,
        rows: 8,
        heads: 8,
        kv_heads: 2,
        page_size: 16,
        words: 1,
        splits: 1,
        k_stride_token: 128,
        v_stride_token: 128,
        ..TreeAttentionArgs::default()
    };
    let plan = |a: &TreeAttentionArgs, dim, rows| Plan::new(Query::Bf16, Cache::Query, dim, rows, a);
    assert_eq!(plan(&good, 128, 128).unwrap().attention.1.grid, [8, 8, 1]);
    let bad: [(TreeAttentionArgs, u32, u32, &str); 8] = [
        (good, 72, 1, "dim is 72; expected 64, 80, 96, 112, 128 or 256"),
        (good, 128, 129, "max_rows is 129"),
        (TreeAttentionArgs { heads: 34, ..good }, 128, 1, "heads is 34; expected 1 to 16 times kv_heads"),
        (TreeAttentionArgs { heads: 7, ..good }, 128, 1, "heads is 7"),
        (TreeAttentionArgs { page_size: 24, ..good }, 128, 1, "page_size is 24; expected a multiple of 16"),
        (TreeAttentionArgs { splits: 2, ..good }, 128, 1, "splits is 2; expected 1, unless partial_out"),
        (TreeAttentionArgs { split_keys: 100, ..good }, 128, 1, "split_keys is 100"),
        (TreeAttentionArgs { k: 8, ..good }, 128, 1, "k is 0x8"),
    ];
    for (arguments, dim, rows, message) in bad {
        let said = plan(&arguments, dim, rows).unwrap_err().to_string();
        assert!(said.starts_with(message), "{said:?}; expected {message:?}");
    }
}
