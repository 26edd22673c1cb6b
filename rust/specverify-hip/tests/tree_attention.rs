//! Tree attention on the device against the definition in f64, and against itself where the bits must agree.

mod common;

use common::{ARCHITECTURES, Numbers, input, launch, program};
use gfxsim::{Memory, Report};
use half::{bf16, f16};
use specverify_hip::abi::TreeAttentionArgs;
use specverify_hip::tree_attention::{Cache, DIMS, Plan, Query, ROWS};

const SOURCE: &str = "tree_attention";

/// One request: its tree as parents (-1 is the root), or a chain without ancestor bits.
#[derive(Clone)]
struct Request {
    context: usize,
    parents: Vec<i32>,
    /// A padding slot of a captured graph: no rows.
    empty: bool,
}

impl Request {
    fn chain(context: usize, rows: usize) -> Self {
        Self { context, parents: (0..rows as i32 - 1).map(|i| i - 1).collect(), empty: false }
    }

    fn random(context: usize, rows: usize, numbers: &mut Numbers) -> Self {
        let parents = (0..rows - 1).map(|i| numbers.below(i + 1) as i32 - 1).collect();
        Self { context, parents, empty: false }
    }

    fn rows(&self) -> usize {
        if self.empty { 0 } else { self.parents.len() + 1 }
    }

    fn keys(&self) -> usize {
        if self.empty { 0 } else { self.context + self.rows() }
    }

    /// Node i itself and its ancestors, for row i + 1.
    fn bits(&self, row: usize) -> u128 {
        let (mut bits, mut node) = (0, row as i32 - 1);
        while node >= 0 {
            bits |= 1 << node;
            node = self.parents[node as usize];
        }
        bits
    }

    fn sees(&self, row: usize, key: usize, window: usize) -> bool {
        let depth = |row: usize| self.bits(row).count_ones() as usize;
        let at = if key < self.context { key } else { self.context + depth(key - self.context) };
        let visible = key <= self.context || self.bits(row) >> (key - self.context - 1) & 1 == 1;
        visible && (window == 0 || (self.context + depth(row)).saturating_sub(at) < window)
    }
}

/// What the kernels are specialised for or told.
#[derive(Clone, Copy, Debug)]
struct Settings {
    arch: &'static str,
    query: Query,
    cache: Cache,
    dim: usize,
    kv_heads: usize,
    group: usize,
    page_size: usize,
    splits: usize,
    split_keys: usize,
    window: usize,
    softcap: f32,
    /// Pages hold [heads, tokens, dim] instead of [tokens, heads, dim].
    heads_first: bool,
    /// Chains only: no ancestor bits.
    implicit_chain: bool,
}

impl Settings {
    fn new(arch: &'static str, query: Query, cache: Cache, dim: usize) -> Self {
        Self {
            arch,
            query,
            cache,
            dim,
            kv_heads: 1,
            group: 4,
            page_size: 16,
            splits: 1,
            split_keys: 0,
            window: 0,
            softcap: 0.0,
            heads_first: false,
            implicit_chain: false,
        }
    }

    fn heads(&self) -> usize {
        self.kv_heads * self.group
    }

    fn scale(&self) -> f32 {
        // fp8 keys are large: keep the scores of all types in one range.
        (self.dim as f32).powf(-0.5)
    }

    fn scales(&self) -> Option<[f32; 2]> {
        (self.cache == Cache::Fp8).then_some([0.0625, 0.125])
    }

    fn element_bytes(&self) -> usize {
        if self.cache == Cache::Fp8 { 1 } else { 2 }
    }

    fn query_bits(&self, value: f32) -> u16 {
        match self.query {
            Query::Bf16 => bf16::from_f32(value).to_bits(),
            Query::F16 => f16::from_f32(value).to_bits(),
        }
    }

    fn query_value(&self, bits: u16) -> f64 {
        match self.query {
            Query::Bf16 => bf16::from_bits(bits).to_f64(),
            Query::F16 => f16::from_bits(bits).to_f64(),
        }
    }

    fn cache_value(&self, bits: u16) -> f64 {
        if self.cache == Cache::Query {
            return self.query_value(bits);
        }
        // e4m3: no infinities, bias 8 and one NaN (gfx942) or bias 7 and two (gfx950); the tests' numbers are none of these.
        let bias = if self.arch == "gfx942" { 8 } else { 7 };
        let (exponent, fraction) = (i32::from(bits >> 3 & 15), f64::from(bits & 7));
        let size = if exponent == 0 {
            fraction / 8.0 * 2_f64.powi(1 - bias)
        } else {
            (1.0 + fraction / 8.0) * 2_f64.powi(exponent - bias)
        };
        if bits & 128 == 0 { size } else { -size }
    }

    fn not_a_number(&self) -> u16 {
        match (self.cache, self.arch) {
            (Cache::Query, _) => self.query_bits(f32::NAN),
            (Cache::Fp8, "gfx942") => 0x80,
            (Cache::Fp8, _) => 0x7F,
        }
    }

    fn random_element(&self, numbers: &mut Numbers) -> u16 {
        if self.cache == Cache::Fp8 {
            loop {
                // Exponents up to 2^4, subnormals among them.
                let bits = (numbers.word() & 0xFF) as u16;
                if bits != 0x80 && bits & 0x7F < 0x60 {
                    return bits;
                }
            }
        }
        self.query_bits(normal(numbers))
    }
}

/// Roughly normal: the sum of four uniform numbers.
fn normal(numbers: &mut Numbers) -> f32 {
    (0..4).map(|_| numbers.word() as f32 / 2_f32.powi(32) - 0.5).sum::<f32>() * 1.7
}

/// Numbers as bits of their types: q [rows][heads][dim], k and v of each request [keys][kv_heads][dim].
#[derive(Clone)]
struct Problem {
    settings: Settings,
    requests: Vec<Request>,
    q: Vec<u16>,
    k: Vec<Vec<u16>>,
    v: Vec<Vec<u16>>,
    /// Orders the pages.
    page_seed: u64,
}

struct Outcome {
    /// [rows][heads][dim]
    bits: Vec<u16>,
    report: Report,
    /// Requested bytes and distinct 128-byte lines of K and V together.
    requested: u64,
    lines: u64,
}

impl Problem {
    fn new(settings: Settings, requests: Vec<Request>, seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        let rows: usize = requests.iter().map(Request::rows).sum();
        let q = (0..rows * settings.heads() * settings.dim)
            .map(|_| settings.query_bits(2.0 * normal(&mut numbers)))
            .collect();
        let mut cache = || -> Vec<Vec<u16>> {
            let sizes = requests.iter().map(|request| request.keys() * settings.kv_heads * settings.dim);
            sizes.map(|size| (0..size).map(|_| settings.random_element(&mut numbers)).collect()).collect()
        };
        let (k, v) = (cache(), cache());
        Self { settings, requests, q, k, v, page_seed: seed }
    }

    fn row_width(&self) -> usize {
        self.settings.heads() * self.settings.dim
    }

    fn key_width(&self) -> usize {
        self.settings.kv_heads * self.settings.dim
    }

    /// Everything that the request does not own is poisoned: reading it is a fault. What it owns but has not filled is NaN.
    fn run(&self) -> Outcome {
        let s = &self.settings;
        let mut memory = Memory::new();
        let mut numbers = Numbers(self.page_seed);
        let tables: Vec<usize> = self.requests.iter().map(|r| r.keys().div_ceil(s.page_size)).collect();
        let pages = tables.iter().sum::<usize>() + 2;
        let mut free: Vec<i32> = (0..pages as i32).collect();
        for i in (1..pages).rev() {
            free.swap(i, numbers.below(i + 1));
        }
        let table_stride = tables.iter().max().unwrap() + 1;
        let mut table = vec![i32::MAX; self.requests.len() * table_stride];
        let (token_stride, head_stride) =
            if s.heads_first { (s.dim, s.page_size * s.dim) } else { (s.kv_heads * s.dim, s.dim) };
        let page_stride = s.page_size * self.key_width();
        let size = s.element_bytes();
        let mut images = [vec![0_u8; pages * page_stride * size], vec![0_u8; pages * page_stride * size]];
        images.iter_mut().for_each(|image| {
            let bytes = s.not_a_number().to_le_bytes();
            image.chunks_exact_mut(size).for_each(|element| element.copy_from_slice(&bytes[..size]));
        });
        let mut owned = vec![false; pages * page_stride];
        for (b, request) in self.requests.iter().enumerate() {
            for page in 0..tables[b] {
                table[b * table_stride + page] = free.pop().unwrap();
            }
            for key in 0..request.keys() {
                let page = table[b * table_stride + key / s.page_size] as usize;
                for head in 0..s.kv_heads {
                    let at = page * page_stride + key % s.page_size * token_stride + head * head_stride;
                    owned[at..at + s.dim].fill(true);
                    let from = key * self.key_width() + head * s.dim;
                    for (image, values) in images.iter_mut().zip([&self.k[b], &self.v[b]]) {
                        for (d, bits) in values[from..from + s.dim].iter().enumerate() {
                            image[(at + d) * size..(at + d + 1) * size].copy_from_slice(&bits.to_le_bytes()[..size]);
                        }
                    }
                }
            }
        }
        let [k, v] = [("k", &images[0]), ("v", &images[1])].map(|(name, image)| memory.add_read_only(name, image));
        for at in (0..owned.len()).step_by(s.dim).filter(|&at| !owned[at]) {
            memory.poison(k, at * size..(at + s.dim) * size);
            memory.poison(v, at * size..(at + s.dim) * size);
        }
        // Beyond the fixed capacity of the batch lies one row more.
        let rows = self.requests.iter().map(Request::rows).sum::<usize>();
        let mut cu_rows = vec![0_i32];
        let mut ancestors = Vec::new();
        let words = if self.requests.iter().all(|r| r.rows() <= 65) { 1 } else { 2 };
        for request in &self.requests {
            cu_rows.push(cu_rows.last().unwrap() + request.rows() as i32);
            for row in 0..request.rows() {
                ancestors.extend([request.bits(row) as u64, (request.bits(row) >> 64) as u64].into_iter().take(words));
            }
        }
        let contexts: Vec<i32> = self.requests.iter().map(|request| request.context as i32).collect();
        let q = input(&mut memory, "q", &self.q);
        let out = memory.reserve("out", rows * self.row_width() * 2);
        let mut a = TreeAttentionArgs {
            out: out.address(),
            q: q.address(),
            k: k.address(),
            v: v.address(),
            block_table: input(&mut memory, "block_table", &table).address(),
            cu_rows: input(&mut memory, "cu_rows", &cu_rows).address(),
            context_lens: input(&mut memory, "context_lens", &contexts).address(),
            ancestors: if s.implicit_chain { 0 } else { input(&mut memory, "ancestors", &ancestors).address() },
            q_stride_row: self.row_width() as i64,
            q_stride_head: s.dim as i64,
            out_stride_row: self.row_width() as i64,
            out_stride_head: s.dim as i64,
            k_stride_page: page_stride as i64,
            k_stride_token: token_stride as i64,
            k_stride_head: head_stride as i64,
            v_stride_page: page_stride as i64,
            v_stride_token: token_stride as i64,
            v_stride_head: head_stride as i64,
            table_stride: table_stride as i64,
            requests: self.requests.len() as i32,
            rows: rows as i32 + 1,
            heads: s.heads() as i32,
            kv_heads: s.kv_heads as i32,
            page_size: s.page_size as i32,
            words: words as i32,
            splits: 1,
            split_keys: s.split_keys as i32,
            window: s.window as i32,
            scale: s.scale(),
            softcap: s.softcap,
            ..TreeAttentionArgs::default()
        };
        if let Some(scales) = s.scales() {
            [a.k_scale, a.v_scale] = scales.map(|scale| input(&mut memory, "scale", &[scale]).address());
        }
        let max_rows = self.requests.iter().map(Request::rows).max().unwrap().max(1) as u32;
        if s.splits > 1 {
            a.splits = s.splits as i32;
            [a.partial_out, a.partial_stats] = [1024; 2];
            let plan = Plan::new(s.query, s.cache, s.dim as u32, max_rows, &a).unwrap();
            a.partial_out = memory.reserve("partial_out", plan.partial_out * 4).address();
            a.partial_stats = memory.reserve("partial_stats", plan.partial_stats * 4).address();
        }
        let plan = Plan::new(s.query, s.cache, s.dim as u32, max_rows, &a).unwrap();
        let mut report = None;
        for (kernel, geometry) in std::iter::once(&plan.attention).chain(&plan.reduction) {
            let ran = launch(program(SOURCE, s.arch), kernel, geometry.grid, geometry.block, &a, &mut memory)
                .unwrap_or_else(|fault| panic!("{kernel} {s:?}: {fault}"));
            report.get_or_insert(ran);
        }
        assert!(memory.is_written(out, 0..out.len()), "every row is written: {s:?}");
        let bits = memory.bytes(out).as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
        let traffic = [memory.traffic(k), memory.traffic(v)];
        Outcome {
            bits,
            report: report.unwrap(),
            requested: traffic.iter().map(|t| t.requested_read).sum(),
            lines: traffic.iter().map(|t| t.lines_read).sum(),
        }
    }

    /// Compares with the definition in f64. The bound is one, not a fit: probabilities and outputs are rounded once each (u = 2^-8
    /// or 2^-11), a probability below the normal numbers of f16 loses up to 2^-25, and f32 scores, exponentials and sums of up to
    /// some thousand terms cost less than 1e-4 of the weights.
    fn check(&self, outcome: &Outcome) {
        let s = &self.settings;
        let unit = if s.query == Query::Bf16 { 2_f64.powi(-8) } else { 2_f64.powi(-11) };
        let [k_scale, v_scale] = s.scales().unwrap_or([1.0; 2]).map(f64::from);
        let mut first = 0;
        for (b, request) in self.requests.iter().enumerate() {
            let decode = |bits: &Vec<u16>| bits.iter().map(|&bits| s.cache_value(bits)).collect::<Vec<_>>();
            let (k, v) = (decode(&self.k[b]), decode(&self.v[b]));
            for row in 0..request.rows() {
                let keys: Vec<usize> = (0..request.keys()).filter(|&key| request.sees(row, key, s.window)).collect();
                for head in 0..s.heads() {
                    let at = (first + row) * self.row_width() + head * s.dim;
                    let q: Vec<f64> = self.q[at..at + s.dim].iter().map(|&bits| s.query_value(bits)).collect();
                    let of = |values: &'_ [f64], key: usize| {
                        let from = key * self.key_width() + head / s.group * s.dim;
                        values[from..from + s.dim].to_vec()
                    };
                    let scores: Vec<f64> = keys
                        .iter()
                        .map(|&key| {
                            let dot: f64 = of(&k, key).iter().zip(&q).map(|(x, y)| x * y).sum();
                            let score = dot * f64::from(s.scale()) * k_scale;
                            let cap = f64::from(s.softcap);
                            if cap > 0.0 { cap * (score / cap).tanh() } else { score }
                        })
                        .collect();
                    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let weights: Vec<f64> = scores.iter().map(|score| (score - top).exp()).collect();
                    let total: f64 = weights.iter().sum();
                    let (mut expected, mut size, mut largest) = (vec![0.0; s.dim], vec![0.0; s.dim], 0.0_f64);
                    for (&key, weight) in keys.iter().zip(&weights) {
                        for (d, x) in of(&v, key).into_iter().enumerate() {
                            expected[d] += weight / total * x * v_scale;
                            size[d] += weight / total * (x * v_scale).abs();
                            largest = largest.max((x * v_scale).abs());
                        }
                    }
                    for d in 0..s.dim {
                        let found = s.query_value(outcome.bits[at + d]);
                        let bound =
                            (2.0 * unit + 1e-4) * size[d] + (keys.len() as f64 + 1.0) * 2_f64.powi(-25) * largest;
                        assert!(
                            (found - expected[d]).abs() <= bound,
                            "{s:?} request {b} (context {}, {} rows) row {row} head {head} d {d}: {found}; expected {} +- {bound}",
                            request.context,
                            request.rows(),
                            expected[d]
                        );
                    }
                }
            }
            first += request.rows();
        }
    }

    /// Bits of the rows of a request.
    fn rows_of<'a>(&self, outcome: &'a Outcome, request: usize) -> &'a [u16] {
        let first: usize = self.requests[..request].iter().map(Request::rows).sum();
        &outcome.bits[first * self.row_width()..(first + self.requests[request].rows()) * self.row_width()]
    }
}

/// Levels of each factor such that every pair of levels of two factors occurs in some case: greedily, the level that covers most.
fn pairwise(levels: &[usize]) -> Vec<Vec<usize>> {
    let n = levels.len();
    let mut open = std::collections::BTreeSet::new();
    for i in 0..n {
        for j in i + 1..n {
            open.extend((0..levels[i] * levels[j]).map(|pair| (i, pair / levels[j], j, pair % levels[j])));
        }
    }
    let pair = |i: usize, x: usize, j: usize, y: usize| if i < j { (i, x, j, y) } else { (j, y, i, x) };
    let mut cases = Vec::new();
    while let Some(&(i, x, j, y)) = open.first() {
        let mut case = vec![None; n];
        (case[i], case[j]) = (Some(x), Some(y));
        for f in 0..n {
            if case[f].is_none() {
                let gain = |level: usize| {
                    case.iter()
                        .enumerate()
                        .filter(|&(g, l)| l.is_some_and(|l| open.contains(&pair(f, level, g, l))))
                        .count()
                };
                // Ties take turns, so that factors whose pairs are all covered still vary.
                let start = cases.len();
                case[f] = (0..levels[f]).map(|l| (l + start) % levels[f]).max_by_key(|&level| gain(level));
            }
        }
        let case: Vec<usize> = case.into_iter().flatten().collect();
        for f in 0..n {
            for g in f + 1..n {
                open.remove(&(f, case[f], g, case[g]));
            }
        }
        cases.push(case);
    }
    cases
}

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
    let cases = pairwise(&[
        2,
        6,
        4,
        QUERIES.len(),
        CONTEXTS.len(),
        GROUPS.len(),
        PAGES.len(),
        SPLITS.len(),
        WINDOWS.len(),
        2,
        2,
        3,
    ]);
    assert!(cases.len() <= 80, "{} cases", cases.len());
    for (number, case) in cases.iter().enumerate() {
        let &[arch, dim, types, queries, context, group, page, splits, window, softcap, layout, tree] = &case[..]
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
            heads_first: layout == 1,
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
            for value in [0x01, settings.not_a_number()] {
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
            other.v[0][62 * width] = settings.not_a_number();
            let after = other.run();
            let head = |row: usize| settings.query_value(after.bits[row * problem.row_width()]);
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
                let bytes = 2 * keys * dim * settings.element_bytes();
                let passes = (17 * settings.group).div_ceil(ROWS as usize);
                let lines = outcome.lines as f64 / (bytes as f64 / 128.0);
                let requested = outcome.requested as f64 / (passes * bytes) as f64;
                assert!(lines <= 1.10 && requested <= 1.10, "{settings:?}: lines {lines}, requested {requested}");
                assert_eq!(outcome.report.lds_conflict_cycles, 0, "{settings:?}: {:?}", outcome.report);
            }
        }
    }
}

/// What the compiler says of every kernel.
#[test]
fn registers_lds_occupancy_and_matrix_instructions() {
    for arch in ARCHITECTURES {
        let program = program(SOURCE, arch);
        assert_eq!(program.kernels().count(), 6 * DIMS.len());
        for kernel in program.kernels() {
            let m = program.metadata(kernel).unwrap();
            assert_eq!((m.vgpr_spills, m.sgpr_spills, m.scratch), (0, 0, 0), "{arch} {kernel}");
            assert!(m.lds <= 32 * 1024 && m.occupancy >= 2, "{arch} {kernel}: {m:?}");
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
        (TreeAttentionArgs { k: 8, ..good }, 128, 1, "k is 8"),
    ];
    for (arguments, dim, rows, message) in bad {
        let said = plan(&arguments, dim, rows).unwrap_err().to_string();
        assert!(said.starts_with(message), "{said:?}; expected {message:?}");
    }
}
