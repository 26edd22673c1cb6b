//! Compaction of the cache: which kernels run by how the pools are aligned, their workgroups, and what their arguments may be.

use crate::abi::{Arguments, KvCompactArgs, KvMoveArgs};
use crate::error::check;
use crate::{Device, Geometry, Result, Stream};

const SOURCE: &str = "kv_compact";
const THREADS: u32 = 256;
/// Bytes that a thread moves at once, widest first.
pub const WIDTHS: [u32; 3] = [16, 4, 1];
/// Of the y and z dimensions of a grid.
const MAX_GRID: u32 = 65535;
/// A grid has fewer than 2^32 work-items.
const MAX_POOLS: u32 = u32::MAX / THREADS;

/// What a call launches. Depends on shapes alone, never on lengths, so that a captured graph may be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// The kernel.
    pub kernel: &'static str,
    /// Its workgroups.
    pub geometry: Geometry,
}

/// Where the pools' bytes are, in either kernel's arguments.
struct Layout {
    page_stride: i64,
    token_stride: i64,
    head_stride: i64,
    pools: i32,
    heads: i32,
    head_bytes: i32,
    page_size: i32,
}

impl Layout {
    /// Bytes that a thread may move at once, and the workgroups along x and z.
    fn plan(&self, base_alignment: u64) -> Result<(u32, [u32; 2])> {
        check(
            base_alignment.is_power_of_two(),
            "base_alignment",
            base_alignment,
            "a power of two that divides every address of bases",
        )?;
        check((0..=MAX_POOLS as i32).contains(&self.pools), "pools", self.pools, "0 to 16777215")?;
        check(self.heads > 0, "heads", self.heads, "1 or more")?;
        check(self.head_bytes > 0, "head_bytes", self.head_bytes, "1 or more")?;
        check(self.page_size > 0, "page_size", self.page_size, "1 or more")?;
        let head_bytes = i64::from(self.head_bytes);
        for (name, stride, used) in [
            ("page_stride", self.page_stride, true),
            ("token_stride", self.token_stride, self.page_size > 1),
            ("head_stride", self.head_stride, self.heads > 1),
        ] {
            check(stride >= head_bytes || !used, name, stride, "head_bytes or more, in bytes")?;
        }
        let together = self.page_stride | self.token_stride | self.head_stride | head_bytes | base_alignment as i64;
        let width = WIDTHS.into_iter().find(|&width| together % i64::from(width) == 0).unwrap_or(1);
        let columns = i64::from(self.heads) * (head_bytes / i64::from(width));
        let blocks = (columns + i64::from(THREADS) - 1) / i64::from(THREADS);
        check(
            blocks <= i64::from(MAX_GRID),
            "heads",
            self.heads,
            "heads x head_bytes of at most 65535 x 256 x the width of a move",
        )?;
        Ok((width, [self.pools as u32, blocks as u32]))
    }
}

fn addresses<const N: usize>(named: [(&'static str, u64, u64); N], needed: bool) -> Result<()> {
    for (name, address, bytes) in named {
        check(address != 0 || !needed, name, "null", "an address")?;
        let expected =
            if bytes == 8 { "an address that is a multiple of 8" } else { "an address that is a multiple of 4" };
        check(address % bytes == 0, name, format_args!("{address:#x}"), expected)?;
    }
    Ok(())
}

impl Plan {
    /// For accepted paths. `base_alignment` divides every address of `bases`, which lie on the device.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::Error::Argument) names what is out of range.
    pub fn compact(base_alignment: u64, arguments: &KvCompactArgs) -> Result<Self> {
        let a = arguments;
        let layout = Layout {
            page_stride: a.page_stride,
            token_stride: a.token_stride,
            head_stride: a.head_stride,
            pools: a.pools,
            heads: a.heads,
            head_bytes: a.head_bytes,
            page_size: a.page_size,
        };
        let (width, [x, z]) = layout.plan(base_alignment)?;
        check((0..=MAX_GRID as i32).contains(&a.requests), "requests", a.requests, "0 to 65535")?;
        check(a.max_path >= 0, "max_path", a.max_path, "0 or more")?;
        check(a.table_stride >= 0, "table_stride", a.table_stride, "0 or more")?;
        let named = [
            ("bases", a.bases, 8),
            ("block_table", a.block_table, 4),
            ("context_lens", a.context_lens, 4),
            ("accepted", a.accepted, 4),
        ];
        let any = a.pools > 0 && a.requests > 0;
        addresses(named, any)?;
        addresses([("path", a.path, 4)], any && a.max_path > 0)?;
        let kernel = match width {
            16 => "kv_compact_16",
            4 => "kv_compact_4",
            _ => "kv_compact_1",
        };
        Ok(Self { kernel, geometry: geometry([x, a.requests as u32, z]) })
    }

    /// For a list of moves. `base_alignment` divides every address of `bases`, which lie on the device.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::Error::Argument) names what is out of range.
    pub fn moves(base_alignment: u64, arguments: &KvMoveArgs) -> Result<Self> {
        let a = arguments;
        let layout = Layout {
            page_stride: a.page_stride,
            token_stride: a.token_stride,
            head_stride: a.head_stride,
            pools: a.pools,
            heads: a.heads,
            head_bytes: a.head_bytes,
            page_size: a.page_size,
        };
        let (width, [x, z]) = layout.plan(base_alignment)?;
        check((0..=MAX_GRID as i32).contains(&a.groups), "groups", a.groups, "0 to 65535")?;
        let any = a.pools > 0 && a.groups > 0;
        addresses([("bases", a.bases, 8), ("move_offsets", a.move_offsets, 4)], any)?;
        // Without moves they may be null.
        addresses([("sources", a.sources, 8), ("destinations", a.destinations, 8)], false)?;
        let kernel = match width {
            16 => "kv_move_16",
            4 => "kv_move_4",
            _ => "kv_move_1",
        };
        Ok(Self { kernel, geometry: geometry([x, a.groups as u32, z]) })
    }

    /// Puts the call on a stream and returns at once. `arguments` are those that the plan was made of.
    ///
    /// # Errors
    /// As [`Device::function`] and [`Device::launch`].
    ///
    /// # Safety
    /// As [`Device::launch`]: the arguments must be of the kind that the plan was made for, and the addresses valid on the device, with the
    /// shapes that `hip/abi.h` states.
    pub unsafe fn launch<A: Arguments>(&self, device: &Device, stream: Stream, arguments: &A) -> Result<()> {
        let function = device.function(SOURCE, self.kernel)?;
        // SAFETY: the caller answers for the arguments.
        unsafe { device.launch(function, self.geometry, stream, arguments) }
    }
}

fn geometry(grid: [u32; 3]) -> Geometry {
    Geometry { grid, block: THREADS, dynamic_lds: 0 }
}
