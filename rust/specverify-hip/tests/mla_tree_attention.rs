//! MLA tree attention on the device against the definition in f64, and against itself where the bits must agree.

mod common;
#[path = "tree_attention/pairwise.rs"]
mod pairwise;

use common::elements::{Elements, normal};
use common::request::{Pages, Request, rows};
use common::{ARCHITECTURES, Numbers, input, launch, program};
use gfxsim::{Memory, Report, Traffic};
use pairwise::pairwise;
use specverify_hip::abi::MlaTreeAttentionArgs;
use specverify_hip::mla_tree_attention::{LATENT, Plan, ROWS, WIDTH, splits};
use specverify_hip::tree_attention::{Cache, Query};

const SOURCE: &str = "mla_tree_attention";
const VALUE: usize = LATENT as usize;
const KEY: usize = WIDTH as usize;
const KV_SCALE: f32 = 0.0625;

const TYPES: [(Query, Cache); 4] =
    [(Query::Bf16, Cache::Query), (Query::F16, Cache::Query), (Query::Bf16, Cache::Fp8), (Query::F16, Cache::Fp8)];

#[derive(Clone, Copy, Debug)]
struct Settings {
    elements: Elements,
    heads: usize,
    page_size: usize,
    /// Elements between tokens: what lies between belongs to nobody.
    token_stride: usize,
    splits: usize,
    split_keys: usize,
    /// Chains only: no ancestor bits.
    implicit_chain: bool,
}

impl Settings {
    fn new(arch: &'static str, (query, cache): (Query, Cache)) -> Self {
        Self {
            elements: Elements { arch, query, cache },
            heads: 16,
            page_size: 16,
            token_stride: KEY,
            splits: 1,
            split_keys: 0,
            implicit_chain: false,
        }
    }

    fn scale(&self) -> f32 {
        (KEY as f32).powf(-0.5)
    }

    fn kv_scale(&self) -> f64 {
        if self.elements.cache == Cache::Fp8 { KV_SCALE.into() } else { 1.0 }
    }

    fn row_width(&self) -> usize {
        self.heads * VALUE
    }
}

/// Numbers as bits of their types: q `[rows][heads][576]`, kv of each request `[keys][576]`.
#[derive(Clone)]
struct Problem {
    settings: Settings,
    requests: Vec<Request>,
    q: Vec<u16>,
    kv: Vec<Vec<u16>>,
    /// Orders the pages.
    page_seed: u64,
}

struct Outcome {
    /// `[rows][heads][512]`
    bits: Vec<u16>,
    report: Report,
    /// Of the cache.
    traffic: Traffic,
}

impl Problem {
    fn new(settings: Settings, requests: Vec<Request>, seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        let elements = settings.elements;
        let rows: usize = requests.iter().map(Request::rows).sum();
        let q = (0..rows * settings.heads * KEY).map(|_| elements.query_bits(2.0 * normal(&mut numbers))).collect();
        let sizes = requests.iter().map(|request| request.keys() * KEY);
        let kv = sizes.map(|size| (0..size).map(|_| elements.random_element(&mut numbers)).collect()).collect();
        Self { settings, requests, q, kv, page_seed: seed }
    }

    /// Everything that the request does not own is poisoned: reading it is a fault. What it owns but has not filled is NaN.
    fn run(&self) -> Outcome {
        let s = &self.settings;
        let mut memory = Memory::new();
        let pages = Pages::new(&self.requests, s.page_size, self.page_seed);
        let size = s.elements.element_bytes();
        let page_stride = s.page_size * s.token_stride;
        let nan = s.elements.not_a_number().to_le_bytes();
        let mut image: Vec<u8> = nan[..size].repeat(pages.count * page_stride);
        let mut owned = vec![false; pages.count * s.page_size];
        for (b, kv) in self.kv.iter().enumerate() {
            for (key, values) in kv.chunks(KEY).enumerate() {
                let (page, offset) = pages.slot(b, key);
                owned[page * s.page_size + offset] = true;
                let at = (page * page_stride + offset * s.token_stride) * size;
                for (element, bits) in image[at..].chunks_exact_mut(size).zip(values) {
                    element.copy_from_slice(&bits.to_le_bytes()[..size]);
                }
            }
        }
        let kv = memory.add_read_only("kv", &image);
        for (token, &owned) in owned.iter().enumerate() {
            let start = if owned { KEY } else { 0 };
            memory.poison(kv, (token * s.token_stride + start) * size..(token + 1) * s.token_stride * size);
        }
        let trees = rows(&self.requests, &mut memory);
        let q = input(&mut memory, "q", &self.q);
        let out = memory.reserve("out", trees.rows * s.row_width() * 2);
        let mut a = MlaTreeAttentionArgs {
            out: out.address(),
            q: q.address(),
            kv: kv.address(),
            block_table: input(&mut memory, "block_table", &pages.table).address(),
            cu_rows: trees.cu_rows,
            context_lens: trees.context_lens,
            ancestors: if s.implicit_chain { 0 } else { trees.ancestors },
            q_stride_row: (s.heads * KEY) as i64,
            q_stride_head: KEY as i64,
            out_stride_row: s.row_width() as i64,
            out_stride_head: VALUE as i64,
            kv_stride_page: page_stride as i64,
            kv_stride_token: s.token_stride as i64,
            table_stride: pages.stride as i64,
            requests: self.requests.len() as i32,
            // Beyond the rows of the batch there is room for one more.
            rows: trees.rows as i32 + 1,
            heads: s.heads as i32,
            page_size: s.page_size as i32,
            words: trees.words,
            splits: 1,
            split_keys: s.split_keys as i32,
            scale: s.scale(),
            ..MlaTreeAttentionArgs::default()
        };
        if s.elements.cache == Cache::Fp8 {
            a.kv_scale = input(&mut memory, "kv_scale", &[KV_SCALE]).address();
        }
        let max_rows = self.requests.iter().map(Request::rows).max().unwrap().max(1) as u32;
        let plan = |a: &MlaTreeAttentionArgs| Plan::new(s.elements.query, s.elements.cache, max_rows, a).unwrap();
        if s.splits > 1 {
            a.splits = s.splits as i32;
            [a.partial_out, a.partial_stats] = [1024; 2];
            let sizes = plan(&a);
            a.partial_out = memory.reserve("partial_out", sizes.partial_out * 4).address();
            a.partial_stats = memory.reserve("partial_stats", sizes.partial_stats * 4).address();
        }
        let plan = plan(&a);
        let mut report = None;
        for (kernel, geometry) in std::iter::once(&plan.attention).chain(&plan.reduction) {
            let program = program(SOURCE, s.elements.arch);
            let ran = launch(program, kernel, geometry.grid, geometry.block, &a, &mut memory)
                .unwrap_or_else(|fault| panic!("{kernel} {s:?}: {fault}"));
            report.get_or_insert(ran);
        }
        assert!(memory.is_written(out, 0..out.len()), "every row is written: {s:?}");
        let bits = memory.bytes(out).as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
        Outcome { bits, report: report.unwrap(), traffic: memory.traffic(kv) }
    }

    /// Compares with the definition in f64. The bound is one, not a fit: probabilities and outputs are rounded once each (u = 2^-8
    /// or 2^-11), a probability below the normal numbers of f16 loses up to 2^-25, and f32 scores, exponentials and sums of up to
    /// some thousand terms cost less than 1e-4 of the weights.
    fn check(&self, outcome: &Outcome) {
        let s = &self.settings;
        let unit = if s.elements.query == Query::Bf16 { 2_f64.powi(-8) } else { 2_f64.powi(-11) };
        let mut index = 0;
        for (b, request) in self.requests.iter().enumerate() {
            let kv: Vec<f64> = self.kv[b].iter().map(|&bits| s.elements.cache_value(bits) * s.kv_scale()).collect();
            let keys: Vec<&[f64]> = kv.chunks(KEY).collect();
            for row in 0..request.rows() {
                let seen: Vec<&[f64]> =
                    (0..keys.len()).filter(|&key| request.sees(row, key, 0)).map(|key| keys[key]).collect();
                let largest =
                    seen.iter().flat_map(|key| &key[..VALUE]).fold(0.0_f64, |largest, x| largest.max(x.abs()));
                for head in 0..s.heads {
                    let q: Vec<f64> =
                        self.q[index * KEY..][..KEY].iter().map(|&bits| s.elements.query_value(bits)).collect();
                    let scores: Vec<f64> = seen.iter().map(|key| dot(key, &q) * f64::from(s.scale())).collect();
                    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let weights: Vec<f64> = scores.iter().map(|score| (score - top).exp()).collect();
                    let total: f64 = weights.iter().sum();
                    let (mut expected, mut size) = ([0.0; VALUE], [0.0; VALUE]);
                    for (key, weight) in seen.iter().zip(weights.iter().map(|weight| weight / total)) {
                        for ((expected, size), x) in expected.iter_mut().zip(&mut size).zip(&key[..VALUE]) {
                            *expected += weight * x;
                            *size += (weight * x).abs();
                        }
                    }
                    let found = &outcome.bits[index * VALUE..][..VALUE];
                    for (d, &bits) in found.iter().enumerate() {
                        let found = s.elements.query_value(bits);
                        let bound =
                            (2.0 * unit + 1e-4) * size[d] + (seen.len() as f64 + 1.0) * 2_f64.powi(-25) * largest;
                        assert!(
                            (found - expected[d]).abs() <= bound,
                            "{s:?} request {b} (context {}, {} rows) row {row} head {head} d {d}: {found}; expected {} +- {bound}",
                            request.context,
                            request.rows(),
                            expected[d]
                        );
                    }
                    index += 1;
                }
            }
        }
    }

    /// A request of the batch on its own.
    fn alone(&self, request: usize) -> Self {
        let width = self.settings.heads * KEY;
        let first: usize = self.requests[..request].iter().map(Request::rows).sum();
        Self {
            requests: vec![self.requests[request].clone()],
            q: self.q[first * width..][..self.requests[request].rows() * width].to_vec(),
            kv: vec![self.kv[request].clone()],
            ..self.clone()
        }
    }

    /// Bits of a row of the batch.
    fn row<'a>(&self, outcome: &'a Outcome, row: usize) -> &'a [u16] {
        &outcome.bits[row * self.settings.row_width()..][..self.settings.row_width()]
    }
}

/// In eight sums, which the compiler may keep in vectors.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    for (a, b) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        (0..8).for_each(|i| sums[i] += a[i] * b[i]);
    }
    sums.iter().sum()
}

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
    const HEADS: [usize; 4] = [16, 20, 32, 128];
    const PAGES: [usize; 5] = [1, 16, 48, 64, 256];
    const SPLITS: [(usize, usize); 4] = [(1, 0), (3, 0), (8, 128), (70, 0)];
    let cases = pairwise(&[2, 4, QUERIES.len(), CONTEXTS.len(), HEADS.len(), PAGES.len(), SPLITS.len(), 2, 3]);
    assert!(cases.len() <= 60, "{} cases", cases.len());
    for (number, case) in cases.iter().enumerate() {
        let &[arch, types, queries, context, heads, page, splits, padded, tree] = &case[..] else { unreachable!() };
        if ARCHITECTURES[arch] != only {
            continue;
        }
        let mut numbers = Numbers(number as u64);
        let (queries, context, heads) = (QUERIES[queries], CONTEXTS[context], HEADS[heads]);
        let settings = Settings {
            // The largest are left to `all_heads_of_the_largest_tree` and `a_context_of_2048`.
            heads: *[heads, 16, 4].iter().find(|&heads| queries * heads * (context + queries) < 600_000).unwrap(),
            page_size: PAGES[page],
            token_stride: [KEY, KEY + 64][padded],
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
            request(context, queries),
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
