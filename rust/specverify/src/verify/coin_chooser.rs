//! The chooser of the product: each decision has a coin of its own.

use super::residual::sum;
use super::{BLOCK, Chooser, Weights};
use crate::coins::{Coins, Stream};
use crate::error::Result;

/// Decides by the coins of a request, keyed by (seed, step, stream, node); step is the position of the step's first emitted token.
///
/// Keyed by the position of each decision instead, a coin below the point where a rule stopped would come back in the next step
/// and bias it (`tests/multistep.rs` shows by how much).
#[derive(Debug, Clone, Copy)]
pub struct CoinChooser {
    coins: Coins,
    step: u32,
}

impl CoinChooser {
    /// The decisions of one step.
    pub fn new(coins: Coins, step: u32) -> Self {
        Self { coins, step }
    }

    fn uniform(&self, stream: Stream, node: u32) -> f64 {
        self.coins.uniform(self.step, stream, node)
    }
}

impl Chooser for CoinChooser {
    fn accept(&mut self, stream: Stream, node: u32, a: f64) -> bool {
        // Strict, and the uniform is neither 0 nor 1: a probability of 0 never passes and one of 1 always does.
        self.uniform(stream, node) < a
    }

    fn accept_below(
        &mut self,
        stream: Stream,
        node: u32,
        bound: f64,
        a: &mut dyn FnMut() -> Result<f64>,
    ) -> Result<bool> {
        let coin = self.uniform(stream, node);
        Ok(coin < bound && coin < a()?)
    }

    /// Inverse distribution function over the weights in id order, by way of the sums of blocks.
    fn pick(&mut self, stream: Stream, node: u32, vocab: usize, weights: &mut Weights<'_>) -> Option<u32> {
        let mut block = [0.0; BLOCK];
        let mut sums = Vec::with_capacity(vocab.div_ceil(BLOCK));
        for start in (0..vocab).step_by(BLOCK) {
            let block = &mut block[..BLOCK.min(vocab - start)];
            weights(start, block);
            sums.push(sum(block));
        }
        self.pick_summed(stream, node, vocab, sums, weights)
    }

    fn pick_summed(
        &mut self,
        stream: Stream,
        node: u32,
        vocab: usize,
        sums: Vec<f64>,
        weights: &mut Weights<'_>,
    ) -> Option<u32> {
        let mut aim = self.uniform(stream, node) * sums.iter().sum::<f64>();
        let start = BLOCK * hit(&sums, &mut aim)?;
        let mut block = [0.0; BLOCK];
        let block = &mut block[..BLOCK.min(vocab - start)];
        weights(start, block);
        hit(block, &mut aim).map(|i| (start + i) as u32)
    }
}

/// The index in whose share `aim` falls; `aim` becomes the distance into it. Rounding may carry it past the end: then it is the last
/// index with a weight. `None` when no weight is positive.
fn hit(weights: &[f64], aim: &mut f64) -> Option<usize> {
    let mut last = None;
    for (i, &weight) in weights.iter().enumerate() {
        if weight > 0.0 {
            last = Some(i);
            if *aim < weight {
                break;
            }
            *aim -= weight;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick(coins: u64, weights: &[f64]) -> Option<u32> {
        let mut chooser = CoinChooser::new(Coins::new(coins), 5);
        chooser.pick(Stream::Bonus, 0, weights.len(), &mut |start, out| {
            out.copy_from_slice(&weights[start..start + out.len()]);
        })
    }

    /// Cases 2 to 4 of public faults: u = 0, u = 1, and a fallback to the last index.
    #[test]
    fn weight_zero_is_never_picked_at_either_end_of_the_coin() {
        for (weights, only) in [([1.0, 0.0], 0), ([0.0, 1.0], 1)] {
            for total in [1e-300, 1.0] {
                for aim in [0.0, f64::MIN_POSITIVE, total, 2.0 * total] {
                    let scaled = weights.map(|w| w * total);
                    assert_eq!(hit(&scaled, &mut aim.clone()), Some(only), "{weights:?} {aim}");
                }
            }
            assert!((0..10_000).all(|seed| pick(seed, &weights) == Some(only as u32)));
        }
        assert_eq!(pick(0, &[0.0; 3]), None);
        assert_eq!(pick(0, &[]), None);
    }

    #[test]
    fn known_sums_change_no_pick() {
        let weights: Vec<f64> =
            (0..2 * BLOCK + 100).map(|i| f64::from((i as u32).wrapping_mul(2_654_435_761) >> 16)).collect();
        let sums: Vec<f64> = weights.chunks(BLOCK).map(sum).collect();
        for seed in 0..1000 {
            let mut chooser = CoinChooser::new(Coins::new(seed), 5);
            let picked = chooser.pick_summed(Stream::Bonus, 0, weights.len(), sums.clone(), &mut |start, out| {
                out.copy_from_slice(&weights[start..start + out.len()]);
            });
            assert_eq!(picked, pick(seed, &weights));
        }
    }

    #[test]
    fn probability_zero_is_never_accepted_and_one_always() {
        for seed in 0..100_000 {
            let mut chooser = CoinChooser::new(Coins::new(seed), 0);
            assert!(!chooser.accept(Stream::Accept, 0, 0.0));
            assert!(chooser.accept(Stream::Accept, 0, 1.0));
        }
    }

    #[test]
    fn a_bound_changes_no_decision() {
        for seed in 0..10_000 {
            let mut chooser = CoinChooser::new(Coins::new(seed), 0);
            let plain = chooser.accept(Stream::Accept, 3, 0.3);
            assert_eq!(chooser.accept_below(Stream::Accept, 3, 0.5, &mut || Ok(0.3)), Ok(plain));
        }
    }

    /// Chi-square of 60,000 draws over weights that span two blocks: 7 degrees of freedom, threshold 45 (false alarm 1.4e-7); a share
    /// off by 5 % of itself is found with power > .999.
    #[test]
    fn picks_follow_the_weights_across_blocks() {
        let mut weights = vec![0.0; BLOCK + 500];
        let at = [0, 1, 700, BLOCK - 1, BLOCK, BLOCK + 1, BLOCK + 300, BLOCK + 499];
        let shares = [0.05, 0.2, 0.1, 0.15, 0.1, 0.2, 0.12, 0.08];
        for (&i, share) in at.iter().zip(shares) {
            weights[i] = 3.0 * share;
        }
        let draws = 60_000;
        let mut counts = [0_u32; 8];
        for seed in 0..draws {
            let token = pick(seed, &weights).unwrap() as usize;
            counts[at.iter().position(|&i| i == token).unwrap()] += 1;
        }
        let expected = |share: f64| share * draws as f64;
        let chi2: f64 =
            counts.iter().zip(shares).map(|(&n, s)| (f64::from(n) - expected(s)).powi(2) / expected(s)).sum();
        assert!(chi2 < 45.0, "{chi2}");
    }
}
