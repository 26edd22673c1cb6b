//! A batch for MLA attention: drawn, laid out in a paged cache, run, and compared with the definition in f64.

use gfxsim::{Buffer, Fault, Memory, Program, Report, Traffic};
use specverify_hip::Geometry;
use specverify_hip::abi::MlaTreeAttentionArgs;
use specverify_hip::mla_tree_attention::{LATENT, Plan, WIDTH};
use specverify_hip::tree_attention::{Cache, Query};

use crate::common::elements::{Elements, normal};
use crate::common::request::{Capacity, Pages, Request, rows};
use crate::common::{Numbers, input, launch, padded_input, program};

pub const SOURCE: &str = "mla_tree_attention";
pub const VALUE: usize = LATENT as usize;
pub const KEY: usize = WIDTH as usize;
const KV_SCALE: f32 = 0.0625;

pub const TYPES: [(Query, Cache); 4] =
    [(Query::Bf16, Cache::Query), (Query::F16, Cache::Query), (Query::Bf16, Cache::Fp8), (Query::F16, Cache::Fp8)];

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub elements: Elements,
    pub heads: usize,
    pub page_size: usize,
    /// Elements from token to token: what lies between belongs to nobody.
    pub token_stride: usize,
    /// Elements of other layers between one page and the next, and before the first.
    pub between_pages: usize,
    /// Elements of others between the heads of q and of the output, and twice as many between rows.
    pub between_heads: usize,
    /// Whether a cache of fp8 has a scale.
    pub scaled: bool,
    pub splits: usize,
    pub split_keys: usize,
    /// Chains only: no ancestor bits.
    pub implicit_chain: bool,
}

impl Settings {
    pub fn new(arch: &'static str, (query, cache): (Query, Cache)) -> Self {
        Self {
            elements: Elements { arch, query, cache },
            heads: 16,
            page_size: 16,
            token_stride: KEY,
            between_pages: 0,
            between_heads: 0,
            scaled: true,
            splits: 1,
            split_keys: 0,
            implicit_chain: false,
        }
    }

    pub fn scale(&self) -> f32 {
        // Keys of fp8 are large: keep the scores of all types in one range.
        (KEY as f32).powf(-0.5) * if self.elements.cache == Cache::Fp8 && !self.scaled { KV_SCALE } else { 1.0 }
    }

    pub fn kv_scale(&self) -> Option<f32> {
        self.scaled.then_some(if self.elements.cache == Cache::Fp8 { KV_SCALE } else { 0.75 })
    }

    /// Of rows and heads of so many elements.
    fn strides(&self, elements: usize) -> [usize; 2] {
        let head = elements + self.between_heads;
        [self.heads * head + 2 * self.between_heads, head]
    }

    pub fn row_width(&self) -> usize {
        self.heads * VALUE
    }
}

/// Numbers as bits of their types: q `[rows][heads][576]`, kv of each request `[keys][576]`.
#[derive(Clone)]
pub struct Problem {
    pub settings: Settings,
    pub requests: Vec<Request>,
    pub q: Vec<u16>,
    pub kv: Vec<Vec<u16>>,
    /// Orders the pages.
    pub page_seed: u64,
    /// What the batch does not need of it is poisoned.
    pub capacity: Capacity,
}

/// A batch in memory.
pub struct Upload {
    pub arguments: MlaTreeAttentionArgs,
    pub plan: Plan,
    cache: Buffer,
    out: Buffer,
}

pub struct Outcome {
    /// `[rows][heads][512]`
    pub bits: Vec<u16>,
    /// Whether all of it was written, and nothing else.
    pub complete: bool,
    pub report: Report,
    /// Of the reduction, where there are splits.
    pub reduction: Option<Report>,
    /// Of the cache.
    pub traffic: Traffic,
}

impl Problem {
    pub fn new(settings: Settings, requests: Vec<Request>, seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        let elements = settings.elements;
        let rows: usize = requests.iter().map(Request::rows).sum();
        let q = (0..rows * settings.heads * KEY).map(|_| elements.query_bits(2.0 * normal(&mut numbers))).collect();
        let sizes = requests.iter().map(|request| request.keys() * KEY);
        let kv = sizes.map(|size| (0..size).map(|_| elements.random_element(&mut numbers)).collect()).collect();
        Self { settings, requests, q, kv, page_seed: seed, capacity: Capacity::default() }
    }

    /// Everything that the request does not own is poisoned: reading it is a fault. What it owns but has not filled is NaN.
    pub fn run(&self) -> Outcome {
        let s = &self.settings;
        let outcome = self.run_on(program(SOURCE, s.elements.arch)).unwrap_or_else(|fault| panic!("{s:?}: {fault}"));
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
        let size = s.elements.element_bytes();
        let page_stride = s.page_size * s.token_stride + s.between_pages;
        let nan = s.elements.not_a_number().to_le_bytes();
        let elements = s.between_pages + pages.count * page_stride;
        let mut image: Vec<u8> = nan[..size].repeat(elements);
        let mut owned = vec![false; elements];
        for (b, kv) in self.kv.iter().enumerate() {
            for (key, values) in kv.chunks(KEY).enumerate() {
                let (page, offset) = pages.slot(b, key);
                let at = s.between_pages + page * page_stride + offset * s.token_stride;
                owned[at..at + KEY].fill(true);
                for (element, bits) in image[at * size..].chunks_exact_mut(size).zip(values) {
                    element.copy_from_slice(&bits.to_le_bytes()[..size]);
                }
            }
        }
        let kv = memory.add_read_only("kv", &image);
        // Tokens start at multiples of 8 elements.
        for at in (0..elements).step_by(8).filter(|&at| !owned[at]) {
            memory.poison(kv, at * size..(at + 8) * size);
        }
        let trees = rows(&self.requests, capacity, memory);
        let [q_row, q_head] = s.strides(KEY);
        let mut q = vec![None; trees.capacity * q_row];
        for (index, values) in self.q.chunks_exact(KEY).enumerate() {
            let at = index / s.heads * q_row + index % s.heads * q_head;
            q[at..at + KEY].iter_mut().zip(values).for_each(|(element, bits)| *element = Some(*bits));
        }
        let q = padded_input(memory, "q", &q);
        let [out_row, out_head] = s.strides(VALUE);
        let out = memory.reserve("out", trees.capacity * out_row * 2);
        let mut a = MlaTreeAttentionArgs {
            out: out.address(),
            q: q.address(),
            kv: kv.address() + (s.between_pages * size) as u64,
            block_table: input(memory, "block_table", &pages.table).address(),
            cu_rows: trees.cu_rows,
            context_lens: trees.context_lens,
            ancestors: if s.implicit_chain { 0 } else { trees.ancestors },
            q_stride_row: q_row as i64,
            q_stride_head: q_head as i64,
            out_stride_row: out_row as i64,
            out_stride_head: out_head as i64,
            kv_stride_page: page_stride as i64,
            kv_stride_token: s.token_stride as i64,
            table_stride: pages.stride as i64,
            requests: self.requests.len() as i32,
            // Beyond the rows of the batch there is room for one more.
            rows: trees.capacity as i32 + 1,
            heads: s.heads as i32,
            page_size: s.page_size as i32,
            words: trees.words,
            splits: 1,
            split_keys: s.split_keys as i32,
            scale: s.scale(),
            ..MlaTreeAttentionArgs::default()
        };
        if let Some(scale) = s.kv_scale() {
            a.kv_scale = input(memory, "kv_scale", &[scale]).address();
        }
        let max_rows = self.requests.iter().map(Request::rows).max().unwrap_or(0).max(capacity.request_rows).max(1);
        let plan =
            |a: &MlaTreeAttentionArgs| Plan::new(s.elements.query, s.elements.cache, max_rows as u32, a).unwrap();
        if s.splits > 1 {
            a.splits = s.splits as i32;
            [a.partial_out, a.partial_stats] = [1024; 2];
            let sizes = plan(&a);
            a.partial_out = memory.reserve("partial_out", sizes.partial_out * 4).address();
            a.partial_stats = memory.reserve("partial_stats", sizes.partial_stats * 4).address();
        }
        Upload { plan: plan(&a), arguments: a, cache: kv, out }
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
        let [out_row, out_head] = s.strides(VALUE);
        let mut owned = vec![false; upload.out.len() / 2];
        let mut bits = Vec::with_capacity(rows * s.row_width());
        let elements = memory.bytes(upload.out).as_chunks::<2>().0;
        for index in 0..rows * s.heads {
            let at = index / s.heads * out_row + index % s.heads * out_head;
            owned[at..at + VALUE].fill(true);
            bits.extend(elements[at..at + VALUE].iter().map(|pair| u16::from_le_bytes(*pair)));
        }
        let written = |i: usize| memory.is_written(upload.out, 2 * i..2 * i + 2);
        Ok(Outcome {
            bits,
            complete: (0..owned.len()).all(|i| written(i) == owned[i]),
            report,
            reduction,
            traffic: memory.traffic(upload.cache),
        })
    }

    /// Compares with the definition in f64. The bound is one, not a fit: probabilities and outputs are rounded once each (u = 2^-8
    /// or 2^-11), a probability below the normal numbers of f16 loses up to 2^-25, and f32 scores, exponentials and sums of up to
    /// some thousand terms cost less than 1e-4 of the weights.
    pub fn check(&self, outcome: &Outcome) {
        let s = &self.settings;
        let unit = if s.elements.query == Query::Bf16 { 2_f64.powi(-8) } else { 2_f64.powi(-11) };
        let kv_scale = f64::from(s.kv_scale().unwrap_or(1.0));
        let mut index = 0;
        for (b, request) in self.requests.iter().enumerate() {
            let kv: Vec<f64> = self.kv[b].iter().map(|&bits| s.elements.cache_value(bits) * kv_scale).collect();
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
    pub fn alone(&self, request: usize) -> Self {
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
    pub fn row<'a>(&self, outcome: &'a Outcome, row: usize) -> &'a [u16] {
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

/// What the mutants of `mla_tree_attention_{q}_{kv}` run on: trees of one and two words and a chain, with and without
/// splits, several tiles of keys and blocks of rows.
#[allow(dead_code, reason = "the tests of mutants run it")]
pub fn mutant_run(program: &Program, kernel: &str) -> Result<Vec<u8>, Fault> {
    let arch = if program.arch() == "gfx942" { "gfx942" } else { "gfx950" };
    let query = if kernel.contains("_bf16_") { Query::Bf16 } else { Query::F16 };
    let cache = if kernel.ends_with("fp8") { Cache::Fp8 } else { Cache::Query };
    let settings = Settings::new(arch, (query, cache));
    let mut numbers = Numbers(4);
    let split = Settings { splits: 3, page_size: 1, ..settings };
    let long = Settings { heads: 4, ..settings };
    let chain = Settings { implicit_chain: true, split_keys: 64, splits: 4, ..settings };
    let problems = [
        (settings, vec![Request::random(150, 5, &mut numbers)]),
        (split, vec![Request::random(200, 6, &mut numbers), Request::random(0, 3, &mut numbers)]),
        (long, vec![Request::random(70, 80, &mut numbers)]),
        (chain, vec![Request::chain(100, 3)]),
    ];
    let mut bytes = Vec::new();
    for (settings, requests) in problems {
        let outcome = Problem::new(settings, requests, 9).run_on(program)?;
        bytes.push(u8::from(outcome.complete));
        bytes.extend(outcome.bits.iter().flat_map(|bits| bits.to_le_bytes()));
    }
    Ok(bytes)
}
