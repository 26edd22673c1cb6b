//! The local data share of one workgroup: contents, who touched which byte since the last barrier, and bank conflicts.

use crate::fault::{Kind, Result};

/// Nobody.
const NONE: u32 = u32::MAX;

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

/// Local data share. An epoch is the time between two barriers. An access that its wave has not waited for when it reaches a barrier
/// counts as one of the next epoch, since the barrier does not order it.
#[derive(Debug)]
pub(crate) struct Lds {
    data: Vec<u8>,
    written: Vec<bool>,
    writer: Vec<Touch>,
    reader: Vec<Touch>,
    /// Number of the epoch.
    pub epoch: u32,
    banks: usize,
    /// Accesses.
    pub accesses: u64,
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
            epoch: 1,
            banks,
            accesses: 0,
            conflict_cycles: 0,
        }
    }

    fn check(&self, address: usize, bytes: usize) -> Result<()> {
        if address + bytes > self.data.len() {
            return Err(Kind::LdsOutOfBounds { address, bytes, size: self.data.len() }.into());
        }
        Ok(())
    }

    fn race(&self, touches: &[Touch], address: usize, wave: usize, did: &'static str) -> Result<()> {
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
        if let Some(i) = self.written[range.clone()].iter().position(|&written| !written) {
            return Err(Kind::LdsUninitialised(address + i).into());
        }
        self.touch_read(range.clone(), wave, self.epoch);
        out.copy_from_slice(&self.data[range]);
        Ok(())
    }

    pub fn store(&mut self, address: usize, bytes: &[u8], wave: usize) -> Result<()> {
        self.check(address, bytes.len())?;
        let range = address..address + bytes.len();
        self.race(&self.writer[range.clone()], address, wave, "wrote")?;
        self.race(&self.reader[range.clone()], address, wave, "read")?;
        self.written[range.clone()].fill(true);
        self.writer[range.clone()].fill(Touch { wave: wave as u32, other: NONE, epoch: self.epoch });
        self.data[range].copy_from_slice(bytes);
        Ok(())
    }

    /// Marks bytes as read. Of many readers two are kept: whoever writes next, one of them is another wave.
    fn touch_read(&mut self, range: std::ops::Range<usize>, wave: usize, epoch: u32) {
        for touch in &mut self.reader[range] {
            let other = if touch.epoch >= epoch && touch.wave != wave as u32 { touch.wave } else { touch.other };
            let other = if touch.epoch >= epoch { other } else { NONE };
            *touch = Touch { wave: wave as u32, other, epoch };
        }
    }

    /// The accesses of a wave to these bytes were not waited for before a barrier.
    pub fn outlive_barrier(&mut self, addresses: &[(u32, u8)], write: bool, wave: usize) {
        for &(address, bytes) in addresses {
            let range = address as usize..address as usize + usize::from(bytes);
            if write {
                self.writer[range].fill(Touch { wave: wave as u32, other: NONE, epoch: self.epoch + 1 });
            } else {
                self.touch_read(range, wave, self.epoch + 1);
            }
        }
    }

    /// Counts one instruction: its lanes go in phases, by their number and the width. Lanes of a phase that want different words of
    /// one bank wait for each other.
    ///
    /// Phases as AMD's Composable Kernel documents them ("Understanding AMD GPU LDS and bank conflicts"): a 128-bit write serves eight
    /// consecutive lanes at a time, a 128-bit read lanes 0-3 with 20-23, 4-7 with 16-19, and so on; narrower accesses serve 16
    /// (64 bits) and 32 (32 bits) consecutive lanes. That 64 banks serve twice as many is assumed.
    pub fn count(&mut self, addresses: &[Option<u32>; 64], bytes: usize, write: bool) {
        self.accesses += 1;
        let wide = bytes >= 12;
        let lanes_a_phase = (if wide {
            8
        } else if bytes == 8 {
            16
        } else {
            32
        }) * self.banks
            / 32;
        let lane_at = |i: usize| {
            if !wide || write {
                return i;
            }
            // 0-3 20-23 | 4-7 16-19 | 8-11 28-31 | 12-15 24-27
            let (half, quad, low) = (i / 32 * 32, i % 32 / 4, i % 4);
            half + [0, 5, 1, 4, 2, 7, 3, 6][quad] * 4 + low
        };
        let words = bytes.div_ceil(4);
        for phase in 0..64 / lanes_a_phase {
            let mut wanted: Vec<u32> = (phase * lanes_a_phase..(phase + 1) * lanes_a_phase)
                .filter_map(|i| addresses[lane_at(i)])
                .flat_map(|address| (0..words as u32).map(move |word| address / 4 + word))
                .collect();
            wanted.sort_unstable();
            wanted.dedup();
            let mut load = [0_u32; 64];
            for word in wanted {
                load[word as usize % self.banks] += 1;
            }
            self.conflict_cycles += u64::from(load.iter().max().map_or(0, |most| most.saturating_sub(1)));
        }
    }
}
