//! The crate's own thread pool: rayon across requests. It survives fork, because a child builds its own.

use std::sync::{Arc, Mutex};

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, Result};

/// Sets the number of threads; by default the number of CPUs this process may use.
const VARIABLE: &str = "SPECVERIFY_NUM_THREADS";

/// A pool and the process that built it: after a fork its threads exist in the parent only.
static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// Applies `f` to every item, in parallel; results in the order of the items.
///
/// # Errors
/// [`Error::Argument`] when `SPECVERIFY_NUM_THREADS` is no number of threads, or the threads can't be started.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync) -> Result<Vec<R>> {
    let threads = size()?;
    let pool = if threads == 1 || items.len() < 2 { None } else { pool(threads)? };
    Ok(match pool {
        Some(pool) => pool.install(|| items.par_iter().map(&f).collect()),
        None => items.iter().map(f).collect(),
    })
}

/// Number of threads.
///
/// # Errors
/// Those of [`map`].
pub(crate) fn size() -> Result<usize> {
    threads(std::env::var_os(VARIABLE).map(|value| value.to_string_lossy().into_owned()))
}

fn threads(value: Option<String>) -> Result<usize> {
    match value {
        None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
        Some(value) => match value.trim().parse() {
            Ok(threads @ 1..=1024) => Ok(threads),
            _ => Err(Error::argument(VARIABLE, format!("{value:?}"), "a number of threads from 1 to 1024, or unset")),
        },
    }
}

/// The pool of this process. `None` when another thread is at the lock just now, or was when this process was forked from it: then
/// the caller does the work itself.
fn pool(threads: usize) -> Result<Option<Arc<ThreadPool>>> {
    let process = std::process::id();
    let Ok(mut slot) = POOL.try_lock() else { return Ok(None) };
    if let Some((builder, pool)) = &*slot
        && *builder == process
        && pool.current_num_threads() == threads
    {
        return Ok(Some(Arc::clone(pool)));
    }
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|i| format!("specverify-{i}"))
        .build()
        .map_err(|error| Error::argument(VARIABLE, threads, format!("threads that can be started ({error})")))?;
    let pool = Arc::new(pool);
    if let Some((builder, old)) = slot.replace((process, Arc::clone(&pool)))
        && builder != process
    {
        // To drop the parent's pool would be to wake threads that do not exist here.
        std::mem::forget(old);
    }
    Ok(Some(pool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_number_of_threads_is_named() {
        for bad in ["0", "-1", "two", "", "1025", "1.5"] {
            let message = threads(Some(bad.into())).unwrap_err().to_string();
            assert!(message.contains(VARIABLE) && message.contains(&format!("{bad:?}")), "{message}");
        }
        assert_eq!(threads(Some(" 3 ".into())), Ok(3));
        assert!(threads(None).unwrap() >= 1);
    }

    #[test]
    fn results_keep_the_order_of_the_items() {
        let items: Vec<u32> = (0..1000).collect();
        assert_eq!(map(&items, |x| x * 2).unwrap(), items.iter().map(|x| x * 2).collect::<Vec<_>>());
    }
}
