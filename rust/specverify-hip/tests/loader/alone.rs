//! Tests in processes of their own: what is mapped, what was found before and the environment belong to a process.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

use specverify_hip::kernels::CODE_OBJECTS;

const CHILD: &str = "SPECVERIFY_TEST_ALONE";

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("loader").join(name)
}

/// A process to be: its folder, and the environment that it starts with. Its library path is the folder `system`.
pub struct Stage {
    pub folder: PathBuf,
    environment: Vec<(OsString, OsString)>,
}

impl Stage {
    /// Puts a runtime into the folder.
    pub fn runtime(&self, name: &str) -> PathBuf {
        let to = self.folder.join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        // cargo builds it beside this program, as a dependency.
        fs::copy(env::current_exe().unwrap().with_file_name("libfakehip.so"), &to).unwrap();
        to
    }

    /// The same without some of its functions: another name stands in its table.
    pub fn runtime_without(&self, name: &str, symbols: &[&str]) {
        let path = self.runtime(name);
        let mut bytes = fs::read(&path).unwrap();
        for symbol in symbols {
            let wanted = [b"\0", symbol.as_bytes(), b"\0"].concat();
            let places: Vec<_> =
                (0..bytes.len() - wanted.len()).filter(|&at| bytes[at..].starts_with(&wanted)).collect();
            assert!(!places.is_empty(), "the fake has no {symbol}");
            places.into_iter().for_each(|at| bytes[at + 1] = b'x');
        }
        fs::write(path, bytes).unwrap();
    }

    pub fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.environment.push((name.into(), value.as_ref().to_owned()));
    }
}

/// The code objects and their texts, for the fake.
fn code() -> &'static Path {
    static CODE: OnceLock<PathBuf> = OnceLock::new();
    CODE.get_or_init(|| {
        let folder = folder("code");
        fs::create_dir_all(&folder).unwrap();
        for object in CODE_OBJECTS {
            let name = format!("{}.{}", object.source, object.arch);
            fs::write(folder.join(format!("{name}.hsaco")), object.bytes).unwrap();
            fs::write(folder.join(format!("{name}.s")), object.assembly).unwrap();
        }
        folder
    })
}

/// Runs `body` in a new process. `test` is the name of the calling test, which runs again there, alone; `case` tells several calls apart.
pub fn alone(test: &str, case: &str, set_up: impl FnOnce(&mut Stage), body: impl FnOnce(&Path)) {
    let name = format!("{test} {case}");
    // A library path ends at colons and semicolons.
    let folder = folder(&name.replace([':', ';'], "_"));
    if let Ok(running) = env::var(CHILD) {
        if running == name {
            body(&folder);
            // The calls that follow in the same test are for other processes.
            println!("done: {name}");
        }
        return;
    }
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("system")).unwrap();
    let mut stage = Stage { folder: folder.clone(), environment: Vec::new() };
    set_up(&mut stage);
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture"]).env(CHILD, &name).env("LD_LIBRARY_PATH", folder.join("system"));
    child.env("FAKEHIP_CODE", code()).env("FAKEHIP_LOG", folder.join("log")).envs(stage.environment);
    let output = child.output().unwrap();
    let [told, complaints] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(
        output.status.success() && told.contains(&format!("done: {name}\n")),
        "{name}, in a process of its own: {}\n{told}{complaints}",
        output.status
    );
    // Around the test harness, which keeps what passing tests print to itself.
    for line in complaints.lines().filter(|line| line.starts_with("not run")) {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// What the fake was asked, in the process that asks.
pub fn log(folder: &Path) -> Vec<String> {
    fs::read_to_string(folder.join("log")).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The HIP runtimes that this process has mapped.
pub fn mapped() -> Vec<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mut paths: Vec<_> = maps
        .lines()
        .filter_map(|line| line.find('/').map(|start| line[start..].to_owned()))
        .filter(|path| path.contains("libamdhip64"))
        .collect();
    paths.sort();
    paths.dedup();
    paths
}
