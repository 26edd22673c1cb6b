//! Run-time dispatch. A kernel is plain code over arrays, inlined into a function compiled for AVX-512, for AVX2 or for the
//! baseline: the operations are the same on each, none is contracted or reassociated, and so are the results, bit for bit.

use std::sync::OnceLock;

use pulp::{NullaryFnOnce, Simd as Vectors, WithSimd};

use crate::error::{Error, Result};

/// The instruction set that kernels are compiled for.
#[derive(Debug, Clone, Copy)]
pub struct Simd(Level);

#[derive(Debug, Clone, Copy)]
enum Level {
    #[cfg(target_arch = "x86_64")]
    Avx512(pulp::x86::V4),
    #[cfg(target_arch = "x86_64")]
    Avx2(pulp::x86::V3),
    Scalar,
}

/// Forces an instruction set.
const VARIABLE: &str = "SPECVERIFY_SIMD";

impl Simd {
    /// The best available instruction set, or the one that `SPECVERIFY_SIMD` names (read once a process).
    ///
    /// # Errors
    /// [`Error::Argument`] when the variable holds anything but the name of an available set.
    pub fn detect() -> Result<Self> {
        static DETECTED: OnceLock<Result<Simd>> = OnceLock::new();
        DETECTED
            .get_or_init(|| match std::env::var_os(VARIABLE) {
                None => Ok(Self::available()[0]),
                Some(name) => Self::named(&name.to_string_lossy()),
            })
            .clone()
    }

    /// [`Simd::detect`], or the baseline where that is an error: whoever makes rows has reported it, and the results are the same.
    pub(crate) fn best() -> Self {
        Self::detect().unwrap_or(Self(Level::Scalar))
    }

    /// The set of that name: `avx512`, `avx2` or `scalar`.
    ///
    /// # Errors
    /// [`Error::Argument`] when there is none, or this machine lacks it.
    pub fn named(name: &str) -> Result<Self> {
        let available = Self::available();
        available.iter().copied().find(|simd| simd.name() == name).ok_or_else(|| {
            let names: Vec<_> = available.iter().map(|simd| simd.name()).collect();
            Error::argument(VARIABLE, format!("{name:?}"), format!("one of {} on this machine", names.join(", ")))
        })
    }

    /// The sets of this machine, best first.
    pub fn available() -> Vec<Self> {
        let mut sets = Vec::with_capacity(3);
        #[cfg(target_arch = "x86_64")]
        {
            sets.extend(pulp::x86::V4::try_new().map(|v4| Self(Level::Avx512(v4))));
            sets.extend(pulp::x86::V3::try_new().map(|v3| Self(Level::Avx2(v3))));
        }
        sets.push(Self(Level::Scalar));
        sets
    }

    /// `avx512`, `avx2` or `scalar`.
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(_) => "avx2",
            Level::Scalar => "scalar",
        }
    }

    /// Runs a kernel. Its `call` and what it calls must be `#[inline(always)]`, else it is compiled for the baseline.
    #[inline(always)]
    pub(crate) fn run<K: NullaryFnOnce>(self, kernel: K) -> K::Output {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(v4) => v4.vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(v3) => v3.vectorize(kernel),
            Level::Scalar => kernel.call(),
        }
    }

    /// Runs a kernel that is written in vectors.
    #[inline(always)]
    pub(crate) fn run_vectors<K: WithSimd>(self, kernel: K) -> K::Output {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(v4) => Vectors::vectorize(v4, kernel),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(v3) => Vectors::vectorize(v3, kernel),
            Level::Scalar => kernel.with_simd(pulp::Scalar512b),
        }
    }
}

/// Memory that will be read soon, fetched into the second-level cache bit by bit while the processor computes something else. A row is
/// a fraction of that cache.
#[derive(Debug)]
pub(crate) struct Ahead {
    next: *const u8,
    lines: usize,
}

impl Ahead {
    /// Bytes of a cache line.
    pub const LINE: usize = 64;

    /// Nothing to fetch.
    pub const NOTHING: Self = Self { next: std::ptr::null(), lines: 0 };

    /// The memory of a slice.
    pub fn of<T>(slice: &[T]) -> Self {
        Self { next: slice.as_ptr().cast(), lines: size_of_val(slice).div_ceil(Self::LINE) }
    }

    /// Asks for some more lines.
    #[inline(always)]
    pub fn fetch(&mut self, lines: usize) {
        for _ in 0..lines.min(self.lines) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a prefetch is a hint; it neither faults nor reads, whatever the address.
            unsafe {
                use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_T1>(self.next.cast());
            }
            self.next = self.next.wrapping_add(Self::LINE);
            self.lines -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_instruction_set_is_named_in_the_error() {
        let message = Simd::named("avx1024").unwrap_err().to_string();
        assert!(message.contains("SPECVERIFY_SIMD is \"avx1024\"") && message.contains("scalar"), "{message}");
        assert_eq!(Simd::named("scalar").unwrap().name(), "scalar");
    }
}
