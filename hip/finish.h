// The race over a row whose group maxima are known, as rows/race.rs of the crate: score (x - max) / T - ln E, the greatest wins, ties go
// to the lower id. The least exponential of a group bounds the scores of its 64 members, so that few groups are read again.
#pragma once

#include "block.h"
#include "cut.h"

namespace specverify {

// Taken from logarithms that bound others: more than ln can err.
constexpr f32 SLACK = 1e-5f;

// In LDS.
struct Finish {
  Block block;
  u64 list[FINISH_WAVES * WAVE];
};

// The maxima of the four groups that a thread looks after, -inf past the last.
struct Maxima {
  f32 of[4];
  DEVICE_MEMBER Maxima(const f32* maxima, u32 groups) {
    for (u32 i = 0; i < 4; i++) {
      const u32 group = 4 * thread_id() + i;
      of[i] = group < groups ? maxima[group] : -infinity();
    }
  }
};

DEVICE f32 score_of(u64 entry) { return entry ? value_of(u32(entry >> 32)) : -infinity(); }
DEVICE u32 id_of(u64 entry) { return ~u32(entry); }

// Who takes part.
template <typename T> struct Field {
  const Row<T>& row;
  Cut cut;
  f32 inverse_temperature;
  Coins coins;
  bool noisy;  // false: the score is the logit
  bool raw;    // logits as they came

  DEVICE_MEMBER f32 scaled(f32 x) const { return (x - cut.max) * inverse_temperature; }

  // A score that no member of the thread's four groups exceeds.
  DEVICE_MEMBER void bounds(const Maxima& maxima, f32 (&bound)[4]) const {
    u32x4 words = {};
    if (noisy) words = coins.words(RACE, thread_id());
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
      const f32 most = maxima.of[i], y = scaled(most);
      const f32 best = noisy ? y - (ln(least_of(words[i])) - SLACK) : most;
      bound[i] = cut.reaches(most, y) ? best : -infinity();
    }
  }

  // The members of a group, one a lane: order_of(score) << 32 | ~id, 0 for those that take no part.
  DEVICE_MEMBER u64 entries(u32 group) const {
    const u32 id = group * GROUP + lane_id();
    const f32 x = raw ? row.raw(group) : row.group(group), y = scaled(x);
    f32 score = x;
    if (noisy) {
      const f32 least = least_of(coins.word(RACE, group));
      const u32 fastest = coins.word(RACE_INDEX, group) >> 26;
      const f32 more = exponential(coins.word(RACE_MEMBER, id));
      score = y - ln(lane_id() == fastest ? least : least + more);
    }
    return x > -infinity() && cut.keeps(x, y, id) ? u64(order_of(score)) << 32 | ~id : 0;
  }
};

// Keeps the best entry; each lane its own until the end.
struct Winner {
  u64 best = 0;

  DEVICE_MEMBER void add(u64 entry) { best = max(best, entry); }
  DEVICE_MEMBER f32 bar() const { return first_lane(wave_max(score_of(best))); }
  // Over all waves.
  DEVICE_MEMBER Winner merged(Finish& s) const { return Winner{s.block.greatest(best)}; }
  DEVICE_MEMBER u32 first_groups() const { return 1; }
};

// Keeps the 64 best entries, one a lane, the best in lane 0.
struct Podium {
  u32 places;
  u64 entry = 0;

  // Lanes in descending order if they rise and then fall (or the reverse).
  static DEVICE_MEMBER u64 settle(u64 x) {
#pragma unroll 1
    for (u32 step = WAVE / 2; step > 0; step /= 2) x = keep(x, step, !(lane_id() & step));
    return x;
  }
  // The greater or the smaller of this lane's and its partner's.
  static DEVICE_MEMBER u64 keep(u64 x, u32 step, bool greater) {
    const u64 other = shuffle_xor(x, step);
    return (x > other) == greater ? x : other;
  }
  // With 64 others in descending order: the greatest 64 of both.
  DEVICE_MEMBER void merge(u64 others) { entry = settle(max(entry, shuffle(others, WAVE - 1 - lane_id()))); }

  DEVICE_MEMBER void add(u64 other) {
    const u64 last = shuffle(entry, places - 1);
    if (!ballot(other > last)) return;
    // Unrolled, the masks of all steps would be kept in scalar registers, of which there are not so many.
#pragma unroll 1
    for (u32 run = 2; run <= WAVE; run *= 2) {
#pragma unroll 1
      for (u32 step = run / 2; step > 0; step /= 2) other = keep(other, step, !(lane_id() & step) == !(lane_id() & run));
    }
    merge(other);
  }
  DEVICE_MEMBER f32 bar() const { return first_lane(score_of(shuffle(entry, places - 1))); }
  // A reduction over the block comes between two of these, and keeps readings and writings of the list apart.
  DEVICE_MEMBER Podium merged(Finish& s) const {
    Podium all = *this;
    for (u32 distance = 1; distance < FINISH_WAVES; distance *= 2) {
      if (wave_id() % (2 * distance) == distance) s.list[wave_id() * WAVE + lane_id()] = all.entry;
      barrier();
      if (wave_id() % (2 * distance) == 0) all.merge(s.list[(wave_id() + distance) * WAVE + lane_id()]);
    }
    if (wave_id() == 0) s.list[lane_id()] = all.entry;
    barrier();
    all.entry = s.list[lane_id()];
    return all;
  }
  DEVICE_MEMBER u32 first_groups() const { return (places + FINISH_WAVES - 1) / FINISH_WAVES; }
};

// Runs a race to its end. Every wave opens its groups by descending bound: first one (or as many as the podium needs), then rounds of
// twice as many, each with the bar of all waves, until no bound reaches it.
template <typename T, typename Best> DEVICE Best race(const Field<T>& field, const Maxima& maxima, Finish& s, Best best) {
  f32 bound[4];
  field.bounds(maxima, bound);
  f32 bar = -infinity();
  // Whether a group may be left that reaches the bar.
  const auto open = [&](u32 most) {
    for (u32 opened = 0; opened < most; opened++) {
      f32 mine = max(max(bound[0], bound[1]), max(bound[2], bound[3]));
      const f32 greatest = first_lane(wave_max(mine));
      if (greatest == -infinity() || greatest < bar) return false;
      const u32 lane = __builtin_ctzll(ballot(mine == greatest));
      u32 which = 3;
#pragma unroll
      for (u32 i = 3; i > 0; i--) which = bound[i - 1] == mine ? i - 1 : which;
      const u32 group = read_lane(4 * thread_id() + which, lane);
#pragma unroll
      for (u32 i = 0; i < 4; i++) bound[i] = lane_id() == lane && which == i ? -infinity() : bound[i];
      best.add(field.entries(group));
      bar = max(bar, best.bar());
    }
    return true;
  };
  open(best.first_groups());
  bar = max(bar, best.merged(s).bar());
  // The bar of a wave's own best is one that all must reach.
  for (u32 most = 1; s.block.greatest(open(most)) != 0; most *= 2) {
    bar = value_of(u32(s.block.greatest(order_of(bar))));
  }
  return best.merged(s);
}

}  // namespace specverify
