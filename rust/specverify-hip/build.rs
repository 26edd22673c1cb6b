//! Compiles every kernel source in `hip/` for both architectures, ahead of time, and writes the table that `src/kernels.rs` includes.
//!
//! The compiler is hipcc of an installed ROCm (`HIPCC`, `ROCM_PATH`, `/opt/rocm`), else the clang of the `ziglang` wheel, in the Python that
//! `SPECVERIFY_ZIGLANG` names (default `python3`). `SPECVERIFY_HIP=off` builds without kernels, as does a
//! target other than Linux unless it is `on`.

mod compiler;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, thread};

use compiler::{ARCHITECTURES, Compiler, Failure, kernel_sources};

fn main() -> Result<(), Failure> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let sources = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../hip");
    for name in ["SPECVERIFY_HIP", "SPECVERIFY_ZIGLANG", "HIPCC", "ROCM_PATH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    println!("cargo::rerun-if-changed={}", sources.display());
    let mut table = String::new();
    match env::var("SPECVERIFY_HIP").as_deref() {
        Ok("off") => {}
        // AMD's runtime is on Linux alone; elsewhere the kernels are compiled on request.
        Err(_) if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") => {}
        Ok(other) if other != "on" => return Err(format!("SPECVERIFY_HIP is {other:?}; expected on or off").into()),
        _ => {
            let compiler = Compiler::find(&out)?;
            let names = kernel_sources(&sources)?;
            // The text is for tests alone.
            let outputs: &[(&str, &[&str])] = match env::var_os("CARGO_FEATURE_ASSEMBLY") {
                Some(_) => &[("hsaco", &[]), ("s", &["-S"])],
                None => &[("hsaco", &[])],
            };
            thread::scope(|scope| -> Result<(), Failure> {
                let mut running = Vec::new();
                for name in &names {
                    for arch in ARCHITECTURES {
                        for &(extension, flags) in outputs {
                            let (compiler, source) = (&compiler, sources.join(format!("{name}.hip")));
                            let to = out.join(format!("{name}.{arch}.{extension}"));
                            running.push(scope.spawn(move || compiler.compile(&source, arch, flags, &to)));
                        }
                    }
                }
                running.into_iter().try_for_each(|handle| handle.join().map_err(|_| "a compilation panicked")?)
            })?;
            for name in &names {
                for arch in ARCHITECTURES {
                    let path = |extension: &str| format!("{:?}", out.join(format!("{name}.{arch}.{extension}")));
                    writeln!(
                        table,
                        "CodeObject {{ source: {name:?}, arch: {arch:?}, bytes: include_bytes!({}), #[cfg(feature = \"assembly\")] \
                         assembly: include_str!({}) }},",
                        path("hsaco"),
                        path("s")
                    )?;
                }
            }
        }
    }
    fs::write(out.join("code_objects.rs"), format!("&[\n{table}]\n"))?;
    Ok(())
}
