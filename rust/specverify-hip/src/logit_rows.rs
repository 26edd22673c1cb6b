//! Rows of logits: the passes that `target_tokens` and `coupled_children` start from, and how large their workspace is.

use crate::abi::{Arguments, LogitRowsArgs};
use crate::error::check;
use crate::{Device, Geometry, Result, Stream};

/// Ids that share a least exponential.
pub const GROUP: i32 = 64;
/// Ids that a row may have.
pub const MAX_VOCAB: i32 = 262_144;
/// Workgroups that may read one row.
pub const MAX_PARTS: i32 = 64;
/// Bins of the histogram of a part.
const BINS: usize = 1024;
const THREADS: u32 = 256;
/// Threads of the workgroup that finishes a row.
pub(crate) const FINISH_THREADS: u32 = 1024;
/// Of the y dimension of a grid.
const MAX_ROWS: i32 = 65_535;

/// Type of the logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logits {
    /// float32.
    F32,
    /// bfloat16.
    Bf16,
    /// IEEE half precision.
    F16,
}

impl Logits {
    pub(crate) fn pick(self, kernels: [&'static str; 3]) -> &'static str {
        kernels[self as usize]
    }

    fn bytes(self) -> u64 {
        if self == Self::F32 { 4 } else { 2 }
    }
}

/// One launch of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// Its source in `hip/`.
    pub source: &'static str,
    /// The kernel.
    pub kernel: &'static str,
    /// Its workgroups.
    pub geometry: Geometry,
    /// Whether its arguments are the rows' alone.
    pub(crate) of_rows: bool,
}

/// How many workgroups should read a row, and the groups of 64 ids that each reads: `parts` and `part_groups` of the arguments. From
/// shapes alone, so that a captured graph may be replayed.
pub fn parts(logits: Logits, rows: i32, vocab: i32, compute_units: u32) -> (i32, i32) {
    // What a workgroup has in flight at once: less is not worth its start.
    let least = if logits == Logits::F32 { 64 } else { 128 };
    let groups = (vocab.max(1) - 1) / GROUP + 1;
    // Four workgroups for each compute unit.
    let wanted = (4 * i64::from(compute_units) / i64::from(rows.max(1))).clamp(1, MAX_PARTS.into()) as i32;
    let parts = wanted.min((groups - 1) / least + 1);
    // Whole stretches: the last part takes the odd one.
    let part_groups = ((groups - 1) / parts / least + 1) * least;
    ((groups - 1) / part_groups + 1, part_groups)
}

/// Bytes of each workspace, by the fields' names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workspace {
    /// Always.
    pub maxima: usize,
    /// For log-probabilities of the logits as they came.
    pub raw_maxima: usize,
    /// Always.
    pub part_maxima: usize,
    /// Always.
    pub part_faults: usize,
    /// With `top_p` or `totals`; with `top_k` it helps where k exceeds 1024.
    pub bin_masses: usize,
    /// As `bin_masses`.
    pub bin_counts: usize,
    /// With `raw_maxima`.
    pub raw_totals: usize,
    /// With `top_k`, `top_p` or `totals`.
    pub cuts: usize,
}

impl Workspace {
    /// Of `rows`, `vocab` and `parts`.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::Error::Argument) names what is out of range.
    pub fn new(arguments: &LogitRowsArgs) -> Result<Self> {
        let a = arguments;
        check_shape(a)?;
        let (rows, groups) = (a.rows as usize, (a.vocab as usize).div_ceil(GROUP as usize));
        let (of_rows, of_parts) = (rows * groups * 4, rows * a.parts as usize);
        Ok(Self {
            maxima: of_rows,
            raw_maxima: of_rows,
            part_maxima: of_parts * 8,
            part_faults: of_parts * 4,
            bin_masses: of_parts * BINS * 8,
            bin_counts: of_parts * BINS * 4,
            raw_totals: of_parts * 8,
            cuts: rows * 24,
        })
    }
}

fn check_shape(a: &LogitRowsArgs) -> Result<()> {
    check((0..=MAX_ROWS).contains(&a.rows), "rows", a.rows, "0 to 65535")?;
    check((1..=MAX_VOCAB).contains(&a.vocab), "vocab", a.vocab, "1 to 262144")?;
    check((1..=MAX_PARTS).contains(&a.parts), "parts", a.parts, "1 to 64")?;
    let groups = (a.vocab - 1) / GROUP + 1;
    let enough = a.part_groups > 0 && a.part_groups <= MAX_VOCAB / GROUP && a.parts * a.part_groups >= groups;
    check(enough, "part_groups", a.part_groups, "at most 4096, and parts x part_groups of vocab / 64 or more")
}

/// The passes over the rows, which come before the kernel that finishes them. Checks what can be checked on the host.
pub(crate) fn passes(logits: Logits, arguments: &LogitRowsArgs) -> Result<Vec<Pass>> {
    let a = arguments;
    check_shape(a)?;
    let stride_matters = a.rows > 1 && a.columns == 0;
    check(a.row_stride >= a.vocab.into() || !stride_matters, "row_stride", a.row_stride, "vocab or more")?;
    let words = i64::from((a.vocab - 1) / 32 + 1);
    check(a.allowed_stride >= words || a.allowed == 0, "allowed_stride", a.allowed_stride, "vocab / 32 or more")?;
    check((0..=1).contains(&a.allowed_by_row), "allowed_by_row", a.allowed_by_row, "0 or 1")?;
    check((0..=1).contains(&a.totals), "totals", a.totals, "0 or 1")?;

    let needed = [
        ("logits", a.logits, logits.bytes()),
        ("requests", a.requests, 4),
        ("positions", a.positions, 4),
        ("seeds", a.seeds, 8),
        ("inverse_temperatures", a.inverse_temperatures, 4),
        ("maxima", a.maxima, 4),
        ("part_maxima", a.part_maxima, 4),
        ("part_faults", a.part_faults, 4),
    ];
    addresses(needed, a.rows > 0)?;
    let others = [
        ("columns", a.columns, 4),
        ("top_k", a.top_k, 4),
        ("top_p", a.top_p, 4),
        ("min_p", a.min_p, 4),
        ("bias_offsets", a.bias_offsets, 4),
        ("bias_ids", a.bias_ids, 4),
        ("bias_values", a.bias_values, 4),
        ("allowed", a.allowed, 4),
        ("raw_maxima", a.raw_maxima, 4),
        ("bin_masses", a.bin_masses, 8),
        ("bin_counts", a.bin_counts, 4),
        ("raw_totals", a.raw_totals, 8),
        ("cuts", a.cuts, 8),
    ];
    addresses(others, false)?;
    // An empty list may be anywhere.
    check(a.bias_offsets != 0 || a.bias_ids == 0, "bias_offsets", "null", "an address where bias_ids is one")?;
    for (name, one, other, expected) in [
        ("bias_values", a.bias_values, a.bias_ids, "null just when bias_ids is null"),
        ("bin_counts", a.bin_counts, a.bin_masses, "null just when bin_masses is null"),
        ("raw_totals", a.raw_totals, a.raw_maxima, "null just when raw_maxima is null"),
    ] {
        check((one == 0) == (other == 0), name, format_args!("{one:#x}"), expected)?;
    }
    let (filtered, weighed) = (a.top_k != 0 || a.top_p != 0, a.top_p != 0 || a.totals == 1);
    let cut = filtered || weighed;
    check(a.cuts != 0 || !cut, "cuts", "null", "an address with top_k, top_p or totals")?;
    check(a.cuts == 0 || cut, "cuts", format_args!("{:#x}", a.cuts), "null without top_k, top_p and totals")?;
    check(a.bin_masses != 0 || !weighed, "bin_masses", "null", "an address with top_p or totals")?;

    let pass = |source, kernel, grid, block| Pass {
        source,
        kernel: logits.pick(kernel),
        geometry: Geometry { grid, block, dynamic_lds: 0 },
        of_rows: true,
    };
    let (rows, parts) = (a.rows as u32, a.parts as u32);
    let mut passes = Vec::with_capacity(5);
    let kernel = ["row_maxima_f32", "row_maxima_bf16", "row_maxima_f16"];
    passes.push(pass("logit_rows", kernel, [parts, rows, 1], THREADS));
    if (a.bin_masses != 0 && cut) || a.raw_totals != 0 {
        let kernel = ["row_masses_f32", "row_masses_bf16", "row_masses_f16"];
        passes.push(pass("logit_rows", kernel, [parts, rows, 1], THREADS));
    }
    if cut {
        let kernel = ["row_cuts_f32", "row_cuts_bf16", "row_cuts_f16"];
        passes.push(pass("row_cuts", kernel, [rows, 1, 1], FINISH_THREADS));
    }
    Ok(passes)
}

/// A pass that finishes a row in a workgroup.
pub(crate) fn finish(source: &'static str, kernel: &'static str, rows: i32) -> Pass {
    let geometry = Geometry { grid: [rows as u32, 1, 1], block: FINISH_THREADS, dynamic_lds: 0 };
    Pass { source, kernel, geometry, of_rows: false }
}

/// Refuses null addresses where they are needed, and those that their type cannot have.
pub(crate) fn addresses<const N: usize>(named: [(&'static str, u64, u64); N], needed: bool) -> Result<()> {
    for (name, address, bytes) in named {
        check(address != 0 || !needed, name, "null", "an address")?;
        let expected = match bytes {
            8 => "an address that is a multiple of 8",
            4 => "an address that is a multiple of 4",
            _ => "an even address",
        };
        check(address % bytes == 0, name, format_args!("{address:#x}"), expected)?;
    }
    Ok(())
}

/// Puts the passes of a plan on a stream.
///
/// # Safety
/// As [`Device::launch`]; `arguments` are those of the kernels that finish, `rows` a part of them.
pub(crate) unsafe fn launch<A: Arguments>(
    passes: &[Pass],
    device: &Device,
    stream: Stream,
    rows: &LogitRowsArgs,
    arguments: &A,
) -> Result<()> {
    for pass in passes {
        let function = device.function(pass.source, pass.kernel)?;
        // SAFETY: these are the kernel's arguments; the caller answers for the addresses.
        unsafe {
            if pass.of_rows {
                device.launch(function, pass.geometry, stream, rows)?;
            } else {
                device.launch(function, pass.geometry, stream, arguments)?;
            }
        }
    }
    Ok(())
}
