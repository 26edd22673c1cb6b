//! Tree attention on the CPU against the definition in f64, and against itself where the bits must agree.

#[path = "../../../specverify-hip/tests/tree_attention/pairwise.rs"]
mod pairwise;
mod problem;

use half::bf16;
use pairwise::pairwise;
use problem::{Numbers, Problem, Request, Settings, Type};
use specverify::attention::{Heads, HeadsMut, Paged, TreeAttention, ValuesMut};
use specverify::rows::{Simd, Values};

const TYPES: [[Type; 3]; 5] = [
    [Type::F32; 3],
    [Type::Bf16; 3],
    [Type::F16; 3],
    [Type::Bf16, Type::Bf16, Type::F32],
    [Type::F32, Type::Bf16, Type::F32],
];

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn agrees_with_the_definition_on_a_pairwise_array() {
    const DIMS: [usize; 9] = [8, 32, 64, 72, 80, 96, 112, 128, 256];
    const QUERIES: [usize; 7] = [1, 3, 5, 17, 65, 128, 200];
    const CONTEXTS: [usize; 8] = [0, 1, 15, 16, 63, 511, 1025, 2048];
    const GROUPS: [usize; 5] = [1, 4, 7, 8, 16];
    const PAGES: [usize; 5] = [1, 7, 16, 64, 256];
    const WINDOWS: [usize; 4] = [0, 3, 100, 1024];
    let simds = Simd::available();
    let mut cases = Vec::new();
    let levels = [
        DIMS.len(),
        TYPES.len(),
        QUERIES.len(),
        CONTEXTS.len(),
        GROUPS.len(),
        PAGES.len(),
        WINDOWS.len(),
        simds.len(),
        2,
        2,
        3,
    ];
    pairwise(&mut cases, &levels, |_| true);
    for (number, case) in cases.iter().enumerate() {
        let &[dim, types, queries, context, group, page, window, simd, softcap, layout, tree] = &case[..] else {
            unreachable!()
        };
        let mut numbers = Numbers(number as u64);
        let [q, kv, out] = TYPES[types];
        let settings = Settings {
            kv,
            out,
            kv_heads: if QUERIES[queries] * GROUPS[group] > 64 { 1 } else { 2 },
            group: GROUPS[group],
            page_size: PAGES[page],
            window: WINDOWS[window],
            softcap: [0.0, 5.0][softcap],
            heads_first: layout == 1,
            implicit_chain: tree == 0,
            ..Settings::new(q, DIMS[dim])
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
        problem.check(&problem.run_with(simds[simd]));
    }
}

/// Case 21: two siblings; the K and V of one change, to NaN even, and the other's result does not move.
#[test]
fn case_21_a_non_ancestor_changes_nothing() {
    for (of, dim) in [(Type::F32, 128), (Type::Bf16, 64), (Type::F16, 80)] {
        let settings = Settings { page_size: 5, ..Settings::new(of, dim) };
        let requests = vec![Request { context: 61, parents: vec![-1, -1, 0, 1], empty: false }];
        let problem = Problem::new(settings, requests, 21);
        let before = problem.run();
        problem.check(&before);
        let width = problem.key_width();
        let row = |out: &[f32], row: usize| bits(&out[row * problem.row_width()..(row + 1) * problem.row_width()]);
        for value in [0.01, 1e4, f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut other = problem.clone();
            // Node 0 is key 62; rows 1 and 3 see it, rows 0, 2 and 4 do not.
            other.k[0][62 * width..63 * width].fill(value);
            other.v[0][62 * width..63 * width].fill(value);
            let after = other.run();
            for unmoved in [0, 2, 4] {
                assert_eq!(row(&before, unmoved), row(&after, unmoved), "{settings:?}: row {unmoved}, {value}");
            }
            for moved in [1, 3] {
                assert_ne!(row(&before, moved), row(&after, moved), "{settings:?}: row {moved}, {value}");
            }
        }
        // V alone: who sees the node gets NaN, not a number that looks right.
        let mut other = problem.clone();
        other.v[0][62 * width] = f32::NAN;
        let after = other.run();
        let is_nan = |row: usize| after[row * problem.row_width()].is_nan();
        assert_eq!([0, 1, 2, 3, 4].map(is_nan), [false, true, false, true, false]);
    }
}

/// Case 24: three queries whose results were all the same, and five that aborted.
#[test]
fn case_24_odd_query_lengths() {
    for rows in [3, 5] {
        let problem = Problem::new(Settings::new(Type::F32, 128), vec![Request::chain(100, rows)], 24);
        let out = problem.run();
        problem.check(&out);
        let positions: Vec<_> = out.chunks(problem.row_width()).collect();
        assert!((1..rows).all(|i| positions[i] != positions[i - 1]));
    }
}

/// Case 25: chunks of keys in which no row sees any.
#[test]
fn case_25_a_chunk_without_visible_keys() {
    for window in [1, 16, 70] {
        for context in [260, 1100, 3000] {
            let settings = Settings { window, group: 16, ..Settings::new(Type::F32, 64) };
            let problem = Problem::new(settings, vec![Request::random(context, 8, &mut Numbers(25))], 25);
            problem.check(&problem.run());
        }
    }
}

/// Case 26: a kernel told of one query while four came. n queries are n decodes, bit for bit.
#[test]
fn case_26_n_queries_equal_n_single_decodes() {
    for (of, dim, rows, context) in
        [(Type::F32, 128, 4, 62), (Type::Bf16, 96, 17, 500), (Type::F16, 112, 70, 30), (Type::F32, 40, 9, 1020)]
    {
        for window in [0, 50] {
            let settings = Settings { window, implicit_chain: true, ..Settings::new(of, dim) };
            let together = Problem::new(settings, vec![Request::chain(context, rows)], 26);
            let out = together.run();
            for row in 0..rows {
                let width = together.row_width();
                let alone = Problem {
                    requests: vec![Request::chain(context + row, 1)],
                    q: together.q[row * width..(row + 1) * width].to_vec(),
                    k: vec![together.k[0][..(context + row + 1) * together.key_width()].to_vec()],
                    v: vec![together.v[0][..(context + row + 1) * together.key_width()].to_vec()],
                    ..together.clone()
                };
                let expected = bits(&out[row * width..(row + 1) * width]);
                assert_eq!(bits(&alone.run()), expected, "{settings:?}: row {row} of {rows}");
            }
        }
    }
}

#[test]
fn equal_heads_and_equal_siblings_have_equal_results() {
    let settings = Settings { group: 7, kv_heads: 1, ..Settings::new(Type::F32, 64) };
    // Eleven children of the root with one key, one value and one query.
    let mut problem = Problem::new(settings, vec![Request { context: 70, parents: vec![-1; 11], empty: false }], 3);
    let (dim, width) = (settings.dim, problem.key_width());
    let query = problem.q[..dim].to_vec();
    problem.q.chunks_mut(dim).for_each(|q| q.copy_from_slice(&query));
    for of in [&mut problem.k[0], &mut problem.v[0]] {
        let first = of[71 * width..72 * width].to_vec();
        of[71 * width..].chunks_mut(width).for_each(|x| x.copy_from_slice(&first));
    }
    let out = problem.run();
    problem.check(&out);
    for row in out.chunks(problem.row_width()) {
        assert!(row.chunks(dim).all(|head| bits(head) == bits(&row[..dim])), "heads with one query");
    }
    // Their own keys stand in different places, so the order of summation differs: in the last bits.
    for row in out.chunks(problem.row_width()).skip(2) {
        let far = row.iter().zip(&out[problem.row_width()..]).any(|(x, y)| (x - y).abs() > 1e-6);
        assert!(!far, "siblings");
    }
}

#[test]
fn neither_threads_nor_pages_nor_other_requests_change_a_bit() {
    for (of, window) in [(Type::F32, 0), (Type::Bf16, 90)] {
        let settings = Settings { window, ..Settings::new(of, 112) };
        let requests = vec![
            Request::random(1200, 9, &mut Numbers(1)),
            Request::random(70, 20, &mut Numbers(2)),
            Request::chain(2000, 1),
        ];
        let problem = Problem::new(settings, requests, 5);
        let out = problem.run();
        for threads in ["1", "2", "3", "64"] {
            // SAFETY: nothing in this process reads the environment but through the standard library, which has a lock for it.
            unsafe { std::env::set_var("SPECVERIFY_NUM_THREADS", threads) };
            assert_eq!(bits(&problem.run()), bits(&out), "{threads} threads");
        }
        // SAFETY: as above.
        unsafe { std::env::remove_var("SPECVERIFY_NUM_THREADS") };
        assert_eq!(bits(&Problem { page_seed: 99, ..problem.clone() }.run()), bits(&out));
        for page_size in [1, 5, 128] {
            let settings = Settings { page_size, heads_first: true, ..settings };
            assert_eq!(bits(&Problem { settings, ..problem.clone() }.run()), bits(&out));
        }
        let width = problem.row_width();
        let alone = Problem {
            requests: problem.requests[1..2].to_vec(),
            q: problem.q[9 * width..29 * width].to_vec(),
            k: problem.k[1..2].to_vec(),
            v: problem.v[1..2].to_vec(),
            ..problem.clone()
        };
        assert_eq!(bits(&alone.run()), bits(&out[9 * width..29 * width]));
    }
}

/// A fused multiply-add rounds once where two operations round twice.
#[test]
fn instruction_sets_agree_to_1e_5() {
    for dim in [40, 64, 128] {
        let requests = vec![Request::random(700, 30, &mut Numbers(1)), Request::chain(5, 3)];
        let problem = Problem::new(Settings { softcap: 20.0, ..Settings::new(Type::F32, dim) }, requests, 8);
        let outs: Vec<_> = Simd::available().into_iter().map(|simd| problem.run_with(simd)).collect();
        for other in &outs[1..] {
            let worst = outs[0].iter().zip(other).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
            assert!(worst <= 1e-5, "dim {dim}: {worst}");
        }
    }
}

/// Two requests of 2 and 3 rows over 4 pages of 4 tokens, 4 heads over 2, dim 8.
struct Fixture {
    q: Vec<f32>,
    cache: Vec<f32>,
    table: Vec<i32>,
    cu_rows: Vec<i32>,
    contexts: Vec<i32>,
    ancestors: Vec<u64>,
}

impl Fixture {
    fn new() -> Self {
        Self {
            q: vec![0.5; 5 * 4 * 8],
            cache: vec![0.25; 4 * 4 * 2 * 8],
            table: vec![0, 1, 2, 3],
            cu_rows: vec![0, 2, 5],
            contexts: vec![3, 5],
            ancestors: vec![0, 1, 0, 1, 0b10],
        }
    }

    fn call(&self) -> TreeAttention<'_> {
        let pages = Paged { values: Values::F32(&self.cache), strides: [64, 16, 8] };
        TreeAttention {
            q: Heads { values: Values::F32(&self.q), strides: [32, 8] },
            rows: 5,
            k: pages,
            v: pages,
            pages: 4,
            page_size: 4,
            heads: 4,
            kv_heads: 2,
            dim: 8,
            block_table: &self.table,
            table_stride: 2,
            cu_rows: &self.cu_rows,
            context_lens: &self.contexts,
            ancestors: Some(&self.ancestors),
            words: 1,
            scale: 1.0,
            window: 0,
            softcap: 0.0,
        }
    }
}

fn refused(call: &TreeAttention<'_>) -> String {
    let mut out = vec![0.0; 5 * 4 * 8];
    let said = call.run(&mut HeadsMut { values: ValuesMut::F32(&mut out), strides: [32, 8] }).unwrap_err().to_string();
    assert!(out.iter().all(|&x| x == 0.0), "nothing is written");
    said
}

#[test]
fn bad_numbers_are_refused_with_the_value() {
    let fixture = Fixture::new();
    let good = fixture.call();
    let mut out = vec![0.0; 5 * 4 * 8];
    good.run(&mut HeadsMut { values: ValuesMut::F32(&mut out), strides: [32, 8] }).unwrap();
    assert!(out.iter().all(|&x| (x - 0.25).abs() < 1e-6), "all values are alike");
    let wide = vec![0.5_f64; 5 * 4 * 8];
    let q = |strides| Heads { strides, ..good.q };
    let paged = |strides| Paged { strides, ..good.k };
    let calls = [
        (TreeAttention { dim: 12, ..good }, "dim is 12; expected a multiple of 8"),
        (TreeAttention { dim: 0, ..good }, "dim is 0"),
        (TreeAttention { page_size: 0, ..good }, "page_size is 0"),
        (TreeAttention { kv_heads: 0, ..good }, "kv_heads is 0"),
        (TreeAttention { heads: 3, ..good }, "heads is 3; expected a multiple of kv_heads, which is 2"),
        (TreeAttention { heads: 0, ..good }, "heads is 0"),
        (TreeAttention { scale: f32::NAN, ..good }, "scale is NaN"),
        (TreeAttention { softcap: -1.0, ..good }, "softcap is -1"),
        (TreeAttention { softcap: f32::INFINITY, ..good }, "softcap is inf"),
        (TreeAttention { q: Heads { values: Values::F64(&wide), ..good.q }, ..good }, "q has dtype float64"),
        (TreeAttention { q: q([33, 8]), ..good }, "q has length 160 elements; expected [5, 4, 8] with strides [33, 8]"),
        (TreeAttention { q: q([usize::MAX, 8]), ..good }, "q has length"),
        (TreeAttention { k: paged([64, 16, 9]), ..good }, "k has length 256 elements"),
        (TreeAttention { v: paged([65, 16, 8]), ..good }, "v has length 256 elements"),
        (TreeAttention { pages: 5, ..good }, "k has length"),
        (TreeAttention { pages: 3, ..good }, "block_table[1][1] is 3; expected a page from 0 to 2"),
        (
            TreeAttention { page_size: 2, ..good },
            "block_table has length 4 elements, 2 a request; expected 3 pages of 2",
        ),
        (TreeAttention { table_stride: 3, ..good }, "block_table has length"),
        (TreeAttention { table_stride: usize::MAX, ..good }, "block_table has length"),
        (TreeAttention { words: 0, ..good }, "words is 0; expected 1 for the 1 nodes of request 0"),
        (TreeAttention { words: 2, ..good }, "ancestors"),
        (TreeAttention { words: usize::MAX, ..good }, "ancestors has length"),
        (TreeAttention { rows: 4, ..good }, "cu_rows[2] is 5; expected from 2"),
    ];
    for (call, message) in calls {
        let said = refused(&call);
        assert!(said.starts_with(message), "{said:?}; expected {message:?}");
    }
    let change = |change: &dyn Fn(&mut Fixture), message: &str| {
        let mut fixture = Fixture::new();
        change(&mut fixture);
        let said = refused(&fixture.call());
        assert!(said.starts_with(message), "{said:?}; expected {message:?}");
    };
    change(&|f| f.table[2] = 4, "block_table[1][0] is 4; expected a page from 0 to 3");
    change(&|f| f.table[1] = -1, "block_table[0][1] is -1");
    change(&|f| f.cu_rows = vec![0, 2], "cu_rows has length 2; expected 3");
    change(&|f| f.cu_rows[0] = 1, "cu_rows[0] is 1; expected 0");
    change(&|f| f.cu_rows[1] = -2, "cu_rows[1] is -2; expected from 0");
    change(&|f| f.cu_rows[1] = 6, "cu_rows[1] is 6");
    change(&|f| f.contexts[1] = -1, "context_lens[1] is -1");
    change(&|f| f.contexts[1] = i32::MAX, "block_table has length");
    change(&|f| f.ancestors[0] = 1, "ancestors[0] is 0x1; expected 0, since the root is no node");
    change(&|f| f.ancestors[1] = 0, "ancestors[1] is 0x0; expected bits of nodes up to 0");
    change(&|f| f.ancestors[3] = 0b11, "ancestors[3] is 0x3");
    change(&|f| f.ancestors.truncate(4), "ancestors has length 4 words; expected [5, 1]");
}

#[test]
fn results_that_would_overlap_are_refused() {
    let fixture = Fixture::new();
    let call = fixture.call();
    for strides in [[32, 7], [31, 8], [8, 39], [0, 8]] {
        let mut out = vec![bf16::ZERO; 500];
        let said = call.run(&mut HeadsMut { values: ValuesMut::Bf16(&mut out), strides }).unwrap_err().to_string();
        assert!(
            said.starts_with(&format!("out.strides is {strides:?}; expected strides with which [5, 4, 8]")),
            "{said}"
        );
    }
    let mut short = vec![0.0; 5 * 4 * 8 - 1];
    let said =
        call.run(&mut HeadsMut { values: ValuesMut::F32(&mut short), strides: [32, 8] }).unwrap_err().to_string();
    assert!(said.starts_with("out has length 159 elements; expected [5, 4, 8]"), "{said}");
}

#[test]
fn a_batch_of_nothing_writes_nothing() {
    let none = Paged { values: Values::F32(&[]), strides: [0; 3] };
    let fixture = Fixture { cu_rows: vec![0], contexts: vec![], ..Fixture::new() };
    let call = TreeAttention { rows: 0, k: none, v: none, pages: 0, ..fixture.call() };
    call.run(&mut HeadsMut { values: ValuesMut::F32(&mut []), strides: [0, 0] }).unwrap();
}
