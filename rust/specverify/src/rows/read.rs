//! Probabilities of a run of ids, in f64.

use pulp::NullaryFnOnce;

use crate::coins::GROUP;
use crate::rows::mass::mass_of_bits;
use crate::rows::matrix::Element;
use crate::rows::prepared::View;
use crate::rows::support::Support;

/// Writes mass / total of ids `start..start + out.len()`, 0 outside the support.
pub(crate) struct Read<'a, E> {
    /// The row.
    pub view: View<'a, E>,
    /// Ids kept.
    pub support: Support,
    /// 1 / total mass.
    pub inverse_total: f64,
    /// First id.
    pub start: usize,
    /// Where to.
    pub out: &'a mut [f64],
}

impl<E: Element> NullaryFnOnce for Read<'_, E> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { view, support, inverse_total, start, out } = self;
        let mut done = 0;
        while done < out.len() {
            let id = start + done;
            let (group, first) = (id / GROUP, id % GROUP);
            let n = (GROUP - first).min(out.len() - done);
            let to = &mut out[done..done + n];
            done += n;
            if !support.reaches(view, group) {
                to.fill(0.0);
                continue;
            }
            let bits = support.exp_bits(view, group);
            let mut p = [0.0_f64; GROUP];
            for (p, &bits) in p.iter_mut().zip(&bits) {
                *p = probability(mass_of_bits(bits), inverse_total);
            }
            to.copy_from_slice(&p[first..first + n]);
        }
    }
}

/// mass / total.
#[inline(always)]
pub(crate) fn probability(mass: u64, inverse_total: f64) -> f64 {
    mass as i64 as f64 * inverse_total
}
