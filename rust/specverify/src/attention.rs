//! Attention of a verification pass on the CPU: the rows of a request are the root and the nodes of its draft tree, keys and values lie
//! in pages. The contract of the HIP kernel `tree_attention` (hip/abi.h), and its reference.
//!
//! Request b owns rows `cu_rows[b]..cu_rows[b + 1]`: none, or row 0 = the root and row i + 1 = node i. Its keys are those of the context,
//! the root's, and the nodes': key index `context + r` belongs to row r. Row r sees the context, the root, and the nodes of its
//! ancestor bits. Scores are `scale * q.k`, then `softcap * tanh(score / softcap)`; with a window a row sees the keys less than `window`
//! positions before it, where a node stands at the position of its depth.
//!
//! Numbers: everything is computed in f32, 16-bit elements being widened, and rounded once at the end. Exponentials are off by 2e-7 of
//! themselves. The sum over keys has a fixed shape (blocks of 64 keys, chunks of 512, at multiples of these, merged in order). So a
//! row's bits depend on what it sees alone: not on the number of threads, the other rows or requests, the pages, or what lies in
//! keys that it does not see, NaN included. `SPECVERIFY_SIMD` may change the last bits (fused multiply-add or not).
//!
//! Speed: K and V are read once for all the rows and heads that share them, turned into f32 in the first-level cache, and multiplied in
//! register tiles. Work is spread over requests and KV heads, and where these are few, over chunks of keys as well.

mod chunk;
mod exp2;
mod paged;
mod product;
mod seen;
mod transpose;

use std::ops::Range;

use pulp::NullaryFnOnce;

pub use paged::{Heads, HeadsMut, Paged, ValuesMut};

use crate::error::{Error, Result};
use crate::pool;
use crate::rows::Simd;
use chunk::{Attend, State};
use paged::{check_dtype, check_extent};
use seen::{BLOCK, Request};

/// Keys that are attended to from a state of their own.
const CHUNK: usize = 8 * BLOCK;
/// Parts of the work for each thread below which requests and heads are divided into chunks of keys.
const PARTS: usize = 4;

/// Attention of one layer for a batch of requests.
#[derive(Debug, Clone, Copy)]
pub struct TreeAttention<'a> {
    /// Queries, [rows, heads, dim].
    pub q: Heads<'a>,
    /// Rows that `q` and the result have; those from `cu_rows[requests]` on are padding.
    pub rows: usize,
    /// Keys, [pages, page_size, kv_heads, dim]: those of the rows themselves are in it already.
    pub k: Paged<'a>,
    /// Values, likewise.
    pub v: Paged<'a>,
    /// Pages of the cache.
    pub pages: usize,
    /// Tokens of a page.
    pub page_size: usize,
    /// Query heads, a multiple of the KV heads.
    pub heads: usize,
    /// Heads of the cache; query head h reads KV head `h / (heads / kv_heads)`.
    pub kv_heads: usize,
    /// Elements of a head, a multiple of 8.
    pub dim: usize,
    /// The page of every `page_size` keys of a request, [requests, table_stride]. Only those that hold keys are read.
    pub block_table: &'a [i32],
    /// Elements from one request's pages to the next's.
    pub table_stride: usize,
    /// First row of each request and the end of the last, [requests + 1].
    pub cu_rows: &'a [i32],
    /// Keys before the root, [requests].
    pub context_lens: &'a [i32],
    /// Ancestor bits ([`crate::Topology::ancestors`]), [rows, words]: bit j of a row is set when it is node j or below it. `None` for chains.
    pub ancestors: Option<&'a [u64]>,
    /// Words of a row of `ancestors`.
    pub words: usize,
    /// Factor of q.k.
    pub scale: f32,
    /// Positions that a row sees, its own included; 0 for all.
    pub window: usize,
    /// Bound of the scores; 0 for none.
    pub softcap: f32,
}

impl TreeAttention<'_> {
    /// Computes the result of every row of every request.
    ///
    /// # Errors
    /// [`Error::Argument`], [`Error::Shape`] and [`Error::Dtype`], naming the argument, for whatever does not fit together, a page
    /// outside the cache and ancestor bits of no tree among it; nothing is written then. NaN that a row sees is no error: it
    /// becomes the row's result.
    pub fn run(&self, out: &mut HeadsMut<'_>) -> Result<()> {
        self.run_with(Simd::detect()?, out)
    }

    /// [`TreeAttention::run`] with the instruction set given.
    ///
    /// # Errors
    /// Those of `run`.
    pub fn run_with(&self, simd: Simd, out: &mut HeadsMut<'_>) -> Result<()> {
        self.check()?;
        self.check_out(out)?;
        let requests: Vec<Request> = (0..self.context_lens.len()).filter_map(|b| Request::new(self, b)).collect();
        let whole = requests.len() * self.kv_heads >= PARTS * pool::size()?;
        let mut parts = Vec::new();
        for request in &requests {
            let starts = (request.start() / CHUNK * CHUNK..request.keys()).step_by(CHUNK);
            let chunks: Vec<Range<usize>> = starts.map(|start| start..request.keys().min(start + CHUNK)).collect();
            let size = if whole { chunks.len() } else { 1 };
            for kv_head in 0..self.kv_heads {
                parts.extend(chunks.chunks(size).map(|chunks| Part { request, kv_head, chunks: chunks.to_vec() }));
            }
        }
        let states = pool::map(&parts, |Part { request, kv_head, chunks }| {
            simd.run_vectors(Attend { call: self, request, kv_head: *kv_head, chunks })
        })?;
        let mut states = parts.iter().zip(states).peekable();
        while let Some((part, mut total)) = states.next() {
            while let Some((_, state)) = states.next_if(|(next, _)| next.same_rows(part)) {
                simd.run(Merge { total: &mut total, part: &state });
            }
            simd.run(Normalise(&mut total));
            self.write(part, &total, out);
        }
        Ok(())
    }

    fn write(&self, part: &Part<'_>, state: &State, out: &mut HeadsMut<'_>) {
        let group = self.heads / self.kv_heads;
        for (i, vector) in state.out.chunks_exact(state.out.len() / (part.request.rows * group)).enumerate() {
            let (row, head) = (part.request.first_row + i / group, part.kv_head * group + i % group);
            out.values.store(row * out.strides[0] + head * out.strides[1], &vector[..self.dim]);
        }
    }

    fn check(&self) -> Result<()> {
        let requests = self.context_lens.len();
        if self.dim == 0 || !self.dim.is_multiple_of(8) {
            return Err(Error::argument("dim", self.dim, "a multiple of 8, at least 8"));
        }
        if self.page_size == 0 {
            return Err(Error::argument("page_size", 0, "at least 1 token a page"));
        }
        if self.kv_heads == 0 {
            return Err(Error::argument("kv_heads", 0, "at least 1 head"));
        }
        if self.heads == 0 || !self.heads.is_multiple_of(self.kv_heads) {
            return Err(Error::argument(
                "heads",
                self.heads,
                format!("a multiple of kv_heads, which is {}", self.kv_heads),
            ));
        }
        if !self.scale.is_finite() {
            return Err(Error::argument("scale", self.scale, "a finite number"));
        }
        if !(self.softcap.is_finite() && self.softcap >= 0.0) {
            return Err(Error::argument("softcap", self.softcap, "a finite number >= 0; 0 for none"));
        }
        for (name, values) in [("q", self.q.values), ("k", self.k.values), ("v", self.v.values)] {
            check_dtype(name, values)?;
        }
        check_extent("q", self.q.values.len(), &[self.rows, self.heads], &self.q.strides, self.dim)?;
        for (name, of) in [("k", &self.k), ("v", &self.v)] {
            let counts = [self.pages, self.page_size, self.kv_heads];
            check_extent(name, of.values.len(), &counts, &of.strides, self.dim)?;
        }
        if self.cu_rows.len() != requests + 1 {
            let expected = format!("{} (one more than context_lens)", requests + 1);
            return Err(Error::shape("cu_rows", self.cu_rows.len(), expected));
        }
        if self.cu_rows[0] != 0 {
            return Err(Error::argument("cu_rows[0]", self.cu_rows[0], "0"));
        }
        for (b, ends) in self.cu_rows.windows(2).enumerate() {
            if ends[1] < ends[0] || ends[1] as usize > self.rows {
                let expected = format!("from {} (the request's first row) to {} (rows of q)", ends[0], self.rows);
                return Err(Error::argument(format!("cu_rows[{}]", b + 1), ends[1], expected));
            }
        }
        (0..requests).try_for_each(|b| self.check_request(b))
    }

    fn check_request(&self, b: usize) -> Result<()> {
        let (first, end) = (self.cu_rows[b] as usize, self.cu_rows[b + 1] as usize);
        if first == end {
            return Ok(());
        }
        let Ok(context) = usize::try_from(self.context_lens[b]) else {
            return Err(Error::argument(
                format!("context_lens[{b}]"),
                self.context_lens[b],
                "a number of keys, at least 0",
            ));
        };
        let used = (context + end - first).div_ceil(self.page_size);
        let start =
            b.checked_mul(self.table_stride).filter(|_| used <= self.table_stride || b + 1 == self.context_lens.len());
        let pages = start.and_then(|start| self.block_table.get(start..start.checked_add(used)?));
        let Some(pages) = pages else {
            return Err(Error::shape(
                "block_table",
                format!("{} elements, {} a request", self.block_table.len(), self.table_stride),
                format!("{used} pages of {} for the {} keys of request {b}", self.page_size, context + end - first),
            ));
        };
        if let Some(i) =
            pages.iter().position(|&page| usize::try_from(page).is_ok_and(|page| page < self.pages).eq(&false))
        {
            let expected = format!("a page from 0 to {}", self.pages as i64 - 1);
            return Err(Error::argument(format!("block_table[{b}][{i}]"), pages[i], expected));
        }
        let Some(ancestors) = self.ancestors else { return Ok(()) };
        if self.words.checked_mul(64).is_some_and(|nodes| nodes < end - first - 1) {
            let expected =
                format!("{} for the {} nodes of request {b}", (end - first - 1).div_ceil(64), end - first - 1);
            return Err(Error::argument("words", self.words, expected));
        }
        let bits = first
            .checked_mul(self.words)
            .zip(end.checked_mul(self.words))
            .and_then(|(from, to)| ancestors.get(from..to));
        let Some(bits) = bits else {
            let expected = format!("[{}, {}]", self.cu_rows[self.context_lens.len()], self.words);
            return Err(Error::shape("ancestors", format!("{} words", ancestors.len()), expected));
        };
        for (row, bits) in (0..end - first).zip(bits.chunks_exact(self.words.max(1))) {
            // Its own bit is its highest; the root has none.
            let highest = bits.iter().rposition(|&word| word != 0).map(|word| word * 64 + bits[word].ilog2() as usize);
            if highest != row.checked_sub(1) {
                let expected = match row {
                    0 => "0, since the root is no node".to_string(),
                    _ => format!("bits of nodes up to {0}, {0} itself being among them", row - 1),
                };
                let shown = bits.iter().rev().map(|word| format!("{word:#x}")).collect::<Vec<_>>().join(" ");
                return Err(Error::argument(format!("ancestors[{}]", first + row), shown, expected));
            }
        }
        Ok(())
    }

    fn check_out(&self, out: &HeadsMut<'_>) -> Result<()> {
        let [row, head] = out.strides;
        check_extent("out", out.values.len(), &[self.rows, self.heads], &out.strides, self.dim)?;
        let span =
            |count: usize, stride: usize, inner: usize| (count.max(1) - 1).saturating_mul(stride).saturating_add(inner);
        let heads_inside =
            (self.heads == 1 || head >= self.dim) && (self.rows < 2 || row >= span(self.heads, head, self.dim));
        let rows_inside =
            (self.rows < 2 || row >= self.dim) && (self.heads == 1 || head >= span(self.rows, row, self.dim));
        if self.rows == 0 || heads_inside || rows_inside {
            return Ok(());
        }
        let expected =
            format!("strides with which [{}, {}, {}] elements do not overlap", self.rows, self.heads, self.dim);
        Err(Error::argument("out.strides", format!("{:?}", out.strides), expected))
    }
}

/// Work that one thread does at a time.
struct Part<'a> {
    request: &'a Request,
    kv_head: usize,
    chunks: Vec<Range<usize>>,
}

impl Part<'_> {
    fn same_rows(&self, other: &Part<'_>) -> bool {
        (self.request.index, self.kv_head) == (other.request.index, other.kv_head)
    }
}

struct Merge<'a> {
    total: &'a mut State,
    part: &'a State,
}

impl NullaryFnOnce for Merge<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.total.merge(self.part);
    }
}

struct Normalise<'a>(&'a mut State);

impl NullaryFnOnce for Normalise<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.0.normalise();
    }
}
