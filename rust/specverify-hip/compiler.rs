//! The compiler of the HIP kernels, for the build and for the test that it gives the same bytes wherever it runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// What the kernels are compiled for.
pub const ARCHITECTURES: [&str; 2] = ["gfx942", "gfx950"];
/// Flags of both compilers. No path of this machine reaches the output, so that it is the same wherever it is built.
pub const FLAGS: [&str; 7] =
    ["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-mcode-object-version=5", "-fuse-cuid=none", "-O3"];
/// clang alone has neither HIP's headers nor the device library; the kernels need none.
const FREESTANDING: [&str; 3] = ["-nogpuinc", "-nogpulib", "-nostdinc"];

/// What went wrong, in words.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Where it is.
pub enum Compiler {
    /// hipcc of a ROCm.
    Hipcc(PathBuf),
    /// The Python that has the wheel, and a folder with an `lld` that calls it.
    Ziglang(String, PathBuf),
}

impl Compiler {
    /// hipcc where there is one, else the wheel, whose shim of a linker goes to `out`.
    pub fn find(out: &Path) -> Result<Self, Failure> {
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
        // clang runs `lld -flavor gnu ...` for a kernel and `ld.lld ...` for assembly; the wheel's linker is `ziglang ld.lld ...`.
        let folder = out.join("bin");
        fs::create_dir_all(&folder)?;
        for (name, skip) in [("lld", "shift 2\n"), ("ld.lld", "")] {
            let shim = folder.join(name);
            fs::write(&shim, format!("#!/bin/sh\n{skip}exec '{python}' -m ziglang ld.lld \"$@\"\n"))?;
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt;
                fs::set_permissions(&shim, fs::Permissions::from_mode(0o755))?;
            }
        }
        Ok(Self::Ziglang(python, folder))
    }

    /// `clang`, or hipcc.
    pub fn command(&self) -> Result<Command, Failure> {
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

    /// Compiles a source to `to`: with `-S` among the flags its assembly text, else its code object.
    pub fn compile(&self, source: &Path, arch: &str, flags: &[&str], to: &Path) -> Result<(), Failure> {
        let mut command = self.command()?;
        command.args(FLAGS).args(flags).arg(format!("--offload-arch={arch}"));
        if let Self::Ziglang(..) = self {
            command.args(FREESTANDING);
        }
        // Named from the folder, so that no absolute path is seen.
        command.current_dir(source.parent().unwrap_or(Path::new("."))).arg(source.file_name().unwrap_or_default());
        let output = command.arg("-o").arg(to).output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("{} for {arch}:\n{}", source.display(), String::from_utf8_lossy(&output.stderr)).into())
    }
}

/// The names of the kernel sources of a folder, sorted.
pub fn kernel_sources(folder: &Path) -> Result<Vec<String>, Failure> {
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
