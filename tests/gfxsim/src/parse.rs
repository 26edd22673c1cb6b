//! Assembly text as clang prints it (`-S`): instructions with their lines, labels, and what the compiler says of each kernel.

use std::collections::HashMap;

use crate::fault::{Fault, Result};

/// One instruction as text.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub mnemonic: String,
    /// Operands and modifiers.
    pub rest: String,
    /// Line of the text, from 1.
    pub number: usize,
}

/// What the compiler says of a kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Architectural vector registers.
    pub vgprs: u32,
    /// Accumulation registers.
    pub agprs: u32,
    /// Scalar registers.
    pub sgprs: u32,
    /// Spilled vector registers.
    pub vgpr_spills: u32,
    /// Spilled scalar registers.
    pub sgpr_spills: u32,
    /// Static LDS, in bytes.
    pub lds: u32,
    /// Scratch a lane, in bytes.
    pub scratch: u32,
    /// Size of the arguments, in bytes.
    pub kernarg: u32,
    /// Largest workgroup.
    pub max_workgroup: u32,
    /// Waves a SIMD, by registers and LDS.
    pub occupancy: u32,
    /// Offset and size of each argument that the programmer wrote.
    pub arguments: Vec<(u32, u32)>,
}

/// A kernel of the text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kernel {
    pub entry: usize,
    /// Index after the last instruction.
    pub end: usize,
    directives: HashMap<String, i64>,
    pub metadata: Metadata,
}

impl Kernel {
    /// A number of the kernel descriptor, 0 where it is not given.
    pub fn directive(&self, name: &str) -> i64 {
        self.directives.get(name).copied().unwrap_or(0)
    }
}

/// A whole text.
#[derive(Debug, Default)]
pub(crate) struct Text {
    pub arch: String,
    pub lines: Vec<Line>,
    pub labels: HashMap<String, usize>,
    pub kernels: HashMap<String, Kernel>,
}

impl Text {
    pub fn parse(text: &str) -> Result<Self> {
        let mut found = Self::default();
        let (mut current, mut last): (Option<String>, String) = (None, String::new());
        let mut yaml = false;
        let (mut blocks, mut block): (Vec<Vec<&str>>, Vec<&str>) = (Vec::new(), Vec::new());
        for (index, full) in text.lines().enumerate() {
            if yaml {
                if full.starts_with("  - ") || full.starts_with("amdhsa.target") {
                    blocks.push(std::mem::take(&mut block));
                }
                block.push(full);
                yaml = full.trim() != ".end_amdgpu_metadata";
                continue;
            }
            if let Some(occupancy) = full.trim().strip_prefix("; Occupancy: ") {
                if let Some(kernel) = found.kernels.get_mut(&last) {
                    kernel.metadata.occupancy = occupancy.trim().parse()?;
                }
                continue;
            }
            let mut line = full.split(';').next().unwrap_or("").split("//").next().unwrap_or("").trim();
            let of_label = |c: char| c.is_ascii_alphanumeric() || "._$".contains(c);
            if let Some((label, after)) = line.split_once(':')
                && !label.is_empty()
                && label.chars().all(of_label)
            {
                found.labels.insert(label.to_owned(), found.lines.len());
                line = after.trim();
            }
            if let Some(name) = line.strip_prefix(".amdhsa_kernel ") {
                let entry =
                    *found.labels.get(name).ok_or_else(|| Fault::malformed(format!("no label of kernel {name}")))?;
                found.kernels.insert(name.to_owned(), Kernel { entry, end: found.lines.len(), ..Kernel::default() });
                (current, last) = (Some(name.to_owned()), name.to_owned());
            } else if line == ".end_amdhsa_kernel" {
                current = None;
            } else if line == ".amdgpu_metadata" {
                yaml = true;
            } else if let Some(target) = line.strip_prefix(".amdgcn_target ") {
                let target = target.trim_matches('"');
                let arch = target.rsplit('-').next().unwrap_or(target);
                arch.split(':').next().unwrap_or(arch).clone_into(&mut found.arch);
            } else if let (Some(name), Some(directive)) = (&current, line.strip_prefix(".amdhsa_")) {
                if let Some((key, value)) = directive.split_once(char::is_whitespace)
                    && let (Ok(value), Some(kernel)) = (value.trim().parse(), found.kernels.get_mut(name))
                {
                    kernel.directives.insert(key.to_owned(), value);
                }
            } else if !line.is_empty() && !line.starts_with('.') {
                let (mnemonic, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
                found.lines.push(Line {
                    mnemonic: mnemonic.to_owned(),
                    rest: rest.trim().to_owned(),
                    number: index + 1,
                });
            }
        }
        blocks.push(block);
        for block in &blocks {
            found.describe(block)?;
        }
        Ok(found)
    }

    /// Reads one kernel's entry of the metadata.
    fn describe(&mut self, block: &[&str]) -> Result<()> {
        let mut values = HashMap::new();
        let mut arguments = Vec::new();
        for line in block {
            let indent = line.len() - line.trim_start_matches([' ', '-']).len();
            let Some((key, value)) = line.trim_start_matches([' ', '-']).split_once(':') else { continue };
            let (key, value) = (key.trim(), value.trim());
            if indent <= 4 {
                values.insert(key, value);
            } else if key == ".offset" {
                arguments.push((value.parse()?, 0));
            } else if let (".size", Some(last)) = (key, arguments.last_mut()) {
                last.1 = value.parse()?;
            } else if key == ".value_kind" && value.starts_with("hidden") {
                arguments.pop();
            }
        }
        let Some(kernel) = values.get(".name").and_then(|name| self.kernels.get_mut(*name)) else { return Ok(()) };
        let number = |key: &str| -> Result<u32> { Ok(values.get(key).map_or(Ok(0), |value| value.parse())?) };
        kernel.metadata = Metadata {
            vgprs: number(".vgpr_count")?,
            agprs: number(".agpr_count")?,
            sgprs: number(".sgpr_count")?,
            vgpr_spills: number(".vgpr_spill_count")?,
            sgpr_spills: number(".sgpr_spill_count")?,
            lds: number(".group_segment_fixed_size")?,
            scratch: number(".private_segment_fixed_size")?,
            kernarg: number(".kernarg_segment_size")?,
            max_workgroup: number(".max_flat_workgroup_size")?,
            occupancy: kernel.metadata.occupancy,
            arguments,
        };
        Ok(())
    }
}

/// Operands, and the modifiers that follow the last of them.
#[derive(Debug, Default)]
pub(crate) struct Operands {
    pub list: Vec<String>,
    modifiers: HashMap<String, String>,
}

impl Operands {
    pub fn parse(rest: &str) -> Self {
        let (mut parts, mut depth, mut bars, mut current) = (Vec::new(), 0_i32, false, String::new());
        for c in rest.chars() {
            depth += i32::from("[(".contains(c)) - i32::from("])".contains(c));
            bars ^= c == '|';
            if c == ',' && depth == 0 && !bars {
                parts.push(std::mem::take(&mut current));
            } else {
                current.push(c);
            }
        }
        parts.push(current);
        let mut found = Self::default();
        for part in parts {
            let mut words = part.split_whitespace();
            if let Some(first) = words.next() {
                if found.list.is_empty() && first.contains(':') && !first.contains('[') {
                    found.modify(first);
                } else {
                    found.list.push(first.to_owned());
                }
            }
            words.for_each(|word| found.modify(word));
        }
        found
    }

    fn modify(&mut self, word: &str) {
        let (key, value) = word.split_once(':').unwrap_or((word, ""));
        self.modifiers.insert(key.to_owned(), value.to_owned());
    }

    pub fn has(&self, name: &str) -> bool {
        self.modifiers.contains_key(name)
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.modifiers.get(name).map(String::as_str)
    }

    /// A number such as that of `offset:64`.
    pub fn number(&self, name: &str) -> Result<Option<i64>> {
        self.text(name).map(integer).transpose()
    }

    /// A list such as that of `op_sel_hi:[1,0,1]`.
    pub fn numbers(&self, name: &str) -> Result<Option<Vec<i64>>> {
        let list = |text: &str| text.trim_matches(['[', ']']).split(',').map(|value| integer(value.trim())).collect();
        self.text(name).map(list).transpose()
    }

    /// The names of all modifiers.
    pub fn modifiers(&self) -> impl Iterator<Item = &str> {
        self.modifiers.keys().map(String::as_str)
    }
}

/// A decimal or hexadecimal integer.
pub(crate) fn integer(text: &str) -> Result<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16)? as i64,
        None => digits.parse()?,
    };
    Ok(if negative { value.wrapping_neg() } else { value })
}
