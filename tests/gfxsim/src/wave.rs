//! The state of one wave: registers, what is known of them, and the loads under way.

use std::collections::VecDeque;

use crate::fault::{Kind, Result};
use crate::lds::Use;

/// A value a lane.
pub(crate) type Lanes = [u32; 64];

/// What a vector register holds before it is written.
const UNWRITTEN: Lanes = [0x7FC0_DEAD; 64];

/// Numbers of the special scalar registers.
pub(crate) const VCC: usize = 106;
pub(crate) const M0: usize = 124;
pub(crate) const EXEC: usize = 126;
pub(crate) const SGPRS: usize = 128;
/// Accumulation registers follow the 256 architectural ones.
pub(crate) const AGPR: usize = 256;

/// A memory instruction that has been issued. What it loads is known, but reaches registers only when a wait says so.
#[derive(Debug)]
pub(crate) enum Pending {
    /// Loads into vector registers: from the first on, for these lanes.
    Vector { first: usize, values: Vec<Lanes>, mask: u64, keep: u32 },
    /// Loads into scalar registers.
    Scalar { first: usize, values: Vec<u32> },
    /// Stores and LDS writes: nothing to commit.
    Store,
    /// What lgkmcnt counts of a flat instruction, which may go to LDS for all that the hardware knows: registers from the first on.
    Flat { first: usize, registers: usize },
}

impl Pending {
    /// Whether it loads into a vector register.
    fn fills(&self, register: usize) -> bool {
        matches!(self, Pending::Vector { first, values, .. } if (*first..first + values.len()).contains(&register))
    }
}

/// An LDS access that its wave has not waited for.
#[derive(Debug)]
pub(crate) struct LdsAccess {
    pub addresses: Vec<(u32, u8)>,
    pub by: Use,
}

/// One wave.
#[derive(Debug)]
pub(crate) struct Wave {
    pub number: usize,
    pub pc: usize,
    pub scc: bool,
    pub done: bool,
    pub executed: u64,
    vectors: Vec<Lanes>,
    /// Lanes of each vector register that were written.
    written: Vec<u64>,
    /// Loads under way into each vector register.
    pending: Vec<u8>,
    scalars: [u32; SGPRS],
    scalar_written: [bool; SGPRS],
    scalar_pending: [u8; SGPRS],
    /// Issued and counted by vmcnt.
    vector_queue: VecDeque<Pending>,
    /// Issued and counted by lgkmcnt.
    local_queue: VecDeque<(Pending, Option<LdsAccess>)>,
}

impl Wave {
    pub fn new(number: usize, entry: usize, lanes: usize) -> Self {
        Self::with(vec![UNWRITTEN; 2 * AGPR], number, entry, lanes)
    }

    fn with(vectors: Vec<Lanes>, number: usize, entry: usize, lanes: usize) -> Self {
        let mut wave = Self {
            number,
            pc: entry,
            scc: false,
            done: false,
            executed: 0,
            vectors,
            written: vec![0; 2 * AGPR],
            pending: vec![0; 2 * AGPR],
            scalars: [0xDEAD_BEEF; SGPRS],
            scalar_written: [false; SGPRS],
            scalar_pending: [0; SGPRS],
            vector_queue: VecDeque::new(),
            local_queue: VecDeque::new(),
        };
        wave.set_mask(EXEC, if lanes >= 64 { u64::MAX } else { (1 << lanes) - 1 });
        wave
    }

    /// Becomes the same wave of the next workgroup: a new one in every respect, in memory that is there already.
    pub fn restart(&mut self, entry: usize, lanes: usize) {
        let mut vectors = std::mem::take(&mut self.vectors);
        for (register, _) in vectors.iter_mut().zip(&self.written).filter(|&(_, &written)| written != 0) {
            *register = UNWRITTEN;
        }
        *self = Self::with(vectors, self.number, entry, lanes);
    }

    pub fn exec(&self) -> u64 {
        u64::from(self.scalars[EXEC]) | u64::from(self.scalars[EXEC + 1]) << 32
    }

    fn name(vector: bool, index: usize) -> String {
        match (vector, index) {
            (true, AGPR..) => format!("a{}", index - AGPR),
            (true, _) => format!("v{index}"),
            (false, VCC) => "vcc_lo".into(),
            (false, 107) => "vcc_hi".into(),
            (false, M0) => "m0".into(),
            (false, _) => format!("s{index}"),
        }
    }

    // ---- scalars

    /// Refuses a register that a load is under way to.
    fn scalar_waited(&self, index: usize) -> Result<()> {
        if self.scalar_pending[index] > 0 {
            return Err(Kind::MissingWait { register: Self::name(false, index) }.into());
        }
        Ok(())
    }

    pub fn scalar(&self, index: usize) -> Result<u32> {
        self.scalar_waited(index)?;
        if !self.scalar_written[index] {
            return Err(Kind::UnwrittenRegister { register: Self::name(false, index), by: "an instruction" }.into());
        }
        Ok(self.scalars[index])
    }

    pub fn mask(&self, index: usize) -> Result<u64> {
        Ok(u64::from(self.scalar(index)?) | u64::from(self.scalar(index + 1)?) << 32)
    }

    pub fn set_scalar(&mut self, index: usize, value: u32) -> Result<()> {
        self.scalar_waited(index)?;
        (self.scalars[index], self.scalar_written[index]) = (value, true);
        Ok(())
    }

    /// Writes a pair that no load is under way to.
    pub fn set_mask(&mut self, index: usize, value: u64) {
        (self.scalars[index], self.scalars[index + 1]) = (value as u32, (value >> 32) as u32);
        (self.scalar_written[index], self.scalar_written[index + 1]) = (true, true);
    }

    pub fn set_pair(&mut self, index: usize, value: u64) -> Result<()> {
        self.set_scalar(index, value as u32)?;
        self.set_scalar(index + 1, (value >> 32) as u32)
    }

    // ---- vectors

    /// A vector register, and its written lanes.
    pub fn vector(&self, index: usize) -> Result<(&Lanes, u64)> {
        if self.pending[index] > 0 {
            return Err(Kind::MissingWait { register: Self::name(true, index) }.into());
        }
        Ok((&self.vectors[index], self.written[index]))
    }

    /// A vector register of which the lanes of `mask` leave the registers: all must have been written.
    pub fn vector_for(&self, index: usize, mask: u64, by: &'static str) -> Result<&Lanes> {
        let (lanes, written) = self.vector(index)?;
        if mask & !written != 0 {
            let unwritten = (mask & !written).trailing_zeros() as usize;
            let fault = Kind::UnwrittenRegister { register: Self::name(true, index), by };
            return Err(crate::fault::Fault::from(fault).on_lane(unwritten));
        }
        Ok(lanes)
    }

    /// Writes the lanes of `mask`; `written` are those whose sources were written.
    pub fn set_vector(&mut self, index: usize, values: &Lanes, mask: u64, written: u64) -> Result<()> {
        self.vector(index)?;
        let register = &mut self.vectors[index];
        if mask == u64::MAX {
            *register = *values;
            self.written[index] = written;
        } else {
            for lane in 0..64 {
                let keep = (mask >> lane & 1).wrapping_sub(1) as u32;
                register[lane] = register[lane] & keep | values[lane] & !keep;
            }
            self.written[index] = self.written[index] & !mask | written & mask;
        }
        Ok(())
    }

    // ---- memory

    /// Registers that a load is about to fill. Loads of one queue answer in order, so that one may follow another into a register: that of
    /// other lanes, most often.
    fn reserve(&mut self, pending: &Pending, local: bool) -> Result<()> {
        match pending {
            Pending::Vector { first, values, keep, .. } => {
                for index in *first..first + values.len() {
                    let before = if local {
                        self.local_queue.iter().filter(|(load, _)| load.fills(index)).count()
                    } else {
                        self.vector_queue.iter().filter(|load| load.fills(index)).count()
                    };
                    if *keep != 0 || before != usize::from(self.pending[index]) {
                        self.vector(index)?;
                    }
                    self.pending[index] += 1;
                }
            }
            Pending::Scalar { first, values } => {
                for index in *first..first + values.len() {
                    self.scalar_waited(index)?;
                    self.scalar_pending[index] += 1;
                }
            }
            Pending::Flat { first, registers } => {
                self.pending[*first..*first + *registers].iter_mut().for_each(|pending| *pending += 1);
            }
            Pending::Store => {}
        }
        Ok(())
    }

    fn commit(&mut self, pending: Pending) {
        match pending {
            Pending::Vector { first, values, mask, keep } => {
                for (index, values) in (first..).zip(values) {
                    self.pending[index] -= 1;
                    if mask == u64::MAX && keep == 0 {
                        (self.vectors[index], self.written[index]) = (values, mask);
                        continue;
                    }
                    for lane in (0..64).filter(|lane| mask >> lane & 1 == 1) {
                        let register = &mut self.vectors[index][lane];
                        *register = *register & keep | values[lane] & !keep;
                    }
                    // A half register loaded over an unwritten one is whole as far as its user can tell.
                    self.written[index] |= mask;
                }
            }
            Pending::Scalar { first, values } => {
                for (index, value) in (first..).zip(values) {
                    self.scalar_pending[index] -= 1;
                    (self.scalars[index], self.scalar_written[index]) = (value, true);
                }
            }
            Pending::Flat { first, registers } => {
                self.pending[first..first + registers].iter_mut().for_each(|pending| *pending -= 1);
            }
            Pending::Store => {}
        }
    }

    pub fn issue_vector(&mut self, pending: Pending) -> Result<()> {
        self.reserve(&pending, false)?;
        self.vector_queue.push_back(pending);
        Ok(())
    }

    pub fn issue_local(&mut self, pending: Pending, access: Option<LdsAccess>) -> Result<()> {
        self.reserve(&pending, true)?;
        self.local_queue.push_back((pending, access));
        Ok(())
    }

    /// s_waitcnt vmcnt(n): global memory answers in order.
    pub fn wait_vector(&mut self, left: usize) {
        while self.vector_queue.len() > left {
            if let Some(pending) = self.vector_queue.pop_front() {
                self.commit(pending);
            }
        }
    }

    /// s_waitcnt lgkmcnt(n): LDS answers in order, scalar loads and flat instructions in any, so that only 0 says anything while one of
    /// these is under way.
    pub fn wait_local(&mut self, left: usize) {
        let of_any_order = |pending: &Pending| matches!(pending, Pending::Scalar { .. } | Pending::Flat { .. });
        if left > 0 && self.local_queue.iter().any(|(pending, _)| of_any_order(pending)) {
            return;
        }
        while self.local_queue.len() > left {
            if let Some((pending, _)) = self.local_queue.pop_front() {
                self.commit(pending);
            }
        }
    }

    /// LDS accesses that have not been waited for.
    pub fn unfinished_lds(&self) -> impl Iterator<Item = &LdsAccess> {
        self.local_queue.iter().filter_map(|(_, access)| access.as_ref())
    }
}
