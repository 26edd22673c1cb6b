//! The ids that min_p, top_k and top_p leave. Since all three keep a head of one order (logit descending, id ascending), what is
//! left is described by where that order is cut.

use pulp::NullaryFnOnce;

use crate::coins::{GROUP, ln};
use crate::params::SamplingParams;
use crate::rows::mass::{LEAST_Y, exp_bits, mass, mass_of_bits};
use crate::rows::matrix::Element;
use crate::rows::prepared::{View, kept_first};
use crate::rows::simd::Simd;

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

    /// Bits of exp(y) of a group's members, 0 for those that are not kept.
    #[inline(always)]
    pub fn exp_bits<E: Element>(&self, view: View<'_, E>, group: usize) -> [u32; GROUP] {
        let x = view.group(group);
        let mut bits = [0; GROUP];
        for (bits, &x) in bits.iter_mut().zip(&x) {
            let y = view.scaled(x);
            let e = exp_bits(y);
            *bits = if y >= self.least_y { e } else { 0 };
        }
        if self.threshold > f32::NEG_INFINITY {
            for (i, (bits, &x)) in bits.iter_mut().zip(&x).enumerate() {
                let id = (group * GROUP + i) as u32;
                let kept = (x > self.threshold) | ((x == self.threshold) & (id <= self.last));
                *bits = if kept { *bits } else { 0 };
            }
        }
        bits
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
            support.total = Some(head.iter().map(|&(x, _)| mass(view.scaled(x))).sum());
            if params.top_p < 1.0 {
                support.cut_at_mass(view, &mut head, f64::from(params.top_p));
            }
        } else if params.top_p < 1.0 {
            let total = support.total(simd, view);
            support.total = Some(total);
            // Widen the head until it holds enough; the last round takes all that has mass.
            let (mut head, mut above) = (Vec::new(), f32::INFINITY);
            for least_y in [-1.0, -2.0, -4.0, -6.0, -8.0, -10.0, -13.0, -17.0, LEAST_Y] {
                let least_y = support.least_y.max(least_y);
                view.between(least_y, above, &mut head);
                if support.cut_at_mass(view, &mut head, f64::from(params.top_p)) {
                    break;
                }
                above = least_y;
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

    /// Keeps the shortest head with `top_p` of the mass: an id stays while those before it have less. Returns whether `head`
    /// reaches that far.
    fn cut_at_mass<E: Element>(&mut self, view: View<'_, E>, head: &mut [(f32, u32)], top_p: f64) -> bool {
        let masses = |ids: &[(f32, u32)]| ids.iter().map(|&(x, _)| mass(view.scaled(x))).sum::<u64>();
        let needed = self.total.map_or(0.0, |total| top_p * total as f64);
        if (masses(head) as f64) < needed || head.is_empty() {
            return false;
        }
        // Halve the range in which the cut lies; what is before it is kept, and its mass is too little.
        let (mut low, mut high, mut before) = (0, head.len(), 0_u64);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            head[low..high].select_nth_unstable_by(middle - low, kept_first);
            let left = masses(&head[low..middle]);
            if ((before + left) as f64) < needed {
                (low, before) = (middle, before + left);
            } else {
                high = middle;
            }
        }
        self.cut_after(head[low]);
        self.total = Some(before + mass(view.scaled(head[low].0)));
        true
    }

    /// The mass of the ids kept.
    pub fn total<E: Element>(&self, simd: Simd, view: View<'_, E>) -> u64 {
        self.total.unwrap_or_else(|| simd.run(Total { view, support: *self }))
    }
}

struct Total<'a, E> {
    view: View<'a, E>,
    support: Support,
}

impl<E: Element> NullaryFnOnce for Total<'_, E> {
    type Output = u64;

    #[inline(always)]
    fn call(self) -> u64 {
        let mut sum = 0;
        for group in 0..self.view.prepared.maxima.len() {
            if self.support.reaches(self.view, group) {
                let bits = self.support.exp_bits(self.view, group);
                let mut masses = 0;
                for bits in bits {
                    masses += mass_of_bits(bits);
                }
                sum += masses;
            }
        }
        sum
    }
}
