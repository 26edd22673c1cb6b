//! The waits of a kernel from its text alone: what may still be under way at each instruction, over every path of the control flow. A wave's
//! branches depend on data, and a run takes some of them; here each is taken both ways.

use std::collections::{BTreeMap, BTreeSet};

use crate::fault::{Fault, Kind, Result};
use crate::launch::Program;
use crate::operand::{Place, register};
use crate::parse::Line;
use crate::wave::{AGPR, SGPRS, VCC};

/// Something that may go wrong for want of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hazard {
    /// An instruction touches a register that a load may still be under way to.
    Register {
        /// Line of the instruction.
        line: usize,
        /// Line of the load.
        load: usize,
    },
    /// A wave may reach a barrier while one of its LDS accesses is under way, or a store that a load after the barrier may want.
    Barrier {
        /// Line of the barrier.
        line: usize,
        /// Line of the access.
        access: usize,
    },
}

/// Why a wait or barrier may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Redundant {
    /// On every path its counters are already at or below what it waits for.
    NothingLeft,
    /// On every path another wait comes before anybody needs what it waits for.
    Covered,
    /// A barrier in a workgroup of one wave.
    OneWave,
}

impl std::fmt::Display for Redundant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NothingLeft => "nothing is left to wait for on any path",
            Self::Covered => "another wait comes first on every path",
            Self::OneWave => "the workgroup is one wave",
        })
    }
}

/// A bit a register: vectors, accumulators, scalars.
type Registers = [u64; (2 * AGPR + SGPRS) / 64];

/// What an instruction is to the counters.
#[derive(Debug, Default, Clone)]
struct Effect {
    /// Registers that it reads or writes, but for those that it loads.
    touches: Registers,
    /// Registers that it loads.
    loads: Registers,
    vector: bool,
    /// Counted by lgkmcnt.
    local: bool,
    /// Answers of its kind come in any order: lgkmcnt says something of it only at 0.
    unordered: bool,
    /// It must end before a barrier: an LDS access or a store.
    ordered_by_barriers: bool,
    wait: Option<[Option<usize>; 2]>,
    barrier: bool,
    mask: Mask,
    /// Scalar pairs that hold the mask as it was before, or that the mask is restored from.
    saved: u64,
    /// Scalar pairs that it may write.
    written: u64,
    next: Vec<usize>,
}

/// What an instruction does with the execution mask.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Mask {
    #[default]
    Leaves,
    /// The lanes of a mask saved before run as well.
    Restores,
    /// Keeps the mask in a scalar pair, and changes it.
    Saves,
    Changes,
    /// Falls through where a lane runs, and goes to its label where none does.
    LeavesWhenNone,
    /// The other way round.
    LeavesWhenSome,
}

fn add(to: &mut Registers, name: &str) {
    let Some((place, count)) = register(name) else { return };
    let first = match place {
        Place::Vector(index) => index,
        Place::Scalar(index) => 2 * AGPR + index,
        _ => return,
    };
    (first..first + count).for_each(|bit| to[bit / 64] |= 1 << (bit % 64));
}

/// The counts of `vmcnt(6) lgkmcnt(0)`: vector memory, and LDS with scalar memory.
pub(crate) fn counts(rest: &str) -> Result<[Option<usize>; 2]> {
    let count = |name: &str| -> Result<Option<usize>> {
        let Some((_, after)) = rest.split_once(&format!("{name}(")) else { return Ok(None) };
        Ok(Some(after.split(')').next().unwrap_or("").parse()?))
    };
    let counts = [count("vmcnt")?, count("lgkmcnt")?];
    if counts == [None; 2] && count("expcnt")?.is_none() {
        return Err(Kind::Unknown(format!("s_waitcnt {rest}")).into());
    }
    Ok(counts)
}

/// Pairs of scalar registers that a name has a part in.
fn pairs(name: &str) -> u64 {
    match register(name) {
        Some((Place::Scalar(index), count)) => {
            (index..index + count).fold(0, |bits, index| bits | 1 << (index / 2 % 64))
        }
        _ => 0,
    }
}

fn meet(a: &Registers, b: &Registers) -> bool {
    a.iter().zip(b).any(|(a, b)| a & b != 0)
}

impl Effect {
    /// Loads of one kind answer in order: a register may be loaded twice without a wait between.
    fn answers_after(&self, other: &Self) -> bool {
        !self.unordered && !other.unordered && self.vector == other.vector
    }

    fn of(line: &Line, index: usize, target: impl Fn(&str) -> Option<usize>) -> Result<Self> {
        let name = line.mnemonic.as_str();
        let mut effect = Self { next: vec![index + 1], ..Self::default() };
        if name.contains("vcc") || name.starts_with("v_div_fmas") {
            effect.touches[(2 * AGPR + VCC) / 64] |= 3 << ((2 * AGPR + VCC) % 64);
        }
        let flat = name.starts_with("flat_");
        let store = name.contains("_store_");
        effect.vector = flat || name.starts_with("global_");
        effect.unordered = flat || name.starts_with("s_load_");
        effect.local = effect.unordered || name.starts_with("ds_");
        let crosses = ["ds_bpermute", "ds_permute", "ds_swizzle"].iter().any(|prefix| name.starts_with(prefix));
        effect.ordered_by_barriers = name.starts_with("ds_") && !crosses || effect.vector && store;
        let mut rest = line.rest.as_str();
        let silent = store || name.starts_with("ds_write") || name.starts_with("ds_add_u");
        if (effect.vector || effect.local) && !silent {
            let (loaded, others) = rest.split_once(',').unwrap_or((rest, ""));
            add(&mut effect.loads, loaded.trim());
            rest = others;
        }
        for word in rest.split(|c: char| !(c.is_ascii_alphanumeric() || "_[:]".contains(c))) {
            add(&mut effect.touches, word);
        }
        let mut operands = line.rest.split(',').map(str::trim);
        let (first, second) = (operands.next().unwrap_or(""), operands.next().unwrap_or(""));
        // Vector instructions may have a second result; loads have what they load.
        effect.written = pairs(first) | if name.starts_with("s_") { 0 } else { pairs(second) };
        effect.saved = match name {
            "s_or_b64" => pairs(operands.next().unwrap_or("")),
            _ => pairs(first),
        };
        effect.mask = match name {
            "s_cbranch_execz" => Mask::LeavesWhenNone,
            "s_cbranch_execnz" => Mask::LeavesWhenSome,
            "s_or_b64" if line.rest.starts_with("exec, exec,") => Mask::Restores,
            _ if name.ends_with("saveexec_b64") => Mask::Saves,
            _ if name.contains("saveexec") || name.contains("cmpx") || first.starts_with("exec") => Mask::Changes,
            _ => Mask::Leaves,
        };
        match name {
            "s_endpgm" => effect.next.clear(),
            "s_waitcnt" => effect.wait = Some(counts(&line.rest)?),
            "s_barrier" => effect.barrier = true,
            _ if name == "s_branch" || name.starts_with("s_cbranch") => {
                let to = target(line.rest.trim()).ok_or_else(|| Fault::malformed(format!("no label {}", line.rest)))?;
                if name == "s_branch" {
                    effect.next.clear();
                }
                effect.next.push(to);
            }
            _ if ["s_setpc", "s_swappc", "s_call", "s_getpc"].iter().any(|jump| name.starts_with(jump)) => {
                return Err(Kind::Unknown(name.to_owned()).into());
            }
            _ => {}
        }
        Ok(effect)
    }
}

/// Instructions that may be under way, each with the fewest others of its counter that were issued after it on some path.
type UnderWay = BTreeMap<usize, usize>;

/// What is known where paths meet.
#[derive(Debug, Default, Clone)]
struct State {
    /// By counter: vector memory, then LDS and scalar memory.
    under_way: [UnderWay; 2],
    /// Whether some lane runs, on all paths: the compiler guards code by branches that are then not taken.
    some_lane: bool,
    /// Scalar pairs that hold a mask with some lane.
    masks: u64,
}

/// No counter counts further.
const MANY: usize = 64;

fn merge(into: &mut State, from: &State) -> bool {
    let mut changed = into.some_lane && !from.some_lane || into.masks & !from.masks != 0;
    into.some_lane &= from.some_lane;
    into.masks &= from.masks;
    for (into, from) in into.under_way.iter_mut().zip(&from.under_way) {
        for (&op, &after) in from {
            let old = into.entry(op).or_insert(usize::MAX);
            changed |= after < *old;
            *old = after.min(*old);
        }
    }
    changed
}

/// The waits of one kernel.
struct Analysis<'a> {
    first: usize,
    lines: &'a [Line],
    effects: Vec<Effect>,
}

impl Analysis<'_> {
    /// What a wait ends, taken out of the state.
    fn wait(&self, state: &mut [UnderWay; 2], counts: [Option<usize>; 2]) -> bool {
        let before = state[0].len() + state[1].len();
        let unordered = state[1].keys().any(|&op| self.effects[op].unordered);
        for (i, left) in counts.into_iter().enumerate() {
            match left {
                None => {}
                Some(left) if i == 1 && unordered && left > 0 => {}
                Some(left) => state[i].retain(|_, after| *after < left),
            }
        }
        state[0].len() + state[1].len() < before
    }

    /// The state before each instruction that a path reaches, with one left out.
    fn states(&self, omitted: Option<usize>) -> Result<Vec<Option<State>>> {
        let mut states: Vec<Option<State>> = vec![None; self.effects.len()];
        states[0] = Some(State { some_lane: true, ..State::default() });
        let mut todo = vec![0];
        while let Some(at) = todo.pop() {
            let (mut state, effect) = (states[at].clone().unwrap_or_default(), &self.effects[at]);
            if omitted != Some(at) {
                if let Some(counts) = effect.wait {
                    self.wait(&mut state.under_way, counts);
                }
                for (ops, counted) in state.under_way.iter_mut().zip([effect.vector, effect.local]) {
                    if counted {
                        ops.values_mut().for_each(|after| *after = (*after + 1).min(MANY));
                        ops.insert(at, 0);
                    }
                }
            }
            state.masks &= !effect.written;
            if effect.mask == Mask::Saves && state.some_lane {
                state.masks |= effect.saved;
            }
            state.some_lane |= effect.mask == Mask::Restores && effect.saved & state.masks != 0;
            let some = state.some_lane;
            // Where lanes run after the fall-through, and after the jump.
            let (falls, jumps) = match effect.mask {
                Mask::Leaves | Mask::Restores => (Some(some), Some(some)),
                Mask::Changes | Mask::Saves => (Some(false), Some(false)),
                Mask::LeavesWhenNone => (Some(true), (!some).then_some(false)),
                Mask::LeavesWhenSome => ((!some).then_some(false), Some(true)),
            };
            for (&next, some_lane) in effect.next.iter().zip([falls, jumps]) {
                let Some(some_lane) = some_lane else { continue };
                state.some_lane = some_lane;
                let into =
                    states.get_mut(next).ok_or_else(|| Fault::malformed("a path runs past the end of the kernel"))?;
                let changed = match into {
                    Some(into) => merge(into, &state),
                    None => {
                        *into = Some(state.clone());
                        true
                    }
                };
                if changed {
                    todo.push(next);
                }
            }
        }
        Ok(states)
    }

    fn hazards(&self, omitted: Option<usize>) -> Result<BTreeSet<Hazard>> {
        let mut found = BTreeSet::new();
        for (at, state) in self.states(omitted)?.iter().enumerate() {
            let (Some(state), effect) = (state, &self.effects[at]) else { continue };
            let line = self.lines[at].number;
            for &op in state.under_way.iter().flat_map(UnderWay::keys) {
                let other = &self.effects[op];
                if meet(&other.loads, &effect.touches)
                    || meet(&other.loads, &effect.loads) && !effect.answers_after(other)
                {
                    found.insert(Hazard::Register { line, load: self.lines[op].number });
                }
                if effect.barrier && other.ordered_by_barriers && (other.local || self.loads_after(at)) {
                    found.insert(Hazard::Barrier { line, access: self.lines[op].number });
                }
            }
        }
        Ok(found)
    }

    /// Whether a path leads from an instruction to a load of vector memory. Scalar loads are of what no wave writes.
    fn loads_after(&self, at: usize) -> bool {
        let mut seen = vec![false; self.effects.len()];
        let mut todo = self.effects[at].next.clone();
        while let Some(at) = todo.pop() {
            let effect = &self.effects[at];
            if effect.vector && effect.loads != [0; _] {
                return true;
            }
            if !std::mem::replace(&mut seen[at], true) {
                todo.extend(&effect.next);
            }
        }
        false
    }

    fn at(&self, line: usize) -> Result<usize> {
        let index = self.lines.iter().position(|other| other.number == line);
        index.ok_or_else(|| Fault::malformed(format!("no instruction of the kernel in line {line}")))
    }
}

impl Program {
    fn analysis(&self, kernel: &str) -> Result<Analysis<'_>> {
        let kernel = self.kernel(kernel)?;
        let lines = &self.text().lines[kernel.entry..kernel.end];
        let target = |label: &str| self.text().labels.get(label)?.checked_sub(kernel.entry);
        let effects = lines.iter().enumerate().map(|(i, line)| Effect::of(line, i, target)).collect::<Result<_>>()?;
        Ok(Analysis { first: kernel.entry, lines, effects })
    }

    /// What may go wrong for want of a wait in a kernel, on any path: nothing, if the compiler did its work.
    ///
    /// # Errors
    /// [`Kind::Malformed`] when there is no such kernel, [`Kind::Unknown`] when it has jumps whose target the text does not say.
    pub fn hazards(&self, kernel: &str) -> Result<BTreeSet<Hazard>> {
        let analysis = self.analysis(kernel)?;
        analysis.hazards(self.omitted().and_then(|index| index.checked_sub(analysis.first)))
    }

    /// Proves that the wait or barrier of a line may be left out, if it can: without it no path has a [`Hazard`].
    ///
    /// # Errors
    /// As [`Program::hazards`], and when the line holds no instruction of the kernel.
    pub fn redundant(&self, kernel: &str, line: usize) -> Result<Option<Redundant>> {
        let analysis = self.analysis(kernel)?;
        let at = analysis.at(line)?;
        let effect = &analysis.effects[at];
        if effect.barrier {
            return Ok((self.metadata(kernel)?.max_workgroup <= 64).then_some(Redundant::OneWave));
        }
        let Some(counts) = effect.wait else { return Ok(None) };
        let before = analysis.states(None)?.swap_remove(at);
        if before.is_none_or(|mut state| !analysis.wait(&mut state.under_way, counts)) {
            return Ok(Some(Redundant::NothingLeft));
        }
        Ok(analysis.hazards(Some(at))?.is_empty().then_some(Redundant::Covered))
    }
}
