//! A row that has been reached: its edits and the maxima of its groups. No copy of the row.

use crate::coins::GROUP;
use crate::error::RowFault;
use crate::rows::edits::Edits;
use crate::rows::matrix::{Element, load};
use crate::rows::maxima::{self, greatest, maxima};
use crate::rows::simd::Simd;

/// What is kept of a row that has been read once.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Changed logits.
    pub edits: Edits,
    /// Greatest edited logit of each group.
    pub maxima: Vec<f32>,
    /// Greatest edited logit of the row.
    pub max: f32,
    /// Its id; the lowest of equals.
    pub argmax: u32,
    /// 1 / T, rounded once; 1 at T = 0.
    pub inverse_temperature: f32,
}

impl Prepared {
    /// Reads a row once.
    pub fn new<E: Element>(simd: Simd, row: &[E], edits: Edits, temperature: f32) -> Result<Self, RowFault> {
        let mut prepared = Self {
            edits,
            maxima: vec![f32::NEG_INFINITY; maxima::groups(row.len())],
            max: f32::NEG_INFINITY,
            argmax: 0,
            inverse_temperature: if temperature > 0.0 { 1.0 / temperature } else { 1.0 },
        };
        maxima(simd, row, &mut prepared.maxima)?;
        if let Some(fault) = prepared.edits.fault() {
            return Err(fault);
        }
        if prepared.edits.only() {
            prepared.maxima.fill(f32::NEG_INFINITY);
        }
        let view = View { row, prepared: &prepared };
        let edited: Vec<_> = prepared.edits.groups().map(|g| (g, maxima::of_group(&view.group(g)))).collect();
        for (group, max) in edited {
            prepared.maxima[group] = max;
        }
        prepared.max = greatest(&prepared.maxima);
        if prepared.max == f32::NEG_INFINITY {
            return Err(RowFault::NoMass);
        }
        let holds_max = |x: &f32| *x == prepared.max;
        let group = prepared.maxima.iter().position(holds_max).unwrap_or(0);
        let members = View { row, prepared: &prepared }.group(group);
        prepared.argmax = (group * GROUP + members.iter().position(holds_max).unwrap_or(0)) as u32;
        Ok(prepared)
    }
}

/// A row's elements together with what is known of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a, E> {
    /// Raw logits.
    pub row: &'a [E],
    /// What is known.
    pub prepared: &'a Prepared,
}

impl<E: Element> View<'_, E> {
    /// The edited logits of a group; -inf past the end of the row.
    #[inline(always)]
    pub fn group(&self, group: usize) -> [f32; GROUP] {
        let edits = &self.prepared.edits;
        if edits.is_empty() {
            return load(self.row, group);
        }
        let mut x = if edits.only() { [f32::NEG_INFINITY; GROUP] } else { load(self.row, group) };
        for &(id, logit) in edits.of_group(group) {
            x[id as usize % GROUP] = logit;
        }
        x
    }

    /// The edited logit of an id.
    pub fn logit(&self, id: u32) -> f32 {
        let edits = &self.prepared.edits;
        match edits.of_group(id as usize / GROUP).iter().find(|&&(edited, _)| edited == id) {
            Some(&(_, x)) => x,
            None if edits.only() => f32::NEG_INFINITY,
            None => self.row[id as usize].f32(),
        }
    }

    /// (x - row maximum) / T.
    #[inline(always)]
    pub fn scaled(&self, x: f32) -> f32 {
        (x - self.prepared.max) * self.prepared.inverse_temperature
    }

    /// Adds the (logit, id) of scaled logits in `least..above`.
    pub fn between(&self, least: f32, above: f32, head: &mut Vec<(f32, u32)>) {
        for (group, _) in self.prepared.maxima.iter().enumerate().filter(|&(_, &max)| self.scaled(max) >= least) {
            for (i, x) in self.group(group).into_iter().enumerate() {
                let y = self.scaled(x);
                if (y >= least) & (y < above) {
                    head.push((x, (group * GROUP + i) as u32));
                }
            }
        }
    }

    /// The (logit, id) of at least the `n` greatest logits, and of all that equal the least of these: a head of the row in any
    /// order. `n` counts groups, so it is cheap as long as few groups reach so far.
    pub fn head(&self, n: usize) -> Vec<(f32, u32)> {
        let maxima = &self.prepared.maxima;
        let bound = match n.checked_sub(1) {
            Some(nth) if nth < maxima.len() => *maxima.to_vec().select_nth_unstable_by(nth, |a, b| b.total_cmp(a)).1,
            _ => f32::NEG_INFINITY,
        };
        let mut head = Vec::new();
        for (group, _) in maxima.iter().enumerate().filter(|&(_, &max)| max >= bound && max > f32::NEG_INFINITY) {
            for (i, x) in self.group(group).into_iter().enumerate() {
                if x >= bound && x > f32::NEG_INFINITY {
                    head.push((x, (group * GROUP + i) as u32));
                }
            }
        }
        head
    }
}

/// The order in which ids are kept: logit descending, id ascending.
#[inline(always)]
pub(crate) fn kept_first(a: &(f32, u32), b: &(f32, u32)) -> std::cmp::Ordering {
    // Logits are not NaN here, and -0 equals 0.
    b.0.partial_cmp(&a.0).unwrap_or(std::cmp::Ordering::Equal).then(a.1.cmp(&b.1))
}
