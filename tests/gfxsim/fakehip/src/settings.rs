//! What the fake pretends to be: its environment variables (see the README), read once.

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::{env, process};

pub struct Settings {
    /// gcnArchName of each device.
    pub archs: Vec<String>,
    pub code: Option<PathBuf>,
    pub idle: bool,
    failures: Mutex<HashMap<String, VecDeque<i32>>>,
    log: Option<Mutex<File>>,
}

impl Settings {
    pub fn get() -> &'static Self {
        static SETTINGS: OnceLock<Settings> = OnceLock::new();
        SETTINGS.get_or_init(|| {
            Self::read().unwrap_or_else(|error| {
                // A test that is set up wrongly must not look like one that has found an answer.
                eprintln!("fakehip: {error}");
                process::abort()
            })
        })
    }

    fn read() -> Result<Self, String> {
        let text = |name: &str| env::var(name).ok();
        let number = |text: &str| text.parse().map_err(|_| format!("FAKEHIP_FAIL: {text:?} is not a number"));
        let mut failures = HashMap::new();
        for entry in text("FAKEHIP_FAIL").unwrap_or_default().split(';').filter(|entry| !entry.is_empty()) {
            let (call, codes) = entry.split_once('=').ok_or("FAKEHIP_FAIL: expected CALL=CODE,CODE;CALL=CODE")?;
            let codes = codes.split(',').map(number).collect::<Result<_, _>>()?;
            failures.insert(call.to_owned(), codes);
        }
        let log = text("FAKEHIP_LOG").map(|path| OpenOptions::new().create(true).append(true).open(path));
        Ok(Self {
            archs: match text("FAKEHIP_ARCH").as_deref().unwrap_or("gfx942:sramecc+:xnack-") {
                "none" => Vec::new(),
                names => names.split(',').map(str::to_owned).collect(),
            },
            code: text("FAKEHIP_CODE").map(PathBuf::from),
            idle: text("FAKEHIP_IDLE").is_some(),
            failures: Mutex::new(failures),
            log: log.transpose().map_err(|error| format!("FAKEHIP_LOG: {error}"))?.map(Mutex::new),
        })
    }

    /// The answer that a call was told to give this time.
    pub fn failure(&self, call: &str) -> Option<i32> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).get_mut(call)?.pop_front()
    }

    /// Appends a line to the log.
    pub fn log(&self, line: &str) {
        if let Some(file) = &self.log {
            // One write, so that lines of two processes do not mix.
            let written = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(format!("{line}\n").as_bytes());
            written.unwrap_or_else(|error| eprintln!("fakehip: FAKEHIP_LOG: {error}"));
        }
    }
}
