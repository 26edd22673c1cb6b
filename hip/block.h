// Between the 16 waves of the workgroup that finishes a row.
#pragma once

#include "device.h"

namespace specverify {

constexpr u32 FINISH_THREADS = 1024;
constexpr u32 FINISH_WAVES = FINISH_THREADS / WAVE;

struct Block {
  u64 of_wave[FINISH_WAVES];

  // op over all threads; every thread gets it.
  template <typename Op> DEVICE_MEMBER u64 reduce(u64 x, Op op) {
    for (u32 mask = 1; mask < WAVE; mask *= 2) x = op(x, shuffle_xor(x, mask));
    if (lane_id() == 0) of_wave[wave_id()] = x;
    barrier();
    x = of_wave[lane_id() % FINISH_WAVES];
    for (u32 mask = 1; mask < FINISH_WAVES; mask *= 2) x = op(x, shuffle_xor(x, mask));
    barrier();
    return first_lane(x);
  }
  DEVICE_MEMBER u64 greatest(u64 x) {
    return reduce(x, [](u64 a, u64 b) { return a > b ? a : b; });
  }
  DEVICE_MEMBER u64 least(u64 x) {
    return reduce(x, [](u64 a, u64 b) { return a < b ? a : b; });
  }
  DEVICE_MEMBER u64 sum(u64 x) {
    return reduce(x, [](u64 a, u64 b) { return a + b; });
  }

  // The sum over the threads before this one.
  DEVICE_MEMBER u64 sum_before(u64 x) {
    u64 with = x;
    // Unrolled, the masks of all steps would be kept in scalar registers.
#pragma unroll 1
    for (u32 step = 1; step < WAVE; step *= 2) {
      const u64 other = shuffle(with, (lane_id() - step) % WAVE);
      with += lane_id() >= step ? other : 0;
    }
    if (lane_id() == WAVE - 1) of_wave[wave_id()] = with;
    barrier();
    const u32 wave = lane_id() % FINISH_WAVES;
    u64 before = wave < wave_id() ? of_wave[wave] : 0;
    for (u32 mask = 1; mask < FINISH_WAVES; mask *= 2) before += shuffle_xor(before, mask);
    barrier();
    return before + with - x;
  }
};

}  // namespace specverify
