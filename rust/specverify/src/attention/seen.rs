//! Which keys a row sees, as bits: one word for each block of 64 keys.

use crate::attention::TreeAttention;

/// Keys of a block. Blocks start at multiples of it, whatever the request.
pub(super) const BLOCK: usize = 64;

/// A request that has rows, and what they see.
pub(super) struct Request {
    /// In the batch.
    pub index: usize,
    /// First of its rows in the batch.
    pub first_row: usize,
    pub rows: usize,
    /// Keys before the root.
    pub context: usize,
    /// First prefix key that a row sees, [rows].
    starts: Vec<usize>,
    /// What a row sees from block `context / BLOCK` on, [rows, tail].
    bits: Vec<u64>,
    tail: usize,
}

impl Request {
    pub fn new(call: &TreeAttention<'_>, index: usize) -> Option<Self> {
        let [first_row, end_row] = [index, index + 1].map(|b| call.cu_rows[b] as usize);
        let rows = end_row - first_row;
        let context = if rows > 0 { call.context_lens[index] as usize } else { return None };
        let tail_start = context / BLOCK * BLOCK;
        let tail = (context + rows - tail_start).div_ceil(BLOCK);
        let words = rows.div_ceil(BLOCK);
        let ancestors: Vec<u64> = match call.ancestors {
            None => (0..rows).flat_map(|row| (0..words).map(move |word| ones(row.saturating_sub(word * 64)))).collect(),
            Some(bits) => (0..rows * words)
                .map(|i| {
                    let (row, word) = (i / words, i % words);
                    if word < call.words { bits[(first_row + row) * call.words + word] } else { 0 }
                })
                .collect(),
        };
        let depths: Vec<usize> =
            ancestors.chunks_exact(words).map(|nodes| nodes.iter().map(|w| w.count_ones() as usize).sum()).collect();
        let reach = if call.window == 0 { usize::MAX } else { call.window };
        let starts = depths.iter().map(|depth| (context + depth + 1).saturating_sub(reach)).collect();
        let mut bits = vec![0; rows * tail];
        for row in 0..rows {
            let seen = &mut bits[row * tail..][..tail];
            or_at(seen, 0, ones(context - tail_start));
            or_at(seen, context - tail_start, u64::from(depths[row] < reach));
            for (word, &nodes) in ancestors[row * words..][..words].iter().enumerate() {
                let mut kept = nodes;
                if reach <= rows {
                    for node in (0..64).filter(|node| nodes >> node & 1 == 1) {
                        if depths[row] - depths[word * 64 + node + 1] >= reach {
                            kept &= !(1 << node);
                        }
                    }
                }
                or_at(seen, context + 1 - tail_start + word * 64, kept);
            }
        }
        Some(Self { index, first_row, rows, context, starts, bits, tail })
    }

    /// Number of its keys.
    pub fn keys(&self) -> usize {
        self.context + self.rows
    }

    /// First key that any row sees.
    pub fn start(&self) -> usize {
        self.starts.iter().copied().min().unwrap_or(0).min(self.context)
    }

    /// The keys of a block that a row sees: bit i is key `block + i`.
    pub fn seen(&self, row: usize, block: usize) -> u64 {
        let bits = match (block / BLOCK).checked_sub(self.context / BLOCK) {
            Some(i) => self.bits[row * self.tail + i],
            None => !0,
        };
        // What stands before the first prefix key; of a block behind it, nothing.
        let hidden = ones(self.starts[row].min(self.context).saturating_sub(block));
        bits & !hidden
    }
}

/// The lowest `count` bits.
fn ones(count: usize) -> u64 {
    if count >= 64 { !0 } else { (1 << count) - 1 }
}

/// Sets the bits of `word` from bit `at` on; what would lie beyond the end is zero.
fn or_at(bits: &mut [u64], at: usize, word: u64) {
    let (first, shift) = (at / 64, at % 64);
    if let Some(low) = bits.get_mut(first) {
        *low |= word << shift;
    }
    if shift > 0
        && let Some(high) = bits.get_mut(first + 1)
    {
        *high |= word >> (64 - shift);
    }
}
