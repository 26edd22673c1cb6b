//! The local data share of one workgroup: contents, who touched which byte since the last barrier, and bank conflicts.

use crate::fault::{Kind, Result};

/// Nobody.
const NONE: u32 = u32::MAX;

/// What an access does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Use {
    Read,
    Write,
    Addition,
}

#[derive(Debug, Clone, Copy)]
struct Touch {
    wave: u32,
    /// Another one, of the same epoch.
    other: u32,
    epoch: u32,
}

impl Touch {
    const NOBODY: Self = Self { wave: NONE, other: NONE, epoch: 0 };

    /// A wave other than this that touched the byte in an epoch or later.
    fn by_another(&self, wave: usize, epoch: u32) -> Option<usize> {
        let waves = [self.wave, self.other].into_iter();
        waves
            .filter(|&other| other != NONE)
            .map(|other| other as usize)
            .find(|&other| self.epoch >= epoch && other != wave)
    }
}

/// Marks bytes as touched. Of many waves two are kept: whoever comes next, one of them is another.
fn touch(touches: &mut [Touch], wave: usize, epoch: u32) {
    for touch in touches {
        let other = if touch.epoch >= epoch && touch.wave != wave as u32 { touch.wave } else { touch.other };
        let other = if touch.epoch >= epoch { other } else { NONE };
        *touch = Touch { wave: wave as u32, other, epoch };
    }
}

/// Local data share. An epoch is the time between two barriers. An access that its wave has not waited for when it reaches a barrier
/// counts as one of the next epoch, since the barrier does not order it.
#[derive(Debug)]
pub(crate) struct Lds {
    data: Vec<u8>,
    written: Vec<bool>,
    writer: Vec<Touch>,
    reader: Vec<Touch>,
    /// Of atomic additions, whose order among themselves does not matter.
    adder: Vec<Touch>,
    /// Number of the epoch.
    pub epoch: u32,
    banks: usize,
    /// Accesses.
    pub accesses: u64,
    /// Bytes that the lanes asked for or gave.
    pub bytes: u64,
    /// Cycles beyond those that the same widths take without conflicts.
    pub conflict_cycles: u64,
}

impl Lds {
    pub fn new(bytes: usize, banks: usize) -> Self {
        Self {
            data: vec![0xFF; bytes],
            written: vec![false; bytes],
            writer: vec![Touch::NOBODY; bytes],
            reader: vec![Touch::NOBODY; bytes],
            adder: vec![Touch::NOBODY; bytes],
            epoch: 1,
            banks,
            accesses: 0,
            bytes: 0,
            conflict_cycles: 0,
        }
    }

    /// For the next workgroup: nothing is written, and what was touched was touched before.
    pub fn restart(&mut self) {
        self.written.fill(false);
        // An access that outlived a barrier is of the epoch after the last.
        self.epoch += 2;
    }

    fn check(&self, address: usize, bytes: usize) -> Result<()> {
        if address + bytes > self.data.len() {
            return Err(Kind::LdsOutOfBounds { address, bytes, size: self.data.len() }.into());
        }
        Ok(())
    }

    fn race(&self, touches: &[Touch], address: usize, wave: usize, did: &'static str) -> Result<()> {
        if touches.iter().all(|touch| touch.epoch < self.epoch) {
            return Ok(());
        }
        let found = touches.iter().enumerate();
        let found = found.filter_map(|(i, touch)| Some((i, touch.by_another(wave, self.epoch)?))).next();
        match found {
            None => Ok(()),
            Some((i, first)) => Err(Kind::LdsRace { address: address + i, first, did, second: wave }.into()),
        }
    }

    pub fn load(&mut self, address: usize, out: &mut [u8], wave: usize) -> Result<()> {
        self.check(address, out.len())?;
        let range = address..address + out.len();
        self.race(&self.writer[range.clone()], address, wave, "wrote")?;
        self.race(&self.adder[range.clone()], address, wave, "added to")?;
        self.initialised(address, out.len())?;
        touch(&mut self.reader[range.clone()], wave, self.epoch);
        out.copy_from_slice(&self.data[range]);
        Ok(())
    }

    fn initialised(&self, address: usize, bytes: usize) -> Result<()> {
        match self.written[address..address + bytes].iter().position(|&written| !written) {
            Some(i) => Err(Kind::LdsUninitialised(address + i).into()),
            None => Ok(()),
        }
    }

    /// Adds to 4 or 8 bytes in one step, which other waves may do too; returns what was there.
    pub fn add(&mut self, address: usize, bytes: usize, value: u64, wave: usize) -> Result<u64> {
        self.check(address, bytes)?;
        let range = address..address + bytes;
        self.race(&self.writer[range.clone()], address, wave, "wrote")?;
        self.race(&self.reader[range.clone()], address, wave, "read")?;
        self.initialised(address, bytes)?;
        touch(&mut self.adder[range.clone()], wave, self.epoch);
        let mut whole = [0; 8];
        whole[..bytes].copy_from_slice(&self.data[range.clone()]);
        let old = u64::from_le_bytes(whole);
        self.data[range].copy_from_slice(&old.wrapping_add(value).to_le_bytes()[..bytes]);
        Ok(old)
    }

    pub fn store(&mut self, address: usize, bytes: &[u8], wave: usize) -> Result<()> {
        self.check(address, bytes.len())?;
        let range = address..address + bytes.len();
        self.race(&self.writer[range.clone()], address, wave, "wrote")?;
        self.race(&self.reader[range.clone()], address, wave, "read")?;
        self.race(&self.adder[range.clone()], address, wave, "added to")?;
        self.written[range.clone()].fill(true);
        self.writer[range.clone()].fill(Touch { wave: wave as u32, other: NONE, epoch: self.epoch });
        self.data[range].copy_from_slice(bytes);
        Ok(())
    }

    /// The accesses of a wave to these bytes were not waited for before a barrier.
    pub fn outlive_barrier(&mut self, addresses: &[(u32, u8)], by: Use, wave: usize) {
        for &(address, bytes) in addresses {
            let range = address as usize..address as usize + usize::from(bytes);
            match by {
                Use::Read => touch(&mut self.reader[range], wave, self.epoch + 1),
                Use::Addition => touch(&mut self.adder[range], wave, self.epoch + 1),
                Use::Write => {
                    self.writer[range].fill(Touch { wave: wave as u32, other: NONE, epoch: self.epoch + 1 });
                }
            }
        }
    }

    /// Counts one instruction: its lanes go in phases, by their number and the width. Lanes of a phase that want different words of
    /// one bank wait for each other.
    ///
    /// Phases of 32 banks as AMD's Composable Kernel documents them ("Understanding AMD GPU LDS and bank conflicts"): a 128-bit write
    /// serves eight consecutive lanes at a time, a 128-bit read lanes 0-3 with 20-23, 4-7 with 16-19, and so on; narrower accesses serve 16
    /// (64 bits) and 32 (32 bits) consecutive lanes. On gfx950 the authors of HipKittens (arXiv 2511.08083; its repository,
    /// analysis/paper_experiments/phases) measured that reads of 64 and 128 bits have 64 banks and half as many phases, a read of 96 bits and
    /// a write of 64 bits 32 and as many. That reads of 32 bits are like the former and other writes like the latter is assumed.
    pub fn count(&mut self, addresses: &[Option<u32>; 64], bytes: usize, write: bool) {
        self.accesses += 1;
        self.bytes += (addresses.iter().flatten().count() * bytes) as u64;
        let doubled = self.banks == 64 && !write && bytes != 12;
        let (wide, banks) = (bytes >= 12, if doubled { 64 } else { 32 });
        let lanes_a_phase = (if wide {
            8
        } else if bytes == 8 {
            16
        } else {
            32
        }) * banks
            / 32;
        let lane_at = |i: usize| {
            if !wide || write {
                return i;
            }
            // 32 banks: 0-3 20-23 | 4-7 16-19 | 8-11 28-31 | 12-15 24-27. 64 banks: 0-3 12-15 20-23 24-27 | 4-7 8-11 16-19 28-31.
            let quads = if doubled { [0, 3, 5, 6, 1, 2, 4, 7] } else { [0, 5, 1, 4, 2, 7, 3, 6] };
            i / 32 * 32 + quads[i % 32 / 4] * 4 + i % 4
        };
        let words = bytes.div_ceil(4);
        for phase in 0..64 / lanes_a_phase {
            let wanted = (phase * lanes_a_phase..(phase + 1) * lanes_a_phase)
                .filter_map(|i| addresses[lane_at(i)])
                .flat_map(|address| (0..words as u32).map(move |word| address / 4 + word));
            // Most phases have no conflict: the first word that a bank is asked for is the only one.
            let mut only = [None; 64];
            if wanted.clone().all(|word| *only[word as usize % banks].get_or_insert(word) == word) {
                continue;
            }
            let mut wanted: Vec<u32> = wanted.collect();
            wanted.sort_unstable();
            wanted.dedup();
            let mut load = [0_u32; 64];
            for word in wanted {
                load[word as usize % banks] += 1;
            }
            self.conflict_cycles += u64::from(load.iter().max().map_or(0, |most| most.saturating_sub(1)));
        }
    }
}
