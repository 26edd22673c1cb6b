//! The exponential race over a row: the token of id i finishes with score (x_i - max) / T - ln E_i, the greatest score wins, ties go
//! to the lower id. Groups whose bound does not reach the last place of the podium are not opened.

use pulp::NullaryFnOnce;

use crate::coins::{Coins, GROUP, Stream, exponential, ln, uniform_of};
use crate::rows::matrix::Element;
use crate::rows::maxima::greatest;
use crate::rows::prepared::View;
use crate::rows::support::Support;

/// Taken from logarithms that bound others: more than [`ln`] and the bound below can err.
const SLACK: f32 = 1e-5;
/// Members that may still win before a group is scored as a whole.
const FEW: u32 = 4;
/// Groups a stretch, of which one is looked at before the others.
const STRETCH: usize = 64;
/// Stretches looked at first.
const FIRST: usize = 8;

/// The best finishers so far, best first.
struct Podium {
    places: usize,
    finishers: Vec<(f32, u32)>,
}

impl Podium {
    /// The score to reach.
    #[inline(always)]
    fn bar(&self) -> f32 {
        if self.finishers.len() < self.places { f32::NEG_INFINITY } else { self.finishers[self.places - 1].0 }
    }

    #[inline(always)]
    fn offer(&mut self, score: f32, id: u32) {
        if score < self.bar() {
            return;
        }
        let before = |&(s, i): &(f32, u32)| s > score || (s == score && i < id);
        let place = self.finishers.partition_point(before);
        if place < self.places {
            self.finishers.truncate(self.places - 1);
            self.finishers.insert(place, (score, id));
        }
    }
}

/// A race for `places` places.
pub(crate) struct Race<'a, E> {
    /// The row.
    pub view: View<'a, E>,
    /// Who takes part.
    pub support: Support,
    /// The request's noise.
    pub coins: Coins,
    /// Position of the token drawn.
    pub position: u32,
    /// Finishers wanted.
    pub places: usize,
}

impl<E: Element> NullaryFnOnce for Race<'_, E> {
    type Output = Vec<(f32, u32)>;

    /// (score, id) of the first finishers, best first; fewer when the support is smaller.
    #[inline(always)]
    fn call(self) -> Vec<(f32, u32)> {
        let mut podium = Podium { places: self.places, finishers: Vec::with_capacity(self.places) };
        if self.places == 0 {
            return podium.finishers;
        }
        let mut bounds = self.bounds();
        // The greatest bounds of a few stretches set the bar high; few of the other groups reach it.
        let mut first: Vec<(f32, usize)> =
            bounds.chunks(STRETCH).enumerate().map(|(i, b)| greatest_at(b, i * STRETCH)).collect();
        first.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        for &(bound, group) in first.iter().take(self.places.max(FIRST)) {
            if bound >= podium.bar() && bound > f32::NEG_INFINITY {
                self.open(group, &mut podium);
            }
            bounds[group] = f32::NEG_INFINITY;
        }
        for (chunk, bounds) in bounds.chunks(16).enumerate() {
            let bar = podium.bar();
            let mut reach = false;
            for &bound in bounds {
                reach |= bound >= bar;
            }
            if !reach {
                continue;
            }
            for (i, &bound) in bounds.iter().enumerate() {
                if bound >= podium.bar() && bound > f32::NEG_INFINITY {
                    self.open(chunk * 16 + i, &mut podium);
                }
            }
        }
        podium.finishers
    }
}

/// The greatest of some bounds and its group, of which the first is `start`.
#[inline(always)]
fn greatest_at(bounds: &[f32], start: usize) -> (f32, usize) {
    let best = greatest(bounds);
    (best, start + bounds.iter().position(|&bound| bound == best).unwrap_or(0))
}

impl<E: Element> Race<'_, E> {
    /// A score that no member of a group exceeds, for every group. Since -ln(1 - u) >= u, and log2(1 + f) >= f, the bits of u
    /// themselves, read as an integer, bound the logarithm of the group's least exponential: no polynomial is needed.
    #[inline(always)]
    fn bounds(&self) -> Vec<f32> {
        /// Bits of 2^6: the least of 64 is an Exp(1) / 64.
        const ONE_TIMES_64: i32 = (127 + 6) << 23;
        const SCALE: f32 = std::f32::consts::LN_2 / 8_388_608.0;
        let maxima = &self.view.prepared.maxima;
        let mut bounds = vec![f32::NEG_INFINITY; maxima.len()];
        for (chunk, (bounds, maxima)) in bounds.chunks_mut(64).zip(maxima.chunks(64)).enumerate() {
            let words = self.coins.words_of_64(Stream::Race, self.position, (chunk * 16) as u32);
            for ((bound, &max), word) in bounds.iter_mut().zip(maxima).zip(words) {
                let log = (uniform_of(word).to_bits() as i32 - ONE_TIMES_64) as f32 * SCALE - SLACK;
                let y = self.view.scaled(max);
                let races = y >= self.support.least_y && max >= self.support.threshold;
                *bound = if races { y - log } else { f32::NEG_INFINITY };
            }
        }
        bounds
    }

    /// Offers the members of a group that may reach the podium.
    #[inline(always)]
    fn open(&self, group: usize, podium: &mut Podium) {
        let least = self.coins.least(self.position, group as u32);
        let least_log = ln(least);
        let bar = podium.bar();
        if self.view.scaled(self.view.prepared.maxima[group]) - (least_log - SLACK) < bar {
            return;
        }
        let x = self.view.group(group);
        let base = (group * GROUP) as u32;
        let mut y = [f32::NEG_INFINITY; GROUP];
        for i in 0..GROUP {
            let scaled = self.view.scaled(x[i]);
            let kept = self.support.keeps(x[i], scaled, base + i as u32);
            y[i] = if kept { scaled } else { f32::NEG_INFINITY };
        }
        let least_y = bar + (least_log - SLACK);
        let mut contenders = 0_u64;
        for (i, &y) in y.iter().enumerate() {
            contenders |= u64::from((y >= least_y) & (y > f32::NEG_INFINITY)) << i;
        }
        let fastest = self.coins.fastest(self.position, group as u32);
        if contenders.count_ones() > FEW {
            self.offer_all(base, &y, least, fastest, podium);
            return;
        }
        while contenders > 0 {
            let i = contenders.trailing_zeros();
            contenders &= contenders - 1;
            let log = if i == fastest {
                least_log
            } else {
                ln(least + exponential(self.coins.word(Stream::RaceMember, self.position, base + i)))
            };
            podium.offer(y[i as usize] - log, base + i);
        }
    }

    /// Scores a whole group at once.
    #[inline(always)]
    fn offer_all(&self, base: u32, y: &[f32; GROUP], least: f32, fastest: u32, podium: &mut Podium) {
        let words = self.coins.words_of_64(Stream::RaceMember, self.position, base / 4);
        let mut scores = [f32::NEG_INFINITY; GROUP];
        for i in 0..GROUP {
            let more = if i as u32 == fastest { 0.0 } else { exponential(words[i]) };
            scores[i] = y[i] - ln(least + more);
        }
        for (i, &score) in scores.iter().enumerate() {
            if score > f32::NEG_INFINITY && score >= podium.bar() {
                podium.offer(score, base + i as u32);
            }
        }
    }
}
