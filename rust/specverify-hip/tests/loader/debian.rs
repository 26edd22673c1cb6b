//! Against a real HIP: the runtime of Debian 12, which finds no device here, and HIP's headers. `make setup` unpacks them into .cache.

#[path = "../../compiler.rs"]
#[allow(dead_code, reason = "the build uses the rest")]
mod compiler;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, thread};

use compiler::{ARCHITECTURES, Compiler, FLAGS, kernel_sources};
use specverify_hip::kernels::code_object;
use specverify_hip::{Device, Error, HipError};

use crate::alone::{alone, mapped};

/// Says around the test harness, which keeps what passing tests print to itself, that a test could not run.
fn not_run(test: &str, why: &str) {
    let _ = std::io::stderr().write_all(format!("not run: {test}: {why}\n").as_bytes());
}

/// The folder that tools/debian_hip.py unpacks to.
fn unpacked(test: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/debian_hip");
    if folder.join("READY").is_file() {
        return Some(folder.canonicalize().unwrap());
    }
    let why = fs::read_to_string(folder.join("UNAVAILABLE"));
    not_run(
        test,
        why.as_deref().unwrap_or("no Debian packages in .cache/debian_hip; `make setup` unpacks them").trim(),
    );
    None
}

#[test]
fn the_runtime_of_debian_finds_no_device() {
    let test = "debian::the_runtime_of_debian_finds_no_device";
    let Some(debian) = unpacked(test) else { return };
    if env::consts::ARCH != "x86_64" || env::consts::OS != "linux" {
        return not_run(test, "the packages are for x86_64 Linux");
    }
    let folders = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"].map(|folder| debian.join(folder));
    alone(
        test,
        "",
        |stage| stage.set("LD_LIBRARY_PATH", env::join_paths(&folders).unwrap()),
        |_| {
            let opened = Device::open();
            assert_eq!(mapped().len(), 1, "{opened:?}");
            assert!(mapped()[0].starts_with(debian.to_str().unwrap()), "{:?}", mapped());
            match opened {
                Err(Error::NoGpu { library }) => assert_eq!(library, "libamdhip64.so.5"),
                // A runtime as old as this one may or may not know the GPU of a machine that has one.
                other => assert!(Path::new("/dev/kfd").exists(), "{other:?}"),
            }
        },
    );
}

/// The C++ headers of the host, which HIP's include.
fn has_cpp_headers(compiler: &Compiler, debian: &Path) -> bool {
    let probe = Path::new(env!("CARGO_TARGET_TMPDIR")).join("probe.cpp");
    fs::write(&probe, "#include <cmath>\n#include <cstring>\n").unwrap();
    let output =
        compiler.command().unwrap().args(["-x", "c++", "-fsyntax-only"]).arg(&probe).args(resources(debian)).output();
    output.unwrap().status.success()
}

/// clang's own headers, of Debian.
fn resources(debian: &Path) -> [PathBuf; 2] {
    ["-resource-dir".into(), debian.join("usr/lib/llvm-19/lib/clang/19")]
}

/// With HIP's headers, and those that clang and hipcc put before every HIP source, the kernels compile to the very bytes that ship. What
/// the simulator has run is what hipcc makes of them.
#[test]
fn the_kernels_compile_to_the_same_bytes_with_hips_headers() {
    let test = "debian::the_kernels_compile_to_the_same_bytes_with_hips_headers";
    let Some(debian) = unpacked(test) else { return };
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("headers");
    fs::create_dir_all(&out).unwrap();
    let compiler = Compiler::find(&out).unwrap();
    if let Compiler::Hipcc(path) = &compiler {
        return not_run(test, &format!("{} compiled them with its own headers", path.display()));
    }
    if !has_cpp_headers(&compiler, &debian) {
        return not_run(test, "the compiler finds no C++ headers; on Debian: apt-get install g++");
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hip");
    let compile = |name: &str, arch: &str| {
        let to = out.join(format!("{name}.{arch}"));
        let mut command = compiler.command().unwrap();
        command.current_dir(&sources).args(FLAGS).args(["-nogpulib", "-w", "-D__HIP_PLATFORM_AMD__"]);
        // HIP 5.2 asks clang for a macro that clang has dropped since.
        command.arg("-D__AMDGCN_WAVEFRONT_SIZE=64").args(resources(&debian));
        command.arg(format!("--rocm-path={}", debian.join("usr").display())).args(["-include", "hip/hip_runtime.h"]);
        command.arg(format!("--offload-arch={arch}")).arg(format!("{name}.hip")).arg("-o").arg(&to);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{name} for {arch}:\n{}", String::from_utf8_lossy(&output.stderr));
        let shipped = code_object(name, arch).unwrap().bytes;
        assert!(fs::read(&to).unwrap() == shipped, "{name} for {arch} differs from the shipped code");
    };
    let names = kernel_sources(&sources).unwrap();
    thread::scope(|scope| {
        for arch in ARCHITECTURES {
            let (names, compile) = (&names, &compile);
            scope.spawn(move || names.iter().for_each(|name| compile(name, arch)));
        }
    });
}

/// The numbers that the loader has by heart: errors, and where hipDeviceProp_t (before ROCm 6) has the architecture.
#[test]
fn the_loaders_numbers_are_those_of_hips_headers() {
    let test = "debian::the_loaders_numbers_are_those_of_hips_headers";
    let Some(debian) = unpacked(test) else { return };
    let header = fs::read_to_string(debian.join("usr/include/hip/hip_runtime_api.h")).unwrap();
    let (_, rest) = header.split_once("typedef enum __HIP_NODISCARD hipError_t {").unwrap();
    let (list, _) = rest.split_once("} hipError_t;").unwrap();
    let list: String = list.lines().map(|line| line.split("//").next().unwrap()).collect();
    let mut codes = Vec::new();
    for entry in list.split(',').filter(|entry| entry.contains('=')) {
        let (name, code) = entry.split_once('=').unwrap();
        let code: i32 = code.trim().parse().unwrap();
        // The first name of a number is the current one, the others are deprecated.
        if code != 0 && !codes.contains(&code) {
            assert_eq!(HipError::from_code(code).name(), name.trim());
            codes.push(code);
        }
    }
    assert!(codes.len() > 70, "{}", codes.len());
    // HIP 7 has two more.
    let newer: Vec<_> = HipError::NAMED.iter().filter(|error| !codes.contains(&error.code())).collect();
    assert_eq!(newer, [&HipError::InvalidChannelDescriptor, &HipError::InvalidTexture]);

    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let compiler = Compiler::find(out).unwrap();
    if !has_cpp_headers(&compiler, &debian) {
        return not_run(test, "the compiler finds no C++ headers; on Debian: apt-get install g++");
    }
    let source = out.join("properties.cpp");
    // The same numbers as in src/runtime.rs and in the fake runtime.
    let check = "#include <hip/hip_runtime_api.h>\n\
         static_assert(sizeof(hipDeviceProp_t) == 792, \"size\");\n\
         static_assert(__builtin_offsetof(hipDeviceProp_t, gcnArchName) == 396, \"gcnArchName\");\n\
         static_assert(sizeof(hipDeviceProp_t::gcnArchName) == 256, \"its room\");\n";
    fs::write(&source, check).unwrap();
    let mut command = compiler.command().unwrap();
    command.args(["-x", "c++", "-fsyntax-only", "-w", "-D__HIP_PLATFORM_AMD__", "-I"]).arg(debian.join("usr/include"));
    let output = command.arg(&source).args(resources(&debian)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
