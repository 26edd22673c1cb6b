//! Memory instructions: scalar loads, global loads and stores, LDS, and the cross-lane moves that go through the LDS unit.

use crate::decode::{Action, Env};
use crate::fault::{Fault, Kind, Result};
use crate::lds::Use;
use crate::operand::{Place, Source, Type, scalar, vector};
use crate::parse::{Operands, integer};
use crate::wave::{Lanes, LdsAccess, Pending, Wave};

fn unknown(name: &str, operands: &Operands) -> Fault {
    Kind::Unknown(format!("{name} {}", operands.list.join(", "))).into()
}

fn lanes(mask: u64) -> impl Iterator<Item = usize> {
    (0..64).filter(move |lane| mask >> lane & 1 == 1)
}

/// Refuses modifiers that would change what an instruction does.
fn only(name: &str, operands: &Operands, known: &[&str]) -> Result<()> {
    match operands.modifiers().find(|modifier| !known.contains(modifier)) {
        Some(modifier) => Err(Kind::Unknown(format!("{name} {modifier}")).into()),
        None => Ok(()),
    }
}

/// Registers of a width such as that of `dwordx4`.
fn words(suffix: &str) -> Option<usize> {
    match suffix.strip_prefix("dword")? {
        "" => Some(1),
        more => more.strip_prefix('x')?.parse().ok(),
    }
}

/// s_load_dword: `s[0:1], s[2:3], 0x10`, or a register as offset.
pub(crate) fn scalar_load(name: &str, operands: &Operands) -> Result<Action> {
    only(name, operands, &["offset", "glc"])?;
    let (Some(count), [d, base, offset]) = (name.strip_prefix("s_load_").and_then(words), operands.list.as_slice())
    else {
        return Err(unknown(name, operands));
    };
    let (first, base) = (scalar(d)?, scalar(base)?);
    let offset = Source::parse(offset, Type::Int)?;
    let more = operands.number("offset")?.unwrap_or(0);
    Ok(Box::new(move |wave, env| {
        let offset = match offset.place {
            Place::Constant(bits) => bits as i64,
            _ => i64::from(offset.uniform(wave)?),
        };
        let address = wave.mask(base)?.wrapping_add_signed(offset + more) & !3;
        let mut bytes = vec![0; 4 * count];
        env.memory.load(address, &mut bytes, true)?;
        let values = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        wave.issue_local(Pending::Scalar { first, values }, None)
    }))
}

/// How the bytes of memory meet the registers of a load or store.
#[derive(Debug, Clone, Copy)]
struct Width {
    bytes: usize,
    signed: bool,
    /// A 16-bit value in the lower or upper half of a register, the other half kept.
    half: Option<bool>,
}

impl Width {
    fn parse(text: &str) -> Option<Self> {
        let (text, half) = match text.strip_suffix("_d16_hi") {
            Some(text) => (text, Some(true)),
            None => text.strip_suffix("_d16").map_or((text, None), |text| (text, Some(false))),
        };
        let (bytes, signed) = match text {
            "ubyte" | "byte" | "u8" | "b8" => (1, false),
            "sbyte" | "i8" => (1, true),
            "ushort" | "short" | "u16" | "b16" => (2, false),
            "sshort" | "i16" => (2, true),
            "b32" => (4, false),
            "b64" => (8, false),
            "b96" => (12, false),
            "b128" => (16, false),
            _ => (4 * words(text)?, false),
        };
        Some(Self { bytes, signed, half })
    }

    fn registers(self) -> usize {
        self.bytes.div_ceil(4)
    }

    /// Bits of a register that a load leaves alone.
    fn keep(self) -> u32 {
        match self.half {
            None => 0,
            Some(true) => 0x0000_FFFF,
            Some(false) => 0xFFFF_0000,
        }
    }

    fn unpack(self, bytes: &[u8], lane: usize, out: &mut [Lanes]) {
        if self.bytes >= 4 {
            for (register, word) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                register[lane] = u32::from_le_bytes(*word);
            }
            return;
        }
        let raw = if self.bytes == 1 { u32::from(bytes[0]) } else { u32::from(bytes[0]) | u32::from(bytes[1]) << 8 };
        let shift = 32 - 8 * self.bytes as u32;
        let value = if self.signed { ((raw << shift) as i32 >> shift) as u32 } else { raw };
        out[0][lane] = if self.half == Some(true) { value << 16 } else { value };
    }

    fn pack(self, registers: &[&Lanes], lane: usize, out: &mut [u8]) {
        if self.bytes >= 4 {
            for (word, register) in out.as_chunks_mut::<4>().0.iter_mut().zip(registers) {
                *word = register[lane].to_le_bytes();
            }
            return;
        }
        let value = if self.half == Some(true) { registers[0][lane] >> 16 } else { registers[0][lane] };
        out[..self.bytes].copy_from_slice(&value.to_le_bytes()[..self.bytes]);
    }
}

/// `v[0:1], off offset:8` or `v0, s[2:3]`.
struct Address {
    vector: usize,
    scalar: Option<usize>,
    offset: i64,
}

impl Address {
    fn parse(address: &str, base: Option<&str>, offset: i64) -> Result<Self> {
        let scalar = base.filter(|base| *base != "off").map(scalar).transpose()?;
        Ok(Self { vector: vector(address)?, scalar, offset })
    }

    fn of(&self, wave: &Wave, mask: u64) -> Result<[u64; 64]> {
        let low = wave.vector_for(self.vector, mask, "an address")?;
        let mut out = [0; 64];
        if let Some(base) = self.scalar {
            let base = wave.mask(base)?;
            for lane in lanes(mask) {
                out[lane] = base.wrapping_add(u64::from(low[lane])).wrapping_add_signed(self.offset);
            }
        } else {
            let high = wave.vector_for(self.vector + 1, mask, "an address")?;
            for lane in lanes(mask) {
                out[lane] = (u64::from(low[lane]) | u64::from(high[lane]) << 32).wrapping_add_signed(self.offset);
            }
        }
        Ok(out)
    }
}

/// Whether each lane is the first to ask for its address.
fn distinct(addresses: &[u64; 64], mask: u64) -> u64 {
    let mut sorted: Vec<(u64, usize)> = lanes(mask).map(|lane| (addresses[lane], lane)).collect();
    if !sorted.is_sorted() {
        sorted.sort_unstable();
    }
    let mut first = 0;
    for (i, &(address, lane)) in sorted.iter().enumerate() {
        first |= u64::from(i == 0 || sorted[i - 1].0 != address) << lane;
    }
    first
}

/// global_load and global_store, flat_ likewise (no kernel here has flat pointers to LDS or scratch).
pub(crate) fn global(name: &str, operands: &Operands) -> Result<Action> {
    only(name, operands, &["offset", "sc0", "sc1", "nt", "glc", "slc"])?;
    let rest = name.strip_prefix("global_").or_else(|| name.strip_prefix("flat_")).unwrap_or(name);
    let offset = operands.number("offset")?.unwrap_or(0);
    let flat = name.starts_with("flat_");
    let list: Vec<&str> = operands.list.iter().map(String::as_str).collect();
    let parsed = rest.split_once('_').and_then(|(action, width)| Some((action, Width::parse(width)?)));
    match (parsed, list.as_slice()) {
        (Some(("load", width)), [d, address, base @ ..]) => {
            let (first, address) = (vector(d)?, Address::parse(address, base.first().copied(), offset)?);
            Ok(Box::new(move |wave, env| {
                let mask = wave.exec();
                let addresses = address.of(wave, mask)?;
                let counts = distinct(&addresses, mask);
                let mut values = vec![[0; 64]; width.registers()];
                let mut bytes = [0; 64];
                for lane in lanes(mask) {
                    let bytes = &mut bytes[..width.bytes];
                    let loaded = env.memory.load(addresses[lane], bytes, counts >> lane & 1 == 1);
                    loaded.map_err(|fault| fault.on_lane(lane))?;
                    width.unpack(bytes, lane, &mut values);
                }
                let registers = values.len();
                wave.issue_vector(Pending::Vector { first, values, mask, keep: width.keep() })?;
                if flat { wave.issue_local(Pending::Flat { first, registers }, None) } else { Ok(()) }
            }))
        }
        (Some(("store", width)), [address, data, base @ ..]) => {
            let (data, address) = (vector(data)?, Address::parse(address, base.first().copied(), offset)?);
            Ok(Box::new(move |wave, env| {
                let mask = wave.exec();
                let addresses = address.of(wave, mask)?;
                let registers = stored(wave, data, width, mask)?;
                let mut bytes = [0; 64];
                for lane in lanes(mask) {
                    width.pack(&registers, lane, &mut bytes);
                    let stored = env.memory.store(addresses[lane], &bytes[..width.bytes]);
                    stored.map_err(|fault| fault.on_lane(lane))?;
                }
                wave.issue_vector(Pending::Store)?;
                if flat { wave.issue_local(Pending::Flat { first: 0, registers: 0 }, None) } else { Ok(()) }
            }))
        }
        _ => Err(unknown(name, operands)),
    }
}

fn stored(wave: &Wave, first: usize, width: Width, mask: u64) -> Result<Vec<&Lanes>> {
    (first..first + width.registers()).map(|index| wave.vector_for(index, mask, "a store")).collect()
}

/// LDS instructions.
pub(crate) fn local(name: &str, operands: &Operands) -> Result<Action> {
    let list: Vec<&str> = operands.list.iter().map(String::as_str).collect();
    if let Some(action) = cross_lane(name, operands, &list)? {
        return Ok(action);
    }
    only(name, operands, &["offset", "offset0", "offset1"])?;
    if let Some(bits) = name.strip_prefix("ds_read_b64_tr_b") {
        return transposed(name, operands, bits.parse()?);
    }
    if let Some(action) = addition(name, operands, &list)? {
        return Ok(action);
    }
    let rest = name.strip_prefix("ds_").unwrap_or(name);
    let (action, width) = rest.split_once('_').ok_or_else(|| unknown(name, operands))?;
    let (action, scale) = action.strip_suffix("st64").map_or((action, 1), |action| (action, 64));
    let width = Width::parse(width).ok_or_else(|| unknown(name, operands))?;
    let number = |name: &str| operands.number(name).map(|value| value.unwrap_or(0) as u32);
    let offsets = if action.ends_with('2') {
        let step = scale * width.bytes as u32;
        vec![number("offset0")? * step, number("offset1")? * step]
    } else {
        vec![number("offset")?]
    };
    match (action.trim_end_matches('2'), list.as_slice()) {
        ("read", [d, address]) => {
            let (first, address) = (vector(d)?, vector(address)?);
            Ok(Box::new(move |wave, env| {
                let mask = wave.exec();
                let base = *wave.vector_for(address, mask, "an address")?;
                let mut values = Vec::with_capacity(offsets.len() * width.registers());
                let mut touched = Vec::with_capacity(64 * offsets.len());
                for &offset in &offsets {
                    let mut part = vec![[0; 64]; width.registers()];
                    let mut bytes = [0; 16];
                    let bytes = &mut bytes[..width.bytes];
                    for lane in lanes(mask) {
                        let at = base[lane].wrapping_add(offset);
                        env.lds.load(at as usize, bytes, wave.number).map_err(|fault| fault.on_lane(lane))?;
                        width.unpack(bytes, lane, &mut part);
                        touched.push((at, width.bytes as u8));
                    }
                    count(env, &base, offset, mask, width.bytes, false);
                    values.append(&mut part);
                }
                let pending = Pending::Vector { first, values, mask, keep: width.keep() };
                wave.issue_local(pending, Some(LdsAccess { addresses: touched, by: Use::Read }))
            }))
        }
        ("write", [address, data @ ..]) if data.len() == offsets.len() => {
            let address = vector(address)?;
            let data = data.iter().map(|data| vector(data)).collect::<Result<Vec<_>>>()?;
            Ok(Box::new(move |wave, env| {
                let mask = wave.exec();
                let base = *wave.vector_for(address, mask, "an address")?;
                let mut touched = Vec::with_capacity(64 * offsets.len());
                for (&offset, &data) in offsets.iter().zip(&data) {
                    let registers = stored(wave, data, width, mask)?;
                    let mut bytes = [0; 16];
                    for lane in lanes(mask) {
                        let at = base[lane].wrapping_add(offset);
                        width.pack(&registers, lane, &mut bytes);
                        let stored = env.lds.store(at as usize, &bytes[..width.bytes], wave.number);
                        stored.map_err(|fault| fault.on_lane(lane))?;
                        touched.push((at, width.bytes as u8));
                    }
                    count(env, &base, offset, mask, width.bytes, true);
                }
                wave.issue_local(Pending::Store, Some(LdsAccess { addresses: touched, by: Use::Write }))
            }))
        }
        _ => Err(unknown(name, operands)),
    }
}

/// Atomic additions to LDS: lanes one after the other.
fn addition(name: &str, operands: &Operands, list: &[&str]) -> Result<Option<Action>> {
    let (bytes, d, address, data) = match (name, list) {
        ("ds_add_u32", [address, data]) => (4, None, vector(address)?, vector(data)?),
        ("ds_add_u64", [address, data]) => (8, None, vector(address)?, vector(data)?),
        ("ds_add_rtn_u32", [d, address, data]) => (4, Some(vector(d)?), vector(address)?, vector(data)?),
        _ => return Ok(None),
    };
    let offset = operands.number("offset")?.unwrap_or(0) as u32;
    Ok(Some(Box::new(move |wave, env| {
        let mask = wave.exec();
        let base = *wave.vector_for(address, mask, "an address")?;
        let low = *wave.vector_for(data, mask, "a store")?;
        let high = if bytes == 8 { *wave.vector_for(data + 1, mask, "a store")? } else { [0; 64] };
        let (mut before, mut touched) = ([0; 64], Vec::new());
        for lane in lanes(mask) {
            let at = base[lane].wrapping_add(offset);
            let value = u64::from(low[lane]) | u64::from(high[lane]) << 32;
            let old = env.lds.add(at as usize, bytes, value, wave.number).map_err(|fault| fault.on_lane(lane))?;
            before[lane] = old as u32;
            touched.push((at, bytes as u8));
        }
        count(env, &base, offset, mask, bytes, true);
        let pending = match d {
            Some(first) => Pending::Vector { first, values: vec![before], mask, keep: 0 },
            None => Pending::Store,
        };
        wave.issue_local(pending, Some(LdsAccess { addresses: touched, by: Use::Addition }))
    })))
}

/// gfx950: 16 lanes read a matrix of 16 columns, 8 bytes each, row after row; each gets the elements of its column. What Triton's
/// products expect of it (`tests/triton.rs`).
fn transposed(name: &str, operands: &Operands, bits: usize) -> Result<Action> {
    let [d, address] = operands.list.as_slice() else { return Err(unknown(name, operands)) };
    let (first, address) = (vector(d)?, vector(address)?);
    let offset = operands.number("offset")?.unwrap_or(0) as u32;
    if bits != 8 && bits != 16 {
        return Err(unknown(name, operands));
    }
    Ok(Box::new(move |wave, env| {
        let mask = wave.exec();
        let base = *wave.vector_for(address, u64::MAX, "an address")?;
        let (mut rows, mut touched) = ([0_u64; 64], Vec::new());
        for lane in 0..64 {
            let (at, mut bytes) = (base[lane].wrapping_add(offset), [0; 8]);
            env.lds.load(at as usize, &mut bytes, wave.number).map_err(|fault| fault.on_lane(lane))?;
            rows[lane] = u64::from_le_bytes(bytes);
            touched.push((at, 8));
        }
        count(env, &base, offset, mask, 8, false);
        let each = 64 / bits;
        let (mut low, mut high) = ([0; 64], [0; 64]);
        for (lane, (low, high)) in low.iter_mut().zip(&mut high).enumerate() {
            let (group, column) = (lane & !15, lane & 15);
            let element = |row: usize| {
                let from = group + row * (16 / each) + column / each;
                rows[from] >> (column % each * bits) & ((1 << bits) - 1)
            };
            let whole = (0..each).fold(0, |whole, row| whole | element(row) << (row * bits));
            (*low, *high) = (whole as u32, (whole >> 32) as u32);
        }
        let pending = Pending::Vector { first, values: vec![low, high], mask, keep: 0 };
        wave.issue_local(pending, Some(LdsAccess { addresses: touched, by: Use::Read }))
    }))
}

fn count(env: &mut Env<'_>, base: &Lanes, offset: u32, mask: u64, bytes: usize, write: bool) {
    let mut addresses = [None; 64];
    for lane in lanes(mask) {
        addresses[lane] = Some(base[lane].wrapping_add(offset));
    }
    env.lds.count(&addresses, bytes, write);
}

/// ds_bpermute, ds_permute and ds_swizzle: lanes exchange values, no memory is touched.
fn cross_lane(name: &str, operands: &Operands, list: &[&str]) -> Result<Option<Action>> {
    let offset = match operands.text("offset") {
        None => 0,
        Some(text) => integer(text).map_err(|_| unknown(name, operands))? as u32,
    };
    let (d, a, data) = match (name, list) {
        ("ds_bpermute_b32" | "ds_permute_b32", [d, a, data]) => (vector(d)?, vector(a)?, vector(data)?),
        ("ds_swizzle_b32", [d, data]) => (vector(d)?, 0, vector(data)?),
        _ => return Ok(None),
    };
    let name = name.to_owned();
    Ok(Some(Box::new(move |wave, _| {
        let mask = wave.exec();
        let mut out = [0; 64];
        let from = *wave.vector_for(data, mask, "another lane")?;
        if name == "ds_swizzle_b32" {
            for lane in lanes(mask) {
                let source = swizzle(offset, lane);
                out[lane] = if mask >> source & 1 == 1 { from[source] } else { 0 };
            }
        } else {
            let select = *wave.vector_for(a, mask, "an address")?;
            for lane in lanes(mask) {
                let other = (select[lane].wrapping_add(offset) >> 2) as usize & 63;
                if name == "ds_permute_b32" {
                    out[other] = from[lane];
                } else {
                    out[lane] = if mask >> other & 1 == 1 { from[other] } else { 0 };
                }
            }
        }
        wave.issue_local(Pending::Vector { first: d, values: vec![out], mask, keep: 0 }, None)
    })))
}

/// The lane that a swizzle reads: a quad permutation, or and/or/xor masks within 32 lanes.
fn swizzle(pattern: u32, lane: usize) -> usize {
    if pattern >> 15 & 1 == 1 {
        return lane & !3 | (pattern >> (2 * (lane & 3))) as usize & 3;
    }
    let (and, or, xor) = (pattern & 31, pattern >> 5 & 31, pattern >> 10 & 31);
    lane & !31 | ((lane as u32 & 31 & and | or) ^ xor) as usize
}
