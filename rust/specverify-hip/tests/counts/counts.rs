//! What a workgroup of the attention kernels costs, counted on the simulator: what `bench/roofline.py` makes its estimates from.
//!
//! A run over a few tiles of keys is `fixed + tiles * tile + masked * masked_tile`, where masked tiles are those in which some row may not
//! see some key. Three runs tell the three apart.

use std::ops::{Add, Mul, Sub};

use gfxsim::{Class, Report};
use specverify_hip::tree_attention::{Cache, Query};

use crate::common::elements::Elements;
use crate::common::program;
use crate::common::request::Request;
use crate::{mla, tree};

/// Keys before the first of the tiles that are compared, in tiles.
const FIRST: usize = 4;
/// Tiles that are compared.
const MORE: usize = 8;
/// Heads that share a KV head in the runs: a tree row is so many query rows.
const GROUP: usize = 8;

/// What the waves of the busiest SIMD run; LDS of the whole workgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Instructions, vector ones, transcendental ones, matrix operations, bytes of LDS.
    pub counts: [f64; 5],
}

/// Names of [`Work::counts`].
const NAMES: [&str; 5] = ["instructions", "vector", "transcendental", "matrix_flops", "lds_bytes"];

impl Work {
    fn of(report: &Report) -> Self {
        let most = |of: fn(&gfxsim::Issued) -> u64| report.simds.iter().map(of).max().unwrap_or(0) as f64;
        let counts = [
            most(|simd| simd.instructions),
            most(|simd| simd.vector),
            most(|simd| simd.transcendental),
            most(|simd| simd.matrix_flops),
            report.lds_bytes as f64,
        ];
        Self { counts }
    }

    fn zip(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        Self { counts: std::array::from_fn(|i| f(self.counts[i], other.counts[i])) }
    }
}

impl Add for Work {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
}

impl Sub for Work {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }
}

impl Mul<f64> for Work {
    type Output = Self;
    fn mul(self, factor: f64) -> Self {
        Self { counts: self.counts.map(|count| count * factor) }
    }
}

/// A workgroup's cost at some number of query rows.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub fixed: Work,
    pub tile: Work,
    pub masked: Work,
}

/// Of one kernel.
#[derive(Debug)]
pub struct Counts {
    /// Keys of a tile.
    pub keys: usize,
    /// At 16, 32, 48 and 64 query rows.
    pub costs: [Cost; 4],
    /// Of a wave of the reduction: without parts, and a part's.
    pub reduction: [Work; 2],
    /// Distinct 128-byte lines of the cache over the fewest that hold the keys.
    pub lines: f64,
    /// Requested bytes of the cache over those of one reading for every 64 query rows.
    pub requested: f64,
    /// Matrix instructions among the instructions of a tile, at 64 query rows.
    pub matrix_share: f64,
    /// Cycles lost to bank conflicts in all these runs.
    pub conflicts: u64,
}

/// What a run is asked of: `tree_attention` at a head dimension, or `mla_tree_attention`.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    pub arch: &'static str,
    pub query: Query,
    pub cache: Cache,
    /// `None`: MLA.
    pub dim: Option<usize>,
}

struct Run {
    report: Report,
    reduction: Option<Report>,
    /// Bytes of the cache: distinct lines times 128, requested, and the least.
    lines: u64,
    requested: u64,
    least: usize,
}

impl Subject {
    /// By the name of a kernel; `None` for others and for reductions.
    pub fn of(arch: &'static str, kernel: &str) -> Option<Self> {
        let (types, dim) = match kernel.strip_prefix("mla_tree_attention_") {
            Some(types) => (types, None),
            None => {
                let (types, dim) = kernel.strip_prefix("tree_attention_")?.rsplit_once("_d")?;
                (types, Some(dim.parse().ok()?))
            }
        };
        let (query, cache) = match types.split_once('_')? {
            ("bf16", kv) => (Query::Bf16, kv),
            ("f16", kv) => (Query::F16, kv),
            _ => return None,
        };
        Some(Self { arch, query, cache: if cache == "fp8" { Cache::Fp8 } else { Cache::Query }, dim })
    }

    fn run(&self, context: usize, rows: usize, splits: usize) -> Run {
        let request = Request::chain(context, rows);
        let keys = request.keys();
        let told = format!("{self:?}, context {context}, {rows} rows, {splits} splits");
        if let Some(dim) = self.dim {
            let settings = tree::Settings {
                group: GROUP,
                page_size: 64,
                splits,
                ..tree::Settings::new(self.arch, self.query, self.cache, dim)
            };
            let problem = tree::Problem::new(settings, vec![request], 3);
            let ran =
                problem.run_on(program(tree::SOURCE, self.arch)).unwrap_or_else(|fault| panic!("{told}: {fault}"));
            let least = 2 * keys * dim * settings.elements().element_bytes();
            Run { report: ran.report, reduction: ran.reduction, lines: ran.lines, requested: ran.requested, least }
        } else {
            let elements = Elements { arch: self.arch, query: self.query, cache: self.cache };
            let settings = mla::Settings {
                heads: GROUP,
                page_size: 64,
                splits,
                ..mla::Settings::new(self.arch, (self.query, self.cache))
            };
            let problem = mla::Problem::new(settings, vec![request], 3);
            let ran = problem.run_on(program(mla::SOURCE, self.arch)).unwrap_or_else(|fault| panic!("{told}: {fault}"));
            let (lines, requested) = (ran.traffic.lines_read, ran.traffic.requested_read);
            let least = keys * mla::KEY * elements.element_bytes();
            Run { report: ran.report, reduction: ran.reduction, lines, requested, least }
        }
    }

    /// Runs the kernel and its reduction.
    pub fn count(&self) -> Counts {
        let keys = if self.dim.is_some_and(|dim| dim <= 128) { 64 } else { 32 };
        let (mut conflicts, mut matrix_share) = (0, 0.0);
        let costs = [1, 2, 3, 4].map(|blocks| {
            let rows = 16 * blocks / GROUP;
            let run = |context| self.run(context, rows, 1).report;
            // The last keys are a masked tile of their own; or they begin with the last key of the tile before, which masks it too.
            let (short, long, straddling) =
                (run(FIRST * keys), run((FIRST + MORE) * keys), run((FIRST + 1) * keys - 1));
            conflicts += short.lds_conflict_cycles + long.lds_conflict_cycles + straddling.lds_conflict_cycles;
            let tile = (Work::of(&long) - Work::of(&short)) * (1.0 / MORE as f64);
            let masked = Work::of(&straddling) - Work::of(&short) - tile;
            let fixed = Work::of(&short) - tile * (FIRST + 1) as f64 - masked;
            matrix_share = (long.by_class[&Class::Matrix] - short.by_class[&Class::Matrix]) as f64
                / (long.instructions - short.instructions) as f64;
            Cost { fixed, tile, masked }
        });
        let parts = |splits| Work::of(&self.run(8 * 64, 1, splits).reduction.unwrap_or_default());
        let part = (parts(8) - parts(2)) * (1.0 / 6.0);
        // 136 query rows: two full blocks and a part of a third.
        let traffic = self.run(1100, 17, 1);
        Counts {
            keys,
            costs,
            reduction: [parts(2) - part * 2.0, part],
            lines: traffic.lines as f64 * 128.0 / traffic.least as f64,
            requested: traffic.requested as f64 / ((17 * GROUP).div_ceil(64) * traffic.least) as f64,
            matrix_share,
            conflicts: conflicts + traffic.report.lds_conflict_cycles,
        }
    }
}

fn list(work: Work) -> String {
    // A rounding of what is whole but for averages over tiles, so that the text is the same everywhere.
    format!("[{}]", work.counts.map(|count| ((count * 10.0).round() / 10.0 + 0.0).to_string()).join(", "))
}

/// The kernels that estimates are made of: head dimension 128, and MLA.
pub fn estimated() -> impl Iterator<Item = (&'static str, String)> {
    let types = ["bf16_bf16", "bf16_fp8", "f16_f16", "f16_fp8"];
    ["gfx942", "gfx950"].into_iter().flat_map(move |arch| {
        let tree = types.map(|types| format!("tree_attention_{types}_d128"));
        let mla = types.map(|types| format!("mla_tree_attention_{types}"));
        tree.into_iter().chain(mla).map(move |kernel| (arch, kernel))
    })
}

/// What `bench/hip_counts.json` says of a kernel.
pub fn entry(arch: &'static str, kernel: &str) -> String {
    let subject = Subject::of(arch, kernel).unwrap();
    let counts = subject.count();
    let source = if subject.dim.is_some() { tree::SOURCE } else { mla::SOURCE };
    let metadata = program(source, arch).metadata(kernel).unwrap();
    let workgroups = 4 * metadata.occupancy * 64 / metadata.max_workgroup;
    let costs = counts.costs.map(|cost| {
        let [fixed, tile, masked] = [cost.fixed, cost.tile, cost.masked].map(list);
        format!("      {{\"fixed\": {fixed}, \"tile\": {tile}, \"masked\": {masked}}}")
    });
    let [fixed, part] = counts.reduction.map(list);
    [
        format!("    {{\"arch\": \"{arch}\", \"kernel\": \"{kernel}\", \"keys\": {},", counts.keys),
        format!("     \"waves\": {}, \"workgroups_a_unit\": {workgroups},", metadata.max_workgroup / 64),
        format!("     \"lines\": {:.4}, \"requested\": {:.4},", counts.lines, counts.requested),
        format!("     \"costs\": [\n{}],", costs.join(",\n")),
        format!("     \"reduction\": {{\"fixed\": {fixed}, \"part\": {part}}}}}"),
    ]
    .join("\n")
}

/// What `bench/hip_counts.json` holds.
pub fn json() -> String {
    let kernels: Vec<_> = estimated().map(|(arch, kernel)| entry(arch, &kernel)).collect();
    let names = NAMES.map(|name| format!("\"{name}\"")).join(", ");
    format!("{{\n  \"work\": [{names}],\n  \"kernels\": [\n{}\n  ]\n}}\n", kernels.join(",\n"))
}
