//! Counter-based noise: Philox4x32-10 keyed by the seed, each coin used once, and the exponential race.

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
