//! Global memory: named buffers with guard gaps around them, which bytes were written, and which 128-byte lines were touched.

use crate::fault::{Kind, Result};

const LINE: usize = 128;
/// Between two buffers, so that an index that runs away meets nothing.
const GAP: u64 = 1 << 20;
const FIRST: u64 = 0x7F00_0000_0000;

/// A buffer of [`Memory`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    index: usize,
    address: u64,
    bytes: usize,
}

impl Buffer {
    /// Its device address, a multiple of 256.
    pub fn address(self) -> u64 {
        self.address
    }

    /// Its size.
    pub fn len(self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes.
    pub fn is_empty(self) -> bool {
        self.bytes == 0
    }
}

/// What was asked of a buffer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes read: each instruction counts the distinct bytes of its lanes.
    pub requested_read: u64,
    /// Bytes written, likewise.
    pub requested_written: u64,
    /// Distinct 128-byte lines read.
    pub lines_read: u64,
    /// Distinct 128-byte lines written.
    pub lines_written: u64,
}

#[derive(Debug, Clone)]
struct Region {
    name: String,
    base: u64,
    data: Vec<u8>,
    /// A byte each: 0 readable, 1 never written, 2 poisoned.
    state: Vec<u8>,
    read_only: bool,
    /// Whether it began with contents.
    filled: bool,
    traffic: Traffic,
    read_lines: Vec<bool>,
    written_lines: Vec<bool>,
}

impl Region {
    fn end(&self) -> u64 {
        self.base + self.data.len() as u64
    }
}

/// The memory of the device. Addresses ascend in the order of creation.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    regions: Vec<Region>,
    last: usize,
}

impl Memory {
    /// No buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// A buffer with contents, which kernels may also write.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> Buffer {
        self.create(name, bytes.to_vec(), 0, false)
    }

    /// A buffer with contents that kernels must not write.
    pub fn add_read_only(&mut self, name: &str, bytes: &[u8]) -> Buffer {
        self.create(name, bytes.to_vec(), 0, true)
    }

    /// A buffer that must be written before it is read.
    pub fn reserve(&mut self, name: &str, bytes: usize) -> Buffer {
        self.create(name, vec![0xFF; bytes], 1, false)
    }

    fn create(&mut self, name: &str, data: Vec<u8>, state: u8, read_only: bool) -> Buffer {
        let base = self.regions.last().map_or(FIRST, |region| (region.end() + GAP).next_multiple_of(256));
        let (bytes, lines) = (data.len(), data.len().div_ceil(LINE));
        self.regions.push(Region {
            name: name.to_owned(),
            base,
            data,
            state: vec![state; bytes],
            read_only,
            filled: state == 0,
            traffic: Traffic::default(),
            read_lines: vec![false; lines],
            written_lines: vec![false; lines],
        });
        Buffer { index: self.regions.len() - 1, address: base, bytes }
    }

    /// Contents.
    pub fn bytes(&self, buffer: Buffer) -> &[u8] {
        &self.regions[buffer.index].data
    }

    /// The contents of all buffers that kernels may write, in the order of creation; bytes never written are 0xFF.
    pub fn writable(&self) -> Vec<u8> {
        self.regions.iter().filter(|region| !region.read_only).flat_map(|region| &region.data).copied().collect()
    }

    /// Overwrites a part of a buffer, as a copy from the host does.
    ///
    /// # Panics
    /// When the bytes do not fit.
    pub fn write(&mut self, buffer: Buffer, offset: usize, bytes: &[u8]) {
        let region = &mut self.regions[buffer.index];
        region.data[offset..offset + bytes.len()].copy_from_slice(bytes);
        region.state[offset..offset + bytes.len()].fill(0);
    }

    /// Overwrites every buffer that began with contents by the same buffer of another memory, poison and all, as copies from the host do
    /// before a captured launch runs again. Those that began unwritten keep what kernels left in them.
    ///
    /// # Panics
    /// When the other has a buffer of another name or size in the place of one of these.
    pub fn refill(&mut self, from: &Self) {
        for (region, new) in self.regions.iter_mut().zip(&from.regions) {
            let same = (&region.name, region.base, region.data.len()) == (&new.name, new.base, new.data.len());
            assert!(same, "`{}` of {} bytes is no `{}`", new.name, new.data.len(), region.name);
            if region.filled {
                (region.data, region.state) = (new.data.clone(), new.state.clone());
            }
        }
    }

    /// Frees a buffer: every access to it becomes a fault. Its address is not used again while later buffers live.
    pub fn free(&mut self, buffer: Buffer) {
        let region = &mut self.regions[buffer.index];
        (region.data, region.state) = (Vec::new(), Vec::new());
    }

    /// Whether every byte of a range was written.
    pub fn is_written(&self, buffer: Buffer, range: std::ops::Range<usize>) -> bool {
        self.regions[buffer.index].state[range].iter().all(|&state| state == 0)
    }

    /// Makes loads from a range of bytes a fault.
    pub fn poison(&mut self, buffer: Buffer, range: std::ops::Range<usize>) {
        self.regions[buffer.index].state[range].fill(2);
    }

    /// What was asked of a buffer since [`Memory::forget_traffic`].
    pub fn traffic(&self, buffer: Buffer) -> Traffic {
        self.regions[buffer.index].traffic.clone()
    }

    /// Starts counting anew.
    pub fn forget_traffic(&mut self) {
        for region in &mut self.regions {
            region.traffic = Traffic::default();
            region.read_lines.fill(false);
            region.written_lines.fill(false);
        }
    }

    fn find(&mut self, address: u64, bytes: usize, what: &'static str) -> Result<(usize, usize)> {
        let holds = |region: &Region| region.base <= address && address + bytes as u64 <= region.end();
        if !self.regions.get(self.last).is_some_and(holds) {
            let after = self.regions.partition_point(|region| region.base <= address);
            let index = after.wrapping_sub(1);
            if !self.regions.get(index).is_some_and(holds) {
                let near = self.regions.get(index).map_or_else(String::new, |region| {
                    format!(
                        "; {} bytes past the start of `{}` of {}",
                        address - region.base,
                        region.name,
                        region.data.len()
                    )
                });
                return Err(Kind::OutOfBounds { what, address, bytes, near }.into());
            }
            self.last = index;
        }
        Ok((self.last, (address - self.regions[self.last].base) as usize))
    }

    /// Reads into `out`; `counts` when these bytes were not already asked for by another lane of the instruction.
    pub(crate) fn load(&mut self, address: u64, out: &mut [u8], counts: bool) -> Result<()> {
        let (index, offset) = self.find(address, out.len(), "load")?;
        let region = &mut self.regions[index];
        let range = offset..offset + out.len();
        if let Some(state) = region.state[range.clone()].iter().find(|&&state| state != 0) {
            let why = if *state == 1 { "never written" } else { "poisoned" };
            return Err(Kind::Uninitialised { buffer: region.name.clone(), offset, bytes: out.len(), why }.into());
        }
        out.copy_from_slice(&region.data[range]);
        if counts {
            region.traffic.requested_read += out.len() as u64;
            for line in offset / LINE..=(offset + out.len() - 1) / LINE {
                region.traffic.lines_read += u64::from(!region.read_lines[line]);
                region.read_lines[line] = true;
            }
        }
        Ok(())
    }

    pub(crate) fn store(&mut self, address: u64, bytes: &[u8]) -> Result<()> {
        let (index, offset) = self.find(address, bytes.len(), "store")?;
        let region = &mut self.regions[index];
        if region.read_only {
            return Err(Kind::ReadOnly(region.name.clone()).into());
        }
        region.data[offset..offset + bytes.len()].copy_from_slice(bytes);
        region.state[offset..offset + bytes.len()].fill(0);
        region.traffic.requested_written += bytes.len() as u64;
        for line in offset / LINE..=(offset + bytes.len() - 1) / LINE {
            region.traffic.lines_written += u64::from(!region.written_lines[line]);
            region.written_lines[line] = true;
        }
        Ok(())
    }
}
