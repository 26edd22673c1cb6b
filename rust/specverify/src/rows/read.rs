//! Probabilities of a run of ids, in f64.

use pulp::NullaryFnOnce;

use crate::rows::matrix::Element;
use crate::rows::prepared::View;
use crate::rows::support::{QUAD, Support};

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
            let (quad, first) = (id / QUAD, id % QUAD);
            let n = (QUAD - first).min(out.len() - done);
            let masses = support.masses(view, quad);
            for (p, &mass) in out[done..done + n].iter_mut().zip(&masses[first..]) {
                *p = probability(mass, inverse_total);
            }
            done += n;
        }
    }
}

/// mass / total.
#[inline(always)]
pub(crate) fn probability(whole_mass: f32, inverse_total: f64) -> f64 {
    f64::from(whole_mass) * inverse_total
}
