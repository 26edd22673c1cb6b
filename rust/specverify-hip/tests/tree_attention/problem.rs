//! A batch for the attention kernels: drawn, laid out in a paged cache, run, and compared with the definition in f64.

use gfxsim::{Fault, Memory, Program, Report};
use specverify_hip::Geometry;
use specverify_hip::abi::TreeAttentionArgs;
use specverify_hip::tree_attention::{Cache, Plan, Query};

use crate::common::elements::{Elements, normal};
use crate::common::request::{Pages, Request, rows};
use crate::common::{Numbers, input, launch, program};

pub const SOURCE: &str = "tree_attention";

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
    /// Pages hold [heads, tokens, dim] instead of [tokens, heads, dim].
    pub heads_first: bool,
    /// Chains only: no ancestor bits.
    pub implicit_chain: bool,
    /// K and V have scales; those of fp8 always do.
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
            heads_first: false,
            implicit_chain: false,
            scaled: false,
        }
    }

    pub fn heads(&self) -> usize {
        self.kv_heads * self.group
    }

    pub fn scale(&self) -> f32 {
        // fp8 keys are large: keep the scores of all types in one range.
        (self.dim as f32).powf(-0.5)
    }

    pub fn scales(&self) -> Option<[f32; 2]> {
        (self.scaled || self.cache == Cache::Fp8).then_some([0.0625, 0.125])
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
}

pub struct Outcome {
    /// [rows][heads][dim]
    pub bits: Vec<u16>,
    /// Whether every row was written.
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
        Self { settings, requests, q, k, v, page_seed: seed }
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
        assert!(outcome.complete, "every row is written: {s:?}");
        outcome
    }

    /// As [`Problem::run`], on the kernels of a program; what they meet is the caller's.
    pub fn run_on(&self, program: &Program) -> Result<Outcome, Fault> {
        let s = &self.settings;
        let mut memory = Memory::new();
        let pages = Pages::new(&self.requests, s.page_size, self.page_seed);
        let (token_stride, head_stride) =
            if s.heads_first { (s.dim, s.page_size * s.dim) } else { (s.kv_heads * s.dim, s.dim) };
        let page_stride = s.page_size * self.key_width();
        let size = s.elements().element_bytes();
        let mut images = [vec![0_u8; pages.count * page_stride * size], vec![0_u8; pages.count * page_stride * size]];
        images.iter_mut().for_each(|image| {
            let bytes = s.elements().not_a_number().to_le_bytes();
            image.chunks_exact_mut(size).for_each(|element| element.copy_from_slice(&bytes[..size]));
        });
        let mut owned = vec![false; pages.count * page_stride];
        for (b, request) in self.requests.iter().enumerate() {
            for key in 0..request.keys() {
                let (page, offset) = pages.slot(b, key);
                for head in 0..s.kv_heads {
                    let at = page * page_stride + offset * token_stride + head * head_stride;
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
        let trees = rows(&self.requests, &mut memory);
        let q = input(&mut memory, "q", &self.q);
        let out = memory.reserve("out", trees.rows * self.row_width() * 2);
        let mut a = TreeAttentionArgs {
            out: out.address(),
            q: q.address(),
            k: k.address(),
            v: v.address(),
            block_table: input(&mut memory, "block_table", &pages.table).address(),
            cu_rows: trees.cu_rows,
            context_lens: trees.context_lens,
            ancestors: if s.implicit_chain { 0 } else { trees.ancestors },
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
            table_stride: pages.stride as i64,
            requests: self.requests.len() as i32,
            rows: trees.rows as i32 + 1,
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
        let mut run = |(kernel, geometry): &(String, Geometry)| {
            launch(program, kernel, geometry.grid, geometry.block, &a, &mut memory)
        };
        let (report, reduction) = (run(&plan.attention)?, plan.reduction.as_ref().map(run).transpose()?);
        let complete = memory.is_written(out, 0..out.len());
        let bits = memory.bytes(out).as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
        let traffic = [memory.traffic(k), memory.traffic(v)];
        Ok(Outcome {
            bits,
            complete,
            report,
            reduction,
            requested: traffic.iter().map(|t| t.requested_read).sum(),
            lines: traffic.iter().map(|t| t.lines_read).sum(),
        })
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
