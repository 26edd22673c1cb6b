//! Compiles every kernel source in `hip/` for both architectures, ahead of time, and writes the table that `src/kernels.rs` includes.
//!
//! The compiler is hipcc of an installed ROCm (`HIPCC`, `ROCM_PATH`, `/opt/rocm`), else the clang of the `ziglang` wheel, in the Python that
//! `SPECVERIFY_ZIGLANG` names (default `python3`). `SPECVERIFY_HIP=off` builds without kernels.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, thread};

const ARCHITECTURES: [&str; 2] = ["gfx942", "gfx950"];
/// Of both compilers. No path of this machine reaches the output, so that it is the same wherever it is built.
const FLAGS: [&str; 7] =
    ["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-mcode-object-version=5", "-fuse-cuid=none", "-O3"];
/// clang alone has neither HIP's headers nor the device library; the kernels need none.
const FREESTANDING: [&str; 3] = ["-nogpuinc", "-nogpulib", "-nostdinc"];

type Failure = Box<dyn std::error::Error + Send + Sync>;

enum Compiler {
    Hipcc(PathBuf),
    /// The Python that has the wheel, and a folder with an `lld` that calls it.
    Ziglang(String, PathBuf),
}

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
        Ok(other) if other != "on" => return Err(format!("SPECVERIFY_HIP is {other:?}; expected on or off").into()),
        _ => {
            let compiler = Compiler::find(&out)?;
            let names = kernel_sources(&sources)?;
            thread::scope(|scope| -> Result<(), Failure> {
                let mut running = Vec::new();
                for name in &names {
                    for arch in ARCHITECTURES {
                        let (compiler, source, out) = (&compiler, sources.join(format!("{name}.hip")), &out);
                        running.push(
                            scope.spawn(move || compiler.compile(&source, arch, &out.join(format!("{name}.{arch}")))),
                        );
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

fn kernel_sources(folder: &Path) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "hip") {
            names.extend(path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
        }
    }
    names.sort();
    Ok(names)
}

impl Compiler {
    fn find(out: &Path) -> Result<Self, Failure> {
        let rocm = env::var("ROCM_PATH").unwrap_or_else(|_| "/opt/rocm".into());
        let hipcc = env::var("HIPCC").map_or_else(|_| Path::new(&rocm).join("bin/hipcc"), PathBuf::from);
        if hipcc.is_file() {
            return Ok(Self::Hipcc(hipcc));
        }
        let python = env::var("SPECVERIFY_ZIGLANG").unwrap_or_else(|_| "python3".into());
        let works = Command::new(&python).args(["-m", "ziglang", "version"]).output();
        if !works.is_ok_and(|output| output.status.success()) {
            return Err(format!(
                "no compiler for the HIP kernels: no hipcc at {}, and `{python} -m ziglang` fails. Either install ROCm (or set HIPCC or \
                 ROCM_PATH), or `pip install ziglang==0.17.1` and name its Python in SPECVERIFY_ZIGLANG, or build without kernels: \
                 SPECVERIFY_HIP=off",
                hipcc.display()
            )
            .into());
        }
        // clang runs `lld -flavor gnu ...`; the wheel's linker is `ziglang ld.lld ...`.
        let folder = out.join("bin");
        fs::create_dir_all(&folder)?;
        let shim = folder.join("lld");
        fs::write(&shim, format!("#!/bin/sh\nshift 2\nexec '{python}' -m ziglang ld.lld \"$@\"\n"))?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&shim, fs::Permissions::from_mode(0o755))?;
        }
        Ok(Self::Ziglang(python, folder))
    }

    fn command(&self) -> Result<Command, Failure> {
        Ok(match self {
            Self::Hipcc(path) => Command::new(path),
            Self::Ziglang(python, folder) => {
                let mut command = Command::new(python);
                let paths = env::var_os("PATH").unwrap_or_default();
                let paths = std::iter::once(folder.clone()).chain(env::split_paths(&paths));
                command.args(["-m", "ziglang", "clang"]).env("PATH", env::join_paths(paths)?);
                command
            }
        })
    }

    /// Writes the code object and the assembly text of a source.
    fn compile(&self, source: &Path, arch: &str, to: &Path) -> Result<(), Failure> {
        for (extension, flags) in [("hsaco", &[][..]), ("s", &["-S"][..])] {
            let mut command = self.command()?;
            command.args(FLAGS).args(flags).arg(format!("--offload-arch={arch}"));
            if let Self::Ziglang(..) = self {
                command.args(FREESTANDING);
            }
            // Named from the folder, so that no absolute path is seen.
            command.current_dir(source.parent().unwrap_or(Path::new("."))).arg(source.file_name().unwrap_or_default());
            let output = command.arg("-o").arg(format!("{}.{extension}", to.display())).output()?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                return Err(format!("{} for {arch}:\n{said}", source.display()).into());
            }
        }
        Ok(())
    }
}
