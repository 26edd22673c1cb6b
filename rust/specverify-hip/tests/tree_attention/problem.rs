//! A batch for the attention kernels: drawn, laid out in a paged cache, run, and compared with the definition in f64.

use gfxsim::{Buffer, Fault, Memory, Program, Report};
use specverify_hip::Geometry;
use specverify_hip::abi::TreeAttentionArgs;
use specverify_hip::tree_attention::{Cache, Plan, Query};

use crate::common::elements::{Elements, normal};
use crate::common::request::{Capacity, Pages, Request, rows};
use crate::common::{Numbers, input, launch, padded_input, program};

pub const SOURCE: &str = "tree_attention";

/// How K and V lie in one allocation, as engines lay them out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `[2, pages, tokens, heads, dim]`
    Apart,
    /// `[2, pages, heads, tokens, dim]`
    ApartHeadsFirst,
    /// `[pages, 2, tokens, heads, dim]`
    Paired,
    /// `[pages, tokens, heads, 2 * dim]`
    Packed,
    /// The second layer of `[pages, 3 layers, 2, heads, tokens, dim]`
    Layers,
    /// K `[pages, heads, tokens, dim + 8]`, then V `[pages, tokens, heads, dim]`
    Unlike,
}

/// Where the elements of K or of V lie: strides of pages, tokens and heads from an offset.
#[derive(Clone, Copy, Debug)]
struct Strides {
    offset: usize,
    page: usize,
    token: usize,
    head: usize,
}

impl Strides {
    fn at(&self, page: usize, token: usize, head: usize) -> usize {
        self.offset + page * self.page + token * self.token + head * self.head
    }
}

impl Layout {
    pub const ALL: [Self; 6] =
        [Self::Apart, Self::ApartHeadsFirst, Self::Paired, Self::Packed, Self::Layers, Self::Unlike];

    /// Of K and of V, and the elements of the allocation.
    fn strides(self, pages: usize, tokens: usize, heads: usize, dim: usize) -> ([Strides; 2], usize) {
        let page = tokens * heads * dim;
        let tokens_first = |offset, page| Strides { offset, page, token: heads * dim, head: dim };
        let heads_first = |offset, page| Strides { offset, page, token: dim, head: tokens * dim };
        match self {
            Self::Apart => ([0, pages * page].map(|offset| tokens_first(offset, page)), 2 * pages * page),
            Self::ApartHeadsFirst => ([0, pages * page].map(|offset| heads_first(offset, page)), 2 * pages * page),
            Self::Paired => ([0, page].map(|offset| tokens_first(offset, 2 * page)), 2 * pages * page),
            Self::Packed => {
                let of = |offset| Strides { offset, page: 2 * page, token: 2 * heads * dim, head: 2 * dim };
                ([0, dim].map(of), 2 * pages * page)
            }
            Self::Layers => ([2 * page, 3 * page].map(|offset| heads_first(offset, 6 * page)), 6 * pages * page),
            Self::Unlike => {
                let wide = tokens * heads * (dim + 8);
                let k = Strides { offset: 0, page: wide, token: dim + 8, head: tokens * (dim + 8) };
                ([k, tokens_first(pages * wide, page)], pages * (wide + page))
            }
        }
    }
}

/// How the heads of q, or of the output, lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heads {
    /// `[rows, heads, dim]`
    Dense,
    /// q is a part of `[rows, heads + 2 * kv_heads, dim]`, as a projection to q, k and v leaves it; the output has 4 elements of another
    /// between its heads.
    Padded,
    /// `[heads, rows, dim]`
    Outermost,
}

impl Heads {
    pub const ALL: [Self; 3] = [Self::Dense, Self::Padded, Self::Outermost];

    /// Strides of rows and heads, and the elements of it all, with room for a number of rows.
    fn strides(self, rows: usize, heads: usize, dim: usize, between_rows: usize, between_heads: usize) -> [usize; 3] {
        let head = dim + between_heads;
        match self {
            Self::Dense => [heads * dim, dim, rows * heads * dim],
            Self::Padded => [heads * head + between_rows, head, rows * (heads * head + between_rows)],
            Self::Outermost => [dim, rows * dim, heads * rows * dim],
        }
    }
}

/// What the kernels are specialised for or told.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub arch: &'static str,
    pub query: Query,
    pub cache: Cache,
    pub dim: usize,
    pub kv_heads: usize,
    pub group: usize,
    pub page_size: usize,
    pub splits: usize,
    pub split_keys: usize,
    pub window: usize,
    pub softcap: f32,
    pub layout: Layout,
    pub heads_layout: Heads,
    /// Chains only: no ancestor bits.
    pub implicit_chain: bool,
    /// K and V have scales.
    pub scaled: bool,
}

impl Settings {
    pub fn new(arch: &'static str, query: Query, cache: Cache, dim: usize) -> Self {
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
            layout: Layout::Apart,
            heads_layout: Heads::Dense,
            implicit_chain: false,
            scaled: cache == Cache::Fp8,
        }
    }

    pub fn heads(&self) -> usize {
        self.kv_heads * self.group
    }

    pub fn scale(&self) -> f32 {
        // fp8 keys are large: keep the scores of all types in one range.
        (self.dim as f32).powf(-0.5) * if self.cache == Cache::Fp8 && !self.scaled { 0.0625 } else { 1.0 }
    }

    pub fn scales(&self) -> Option<[f32; 2]> {
        self.scaled.then_some([0.0625, 0.125])
    }

    pub fn elements(&self) -> Elements {
        Elements { arch: self.arch, query: self.query, cache: self.cache }
    }
}

/// Numbers as bits of their types: q [rows][heads][dim], k and v of each request [keys][kv_heads][dim].
#[derive(Clone)]
pub struct Problem {
    pub settings: Settings,
    pub requests: Vec<Request>,
    pub q: Vec<u16>,
    pub k: Vec<Vec<u16>>,
    pub v: Vec<Vec<u16>>,
    /// Orders the pages.
    pub page_seed: u64,
    /// What the batch does not need of it is poisoned.
    pub capacity: Capacity,
}

/// A batch in memory.
pub struct Upload {
    pub arguments: TreeAttentionArgs,
    pub plan: Plan,
    cache: Buffer,
    out: Buffer,
}

pub struct Outcome {
    /// [rows][heads][dim]
    pub bits: Vec<u16>,
    /// Whether every row was written, and nothing else.
    pub complete: bool,
    pub report: Report,
    /// Of the reduction, where there are splits.
    pub reduction: Option<Report>,
    /// Requested bytes and distinct 128-byte lines of K and V together.
    pub requested: u64,
    pub lines: u64,
}

impl Problem {
    pub fn new(settings: Settings, requests: Vec<Request>, seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        let rows: usize = requests.iter().map(Request::rows).sum();
        let q = (0..rows * settings.heads() * settings.dim)
            .map(|_| settings.elements().query_bits(2.0 * normal(&mut numbers)))
            .collect();
        let mut cache = || -> Vec<Vec<u16>> {
            let sizes = requests.iter().map(|request| request.keys() * settings.kv_heads * settings.dim);
            sizes.map(|size| (0..size).map(|_| settings.elements().random_element(&mut numbers)).collect()).collect()
        };
        let (k, v) = (cache(), cache());
        Self { settings, requests, q, k, v, page_seed: seed, capacity: Capacity::default() }
    }

    pub fn row_width(&self) -> usize {
        self.settings.heads() * self.settings.dim
    }

    pub fn key_width(&self) -> usize {
        self.settings.kv_heads * self.settings.dim
    }

    /// Everything that the request does not own is poisoned: reading it is a fault. What it owns but has not filled is NaN.
    pub fn run(&self) -> Outcome {
        let s = &self.settings;
        let outcome = self.run_on(program(SOURCE, s.arch)).unwrap_or_else(|fault| panic!("{s:?}: {fault}"));
        assert!(outcome.complete, "every row is written and nothing else: {s:?}");
        outcome
    }

    /// As [`Problem::run`], on the kernels of a program; what they meet is the caller's.
    pub fn run_on(&self, program: &Program) -> Result<Outcome, Fault> {
        let mut memory = Memory::new();
        let upload = self.upload(&mut memory);
        self.launch(program, &upload, &mut memory)
    }

    /// Puts everything into memory: what launches need depends on the settings and the capacity alone.
    pub fn upload(&self, memory: &mut Memory) -> Upload {
        let (s, capacity) = (&self.settings, &self.capacity);
        let pages = Pages::new(&self.requests, s.page_size, self.page_seed, capacity);
        let (strides, elements) = s.layout.strides(pages.count, s.page_size, s.kv_heads, s.dim);
        let size = s.elements().element_bytes();
        let mut image = s.elements().not_a_number().to_le_bytes()[..size].repeat(elements);
        let mut owned = vec![false; elements];
        for (b, request) in self.requests.iter().enumerate() {
            for (strides, values) in strides.iter().zip([&self.k[b], &self.v[b]]) {
                for (index, values) in values.chunks_exact(s.dim).enumerate() {
                    let (page, offset) = pages.slot(b, index / s.kv_heads);
                    let at = strides.at(page, offset, index % s.kv_heads);
                    owned[at..at + s.dim].fill(true);
                    for (element, bits) in image[at * size..].chunks_exact_mut(size).zip(values) {
                        element.copy_from_slice(&bits.to_le_bytes()[..size]);
                    }
                }
            }
            assert!(request.keys() * self.key_width() == self.k[b].len());
        }
        let cache = memory.add_read_only("k and v", &image);
        // Rows of any layout start at multiples of 8 elements.
        for at in (0..elements).step_by(8).filter(|&at| !owned[at]) {
            memory.poison(cache, at * size..(at + 8) * size);
        }
        let trees = rows(&self.requests, capacity, memory);
        let [q_row, q_head, q_size] =
            s.heads_layout.strides(trees.capacity, s.heads(), s.dim, 2 * s.kv_heads * s.dim, 0);
        let mut q = vec![None; q_size];
        for (index, values) in self.q.chunks_exact(s.dim).enumerate() {
            let at = index / s.heads() * q_row + index % s.heads() * q_head;
            q[at..at + s.dim].iter_mut().zip(values).for_each(|(element, bits)| *element = Some(*bits));
        }
        let q = padded_input(memory, "q", &q);
        let [out_row, out_head, out_size] = self.out_strides(trees.capacity);
        let out = memory.reserve("out", out_size * 2);
        let [k, v] = strides.map(|strides| cache.address() + (strides.offset * size) as u64);
        let mut a = TreeAttentionArgs {
            out: out.address(),
            q: q.address(),
            k,
            v,
            block_table: input(memory, "block_table", &pages.table).address(),
            cu_rows: trees.cu_rows,
            context_lens: trees.context_lens,
            ancestors: if s.implicit_chain { 0 } else { trees.ancestors },
            q_stride_row: q_row as i64,
            q_stride_head: q_head as i64,
            out_stride_row: out_row as i64,
            out_stride_head: out_head as i64,
            k_stride_page: strides[0].page as i64,
            k_stride_token: strides[0].token as i64,
            k_stride_head: strides[0].head as i64,
            v_stride_page: strides[1].page as i64,
            v_stride_token: strides[1].token as i64,
            v_stride_head: strides[1].head as i64,
            table_stride: pages.stride as i64,
            requests: self.requests.len() as i32,
            // Beyond the rows of the batch there is room for one more.
            rows: trees.capacity as i32 + 1,
            heads: s.heads() as i32,
            kv_heads: s.kv_heads as i32,
            page_size: s.page_size as i32,
            words: trees.words,
            splits: 1,
            split_keys: s.split_keys as i32,
            window: s.window as i32,
            scale: s.scale(),
            softcap: s.softcap,
            ..TreeAttentionArgs::default()
        };
        if let Some(scales) = s.scales() {
            [a.k_scale, a.v_scale] = scales.map(|scale| input(memory, "scale", &[scale]).address());
        }
        let max_rows = self.requests.iter().map(Request::rows).max().unwrap_or(0).max(capacity.request_rows).max(1);
        let plan = |a: &TreeAttentionArgs| Plan::new(s.query, s.cache, s.dim as u32, max_rows as u32, a).unwrap();
        if s.splits > 1 {
            a.splits = s.splits as i32;
            [a.partial_out, a.partial_stats] = [1024; 2];
            let sizes = plan(&a);
            a.partial_out = memory.reserve("partial_out", sizes.partial_out * 4).address();
            a.partial_stats = memory.reserve("partial_stats", sizes.partial_stats * 4).address();
        }
        Upload { plan: plan(&a), arguments: a, cache, out }
    }

    /// Runs what was uploaded, this batch or another of the same capacity.
    pub fn launch(&self, program: &Program, upload: &Upload, memory: &mut Memory) -> Result<Outcome, Fault> {
        let s = &self.settings;
        let mut run = |(kernel, geometry): &(String, Geometry)| {
            launch(program, kernel, geometry.grid, geometry.block, &upload.arguments, memory)
        };
        let report = run(&upload.plan.attention)?;
        let reduction = upload.plan.reduction.as_ref().map(run).transpose()?;
        let rows: usize = self.requests.iter().map(Request::rows).sum();
        let [out_row, out_head, _] = self.out_strides(self.capacity.rows.max(rows));
        let mut owned = vec![false; upload.out.len() / 2];
        let mut bits = Vec::with_capacity(rows * self.row_width());
        let elements = memory.bytes(upload.out).as_chunks::<2>().0;
        for index in 0..rows * s.heads() {
            let at = index / s.heads() * out_row + index % s.heads() * out_head;
            owned[at..at + s.dim].fill(true);
            bits.extend(elements[at..at + s.dim].iter().map(|pair| u16::from_le_bytes(*pair)));
        }
        let written = |i: usize| memory.is_written(upload.out, 2 * i..2 * i + 2);
        let traffic = memory.traffic(upload.cache);
        Ok(Outcome {
            bits,
            complete: (0..owned.len()).all(|i| written(i) == owned[i]),
            report,
            reduction,
            requested: traffic.requested_read,
            lines: traffic.lines_read,
        })
    }

    fn out_strides(&self, rows: usize) -> [usize; 3] {
        let s = &self.settings;
        s.heads_layout.strides(rows, s.heads(), s.dim, 0, 4)
    }

    /// Compares with the definition in f64. The bound is one, not a fit: probabilities and outputs are rounded once each (u = 2^-8
    /// or 2^-11), a probability below the normal numbers of f16 loses up to 2^-25, and f32 scores, exponentials and sums of up to
    /// some thousand terms cost less than 1e-4 of the weights.
    pub fn check(&self, outcome: &Outcome) {
        let s = &self.settings;
        let unit = if s.query == Query::Bf16 { 2_f64.powi(-8) } else { 2_f64.powi(-11) };
        let [k_scale, v_scale] = s.scales().unwrap_or([1.0; 2]).map(f64::from);
        let mut first = 0;
        for (b, request) in self.requests.iter().enumerate() {
            let decode = |bits: &Vec<u16>| bits.iter().map(|&bits| s.elements().cache_value(bits)).collect::<Vec<_>>();
            let (k, v) = (decode(&self.k[b]), decode(&self.v[b]));
            for row in 0..request.rows() {
                let keys: Vec<usize> = (0..request.keys()).filter(|&key| request.sees(row, key, s.window)).collect();
                for head in 0..s.heads() {
                    let at = (first + row) * self.row_width() + head * s.dim;
                    let q: Vec<f64> =
                        self.q[at..at + s.dim].iter().map(|&bits| s.elements().query_value(bits)).collect();
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
                        let found = s.elements().query_value(outcome.bits[at + d]);
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
    pub fn rows_of<'a>(&self, outcome: &'a Outcome, request: usize) -> &'a [u16] {
        let first: usize = self.requests[..request].iter().map(Request::rows).sum();
        &outcome.bits[first * self.row_width()..(first + self.requests[request].rows()) * self.row_width()]
    }
}

/// What the mutants of `tree_attention_{q}_{kv}_d{dim}` and of its reduction run on: trees of one and two words and chains, with and without a
/// window, a soft-cap and splits, several tiles of keys and blocks of rows.
#[allow(dead_code, reason = "the tests of mutants run it")]
pub fn mutant_run(program: &Program, kernel: &str) -> Result<Vec<u8>, Fault> {
    let arch = if program.arch() == "gfx942" { "gfx942" } else { "gfx950" };
    let (types, dim) = kernel.rsplit_once("_d").unwrap();
    let query = if types.contains("_bf16") { Query::Bf16 } else { Query::F16 };
    let cache = if types.ends_with("fp8") { Cache::Fp8 } else { Cache::Query };
    let settings = Settings { scaled: true, ..Settings::new(arch, query, cache, dim.parse().unwrap()) };
    let mut numbers = Numbers(4);
    let split = Settings { splits: 3, window: 90, softcap: 5.0, ..settings };
    let long = Settings { group: 1, window: 3, ..settings };
    let chain = Settings { implicit_chain: true, softcap: 5.0, split_keys: 64, splits: 4, ..settings };
    let problems = [
        (settings, vec![Request::random(150, 5, &mut numbers)]),
        (split, vec![Request::random(200, 6, &mut numbers), Request::random(0, 3, &mut numbers)]),
        (long, vec![Request::random(70, 80, &mut numbers)]),
        (chain, vec![Request::chain(100, 3)]),
    ];
    let mut bytes = Vec::new();
    for (settings, requests) in problems {
        if kernel.contains("reduce") && settings.splits == 1 {
            continue;
        }
        let outcome = Problem::new(settings, requests, 9).run_on(program)?;
        bytes.push(u8::from(outcome.complete));
        bytes.extend(outcome.bits.iter().flat_map(|bits| bits.to_le_bytes()));
    }
    Ok(bytes)
}
