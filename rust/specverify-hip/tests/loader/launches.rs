//! Launches through the loader: the kernels leave the same bytes as when the simulator runs them directly, and the runtime is told what it
//! should be.

use std::ffi::c_int;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use gfxsim::{Launch, Memory};
use libloading::Library;
use specverify_hip::abi::{Arguments, KvCompactArgs, KvMoveArgs, TreeAttentionArgs, TreeWalkArgs};
use specverify_hip::tree_attention::{self, Cache, Query};
use specverify_hip::{Device, Error, Geometry, HipError, Result, Stream, kv_compact, tree_walk};

use crate::alone::{alone, log};
use crate::common::{ARCHITECTURES, Number, Numbers, program};

/// Memory of a device, as a test needs it.
trait Place {
    /// A buffer with contents.
    fn place(&mut self, bytes: Vec<u8>) -> u64;

    fn numbers<T: Number>(&mut self, values: &[T]) -> u64
    where
        Self: Sized,
    {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| value.append(&mut bytes));
        self.place(bytes)
    }

    /// A buffer of this many bytes for results.
    fn room(&mut self, bytes: usize) -> u64 {
        self.place(vec![0xEE; bytes])
    }
}

/// The simulator's own.
#[derive(Default)]
struct Direct {
    memory: Memory,
    buffers: Vec<gfxsim::Buffer>,
}

impl Place for Direct {
    fn place(&mut self, bytes: Vec<u8>) -> u64 {
        self.buffers.push(self.memory.add("buffer", &bytes));
        self.buffers[self.buffers.len() - 1].address()
    }
}

/// That of the runtime which the loader has found.
struct Runtime {
    library: Library,
    buffers: Vec<(u64, usize)>,
}

impl Runtime {
    fn of(device: &Device) -> Self {
        // SAFETY: it is loaded already.
        Self { library: unsafe { Library::new(device.runtime()) }.unwrap(), buffers: Vec::new() }
    }

    fn copy(&self, to: u64, from: u64, bytes: usize, kind: c_int) {
        // SAFETY: the type of hipMemcpy; the callers pass what they hold.
        let code = unsafe {
            self.library.get::<unsafe extern "C" fn(u64, u64, usize, c_int) -> c_int>(b"hipMemcpy").unwrap()(
                to, from, bytes, kind,
            )
        };
        assert_eq!(code, 0);
    }

    /// Frees the buffer that was placed first.
    fn free_first(&self) {
        // SAFETY: the type of hipFree.
        let code = unsafe { self.library.get::<extern "C" fn(u64) -> c_int>(b"hipFree").unwrap()(self.buffers[0].0) };
        assert_eq!(code, 0);
    }

    fn contents(&self) -> Vec<Vec<u8>> {
        let read = |&(address, size): &(u64, usize)| {
            let mut bytes = vec![0; size];
            self.copy(bytes.as_mut_ptr().expose_provenance() as u64, address, size, 2);
            bytes
        };
        self.buffers.iter().map(read).collect()
    }
}

impl Place for Runtime {
    fn place(&mut self, bytes: Vec<u8>) -> u64 {
        let mut address = 0;
        // SAFETY: the type of hipMalloc.
        let code = unsafe {
            self.library.get::<unsafe extern "C" fn(*mut u64, usize) -> c_int>(b"hipMalloc").unwrap()(
                &mut address,
                bytes.len(),
            )
        };
        assert_eq!(code, 0);
        self.copy(address, bytes.as_ptr().expose_provenance() as u64, bytes.len(), 1);
        self.buffers.push((address, bytes.len()));
        address
    }
}

type Start = dyn Fn(&Device, Stream) -> Result<()>;

/// A call: what its plan says is launched, its arguments, and the launch through the loader.
struct Call {
    source: &'static str,
    kernels: Vec<(String, Geometry)>,
    kernarg: Vec<u8>,
    launch: Box<Start>,
}

/// One request of 20 keys and three rows, one of 5 and one; two splits, so that the reduction runs too.
fn attention(on: &mut impl Place) -> Call {
    let (rows, heads, dim, page) = (4, 4, 64, 16);
    let mut numbers = Numbers(3);
    let mut values = |count: usize| -> Vec<u16> {
        let mut value = || (numbers.word() as f32 / 2_f32.powi(31) - 1.0).to_bits();
        (0..count).map(|_| (value() >> 16) as u16).collect()
    };
    let [q, k, v] = [rows * heads * dim, 3 * page * dim, 3 * page * dim].map(|count| on.numbers(&values(count)));
    let mut a = TreeAttentionArgs {
        out: on.room(rows * heads * dim * 2),
        q,
        k,
        v,
        block_table: on.numbers(&[2, 0, 1, 1]),
        cu_rows: on.numbers(&[0, 3, 4]),
        context_lens: on.numbers(&[20, 5]),
        ancestors: on.numbers(&[0_u64, 1, 2, 0]),
        partial_out: 16,
        partial_stats: 16,
        q_stride_row: (heads * dim) as i64,
        q_stride_head: dim as i64,
        out_stride_row: (heads * dim) as i64,
        out_stride_head: dim as i64,
        k_stride_page: (page * dim) as i64,
        k_stride_token: dim as i64,
        k_stride_head: dim as i64,
        v_stride_page: (page * dim) as i64,
        v_stride_token: dim as i64,
        v_stride_head: dim as i64,
        table_stride: 2,
        requests: 2,
        rows: rows as i32,
        heads: heads as i32,
        kv_heads: 1,
        page_size: page as i32,
        words: 1,
        splits: 2,
        scale: 0.125,
        ..TreeAttentionArgs::default()
    };
    let plan = tree_attention::Plan::new(Query::Bf16, Cache::Query, dim as u32, 3, &a).unwrap();
    a.partial_out = on.room(plan.partial_out * 4);
    a.partial_stats = on.room(plan.partial_stats * 4);
    Call {
        source: "tree_attention",
        kernels: std::iter::once(plan.attention.clone()).chain(plan.reduction.clone()).collect(),
        kernarg: a.bytes().to_vec(),
        // SAFETY: the addresses are of the memory that the call was made on.
        launch: Box::new(move |device, stream| unsafe {
            tree_attention::Plan::new(Query::Bf16, Cache::Query, dim as u32, 3, &a)?.launch(device, stream, &a)
        }),
    }
}

/// Two requests, of which one accepts two nodes and the other none.
fn walk(on: &mut impl Place) -> Call {
    let a = TreeWalkArgs {
        cu_nodes: on.numbers(&[0, 3, 5]),
        tokens: on.numbers(&[7, 8, 9, 7, 8]),
        parents: on.numbers(&[-1, -1, 1, -1, 0]),
        target_tokens: on.numbers(&[8, 1, 9, 5, 4, 3, 2]),
        path: on.room(2 * 4 * 3),
        emitted: on.room(2 * 4 * 4),
        accepted: on.room(8),
        counts: on.room(8),
        last_token: on.room(8),
        status: on.room(8),
        requests: 2,
        max_path: 3,
        ..TreeWalkArgs::default()
    };
    let plan = tree_walk::Plan::new(&a).unwrap();
    Call {
        source: "tree_walk",
        kernels: vec![(tree_walk::Plan::KERNEL.into(), plan.geometry)],
        kernarg: a.bytes().to_vec(),
        // SAFETY: as above.
        launch: Box::new(move |device, stream| unsafe { plan.launch(device, stream, &a) }),
    }
}

const POOL: usize = 3 * 16 * 2 * 32;

fn pools(on: &mut impl Place) -> u64 {
    let mut numbers = Numbers(9);
    let mut pool = || -> Vec<u8> { (0..POOL).map(|_| numbers.word() as u8).collect() };
    let addresses = [on.place(pool()), on.place(pool())];
    on.numbers(&addresses)
}

/// Two pools of three pages of 16 tokens, two heads of 32 bytes.
fn compaction(on: &mut impl Place) -> Call {
    let a = KvCompactArgs {
        bases: pools(on),
        block_table: on.numbers(&[2, 0]),
        context_lens: on.numbers(&[13]),
        path: on.numbers(&[1, 2, 6]),
        accepted: on.numbers(&[3]),
        page_stride: 16 * 64,
        token_stride: 64,
        head_stride: 32,
        table_stride: 2,
        pools: 2,
        requests: 1,
        heads: 2,
        head_bytes: 32,
        max_path: 3,
        page_size: 16,
    };
    let plan = kv_compact::Plan::compact(256, &a).unwrap();
    compaction_call(plan, a)
}

fn moves(on: &mut impl Place) -> Call {
    let a = KvMoveArgs {
        bases: pools(on),
        move_offsets: on.numbers(&[0, 2, 3]),
        sources: on.numbers(&[5_i64, 9, 40]),
        destinations: on.numbers(&[3_i64, 5, 33]),
        page_stride: 16 * 64,
        token_stride: 64,
        head_stride: 32,
        pools: 2,
        groups: 2,
        heads: 2,
        head_bytes: 32,
        page_size: 16,
        reserved: 0,
    };
    let plan = kv_compact::Plan::moves(4, &a).unwrap();
    compaction_call(plan, a)
}

fn compaction_call<A: Arguments + 'static>(plan: kv_compact::Plan, a: A) -> Call {
    Call {
        source: "kv_compact",
        kernels: vec![(plan.kernel.into(), plan.geometry)],
        kernarg: a.bytes().to_vec(),
        // SAFETY: as above.
        launch: Box::new(move |device, stream| unsafe { plan.launch(device, stream, &a) }),
    }
}

/// What the buffers hold before a call and after it, on the simulator.
fn directly(arch: &str, call: fn(&mut Direct) -> Call) -> [Vec<Vec<u8>>; 2] {
    let mut on = Direct::default();
    let call = call(&mut on);
    let contents = |on: &Direct| on.buffers.iter().map(|&buffer| on.memory.bytes(buffer).to_vec()).collect();
    let before = contents(&on);
    for (kernel, geometry) in &call.kernels {
        let launch = Launch {
            kernel,
            grid: geometry.grid,
            block: [geometry.block, 1, 1],
            dynamic_lds: 0,
            kernarg: &call.kernarg,
        };
        program(call.source, arch).launch(&launch, &mut on.memory).unwrap();
    }
    [before, contents(&on)]
}

/// Every buffer, inputs too; and what the runtime was told.
fn agrees(test: &str, direct: fn(&mut Direct) -> Call, loaded: fn(&mut Runtime) -> Call) {
    for (arch, stream) in ARCHITECTURES.into_iter().zip([0, 0x5EED_0000_1234]) {
        alone(
            test,
            arch,
            |stage| {
                stage.runtime("system/libamdhip64.so");
                stage.set("FAKEHIP_ARCH", format!("{arch}:sramecc+:xnack-"));
            },
            |folder| {
                let device = Device::open().unwrap();
                let mut on = Runtime::of(&device);
                let call = loaded(&mut on);
                (call.launch)(&device, Stream(stream)).unwrap();
                let [before, after] = directly(arch, direct);
                assert!(before != after);
                assert!(on.contents() == after);
                let launched: Vec<_> = log(folder).into_iter().filter(|line| line.starts_with("launch")).collect();
                let told = call.kernels.iter().map(|(kernel, Geometry { grid, block, .. })| {
                    let bytes = call.kernarg.len();
                    format!(
                        "launch {kernel} grid {grid:?} block [{block}, 1, 1] lds 0 stream {stream:#x} kernarg {bytes}"
                    )
                });
                assert_eq!(launched, told.collect::<Vec<_>>());
                // The second time nothing is loaded.
                (call.launch)(&device, Stream(stream)).unwrap();
                let calls = |name: &str| log(folder).iter().filter(|line| *line == name).count();
                assert_eq!(calls("hipModuleLoadData"), 1);
                assert_eq!(calls("hipModuleGetFunction"), call.kernels.len());
            },
        );
    }
}

#[test]
fn attention_and_its_reduction_are_those_of_the_simulator() {
    agrees("launches::attention_and_its_reduction_are_those_of_the_simulator", attention, attention);
}

#[test]
fn the_walk_is_that_of_the_simulator() {
    agrees("launches::the_walk_is_that_of_the_simulator", walk, walk);
}

#[test]
fn the_compaction_is_that_of_the_simulator() {
    agrees("launches::the_compaction_is_that_of_the_simulator", compaction, compaction);
}

#[test]
fn the_moves_are_those_of_the_simulator() {
    agrees("launches::the_moves_are_those_of_the_simulator", moves, moves);
}

/// One request without nodes; addresses that are no memory of any device.
pub fn empty_walk() -> (TreeWalkArgs, tree_walk::Plan) {
    let a = TreeWalkArgs {
        cu_nodes: 0x1000,
        target_tokens: 0x1000,
        emitted: 0x1000,
        accepted: 0x1000,
        counts: 0x1000,
        last_token: 0x1000,
        status: 0x1000,
        requests: 1,
        ..TreeWalkArgs::default()
    };
    (a, tree_walk::Plan::new(&a).unwrap())
}

pub fn walk_directly(arch: &str) -> Vec<Vec<u8>> {
    let [_, after] = directly(arch, walk);
    after
}

/// The walk on eight threads and in memory of their own: the outcomes.
pub fn walks_at_once(device: &Device, barrier: &Barrier) -> Vec<Vec<Vec<u8>>> {
    thread::scope(|scope| {
        let run = || {
            let mut on = Runtime::of(device);
            let call = walk(&mut on);
            barrier.wait();
            (call.launch)(device, Stream::default()).unwrap();
            on.contents()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Checks, two launches with their look-ups and arguments, on a runtime that does nothing; the quickest of many rounds, as others use the
/// machine too. benches/launch.rs has the figures.
#[test]
fn a_launch_costs_less_than_three_microseconds() {
    let test = "launches::a_launch_costs_less_than_three_microseconds";
    let set_up = |stage: &mut crate::alone::Stage| {
        stage.runtime("system/libamdhip64.so");
        stage.set("FAKEHIP_IDLE", "1");
    };
    alone(test, "", set_up, |_| {
        let device = Device::open().unwrap();
        let call = attention(&mut Runtime::of(&device));
        assert_eq!(call.kernels.len(), 2);
        let round = || {
            let start = Instant::now();
            (0..100).for_each(|_| (call.launch)(&device, Stream::default()).unwrap());
            start.elapsed() / 100
        };
        let quickest = (0..100).map(|_| round()).min().unwrap();
        assert!(quickest < Duration::from_micros(3), "{quickest:?}");
    });
}

#[test]
fn a_grid_without_workgroups_is_not_launched() {
    let test = "launches::a_grid_without_workgroups_is_not_launched";
    let set_up = |stage: &mut crate::alone::Stage| {
        stage.runtime("system/libamdhip64.so");
    };
    alone(test, "", set_up, |folder| {
        let device = Device::open().unwrap();
        let a = TreeWalkArgs::default();
        // SAFETY: there are no requests, so that no address is read.
        unsafe { tree_walk::Plan::new(&a).unwrap().launch(&device, Stream::default(), &a) }.unwrap();
        assert!(!log(folder).contains(&"hipModuleLaunchKernel".to_owned()));
    });
}

/// A kernel that faults is an error of the launch, with the simulator's words in the log; the process and the next launch live on.
#[test]
fn a_fault_of_the_kernel_is_an_error() {
    let test = "launches::a_fault_of_the_kernel_is_an_error";
    let set_up = |stage: &mut crate::alone::Stage| {
        stage.runtime("system/libamdhip64.so");
    };
    alone(test, "", set_up, |folder| {
        let device = Device::open().unwrap();
        let (a, plan) = empty_walk();
        // SAFETY: the simulator has no memory at these addresses, and says so.
        let error = unsafe { plan.launch(&device, Stream::default(), &a) }.unwrap_err();
        assert_eq!(error, Error::Hip { call: "hipModuleLaunchKernel", error: HipError::IllegalAddress });
        assert!(
            log(folder).iter().any(|line| line.starts_with("fault load of") && line.contains("outside every buffer"))
        );
        // More work-items than the kernel was compiled for, and arguments of another kernel.
        let function = device.function("tree_walk", "tree_walk").unwrap();
        let geometry = Geometry { block: 128, ..plan.geometry };
        // SAFETY: as above.
        let error = unsafe { device.launch(function, geometry, Stream::default(), &a) }.unwrap_err();
        assert_eq!(error, Error::Hip { call: "hipModuleLaunchKernel", error: HipError::InvalidConfiguration });
        // SAFETY: as above.
        let error = unsafe { device.launch(function, plan.geometry, Stream::default(), &KvMoveArgs::default()) };
        assert_eq!(error, Err(Error::Hip { call: "hipModuleLaunchKernel", error: HipError::LaunchFailure }));
        let mut on = Runtime::of(&device);
        let call = walk(&mut on);
        (call.launch)(&device, Stream::default()).unwrap();
        assert_eq!(on.contents(), walk_directly(device.arch()));
        on.free_first();
        let error = (call.launch)(&device, Stream::default()).unwrap_err();
        assert_eq!(error, Error::Hip { call: "hipModuleLaunchKernel", error: HipError::IllegalAddress });
    });
}
