//! Batches of logit rows: the same for the kernels and for the crate.

use std::collections::BTreeMap;

use gfxsim::{Buffer, Fault, Memory};
use half::{bf16, f16};
use specverify::SamplingParams;
use specverify::error::{Error, RowFault};
use specverify::rows::{Matrix, Values};
use specverify_hip::abi::{Arguments, LogitRowsArgs};
use specverify_hip::logit_rows::{Logits, Pass, Workspace, parts};

use super::{Numbers, input, launch, program};

/// The three types.
pub const TYPES: [Logits; 3] = [Logits::F32, Logits::Bf16, Logits::F16];

/// One request: rows of logits at successive positions.
#[derive(Debug, Clone)]
pub struct Request {
    pub params: SamplingParams,
    pub seed: u64,
    pub position: u32,
    pub rows: Vec<Vec<f32>>,
}

/// Requests one after the other, a row of padding (of no request) after every third.
#[derive(Debug, Clone)]
pub struct Batch {
    pub logits: Logits,
    pub vocab: usize,
    /// Columns of a row; `vocab` unless `columns` is given.
    pub width: usize,
    /// Elements between rows.
    pub stride: usize,
    /// The column of each id, -1 for none.
    pub columns: Option<Vec<i32>>,
    pub requests: Vec<Request>,
    /// Compute units for which rows are split.
    pub units: u32,
    /// Whether the masks are given a row each, not a request each.
    pub allowed_by_row: bool,
    /// Whether the mass of every row is wanted, and the maxima of raw rows.
    pub totals: bool,
    pub raw: bool,
}

/// Elements of a type.
pub enum Elements {
    F32(Vec<f32>),
    Bf16(Vec<bf16>),
    F16(Vec<f16>),
}

impl Elements {
    /// Rounded to a type.
    pub fn of(logits: Logits, values: &[f32]) -> Self {
        match logits {
            Logits::F32 => Self::F32(values.to_vec()),
            Logits::Bf16 => Self::Bf16(values.iter().map(|&x| bf16::from_f32(x)).collect()),
            Logits::F16 => Self::F16(values.iter().map(|&x| f16::from_f32(x)).collect()),
        }
    }

    /// As a matrix of the crate.
    pub fn matrix(&self, rows: usize, vocab: usize, stride: usize) -> Matrix<'_> {
        let values = match self {
            Self::F32(values) => Values::F32(values),
            Self::Bf16(values) => Values::Bf16(values),
            Self::F16(values) => Values::F16(values),
        };
        Matrix::new(values, rows, vocab, stride).unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::F32(values) => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Self::Bf16(values) => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Self::F16(values) => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        }
    }
}

/// The status of a row that the crate refuses.
pub fn status_of(error: &Error) -> i32 {
    match error {
        Error::Row { fault: RowFault::Nan, .. } => 1,
        Error::Row { fault: RowFault::PosInf, .. } => 2,
        Error::Row { fault: RowFault::NoMass, .. } => 3,
        other => panic!("{other}"),
    }
}

impl Batch {
    pub fn new(logits: Logits, vocab: usize, requests: Vec<Request>) -> Self {
        Self {
            logits,
            vocab,
            width: vocab,
            stride: vocab,
            columns: None,
            requests,
            units: 304,
            allowed_by_row: false,
            totals: false,
            raw: false,
        }
    }

    /// The request of each row, and the number of the row in it; `None` for padding.
    pub fn rows(&self) -> Vec<Option<(usize, usize)>> {
        let mut rows = Vec::new();
        for (b, request) in self.requests.iter().enumerate() {
            rows.extend((0..request.rows.len()).map(|row| Some((b, row))));
            if b % 3 == 2 {
                rows.push(None);
            }
        }
        rows
    }

    /// Puts everything into memory: the arguments, and the logits.
    pub fn upload(&self, memory: &mut Memory) -> (LogitRowsArgs, Buffer) {
        let rows = self.rows();
        // What no row owns may not be read.
        let mut values = vec![f32::NAN; rows.len() * self.stride];
        for (i, row) in rows.iter().enumerate() {
            if let Some((b, row)) = row {
                let row = &self.requests[*b].rows[*row];
                assert_eq!(row.len(), self.width);
                values[i * self.stride..][..self.width].copy_from_slice(row);
            }
        }
        let bytes = Elements::of(self.logits, &values).bytes();
        let each = bytes.len() / values.len().max(1);
        // Rows begin anywhere: no more than an element is aligned.
        let logits = memory.add_read_only("logits", &[vec![0; each], bytes].concat());
        memory.poison(logits, 0..each);
        for (i, row) in rows.iter().enumerate() {
            let start = each + i * self.stride * each;
            let owned = if row.is_some() { self.width * each } else { 0 };
            memory.poison(logits, start + owned..start + self.stride * each);
        }

        let of_rows = |f: fn(&Request, usize) -> i32, none| {
            rows.iter().map(|row| row.map_or(none, |(b, row)| f(&self.requests[b], row))).collect::<Vec<i32>>()
        };
        let numbers: Vec<i32> = rows.iter().map(|row| row.map_or(-1, |(b, _)| b as i32)).collect();
        let positions = of_rows(|request, row| (request.position + row as u32) as i32, -1);
        let params: Vec<&SamplingParams> = self.requests.iter().map(|request| &request.params).collect();
        let inverse = |p: &&SamplingParams| if p.temperature > 0.0 { 1.0 / p.temperature } else { 0.0 };
        let seeds: Vec<u64> = self.requests.iter().map(|request| request.seed).collect();
        let mut a = LogitRowsArgs {
            logits: logits.address() + each as u64,
            requests: input(memory, "requests", &numbers).address(),
            positions: input(memory, "positions", &positions).address(),
            seeds: input(memory, "seeds", &seeds).address(),
            inverse_temperatures: input(memory, "inverse", &params.iter().map(inverse).collect::<Vec<f32>>()).address(),
            row_stride: self.stride as i64,
            rows: rows.len() as i32,
            vocab: self.vocab as i32,
            allowed_by_row: self.allowed_by_row.into(),
            totals: self.totals.into(),
            ..LogitRowsArgs::default()
        };
        if let Some(columns) = &self.columns {
            a.columns = input(memory, "columns", columns).address();
        }
        if params.iter().any(|p| p.top_k > 0) {
            let top_k: Vec<i32> = params.iter().map(|p| p.top_k as i32).collect();
            a.top_k = input(memory, "top_k", &top_k).address();
        }
        if params.iter().any(|p| p.top_p < 1.0) {
            a.top_p = input(memory, "top_p", &params.iter().map(|p| p.top_p).collect::<Vec<f32>>()).address();
        }
        if params.iter().any(|p| p.min_p > 0.0) {
            a.min_p = input(memory, "min_p", &params.iter().map(|p| p.min_p).collect::<Vec<f32>>()).address();
        }
        if params.iter().any(|p| !p.logit_bias.is_empty()) {
            let (mut offsets, mut ids, mut biases) = (vec![0], Vec::<i32>::new(), Vec::<f32>::new());
            for p in &params {
                // As the crate merges them: by id, equal ids added in their order.
                let mut merged = BTreeMap::new();
                p.logit_bias.iter().for_each(|&(id, bias)| *merged.entry(id as i32).or_insert(0.0) += bias);
                ids.extend(merged.keys());
                biases.extend(merged.values());
                offsets.push(ids.len() as i32);
            }
            a.bias_offsets = input(memory, "bias_offsets", &offsets).address();
            a.bias_ids = input(memory, "bias_ids", &ids).address();
            a.bias_values = input(memory, "bias_values", &biases).address();
        }
        if params.iter().any(|p| p.allowed_token_ids.is_some()) {
            // One word more than needed between masks.
            let words = self.vocab.div_ceil(32) + 1;
            let mask = |p: &SamplingParams| {
                let mut mask = vec![if p.allowed_token_ids.is_none() { -1 } else { 0 }; words];
                let ids = p.allowed_token_ids.iter().flatten();
                ids.for_each(|&id| mask[id as usize / 32] |= 1_i32 << (id % 32));
                mask
            };
            let masks: Vec<i32> = if self.allowed_by_row {
                rows.iter().flat_map(|row| row.map_or(vec![0; words], |(b, _)| mask(params[b]))).collect()
            } else {
                params.iter().flat_map(|p| mask(p)).collect()
            };
            (a.allowed, a.allowed_stride) = (input(memory, "allowed", &masks).address(), words as i64);
        }
        (a.parts, a.part_groups) = parts(self.logits, a.rows, a.vocab, self.units);
        let workspace = Workspace::new(&a).unwrap();
        let mut reserve = |name, bytes| memory.reserve(name, bytes).address();
        a.maxima = reserve("maxima", workspace.maxima);
        a.part_maxima = reserve("part_maxima", workspace.part_maxima);
        a.part_faults = reserve("part_faults", workspace.part_faults);
        if a.top_k != 0 || a.top_p != 0 || self.totals {
            a.cuts = reserve("cuts", workspace.cuts);
            a.bin_masses = reserve("bin_masses", workspace.bin_masses);
            a.bin_counts = reserve("bin_counts", workspace.bin_counts);
        }
        if self.raw {
            a.raw_maxima = reserve("raw_maxima", workspace.raw_maxima);
            a.raw_totals = reserve("raw_totals", workspace.raw_totals);
        }
        (a, logits)
    }
}

/// Runs the passes of a plan.
pub fn run<A: Arguments>(
    arch: &str,
    passes: &[Pass],
    rows: &LogitRowsArgs,
    arguments: &A,
    memory: &mut Memory,
) -> Result<u64, Fault> {
    let mut instructions = 0;
    for pass in passes {
        let (program, grid, block) = (program(pass.source, arch), pass.geometry.grid, pass.geometry.block);
        let report = if pass.kernel.starts_with("row_") {
            launch(program, pass.kernel, grid, block, rows, memory)?
        } else {
            launch(program, pass.kernel, grid, block, arguments, memory)?
        };
        instructions += report.instructions;
    }
    Ok(instructions)
}

/// About normal, of a standard deviation.
pub fn normal(numbers: &mut Numbers, n: usize, deviation: f32) -> Vec<f32> {
    let uniform = |numbers: &mut Numbers| f32::from_bits(0x3F80_0000 | numbers.word() >> 9) - 1.5;
    (0..n).map(|_| (uniform(numbers) + uniform(numbers) + uniform(numbers)) * 2.0 * deviation).collect()
}

/// Rows of many shapes: smooth, peaked, flat, tied, with holes, and at the ends of the types' ranges.
pub fn shapes(numbers: &mut Numbers, n: usize) -> Vec<Vec<f32>> {
    let ends = [0.0, -0.0, 1e-40, -1e-40, 1.0, -65000.0, -3e38, 60000.0];
    let tied = |numbers: &mut Numbers, values: usize| (0..n).map(|_| numbers.below(values) as f32 * 0.5).collect();
    let mut rows = vec![
        normal(numbers, n, 3.0),
        normal(numbers, n, 30.0),
        normal(numbers, n, 0.05),
        vec![-2.5; n],
        tied(numbers, 2),
        tied(numbers, 12),
        (0..n).map(|_| ends[numbers.below(ends.len())]).collect(),
    ];
    let mut holes = normal(numbers, n, 2.0);
    holes.iter_mut().for_each(|x| *x = if numbers.below(3) > 0 { f32::NEG_INFINITY } else { *x });
    holes[numbers.below(n)] = 1.0;
    rows.push(holes);
    let mut alone = vec![f32::NEG_INFINITY; n];
    alone[numbers.below(n)] = -7.0;
    rows.push(alone);
    rows
}

/// Parameters of every kind, alone and together.
pub fn parameters(numbers: &mut Numbers, vocab: usize) -> Vec<SamplingParams> {
    let one = SamplingParams::default;
    let mut ids = |n: usize| -> Vec<u32> { (0..n).map(|_| numbers.below(vocab) as u32).collect() };
    let bias = |ids: Vec<u32>| -> Vec<(u32, f32)> {
        ids.into_iter().enumerate().map(|(i, id)| (id, (i % 7) as f32 * 3.0 - 9.0)).collect()
    };
    let filtered = |top_k, top_p, min_p| SamplingParams { top_k, top_p, min_p, ..one() };
    vec![
        SamplingParams { temperature: 0.0, ..one() },
        one(),
        SamplingParams { temperature: 0.37, ..one() },
        SamplingParams { temperature: 3.0, top_p: 0.8, ..one() },
        filtered(1, 1.0, 0.0),
        filtered(5, 1.0, 0.0),
        filtered(70, 1.0, 0.0),
        filtered(1024, 1.0, 0.0),
        filtered(1025, 1.0, 0.0),
        filtered(100_000, 1.0, 0.0),
        filtered(0, 0.9, 0.0),
        filtered(0, 0.3, 0.0),
        filtered(0, 0.999, 0.0),
        filtered(0, 1e-6, 0.0),
        filtered(0, 1.0, 0.05),
        filtered(0, 1.0, 1.0),
        filtered(20, 0.7, 0.0),
        filtered(1500, 0.95, 0.0),
        filtered(40, 0.9, 0.01),
        filtered(-1, 0.6, 0.2),
        SamplingParams { temperature: 0.0, logit_bias: bias(ids(9)), ..filtered(3, 0.5, 0.5) },
        SamplingParams { logit_bias: bias(ids(200)), ..one() },
        SamplingParams { allowed_token_ids: Some(ids(30)), ..one() },
        SamplingParams { temperature: 0.0, allowed_token_ids: Some(ids(3)), ..one() },
        SamplingParams {
            temperature: 0.8,
            logit_bias: bias(ids(20)),
            allowed_token_ids: Some(ids(100)),
            ..filtered(25, 0.9, 0.02)
        },
        SamplingParams { logit_bias: bias(ids(20)), ..filtered(0, 0.9, 0.0) },
    ]
}

/// Rows that have no token, for every reason, and some that look like it.
pub fn faulty(numbers: &mut Numbers, vocab: usize) -> Vec<Request> {
    let row = |numbers: &mut Numbers, faults: &[(usize, f32)]| {
        let mut row = normal(numbers, vocab, 2.0);
        faults.iter().for_each(|&(id, x)| row[id] = x);
        row
    };
    let (nan, inf, last) = (f32::NAN, f32::INFINITY, vocab - 1);
    let rows = vec![
        row(numbers, &[(0, nan)]),
        row(numbers, &[(last, nan)]),
        row(numbers, &[(1, inf)]),
        row(numbers, &[(last, inf)]),
        row(numbers, &[(2, inf), (70, nan)]),
        row(numbers, &[(3, -inf)]),
        row(numbers, &[(64, -nan), (5, -inf)]),
        vec![-inf; vocab],
    ];
    let allowed = |ids: &[u32]| SamplingParams { allowed_token_ids: Some(ids.to_vec()), ..SamplingParams::default() };
    let biased = |id, bias| SamplingParams { logit_bias: vec![(id, bias)], ..SamplingParams::default() };
    let request = |params: &SamplingParams, rows: &[Vec<f32>]| Request {
        params: params.clone().validated().unwrap(),
        seed: 5,
        position: 17,
        rows: rows.to_vec(),
    };
    let mut edge = row(numbers, &[(7, 60_000.0), (8, 3e38)]);
    edge[9] = -inf;
    vec![
        request(&SamplingParams::default(), &rows),
        request(&SamplingParams { temperature: 0.0, ..SamplingParams::default() }, &rows),
        request(&SamplingParams { top_k: 3, top_p: 0.5, ..SamplingParams::default() }, &rows),
        // What the mask hides is wrong all the same; nothing left is no mass.
        request(&allowed(&[4, 5]), &rows),
        request(&allowed(&[3]), &rows),
        request(&allowed(&[9, 7]), &[edge.clone()]),
        // In f32 the sum is infinite.
        request(&biased(8, 3e38), &[edge.clone()]),
        request(&biased(9, 1e30), &[edge]),
    ]
}

/// Every shape under every parameter: requests of some rows each, among them empty ones.
pub fn requests(numbers: &mut Numbers, width: usize, vocab: usize) -> Vec<Request> {
    let mut requests = Vec::new();
    for (i, params) in parameters(numbers, vocab).into_iter().enumerate() {
        let params = params.validated().unwrap();
        let mut rows = shapes(numbers, width);
        while !rows.is_empty() {
            let some = rows.split_off(rows.len() - numbers.below(5).min(rows.len()));
            let seed = u64::from(numbers.word()) << 32 | u64::from(numbers.word());
            let position = if i % 5 == 0 { u32::MAX - 9 } else { numbers.word() >> 8 };
            requests.push(Request { params: params.clone(), seed, position, rows: some });
        }
    }
    requests
}
