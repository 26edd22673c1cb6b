//! The code objects that were compiled with this crate.

/// A compiled source for one architecture.
#[derive(Debug, Clone, Copy)]
pub struct CodeObject {
    /// Name of the source in `hip/`, without its extension.
    pub source: &'static str,
    /// `gfx942` or `gfx950`.
    pub arch: &'static str,
    /// The ELF file that the HIP runtime loads.
    pub bytes: &'static [u8],
    /// The text that the same compilation prints.
    #[cfg(feature = "assembly")]
    pub assembly: &'static str,
}

/// All of them; empty when the crate was built with `SPECVERIFY_HIP=off`.
pub const CODE_OBJECTS: &[CodeObject] = include!(concat!(env!("OUT_DIR"), "/code_objects.rs"));

/// The architectures that the kernels were compiled for.
pub fn architectures() -> Vec<&'static str> {
    let mut found: Vec<_> = CODE_OBJECTS.iter().map(|object| object.arch).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The code object of a source for an architecture.
pub fn code_object(source: &str, arch: &str) -> Option<&'static CodeObject> {
    CODE_OBJECTS.iter().find(|object| object.source == source && object.arch == arch)
}
