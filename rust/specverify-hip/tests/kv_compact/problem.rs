//! Caches to compact: drawn, run, and what moving slot by slot gives.

use gfxsim::{Buffer, Fault, Memory, Program, Traffic};
use specverify::Topology;
use specverify::cache::{CompactionPlan, Slots, Step};
use specverify_hip::abi::{KvCompactArgs, KvMoveArgs};

use crate::common::{Numbers, input, launch};

/// A cache of [pools][pages][page_size][heads][head_bytes], or with heads before tokens.
#[derive(Clone, Copy)]
pub struct Layout {
    pub pools: usize,
    pub pages: usize,
    pub page_size: usize,
    pub heads: usize,
    pub head_bytes: usize,
    pub heads_first: bool,
}

impl Layout {
    pub fn token_stride(&self) -> usize {
        self.head_bytes * if self.heads_first { 1 } else { self.heads }
    }

    pub fn head_stride(&self) -> usize {
        self.head_bytes * if self.heads_first { self.page_size } else { 1 }
    }

    pub fn page_stride(&self) -> usize {
        self.page_size * self.heads * self.head_bytes
    }

    fn at(&self, slot: usize, head: usize) -> usize {
        slot / self.page_size * self.page_stride()
            + slot % self.page_size * self.token_stride()
            + head * self.head_stride()
    }

    /// Moves one slot of a pool.
    pub fn shift(&self, pool: &mut [u8], from: usize, to: usize) {
        for head in 0..self.heads {
            let (from, to) = (self.at(from, head), self.at(to, head));
            pool.copy_within(from..from + self.head_bytes, to);
        }
    }

    pub fn fill(&self, numbers: &mut Numbers) -> Vec<Vec<u8>> {
        (0..self.pools).map(|_| (0..self.pages * self.page_stride()).map(|_| numbers.word() as u8).collect()).collect()
    }

    pub fn columns(&self, width: usize) -> u32 {
        (self.heads * self.head_bytes / width).div_ceil(256) as u32
    }
}

pub struct Request {
    pub context: usize,
    pub path: Vec<i32>,
}

/// A random increasing path: node i of it has number i or more.
fn path(numbers: &mut Numbers, length: usize) -> Vec<i32> {
    let mut next = 0;
    (0..length)
        .map(|_| {
            let node = next + numbers.below(4);
            next = node + 1;
            node as i32
        })
        .collect()
}

fn pools(memory: &mut Memory, contents: &[Vec<u8>]) -> (Vec<Buffer>, u64) {
    let buffers: Vec<_> =
        contents.iter().enumerate().map(|(i, bytes)| memory.add(&format!("pool {i}"), bytes)).collect();
    let bases: Vec<u64> = buffers.iter().map(|buffer| buffer.address()).collect();
    let bases = input(memory, "bases", &bases).address();
    (buffers, bases)
}

/// What the pools hold before, after by the definition, after by the kernel, and what the kernel asked of each.
pub struct Moved {
    pub before: Vec<Vec<u8>>,
    pub expected: Vec<Vec<u8>>,
    pub after: Vec<Vec<u8>>,
    pub traffic: Vec<Traffic>,
    /// Bytes of a pool that have to move.
    pub bytes: usize,
}

/// Layouts for each width of a move.
pub const SHAPES: [(usize, Layout); 4] = [
    (16, Layout { pools: 4, pages: 12, page_size: 16, heads: 2, head_bytes: 256, heads_first: false }),
    (16, Layout { pools: 2, pages: 12, page_size: 16, heads: 40, head_bytes: 128, heads_first: true }),
    (4, Layout { pools: 2, pages: 12, page_size: 16, heads: 3, head_bytes: 20, heads_first: false }),
    (1, Layout { pools: 2, pages: 9, page_size: 48, heads: 1, head_bytes: 7, heads_first: false }),
];

/// A cache, what is to move in it, and how it looks afterwards by the definition.
pub struct Compaction {
    pub layout: Layout,
    pub requests: Vec<Request>,
    table: Vec<i32>,
    pub before: Vec<Vec<u8>>,
    pub expected: Vec<Vec<u8>>,
}

impl Compaction {
    /// The same work in another order: other lengths in the same places.
    pub fn swap_first_two_requests(&mut self) {
        let stride = self.table.len() / self.requests.len();
        self.requests.swap(0, 1);
        let (first, rest) = self.table.split_at_mut(stride);
        first.swap_with_slice(&mut rest[..stride]);
    }
}

const MAX_PATH: usize = 9;

/// Contexts on both sides of page boundaries; an empty path, a chain in place, long and sparse paths.
pub fn draw(layout: Layout, numbers: &mut Numbers) -> Compaction {
    let before = layout.fill(numbers);
    let mut requests: Vec<_> =
        [0, 14, 15, 16].into_iter().map(|context| Request { context, path: path(numbers, 9) }).collect();
    requests[1].path = (0..9).collect();
    requests.push(Request { context: 3, path: vec![] });
    let table_stride = layout.pages / requests.len() + 1;
    // Pages in a permuted order, none shared.
    let mut free: Vec<i32> = (0..layout.pages as i32).collect();
    for i in (1..free.len()).rev() {
        free.swap(i, numbers.below(i + 1));
    }
    let mut table = vec![i32::MAX; requests.len() * table_stride];
    for (b, request) in requests.iter().enumerate() {
        let last = request.context + 1 + request.path.last().map_or(0, |&node| node as usize);
        for page in 0..=last / layout.page_size {
            table[b * table_stride + page] = free.pop().unwrap();
        }
    }
    let mut expected = before.clone();
    for (b, request) in requests.iter().enumerate() {
        let slot = |key: usize| {
            table[b * table_stride + key / layout.page_size] as usize * layout.page_size + key % layout.page_size
        };
        for (i, &node) in request.path.iter().enumerate() {
            let (from, to) = (slot(request.context + 1 + node as usize), slot(request.context + 1 + i));
            expected.iter_mut().for_each(|pool| layout.shift(pool, from, to));
        }
    }
    Compaction { layout, requests, table, before, expected }
}

/// In memory: the arguments, and the pools.
pub fn upload(compaction: &Compaction, memory: &mut Memory) -> (KvCompactArgs, Vec<Buffer>) {
    let Compaction { layout, requests, table, .. } = compaction;
    let (buffers, bases) = pools(memory, &compaction.before);
    let mut paths = Vec::new();
    for request in requests {
        paths.extend(request.path.iter().copied().chain(std::iter::repeat(-1)).take(MAX_PATH));
    }
    let lengths = |field: fn(&Request) -> i32| requests.iter().map(field).collect::<Vec<_>>();
    let arguments = KvCompactArgs {
        bases,
        block_table: input(memory, "block_table", table).address(),
        context_lens: input(memory, "context_lens", &lengths(|r| r.context as i32)).address(),
        path: input(memory, "path", &paths).address(),
        accepted: input(memory, "accepted", &lengths(|r| r.path.len() as i32)).address(),
        page_stride: layout.page_stride() as i64,
        token_stride: layout.token_stride() as i64,
        head_stride: layout.head_stride() as i64,
        table_stride: (table.len() / requests.len()) as i64,
        pools: layout.pools as i32,
        requests: requests.len() as i32,
        heads: layout.heads as i32,
        head_bytes: layout.head_bytes as i32,
        max_path: MAX_PATH as i32,
        page_size: layout.page_size as i32,
    };
    (arguments, buffers)
}

pub fn launch_compaction(
    program: &Program,
    width: usize,
    layout: &Layout,
    arguments: &KvCompactArgs,
    memory: &mut Memory,
) -> Result<(), Fault> {
    let grid = [layout.pools as u32, arguments.requests as u32, layout.columns(width)];
    launch(program, &format!("kv_compact_{width}"), grid, 256, arguments, memory).map(|_| ())
}

pub fn compact(program: &Program, width: usize, layout: Layout, numbers: &mut Numbers) -> Result<Moved, Fault> {
    let compaction = draw(layout, numbers);
    let mut memory = Memory::new();
    let (arguments, buffers) = upload(&compaction, &mut memory);
    launch_compaction(program, width, &layout, &arguments, &mut memory)?;
    let moved =
        |r: &Request| r.path.len() - r.path.iter().enumerate().take_while(|&(i, &node)| i as i32 == node).count();
    let bytes = compaction.requests.iter().map(moved).sum::<usize>() * layout.heads * layout.head_bytes;
    Ok(Moved {
        before: compaction.before,
        expected: compaction.expected,
        after: buffers.iter().map(|buffer| memory.bytes(*buffer).to_vec()).collect(),
        traffic: buffers.iter().map(|buffer| memory.traffic(*buffer)).collect(),
        bytes,
    })
}

/// What the crate plans for each request: its tree has the path and leaves besides.
pub fn planned(compaction: &Compaction) -> Vec<Vec<(i64, i64)>> {
    let (requests, layout) = (&compaction.requests, &compaction.layout);
    let tables = compaction.table.chunks(compaction.table.len() / requests.len());
    let plan = |(request, table): (&Request, &[i32])| {
        let nodes = request.path.last().map_or(0, |&node| node as usize + 1);
        let mut parents = vec![-1; nodes];
        request.path.windows(2).for_each(|pair| parents[pair[1] as usize] = pair[0]);
        let tree = Topology::new(vec![0; nodes], parents).unwrap();
        let path: Vec<u32> = request.path.iter().map(|&node| node as u32).collect();
        let pages: Vec<u32> = table.iter().map(|&page| page as u32).collect();
        let slots = Slots::Paged { pages: &pages, page_size: layout.page_size as u32 };
        let step = Step { tree: &tree, path: &path, base: request.context as u64, slots };
        let moves = CompactionPlan::new(&[step]).unwrap().moves;
        moves.into_iter().map(|(from, to)| (from as i64, to as i64)).collect()
    };
    requests.iter().zip(tables).map(plan).collect()
}

/// Each move reads what an earlier one wrote, or overwrites what an earlier one read.
pub fn move_in_order(program: &Program, width: usize, numbers: &mut Numbers) -> Result<Moved, Fault> {
    let layout = Layout { pools: 3, pages: 4, page_size: 16, heads: 2, head_bytes: 64, heads_first: false };
    let before = layout.fill(numbers);
    let groups = [vec![(5, 3), (3, 2), (9, 5), (5, 4)], vec![], vec![(40, 33), (63, 40)]];
    let mut expected = before.clone();
    for &(from, to) in groups.iter().flatten() {
        expected.iter_mut().for_each(|pool| layout.shift(pool, from as usize, to as usize));
    }
    let (after, traffic) = move_groups(program, width, &layout, &before, &groups)?;
    let moves: usize = groups.iter().map(Vec::len).sum();
    Ok(Moved { before, expected, after, traffic, bytes: moves * layout.heads * layout.head_bytes })
}

/// What the pools hold after the moves of some groups, and what the kernel asked of each.
pub fn move_groups(
    program: &Program,
    width: usize,
    layout: &Layout,
    before: &[Vec<u8>],
    groups: &[Vec<(i64, i64)>],
) -> Result<(Vec<Vec<u8>>, Vec<Traffic>), Fault> {
    let mut memory = Memory::new();
    let (buffers, bases) = pools(&mut memory, before);
    let (mut offsets, mut sources, mut destinations) = (vec![0_i32], vec![], vec![]);
    for group in groups {
        sources.extend(group.iter().map(|&(from, _)| from));
        destinations.extend(group.iter().map(|&(_, to)| to));
        offsets.push(sources.len() as i32);
    }
    let arguments = KvMoveArgs {
        bases,
        move_offsets: input(&mut memory, "move_offsets", &offsets).address(),
        sources: input(&mut memory, "sources", &sources).address(),
        destinations: input(&mut memory, "destinations", &destinations).address(),
        page_stride: layout.page_stride() as i64,
        token_stride: layout.token_stride() as i64,
        head_stride: layout.head_stride() as i64,
        pools: layout.pools as i32,
        groups: groups.len() as i32,
        heads: layout.heads as i32,
        head_bytes: layout.head_bytes as i32,
        page_size: layout.page_size as i32,
        reserved: 0,
    };
    let grid = [layout.pools as u32, groups.len() as u32, layout.columns(width)];
    launch(program, &format!("kv_move_{width}"), grid, 256, &arguments, &mut memory)?;
    let after = buffers.iter().map(|buffer| memory.bytes(*buffer).to_vec()).collect();
    Ok((after, buffers.iter().map(|buffer| memory.traffic(*buffer)).collect()))
}

/// What the mutants of `kv_compact_{width}` and `kv_move_{width}` run on.
pub fn mutant_run(program: &Program, kernel: &str) -> Result<Vec<u8>, Fault> {
    let (kind, width) = kernel.rsplit_once('_').unwrap();
    let width = width.parse().unwrap();
    let mut numbers = Numbers(7);
    if kind == "kv_move" {
        return Ok(move_in_order(program, width, &mut numbers)?.after.concat());
    }
    let mut bytes = Vec::new();
    for (_, layout) in SHAPES.into_iter().filter(|shape| shape.0 == width) {
        bytes.extend(compact(program, width, layout, &mut numbers)?.after.concat());
    }
    Ok(bytes)
}
