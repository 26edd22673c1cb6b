//! The ids that min_p, top_k and top_p leave. Since all three keep a head of one order (logit descending, id ascending), what is
//! left is described by where that order is cut.

use pulp::NullaryFnOnce;

use crate::coins::{GROUP, ln};
use crate::params::SamplingParams;
use crate::rows::mass::{LEAST_Y, mass, whole_masses};
use crate::rows::matrix::Element;
use crate::rows::prepared::{View, kept_first};
use crate::rows::simd::{Ahead, Simd};

/// Ids whose masses are computed together.
pub(crate) const QUAD: usize = 4 * GROUP;

/// A cut of the order, and the mass before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Support {
    /// Least scaled logit: that of min_p, or of any mass.
    pub least_y: f32,
    /// Least logit.
    pub threshold: f32,
    /// Greatest id whose logit equals `threshold`.
    pub last: u32,
    /// Mass of the ids kept; `None` until something needs it.
    pub total: Option<u64>,
}

impl Support {
    /// All ids that have mass.
    pub const ALL: Self = Self { least_y: LEAST_Y, threshold: f32::NEG_INFINITY, last: u32::MAX, total: None };

    /// All ids that are not -inf, however unlikely: what log-probabilities without filters are of.
    pub const UNFILTERED: Self = Self { least_y: f32::NEG_INFINITY, ..Self::ALL };

    /// Whether an id of logit `x`, scaled `y`, is kept.
    #[inline(always)]
    pub fn keeps(&self, x: f32, y: f32, id: u32) -> bool {
        (y >= self.least_y) & ((x > self.threshold) | ((x == self.threshold) & (id <= self.last)))
    }

    /// Whether a group may hold a kept id.
    #[inline(always)]
    pub fn reaches<E: Element>(&self, view: View<'_, E>, group: usize) -> bool {
        let max = view.prepared.maxima[group];
        view.scaled(max) >= self.least_y && max >= self.threshold
    }

    /// [`whole_masses`] of the ids of a quad of groups, 0 for those that are not kept and past the end of the row.
    #[inline(always)]
    pub fn masses<E: Element>(&self, view: View<'_, E>, quad: usize) -> [f32; QUAD] {
        let least = if self.least_y > LEAST_Y { self.least_y } else { LEAST_Y };
        let mut y = [f32::NEG_INFINITY; QUAD];
        let mut reached = false;
        let groups = quad * (QUAD / GROUP)..view.prepared.maxima.len();
        for (group, y) in groups.zip(y.as_chunks_mut::<GROUP>().0) {
            if self.reaches(view, group) {
                *y = self.kept(view, group);
                reached = true;
            }
        }
        if reached { whole_masses(least, &y) } else { [0.0; QUAD] }
    }

    /// The scaled logits of a group, -inf for those that the cut drops.
    #[inline(always)]
    fn kept<E: Element>(&self, view: View<'_, E>, group: usize) -> [f32; GROUP] {
        let x = view.group(group);
        let mut y = [0.0; GROUP];
        for (y, &x) in y.iter_mut().zip(&x) {
            *y = view.scaled(x);
        }
        if self.threshold > f32::NEG_INFINITY {
            for (i, (y, &x)) in y.iter_mut().zip(&x).enumerate() {
                let id = (group * GROUP + i) as u32;
                let kept = (x > self.threshold) | ((x == self.threshold) & (id <= self.last));
                *y = if kept { *y } else { f32::NEG_INFINITY };
            }
        }
        y
    }

    /// What min_p, top_k and top_p, in this order, leave of a row. top_p counts the mass that top_k left.
    pub fn of<E: Element>(simd: Simd, view: View<'_, E>, params: &SamplingParams) -> Self {
        let mut support = Self::ALL;
        if params.min_p > f32::MIN_POSITIVE {
            support.least_y = support.least_y.max(ln(params.min_p));
        }
        let vocab = view.row.len();
        let top_k = usize::try_from(params.top_k).ok().filter(|&k| k > 0 && k < vocab);
        if let Some(k) = top_k {
            let mut head = support.candidates(view, k);
            if head.len() >= k {
                head.select_nth_unstable_by(k - 1, kept_first);
                head.truncate(k);
                support.cut_after(head[k - 1]);
            }
            let total = simd.run(HeadMass { view, head: &head });
            support.total = Some(total);
            if params.top_p < 1.0 {
                support.cut_at_mass(simd, view, &mut head, 0, f64::from(params.top_p) * total as f64);
            }
        } else if params.top_p < 1.0 {
            let total = support.total(simd, view);
            support.total = Some(total);
            // Slice by slice down the order, until the slice that holds the cut; the last takes all that has mass.
            let needed = f64::from(params.top_p) * total as f64;
            let (mut slice, mut above, mut before) = (Vec::new(), f32::INFINITY, 0);
            for least_y in (1..=12).map(|y| -(y as f32)).chain([-14.0, -17.0, LEAST_Y]) {
                slice.clear();
                view.between(support.least_y.max(least_y), above, &mut slice);
                let mass = simd.run(HeadMass { view, head: &slice });
                if (before + mass) as f64 >= needed && mass > 0 {
                    support.cut_at_mass(simd, view, &mut slice, before, needed);
                    break;
                }
                (above, before) = (least_y, before + mass);
            }
        }
        support
    }

    fn cut_after(&mut self, (threshold, last): (f32, u32)) {
        (self.threshold, self.last) = (threshold, last);
    }

    /// The (logit, id) of a head of the kept ids that has at least `n`, if there are that many.
    fn candidates<E: Element>(&self, view: View<'_, E>, n: usize) -> Vec<(f32, u32)> {
        let mut head = view.head(n);
        head.retain(|&(x, _)| view.scaled(x) >= self.least_y);
        head
    }

    /// Keeps the shortest head that has the mass `needed`: an id stays while those before it have less. `slice` holds the ids among
    /// which the cut lies, `before` is the mass of those above it.
    fn cut_at_mass<E: Element>(
        &mut self,
        simd: Simd,
        view: View<'_, E>,
        slice: &mut [(f32, u32)],
        mut before: u64,
        needed: f64,
    ) {
        // Halve the range in which the cut lies; what is before it is kept, and its mass is too little.
        let (mut low, mut high) = (0, slice.len());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            slice[low..high].select_nth_unstable_by(middle - low, kept_first);
            let left = simd.run(HeadMass { view, head: &slice[low..middle] });
            if ((before + left) as f64) < needed {
                (low, before) = (middle, before + left);
            } else {
                high = middle;
            }
        }
        if let Some(&last) = slice.get(low) {
            self.cut_after(last);
            self.total = Some(before + mass(view.scaled(last.0)));
        }
    }

    /// The mass of the ids kept.
    pub fn total<E: Element>(&self, simd: Simd, view: View<'_, E>) -> u64 {
        self.total_while(simd, view, Ahead::NOTHING)
    }

    /// [`Support::total`], which computes more than it reads; meanwhile what is needed next comes from memory.
    pub fn total_while<E: Element>(&self, simd: Simd, view: View<'_, E>, ahead: Ahead) -> u64 {
        self.total.unwrap_or_else(|| simd.run(Total { view, support: *self, ahead }))
    }
}

/// The mass of a list of ids.
struct HeadMass<'a, E> {
    view: View<'a, E>,
    head: &'a [(f32, u32)],
}

impl<E: Element> NullaryFnOnce for HeadMass<'_, E> {
    type Output = u64;

    #[inline(always)]
    fn call(self) -> u64 {
        let mut sum = 0;
        for ids in self.head.chunks(GROUP) {
            let mut y = [f32::NEG_INFINITY; GROUP];
            for (y, &(x, _)) in y.iter_mut().zip(ids) {
                *y = self.view.scaled(x);
            }
            sum += group_sum(&whole_masses(LEAST_Y, &y));
        }
        sum
    }
}

struct Total<'a, E> {
    view: View<'a, E>,
    support: Support,
    ahead: Ahead,
}

impl<E: Element> NullaryFnOnce for Total<'_, E> {
    type Output = u64;

    #[inline(always)]
    fn call(mut self) -> u64 {
        // Masses are whole and at most 2^40: a lane holds the sum of 2^12 of them exactly.
        const FLUSH: usize = 128;
        let quads = self.view.row.len().div_ceil(QUAD);
        let mut sum = 0;
        for first in (0..quads).step_by(FLUSH) {
            let mut lanes = [0.0_f64; 16];
            for quad in first..quads.min(first + FLUSH) {
                // A row of as many ids is through by the end, in f32.
                self.ahead.fetch(QUAD * size_of::<f32>() / Ahead::LINE);
                for part in self.support.masses(self.view, quad).as_chunks::<16>().0 {
                    for (lane, &mass) in lanes.iter_mut().zip(part) {
                        *lane += f64::from(mass);
                    }
                }
            }
            sum += lanes.iter().map(|&lane| lane as u64).sum::<u64>();
        }
        sum
    }
}

/// The sum of a group's masses: below 2^47, so f64 adds whole numbers without rounding, in any order.
#[inline(always)]
fn group_sum(masses: &[f32; GROUP]) -> u64 {
    let mut sums = [0.0_f64; GROUP];
    for (sum, &mass) in sums.iter_mut().zip(masses) {
        *sum = f64::from(mass);
    }
    let mut width = GROUP / 2;
    while width > 0 {
        for i in 0..width {
            sums[i] += sums[i + width];
        }
        width /= 2;
    }
    sums[0] as u64
}
