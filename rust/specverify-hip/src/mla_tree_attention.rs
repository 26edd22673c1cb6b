//! Absorbed MLA attention of a verification pass: which kernels run, on how many workgroups, with how large a workspace.

use crate::abi::MlaTreeAttentionArgs;
use crate::error::check;
use crate::tree_attention::{Cache, MAX_ROWS, Query};
use crate::{Device, Geometry, Result, Stream};

/// Query rows of a workgroup: a query row is one head of one tree row.
pub const ROWS: u32 = 64;
/// Elements of a token's latent that are its value too.
pub const LATENT: u32 = 512;
/// Elements of a token: the latent and the rotary part.
pub const WIDTH: u32 = LATENT + 64;
/// Heads that share the latent.
pub const MAX_HEADS: i32 = 128;
/// Parts that the keys of a request may be split into.
pub const MAX_SPLITS: i32 = 256;

const DIES: u32 = 8;
const SOURCE: &str = "mla_tree_attention";
const THREADS: u32 = 512;
const REDUCTION_THREADS: u32 = 256;

/// What a call launches. Depends on shapes alone, never on lengths, so that a captured graph may be replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The kernel, and its workgroups.
    pub attention: (String, Geometry),
    /// The reduction of the splits, when there are several.
    pub reduction: Option<(String, Geometry)>,
    /// f32 elements of `partial_out`.
    pub partial_out: usize,
    /// f32 elements of `partial_stats`.
    pub partial_stats: usize,
}

/// Parts to split keys into, so that a workgroup stands on each compute unit, with no fewer than 256 keys a part. All blocks of query rows
/// that read the same keys run on one of the eight dies: fewer than eight requests need parts enough for all dies. From shapes alone:
/// `max_keys` is what the block table has room for.
pub fn splits(requests: u32, heads: u32, max_rows: u32, max_keys: u32, compute_units: u32) -> i32 {
    let workgroups = (requests * (max_rows * heads).div_ceil(ROWS)).max(1);
    let wanted = compute_units.div_ceil(workgroups).max(DIES.div_ceil(requests.max(1)));
    wanted.clamp(1, max_keys.div_ceil(256).clamp(1, MAX_SPLITS as u32)) as i32
}

impl Plan {
    /// Checks what can be checked on the host. `max_rows` is the most rows that any request of the batch may have.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::Error::Argument) names what is out of range.
    pub fn new(query: Query, cache: Cache, max_rows: u32, arguments: &MlaTreeAttentionArgs) -> Result<Self> {
        let a = arguments;
        check((1..=MAX_ROWS).contains(&max_rows), "max_rows", max_rows, "1 to 128: the root and up to 127 nodes")?;
        check(a.requests >= 0, "requests", a.requests, "0 or more")?;
        check(a.rows >= 0, "rows", a.rows, "0 or more")?;
        check((1..=MAX_HEADS).contains(&a.heads), "heads", a.heads, "1 to 128")?;
        check(a.page_size > 0, "page_size", a.page_size, "1 or more")?;
        check((1..=2).contains(&a.words) || a.ancestors == 0, "words", a.words, "1 or 2")?;
        check((1..=MAX_SPLITS).contains(&a.splits), "splits", a.splits, "1 to 256")?;
        check(a.split_keys >= 0 && a.split_keys % 64 == 0, "split_keys", a.split_keys, "0 or a multiple of 64")?;
        for (name, stride) in [
            ("kv_stride_page", a.kv_stride_page),
            ("kv_stride_token", a.kv_stride_token),
            ("q_stride_row", a.q_stride_row),
            ("q_stride_head", a.q_stride_head),
        ] {
            check(stride % 8 == 0, name, stride, "a multiple of 8 elements")?;
        }
        for (name, stride) in [("out_stride_row", a.out_stride_row), ("out_stride_head", a.out_stride_head)] {
            check(stride % 4 == 0, name, stride, "a multiple of 4 elements")?;
        }
        let aligned = if cache == Cache::Fp8 { 8 } else { 16 };
        for (name, address, bytes, expected) in [
            ("q", a.q, 16, "an address that is a multiple of 16"),
            ("kv", a.kv, aligned, "an address that is a multiple of 16 (fp8: 8)"),
            ("out", a.out, 8, "an address that is a multiple of 8"),
        ] {
            check(address % bytes == 0, name, format_args!("{address:#x}"), expected)?;
        }
        check(
            a.splits == 1 || (a.partial_out != 0 && a.partial_stats != 0),
            "splits",
            a.splits,
            "1, unless partial_out and partial_stats are given",
        )?;

        let q = match query {
            Query::Bf16 => "bf16",
            Query::F16 => "f16",
        };
        let kv = if cache == Cache::Fp8 { "fp8" } else { q };
        let units = i64::from(a.requests) * i64::from(a.splits);
        let layers = (units + 7) / 8;
        check(layers <= 65535, "requests", a.requests, "at most 524280 requests x splits")?;
        // Eight neighbouring workgroups run on the eight dies: see the kernel.
        let blocks = (max_rows * a.heads as u32).div_ceil(ROWS);
        let pairs = a.rows as usize * a.heads as usize;
        let several = a.splits > 1;
        // The kernels count them in 32 bits.
        check(
            a.splits as u64 * pairs as u64 <= i32::MAX as u64,
            "splits",
            a.splits,
            "splits x rows x heads of at most 2^31 - 1",
        )?;
        let parts = if several { a.splits as usize * pairs } else { 0 };
        let launch = |grid, block| Geometry { grid, block, dynamic_lds: 0 };
        let waves = (REDUCTION_THREADS / 64) as usize;
        Ok(Self {
            attention: (format!("{SOURCE}_{q}_{kv}"), launch([8, blocks, layers as u32], THREADS)),
            reduction: several.then(|| {
                (format!("{SOURCE}_reduce_{q}"), launch([pairs.div_ceil(waves) as u32, 1, 1], REDUCTION_THREADS))
            }),
            partial_out: parts * LATENT as usize,
            partial_stats: parts * 2,
        })
    }

    /// Puts the call on a stream and returns at once.
    ///
    /// # Errors
    /// As [`Device::function`] and [`Device::launch`].
    ///
    /// # Safety
    /// As [`Device::launch`]: the addresses must be valid on the device, with the shapes that `hip/abi.h` states, and lengths within
    /// what the plan was made for.
    pub unsafe fn launch(&self, device: &Device, stream: Stream, arguments: &MlaTreeAttentionArgs) -> Result<()> {
        for (kernel, geometry) in std::iter::once(&self.attention).chain(&self.reduction) {
            let function = device.function(SOURCE, kernel)?;
            // SAFETY: these are the kernel's arguments; the caller answers for the addresses.
            unsafe { device.launch(function, *geometry, stream, arguments) }?;
        }
        Ok(())
    }
}
