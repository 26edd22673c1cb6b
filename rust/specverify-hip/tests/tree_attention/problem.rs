//! A batch for the attention kernels: drawn, laid out in a paged cache, run, and compared with the definition in f64.

use gfxsim::{Fault, Memory, Program, Report};
use half::{bf16, f16};
use specverify_hip::abi::TreeAttentionArgs;
use specverify_hip::tree_attention::{Cache, Plan, Query};

use crate::common::{Numbers, input, launch, program};

pub const SOURCE: &str = "tree_attention";

/// One request: its tree as parents (-1 is the root), or a chain without ancestor bits.
#[derive(Clone)]
pub struct Request {
    pub context: usize,
    pub parents: Vec<i32>,
    /// A padding slot of a captured graph: no rows.
    pub empty: bool,
}

impl Request {
    pub fn chain(context: usize, rows: usize) -> Self {
        Self { context, parents: (0..rows as i32 - 1).map(|i| i - 1).collect(), empty: false }
    }

    pub fn random(context: usize, rows: usize, numbers: &mut Numbers) -> Self {
        let parents = (0..rows - 1).map(|i| numbers.below(i + 1) as i32 - 1).collect();
        Self { context, parents, empty: false }
    }

    pub fn rows(&self) -> usize {
        if self.empty { 0 } else { self.parents.len() + 1 }
    }

    pub fn keys(&self) -> usize {
        if self.empty { 0 } else { self.context + self.rows() }
    }

    /// Node i itself and its ancestors, for row i + 1.
    pub fn bits(&self, row: usize) -> u128 {
        let (mut bits, mut node) = (0, row as i32 - 1);
        while node >= 0 {
            bits |= 1 << node;
            node = self.parents[node as usize];
        }
        bits
    }

    pub fn sees(&self, row: usize, key: usize, window: usize) -> bool {
        let depth = |row: usize| self.bits(row).count_ones() as usize;
        let at = if key < self.context { key } else { self.context + depth(key - self.context) };
        let visible = key <= self.context || self.bits(row) >> (key - self.context - 1) & 1 == 1;
        visible && (window == 0 || (self.context + depth(row)).saturating_sub(at) < window)
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

    pub fn element_bytes(&self) -> usize {
        if self.cache == Cache::Fp8 { 1 } else { 2 }
    }

    pub fn query_bits(&self, value: f32) -> u16 {
        match self.query {
            Query::Bf16 => bf16::from_f32(value).to_bits(),
            Query::F16 => f16::from_f32(value).to_bits(),
        }
    }

    pub fn query_value(&self, bits: u16) -> f64 {
        match self.query {
            Query::Bf16 => bf16::from_bits(bits).to_f64(),
            Query::F16 => f16::from_bits(bits).to_f64(),
        }
    }

    pub fn cache_value(&self, bits: u16) -> f64 {
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

    pub fn not_a_number(&self) -> u16 {
        match (self.cache, self.arch) {
            (Cache::Query, _) => self.query_bits(f32::NAN),
            (Cache::Fp8, "gfx942") => 0x80,
            (Cache::Fp8, _) => 0x7F,
        }
    }

    pub fn random_element(&self, numbers: &mut Numbers) -> u16 {
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
    /// Requested bytes and distinct 128-byte lines of K and V together.
    pub requested: u64,
    pub lines: u64,
}

impl Problem {
    pub fn new(settings: Settings, requests: Vec<Request>, seed: u64) -> Self {
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
            let ran = launch(program, kernel, geometry.grid, geometry.block, &a, &mut memory)?;
            report.get_or_insert(ran);
        }
        let complete = memory.is_written(out, 0..out.len());
        let bits = memory.bytes(out).as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
        let traffic = [memory.traffic(k), memory.traffic(v)];
        Ok(Outcome {
            bits,
            complete,
            report: report.unwrap(),
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
    pub fn rows_of<'a>(&self, outcome: &'a Outcome, request: usize) -> &'a [u16] {
        let first: usize = self.requests[..request].iter().map(Request::rows).sum();
        &outcome.bits[first * self.row_width()..(first + self.requests[request].rows()) * self.row_width()]
    }
}

/// What the mutants of `tree_attention_{q}_{kv}_d{dim}` and of its reduction run on: trees of one and two words and chains, with and without a
/// window, a soft-cap and splits, several tiles of keys and blocks of rows.
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
