//! A batch for attention on the CPU: drawn, laid out in a paged cache full of NaN, run, and compared with the definition in f64.

use half::{bf16, f16};
use specverify::attention::{Heads, HeadsMut, Paged, TreeAttention, ValuesMut};
use specverify::rows::{Simd, Values};

/// splitmix64.
#[derive(Clone)]
pub struct Numbers(pub u64);

impl Numbers {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.word() % n as u64) as usize
    }

    /// Roughly normal: the sum of four uniform numbers.
    fn normal(&mut self) -> f32 {
        (0..4).map(|_| (self.word() >> 40) as f32 / 2_f32.powi(24) - 0.5).sum::<f32>() * 1.7
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    F32,
    Bf16,
    F16,
}

impl Type {
    pub fn round(self, x: f32) -> f32 {
        match self {
            Type::F32 => x,
            Type::Bf16 => bf16::from_f32(x).to_f32(),
            Type::F16 => f16::from_f32(x).to_f32(),
        }
    }

    /// How far rounding moves a number: relative to it, and below the normal numbers.
    fn error(self) -> (f64, f64) {
        match self {
            Type::F32 => (2_f64.powi(-24), 0.0),
            Type::Bf16 => (2_f64.powi(-8), 0.0),
            Type::F16 => (2_f64.powi(-11), 2_f64.powi(-25)),
        }
    }
}

/// Elements of a type, which hold the given numbers exactly.
pub enum Stored {
    F32(Vec<f32>),
    Bf16(Vec<bf16>),
    F16(Vec<f16>),
}

impl Stored {
    pub fn new(of: Type, numbers: &[f32]) -> Self {
        match of {
            Type::F32 => Self::F32(numbers.to_vec()),
            Type::Bf16 => Self::Bf16(numbers.iter().map(|&x| bf16::from_f32(x)).collect()),
            Type::F16 => Self::F16(numbers.iter().map(|&x| f16::from_f32(x)).collect()),
        }
    }

    pub fn values(&self) -> Values<'_> {
        match self {
            Self::F32(v) => Values::F32(v),
            Self::Bf16(v) => Values::Bf16(v),
            Self::F16(v) => Values::F16(v),
        }
    }

    pub fn values_mut(&mut self) -> ValuesMut<'_> {
        match self {
            Self::F32(v) => ValuesMut::F32(v),
            Self::Bf16(v) => ValuesMut::Bf16(v),
            Self::F16(v) => ValuesMut::F16(v),
        }
    }

    pub fn numbers(&self) -> Vec<f32> {
        match self {
            Self::F32(v) => v.clone(),
            Self::Bf16(v) => v.iter().map(|x| x.to_f32()).collect(),
            Self::F16(v) => v.iter().map(|x| x.to_f32()).collect(),
        }
    }
}

/// One request: its tree as parents (-1 is the root).
#[derive(Clone)]
pub struct Request {
    pub context: usize,
    pub parents: Vec<i32>,
    /// A padding slot: no rows.
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

    /// The nodes that a row sees.
    fn ancestors(&self, row: usize) -> Vec<usize> {
        let mut found = Vec::new();
        let mut node = row as i32 - 1;
        while node >= 0 {
            found.push(node as usize);
            node = self.parents[node as usize];
        }
        found
    }

    fn sees(&self, row: usize, key: usize, window: usize) -> bool {
        let depth = |row: usize| self.ancestors(row).len();
        let at = if key < self.context { key } else { self.context + depth(key - self.context) };
        let visible = key <= self.context || self.ancestors(row).contains(&(key - self.context - 1));
        visible && (window == 0 || (self.context + depth(row)).saturating_sub(at) < window)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub q: Type,
    pub kv: Type,
    pub out: Type,
    pub dim: usize,
    pub kv_heads: usize,
    pub group: usize,
    pub page_size: usize,
    pub window: usize,
    pub softcap: f32,
    /// Pages hold [heads, tokens, dim] instead of [tokens, heads, dim].
    pub heads_first: bool,
    /// No ancestor bits.
    pub implicit_chain: bool,
}

impl Settings {
    pub fn new(of: Type, dim: usize) -> Self {
        Self {
            q: of,
            kv: of,
            out: of,
            dim,
            kv_heads: 2,
            group: 4,
            page_size: 16,
            window: 0,
            softcap: 0.0,
            heads_first: false,
            implicit_chain: false,
        }
    }

    pub fn heads(&self) -> usize {
        self.kv_heads * self.group
    }

    fn scale(&self) -> f32 {
        (self.dim as f32).powf(-0.5)
    }
}

/// q [rows][heads][dim], k and v of each request [keys][kv_heads][dim].
#[derive(Clone)]
pub struct Problem {
    pub settings: Settings,
    pub requests: Vec<Request>,
    pub q: Vec<f32>,
    pub k: Vec<Vec<f32>>,
    pub v: Vec<Vec<f32>>,
    /// Orders the pages.
    pub page_seed: u64,
}

/// Elements between the heads of q and of the result.
const GAP: usize = 8;
const UNTOUCHED: f32 = 77.0;

impl Problem {
    pub fn new(settings: Settings, requests: Vec<Request>, seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        let rows: usize = requests.iter().map(Request::rows).sum();
        let q = (0..rows * settings.heads() * settings.dim).map(|_| settings.q.round(2.0 * numbers.normal())).collect();
        let mut cache = || -> Vec<Vec<f32>> {
            let sizes = requests.iter().map(|request| request.keys() * settings.kv_heads * settings.dim);
            sizes.map(|size| (0..size).map(|_| settings.kv.round(numbers.normal())).collect()).collect()
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

    pub fn run(&self) -> Vec<f32> {
        self.run_with(Simd::available()[0])
    }

    /// [rows][heads][dim]. Whatever the requests do not own is NaN, and pages that they have no use for are none.
    pub fn run_with(&self, simd: Simd) -> Vec<f32> {
        let s = &self.settings;
        let mut numbers = Numbers(self.page_seed);
        let tables: Vec<usize> = self.requests.iter().map(|r| r.keys().div_ceil(s.page_size)).collect();
        let pages = tables.iter().sum::<usize>() + 2;
        let mut free: Vec<i32> = (0..pages as i32).collect();
        for i in (1..pages).rev() {
            free.swap(i, numbers.below(i + 1));
        }
        let table_stride = tables.iter().max().unwrap() + 1;
        let mut table = vec![i32::MIN; self.requests.len() * table_stride];
        let page = s.page_size * self.key_width();
        let strides =
            if s.heads_first { [page, s.dim, s.page_size * s.dim] } else { [page, s.kv_heads * s.dim, s.dim] };
        let mut images = [vec![f32::NAN; pages * page], vec![f32::NAN; pages * page]];
        for (b, request) in self.requests.iter().enumerate() {
            for (key, from) in (0..request.keys()).zip((0..).step_by(self.key_width())) {
                if key % s.page_size == 0 {
                    table[b * table_stride + key / s.page_size] = free.pop().unwrap();
                }
                let page = table[b * table_stride + key / s.page_size] as usize;
                for head in 0..s.kv_heads {
                    let at = page * strides[0] + key % s.page_size * strides[1] + head * strides[2];
                    for (image, numbers) in images.iter_mut().zip([&self.k[b], &self.v[b]]) {
                        image[at..at + s.dim].copy_from_slice(&numbers[from + head * s.dim..][..s.dim]);
                    }
                }
            }
        }
        let [k, v] = images.map(|image| Stored::new(s.kv, &image));
        let mut cu_rows = vec![0];
        // One word more than needed, and rows beyond those of the requests.
        let words = self.requests.iter().map(Request::rows).max().unwrap().div_ceil(64) + 1;
        let mut ancestors = Vec::new();
        for request in &self.requests {
            cu_rows.push(cu_rows.last().unwrap() + request.rows() as i32);
            for row in 0..request.rows() {
                let mut bits = vec![0_u64; words];
                request.ancestors(row).into_iter().for_each(|node| bits[node / 64] |= 1 << (node % 64));
                ancestors.extend(bits);
            }
        }
        let contexts: Vec<i32> =
            self.requests.iter().map(|request| if request.empty { -1 } else { request.context as i32 }).collect();
        let (rows, head_stride) = (*cu_rows.last().unwrap() as usize + 1, s.dim + GAP);
        let q_strides = [s.heads() * head_stride, head_stride];
        let mut q = vec![f32::NAN; rows * q_strides[0]];
        for (to, from) in q.chunks_mut(head_stride).zip(self.q.chunks(s.dim)) {
            to[..s.dim].copy_from_slice(from);
        }
        let q = Stored::new(s.q, &q);
        // The result the other way round: [heads, rows, dim].
        let out_strides = [head_stride, rows * head_stride];
        let mut out = Stored::new(s.out, &vec![UNTOUCHED; s.heads() * out_strides[1]]);
        let call = TreeAttention {
            q: Heads { values: q.values(), strides: q_strides },
            rows,
            k: Paged { values: k.values(), strides },
            v: Paged { values: v.values(), strides },
            pages,
            page_size: s.page_size,
            heads: s.heads(),
            kv_heads: s.kv_heads,
            dim: s.dim,
            block_table: &table,
            table_stride,
            cu_rows: &cu_rows,
            context_lens: &contexts,
            ancestors: if s.implicit_chain { None } else { Some(&ancestors) },
            words,
            scale: s.scale(),
            window: s.window,
            softcap: s.softcap,
        };
        call.run_with(simd, &mut HeadsMut { values: out.values_mut(), strides: out_strides }).unwrap();
        let (all, mut found) = (out.numbers(), Vec::new());
        for row in 0..rows - 1 {
            for head in 0..s.heads() {
                found.extend(&all[row * out_strides[0] + head * out_strides[1]..][..s.dim]);
            }
        }
        let untouched = all.iter().filter(|&&x| x == UNTOUCHED).count();
        assert!(untouched >= all.len() - found.len(), "{s:?}: gaps and padding rows are left alone");
        found
    }

    /// Compares with the definition in f64. A row costs as much as it sees, so of very large cases every seventh row is looked at.
    pub fn check(&self, found: &[f32]) {
        let s = &self.settings;
        let (relative, absolute) = s.out.error();
        let mut first = 0;
        for (b, request) in self.requests.iter().enumerate() {
            let cost = request.rows() * request.keys() * self.row_width();
            for row in (0..request.rows()).step_by(if cost > 300_000_000 { 7 } else { 1 }) {
                let keys: Vec<usize> = (0..request.keys()).filter(|&key| request.sees(row, key, s.window)).collect();
                for head in 0..s.heads() {
                    let at = (first + row) * self.row_width() + head * s.dim;
                    let q = &self.q[at..at + s.dim];
                    let of = |key: usize| key * self.key_width() + head / s.group * s.dim;
                    let scores: Vec<f64> = keys
                        .iter()
                        .map(|&key| {
                            let k = &self.k[b][of(key)..][..s.dim];
                            let dot: f64 = k.iter().zip(q).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum();
                            let (score, cap) = (dot * f64::from(s.scale()), f64::from(s.softcap));
                            if cap > 0.0 { cap * (score / cap).tanh() } else { score }
                        })
                        .collect();
                    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let weights: Vec<f64> = scores.iter().map(|score| (score - top).exp()).collect();
                    let total: f64 = weights.iter().sum();
                    let (mut expected, mut size) = (vec![0.0; s.dim], vec![0.0; s.dim]);
                    for (&key, weight) in keys.iter().zip(&weights) {
                        for (d, &x) in self.v[b][of(key)..][..s.dim].iter().enumerate() {
                            expected[d] += weight / total * f64::from(x);
                            size[d] += weight / total * f64::from(x).abs();
                        }
                    }
                    // Scores of up to about 10 are sums of dim terms in f32; the cap is off by 4e-7 of itself.
                    let computed = 1e-5 + 1e-6 * f64::from(s.softcap);
                    for d in 0..s.dim {
                        let bound = (relative + computed) * size[d] + absolute;
                        let found = f64::from(found[at + d]);
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
}
