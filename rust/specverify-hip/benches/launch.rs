//! What a launch costs on the host, on a runtime that does nothing: finding the kernel, packing its arguments, the call.

use std::path::Path;
use std::process::Command;
use std::{env, fs, hint};

use criterion::Criterion;
use specverify_hip::abi::{TreeAttentionArgs, TreeWalkArgs};
use specverify_hip::tree_attention::{Cache, Plan, Query};
use specverify_hip::{Device, Stream, kernels, tree_walk};

/// Arguments of one layer of a common model; nobody reads the addresses.
fn attention(splits: i32) -> TreeAttentionArgs {
    TreeAttentionArgs {
        out: 0x10000,
        q: 0x20000,
        k: 0x30000,
        v: 0x40000,
        partial_out: 0x50000,
        partial_stats: 0x60000,
        q_stride_row: 32 * 128,
        q_stride_head: 128,
        out_stride_row: 32 * 128,
        out_stride_head: 128,
        k_stride_page: 16 * 8 * 128,
        k_stride_token: 8 * 128,
        k_stride_head: 128,
        v_stride_page: 16 * 8 * 128,
        v_stride_token: 8 * 128,
        v_stride_head: 128,
        requests: 8,
        rows: 8 * 17,
        heads: 32,
        kv_heads: 8,
        page_size: 16,
        words: 1,
        splits,
        scale: 0.088,
        ..TreeAttentionArgs::default()
    }
}

fn walk() -> TreeWalkArgs {
    TreeWalkArgs {
        cu_nodes: 0x1000,
        tokens: 0x2000,
        parents: 0x3000,
        target_tokens: 0x4000,
        path: 0x5000,
        emitted: 0x6000,
        accepted: 0x7000,
        counts: 0x8000,
        last_token: 0x9000,
        status: 0xA000,
        requests: 8,
        max_path: 16,
        ..TreeWalkArgs::default()
    }
}

/// Runs this program again with the fake runtime on its library path, and with the environment that the fake reads.
fn with_idle_runtime(this: &Path) -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("launch");
    fs::create_dir_all(&folder)?;
    fs::copy(this.with_file_name("libfakehip.so"), folder.join("libamdhip64.so"))?;
    for object in kernels::CODE_OBJECTS {
        let name = format!("{}.{}", object.source, object.arch);
        fs::write(folder.join(format!("{name}.hsaco")), object.bytes)?;
        fs::write(folder.join(format!("{name}.s")), object.assembly)?;
    }
    let mut again = Command::new(this);
    again.args(env::args_os().skip(1)).env("LD_LIBRARY_PATH", &folder);
    let status = again.env("FAKEHIP_CODE", &folder).env("FAKEHIP_IDLE", "1").status()?;
    std::process::exit(status.code().unwrap_or(1))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if env::var_os("FAKEHIP_IDLE").is_none() {
        return Ok(with_idle_runtime(&env::current_exe()?)?);
    }
    let device = Device::open()?;
    let stream = Stream(0x1000);
    let mut criterion = Criterion::default().configure_from_args();
    let (arguments, walk) = (attention(1), walk());
    let plan = Plan::new(Query::Bf16, Cache::Query, 128, 17, &arguments)?;
    criterion.bench_function("tree_attention: a launch", |bench| {
        // SAFETY: the idle runtime reads no address.
        bench.iter(|| unsafe { plan.launch(&device, stream, hint::black_box(&arguments)) });
    });
    criterion.bench_function("tree_attention: plan and a launch", |bench| {
        bench.iter(|| {
            let arguments = hint::black_box(&arguments);
            let plan = Plan::new(Query::Bf16, Cache::Query, 128, 17, arguments)?;
            // SAFETY: as above.
            unsafe { plan.launch(&device, stream, arguments) }
        });
    });
    let several = attention(4);
    criterion.bench_function("tree_attention: plan and two launches", |bench| {
        bench.iter(|| {
            let arguments = hint::black_box(&several);
            let plan = Plan::new(Query::Bf16, Cache::Query, 128, 17, arguments)?;
            // SAFETY: as above.
            unsafe { plan.launch(&device, stream, arguments) }
        });
    });
    criterion.bench_function("tree_walk: plan and a launch", |bench| {
        bench.iter(|| {
            let arguments = hint::black_box(&walk);
            let plan = tree_walk::Plan::new(arguments)?;
            // SAFETY: as above.
            unsafe { plan.launch(&device, stream, arguments) }
        });
    });
    // What is measured has worked.
    // SAFETY: as above.
    unsafe { plan.launch(&device, stream, &arguments) }?;
    criterion.final_summary();
    Ok(())
}
