//! Counter-based noise: Philox4x32-10 keyed by the seed, each coin used once, and the exponential race.
//!
//! The generator is that of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). The key is the seed (low word
//! first). Layout of the counters, frozen by golden vectors:
//!
//! | stream | counter | word |
//! |---|---|---|
//! | Race, RaceIndex | \[group / 4, position, stream, 0\] | group % 4 |
//! | RaceMember | \[id / 4, position, stream, 0\] | id % 4 |
//! | all others | \[node, step, stream, 0\] | 0 and 1 |
//!
//! The race gives each token id an Exp(1) variate that depends on seed, position and id alone. Ids come in groups of 64, always
//! full: the group's least is Exp(1) / 64 from the word of `Race`, it belongs to the member that the top six bits of the word of
//! `RaceIndex` name, and every other member has that plus an Exp(1) of its own from `RaceMember` (memorylessness). So one coin
//! bounds 64 scores.
//!
//! Everything here is integer arithmetic and a fixed sequence of f32 operations without fused multiply-add, so that every machine
//! gets the same bits.

/// Ids that share a least exponential.
pub const GROUP: usize = 64;

/// What a coin is for. The race is keyed by the position of the emitted token; all others by the step, i.e. the position of
/// the step's first emitted token, so that a coin below the point where a rule stopped never comes back in the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Stream {
    /// Least exponential of a group of 64 ids.
    Race = 0,
    /// Which member of the group has it.
    RaceIndex = 1,
    /// What the other members have more than the least.
    RaceMember = 2,
    /// A drafter's draws.
    Draft = 3,
    /// Acceptance tests.
    Accept = 4,
    /// Draws from a residual.
    Residual = 5,
    /// Draws after a fully accepted path.
    Bonus = 6,
}

impl Stream {
    /// Whether the stream belongs to the race, whose words are packed four to a counter.
    fn is_race(self) -> bool {
        matches!(self, Stream::Race | Stream::RaceIndex | Stream::RaceMember)
    }
}

/// Philox4x32-10.
#[inline(always)]
pub fn philox(counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    // In 64-bit lanes, of which only the low half counts: the vector unit's widening product reads and writes just these.
    let [mut c0, mut c1, mut c2, mut c3] = counter.map(u64::from);
    for _ in 0..10 {
        let a = 0xD251_1F53 * (c0 & 0xFFFF_FFFF);
        let b = 0xCD9E_8D57 * (c2 & 0xFFFF_FFFF);
        (c0, c1, c2, c3) = ((b >> 32) ^ c1 ^ u64::from(key[0]), b, (a >> 32) ^ c3 ^ u64::from(key[1]), a);
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    [c0 as u32, c1 as u32, c2 as u32, c3 as u32]
}

/// The noise of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coins {
    key: [u32; 2],
}

impl Coins {
    /// Noise of a seed.
    pub fn new(seed: u64) -> Self {
        Self { key: [seed as u32, (seed >> 32) as u32] }
    }

    /// The seed.
    pub fn seed(self) -> u64 {
        u64::from(self.key[0]) | u64::from(self.key[1]) << 32
    }

    /// The four words of a counter of a stream.
    #[inline(always)]
    pub(crate) fn words(self, stream: Stream, at: u32, counter: u32) -> [u32; 4] {
        philox([counter, at, stream as u32, 0], self.key)
    }

    /// The words of 16 counters from `first` on, in the order of a race stream's groups or ids: one group of 64 ids, or the coins of
    /// 64 groups. The lanes are independent, so that this is vector code, several times faster than 16 calls.
    #[inline(always)]
    pub(crate) fn words_of_64(self, stream: Stream, at: u32, first: u32) -> [u32; 64] {
        let mut lanes = [[0_u32; 16]; 4];
        for i in 0..16 {
            let words = self.words(stream, at, first + i as u32);
            for (lane, word) in lanes.iter_mut().zip(words) {
                lane[i] = word;
            }
        }
        let mut words = [0; 64];
        for i in 0..16 {
            words[4 * i] = lanes[0][i];
            words[4 * i + 1] = lanes[1][i];
            words[4 * i + 2] = lanes[2][i];
            words[4 * i + 3] = lanes[3][i];
        }
        words
    }

    /// One word. `at` is the position for the race's streams, where `index` is a group or an id, and the step for the others,
    /// where `index` is a node.
    #[inline(always)]
    pub fn word(self, stream: Stream, at: u32, index: u32) -> u32 {
        if stream.is_race() {
            self.words(stream, at, index / 4)[(index % 4) as usize]
        } else {
            self.words(stream, at, index)[0]
        }
    }

    /// A uniform in (0, 1): (the top 52 bits of words 0 (high) and 1 (low) + 0.5) * 2^-52, which f64 holds exactly, so it is never
    /// 0 or 1.
    pub fn uniform(self, step: u32, stream: Stream, index: u32) -> f64 {
        let [high, low, ..] = self.words(stream, step, index);
        let bits = (u64::from(high) << 32 | u64::from(low)) >> 12;
        (bits as f64 + 0.5) * (0.5_f64).powi(52)
    }

    /// The group's least exponential, and the member (0 to 63) that has it.
    #[inline(always)]
    pub fn group_least(self, position: u32, group: u32) -> (f32, u32) {
        (self.least(position, group), self.fastest(position, group))
    }

    /// The group's least exponential.
    #[inline(always)]
    pub(crate) fn least(self, position: u32, group: u32) -> f32 {
        exponential(self.word(Stream::Race, position, group)) * (1.0 / GROUP as f32)
    }

    /// The member of the group that has it.
    #[inline(always)]
    pub(crate) fn fastest(self, position: u32, group: u32) -> u32 {
        self.word(Stream::RaceIndex, position, group) >> 26
    }

    /// The Exp(1) variate of a token id at a position: the token drawn is the one with the least of these over its probability.
    pub fn exponential(self, position: u32, id: u32) -> f32 {
        let (least, member) = self.group_least(position, id / GROUP as u32);
        if id % GROUP as u32 == member {
            least
        } else {
            least + exponential(self.word(Stream::RaceMember, position, id))
        }
    }
}

/// ln 2 in two parts: the first (0.693359375) has nine significant bits, so that its product with an exponent is exact.
pub(crate) const LN_2_HIGH: f32 = f32::from_bits(0x3F31_8000);
pub(crate) const LN_2_LOW: f32 = -2.121_944_4e-4;
/// (ln(1 + f) - f + f^2 / 2) / f^3 on [-1/4, 1/2], minimax for the relative error of the logarithm (5e-9).
const LOG_POLYNOMIAL: [f32; 8] =
    [-0.045_074_467, 0.104_629_956, -0.131_611_96, 0.144_784, -0.166_473_12, 0.199_908_61, -0.250_000_95, 0.333_334_5];

/// `exponent * ln 2 + ln(1 + f)` for f in [-1/4, 1/2).
#[inline(always)]
fn log_parts(f: f32, exponent: f32) -> f32 {
    let mut p = LOG_POLYNOMIAL[0];
    for c in &LOG_POLYNOMIAL[1..] {
        p = p * f + c;
    }
    let square = f * f;
    let small = square * f * p - 0.5 * square + exponent * LN_2_LOW;
    (small + f) + exponent * LN_2_HIGH
}

/// v = 2^exponent * (1 + f) with 1 + f in [3/4, 3/2), for a positive normal v.
#[inline(always)]
fn split(v: f32) -> (f32, f32) {
    const THREE_QUARTERS: u32 = 0x3F40_0000;
    let bits = v.to_bits().wrapping_sub(THREE_QUARTERS);
    let exponent = (bits as i32) >> 23;
    (f32::from_bits((bits & 0x007F_FFFF) + THREE_QUARTERS) - 1.0, exponent as f32)
}

/// The natural logarithm of a positive normal f32, within two units in the last place: the same bits on every machine.
#[inline(always)]
pub fn ln(v: f32) -> f32 {
    let (f, exponent) = split(v);
    log_parts(f, exponent)
}

/// An Exp(1) variate from a word: -ln(1 - u) with u = (word + 0.5) / 2^32. Below u = 1/4 it is computed from u, above from 1 - u,
/// so that the small variates, which win races, are exact and none is 0 or infinite.
#[inline(always)]
pub fn exponential(word: u32) -> f32 {
    let small = word < 1 << 30;
    let v = uniform_of(if small { word } else { !word });
    let (f, exponent) = split(v);
    -log_parts(if small { -v } else { f }, if small { 0.0 } else { exponent })
}

/// (word + 0.5) / 2^32, rounded to f32; may be 1.
#[inline(always)]
pub(crate) fn uniform_of(word: u32) -> f32 {
    const SCALE: f32 = 1.0 / 4_294_967_296.0;
    (word as f32 + 0.5) * SCALE
}

/// The seed of a request that gave none: a stable hash, so that every rank derives the same. FNV-1a (64 bit) of the id's UTF-8
/// bytes, xor the mixed engine seed, mixed again; the mixer is splitmix64's finaliser.
pub fn derive_seed(engine_seed: u64, request_id: &str) -> u64 {
    fn mix(mut z: u64) -> u64 {
        z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    let hash = request_id
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3));
    mix(hash ^ mix(engine_seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of Random123 (kat_vectors, philox4x32 10).
    #[test]
    fn philox_matches_the_published_vectors() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    /// Units in the last place between an f32 and the exact value.
    fn ulps(got: f32, exact: f64) -> f64 {
        let near = exact as f32;
        let ulp = f64::from(f32::from_bits(near.abs().to_bits() + 1)) - f64::from(near.abs());
        (f64::from(got) - exact).abs() / ulp
    }

    #[test]
    fn ln_is_within_two_ulps_of_f64() {
        let mut worst: f64 = 0.0;
        for step in 0..4_000_000_u32 {
            let v = f32::from_bits(0x2E00_0000 + step * 80);
            worst = worst.max(ulps(ln(v), f64::from(v).ln()));
        }
        assert!(worst < 2.0, "{worst}");
        assert_eq!(ln(1.0), 0.0);
    }

    #[test]
    fn exponential_is_within_two_ulps_at_both_ends_and_never_zero() {
        let exact = |word: u32| {
            let u = (f64::from(word) + 0.5) / 4_294_967_296.0;
            -(-u).ln_1p()
        };
        let mut words: Vec<u32> = (0..2000).chain((0..2000).map(|i| u32::MAX - i)).collect();
        words.extend((0..1_000_000_u32).map(|i| i.wrapping_mul(4_294_967)));
        words.extend((0..4000).map(|i| (1 << 30) - 2000 + i));
        for word in words {
            let e = exponential(word);
            assert!(e > 0.0 && e.is_finite());
            // Rounding u costs at most half an ulp of u, hence of E, on the small side and as much on the other.
            let error = ulps(e, exact(word));
            assert!(error < 3.0, "{word}: {e} is off by {error} ulp");
        }
    }

    #[test]
    fn uniform_stays_inside_the_open_unit_interval() {
        assert!(0.5 * (0.5_f64).powi(52) > 0.0);
        assert!((((1_u64 << 52) - 1) as f64 + 0.5) * (0.5_f64).powi(52) < 1.0);
        let coins = Coins::new(7);
        let mean = (0..10_000).map(|i| coins.uniform(3, Stream::Accept, i)).sum::<f64>() / 1e4;
        // Standard error .0029: five of them, false alarm 6e-7.
        assert!((mean - 0.5).abs() < 0.0145, "{mean}");
    }

    #[test]
    fn exponential_agrees_with_its_parts() {
        let coins = Coins::new(0x0123_4567_89AB_CDEF);
        assert_eq!(coins.seed(), 0x0123_4567_89AB_CDEF);
        for group in 0..20 {
            let (least, member) = coins.group_least(9, group);
            for i in 0..64 {
                let e = coins.exponential(9, group * 64 + i);
                assert!(if i == member { e == least } else { e >= least });
            }
        }
    }
}
