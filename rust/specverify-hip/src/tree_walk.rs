//! The walk down the draft trees: its workgroups, and what its arguments may be.

use crate::abi::TreeWalkArgs;
use crate::error::check;
use crate::{Device, Geometry, Result, Stream};

const SOURCE: &str = "tree_walk";
/// One wave a request.
const THREADS: u32 = 64;
/// A grid has fewer than 2^32 work-items.
const MAX_REQUESTS: i32 = (u32::MAX / THREADS) as i32;

/// What a call launches. Depends on the number of requests alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Its workgroups.
    pub geometry: Geometry,
}

impl Plan {
    /// The kernel.
    pub const KERNEL: &str = "tree_walk";

    /// Checks what can be checked on the host.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::Error::Argument) names what is out of range.
    pub fn new(arguments: &TreeWalkArgs) -> Result<Self> {
        let a = arguments;
        check((0..=MAX_REQUESTS).contains(&a.requests), "requests", a.requests, "0 to 67108863")?;
        check((0..i32::MAX).contains(&a.max_path), "max_path", a.max_path, "0 to 2^31 - 2")?;
        check(
            (a.stop_offsets == 0) == (a.stop_ids == 0),
            "stop_offsets",
            format_args!("{:#x}", a.stop_offsets),
            "null just when stop_ids is null",
        )?;
        // Without nodes there may be no tokens and parents, and no path.
        let needed = [
            ("cu_nodes", a.cu_nodes),
            ("target_tokens", a.target_tokens),
            ("emitted", a.emitted),
            ("accepted", a.accepted),
            ("counts", a.counts),
            ("last_token", a.last_token),
            ("status", a.status),
        ];
        for (name, address) in needed {
            check(address != 0 || a.requests == 0, name, "null", "an address")?;
        }
        check(a.path != 0 || a.requests == 0 || a.max_path == 0, "path", "null", "an address")?;
        let others = [
            ("tokens", a.tokens),
            ("parents", a.parents),
            ("row_status", a.row_status),
            ("stop_offsets", a.stop_offsets),
            ("stop_ids", a.stop_ids),
            ("path", a.path),
        ];
        for (name, address) in needed.into_iter().chain(others) {
            check(address % 4 == 0, name, format_args!("{address:#x}"), "an address that is a multiple of 4")?;
        }
        Ok(Self { geometry: Geometry { grid: [a.requests as u32, 1, 1], block: THREADS, dynamic_lds: 0 } })
    }

    /// Puts the call on a stream and returns at once.
    ///
    /// # Errors
    /// As [`Device::function`] and [`Device::launch`].
    ///
    /// # Safety
    /// As [`Device::launch`]: the addresses must be valid on the device, with the shapes that `hip/abi.h` states.
    pub unsafe fn launch(&self, device: &Device, stream: Stream, arguments: &TreeWalkArgs) -> Result<()> {
        let function = device.function(SOURCE, Self::KERNEL)?;
        // SAFETY: these are the kernel's arguments; the caller answers for the addresses.
        unsafe { device.launch(function, self.geometry, stream, arguments) }
    }
}
