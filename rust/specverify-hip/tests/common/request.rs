//! Requests of the attention kernels: draft trees behind a context, and a batch of them as the kernels want it.

use gfxsim::Memory;

use super::{Numbers, input, padded_input};

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

/// What a launch is made for, whatever a batch fills of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Capacity {
    /// Of q and the output.
    pub rows: usize,
    /// Of a request.
    pub request_rows: usize,
    pub pages: usize,
    /// Pages of a request.
    pub table: usize,
}

/// What tells the kernels of a batch's rows and trees: device addresses, but for `rows` and `words`.
pub struct Rows {
    pub cu_rows: u64,
    pub context_lens: u64,
    /// Of every row, whether they are needed or not.
    pub ancestors: u64,
    pub rows: usize,
    /// What there is room for.
    pub capacity: usize,
    pub words: i32,
}

/// With the room that a launch has, or for what there is.
pub fn rows(requests: &[Request], capacity: &Capacity, memory: &mut Memory) -> Rows {
    let mut cu_rows = vec![0_i32];
    let mut ancestors = Vec::new();
    let words =
        if requests.iter().map(Request::rows).chain([capacity.request_rows]).all(|rows| rows <= 65) { 1 } else { 2 };
    for request in requests {
        cu_rows.push(cu_rows.last().unwrap() + request.rows() as i32);
        for row in 0..request.rows() {
            ancestors.extend([request.bits(row) as u64, (request.bits(row) >> 64) as u64].into_iter().take(words));
        }
    }
    let rows = *cu_rows.last().unwrap() as usize;
    let capacity = capacity.rows.max(rows);
    let mut ancestors: Vec<_> = ancestors.into_iter().map(Some).collect();
    ancestors.resize(capacity * words, None);
    let contexts: Vec<i32> = requests.iter().map(|request| request.context as i32).collect();
    Rows {
        cu_rows: input(memory, "cu_rows", &cu_rows).address(),
        context_lens: input(memory, "context_lens", &contexts).address(),
        ancestors: padded_input(memory, "ancestors", &ancestors).address(),
        rows,
        capacity,
        words: words as i32,
    }
}

/// The pages of every request, in an order of their own, and two that nobody owns.
pub struct Pages {
    /// `[requests][stride]`, i32::MAX beyond what a request owns.
    pub table: Vec<i32>,
    pub stride: usize,
    pub count: usize,
    pub page_size: usize,
}

impl Pages {
    /// With the room that a launch has, or for what there is.
    pub fn new(requests: &[Request], page_size: usize, seed: u64, capacity: &Capacity) -> Self {
        let mut numbers = Numbers(seed);
        let owned: Vec<usize> = requests.iter().map(|r| r.keys().div_ceil(page_size)).collect();
        let count = (owned.iter().sum::<usize>() + 2).max(capacity.pages);
        let mut free: Vec<i32> = (0..count as i32).collect();
        for i in (1..count).rev() {
            free.swap(i, numbers.below(i + 1));
        }
        let stride = (owned.iter().max().unwrap_or(&0) + 1).max(capacity.table);
        let mut table = vec![i32::MAX; requests.len() * stride];
        for (b, &owned) in owned.iter().enumerate() {
            table[b * stride..][..owned].fill_with(|| free.pop().unwrap());
        }
        Self { table, stride, count, page_size }
    }

    /// Page of a key, and its offset in the page.
    pub fn slot(&self, request: usize, key: usize) -> (usize, usize) {
        (self.table[request * self.stride + key / self.page_size] as usize, key % self.page_size)
    }
}
