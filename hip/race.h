// The noise of the exponential race and the masses of top-p: the Rust crate's operations (coins.rs, rows/mass.rs) in the same order, so
// that every bit is the same. Nothing is contracted here or in what includes this file, whatever the compile line says.
#pragma once

#include "device.h"

#pragma clang fp contract(off)

namespace specverify {

// Ids that share a least exponential.
constexpr u32 GROUP = 64;
enum Stream : u32 { RACE = 0, RACE_INDEX = 1, RACE_MEMBER = 2 };

// Philox4x32-10 (Salmon et al., SC 2011).
DEVICE u32x4 philox(u32x4 c, u32 key_low, u32 key_high) {
#pragma unroll
  for (int round = 0; round < 10; round++) {
    const u64 a = u64(0xD2511F53u) * c.x, b = u64(0xCD9E8D57u) * c.z;
    c = u32x4{u32(b >> 32) ^ c.y ^ key_low, u32(b), u32(a >> 32) ^ c.w ^ key_high, u32(a)};
    key_low += 0x9E3779B9u;
    key_high += 0xBB67AE85u;
  }
  return c;
}

// The noise of one request at one position.
struct Coins {
  u32 key_low, key_high, position;

  // The words of indices 4 * counter .. 4 * counter + 3.
  DEVICE_MEMBER u32x4 words(Stream stream, u32 counter) const {
    return philox(u32x4{counter, position, u32(stream), 0}, key_low, key_high);
  }
  DEVICE_MEMBER u32 word(Stream stream, u32 index) const {
    const u32x4 w = words(stream, index / 4);
    const u32 low = index & 1 ? w.y : w.x, high = index & 1 ? w.w : w.z;
    return index & 2 ? high : low;
  }
};

// ln 2 in two parts: the product of the first with an exponent is exact.
constexpr f32 LN_2_HIGH = 0.693359375f;
constexpr f32 LN_2_LOW = -2.1219444e-4f;

// exponent * ln 2 + ln(1 + f) for f in [-1/4, 1/2).
DEVICE f32 log_parts(f32 f, f32 exponent) {
  f32 p = -0.045074467f;
  p = p * f + 0.104629956f;
  p = p * f + -0.13161196f;
  p = p * f + 0.144784f;
  p = p * f + -0.16647312f;
  p = p * f + 0.19990861f;
  p = p * f + -0.25000095f;
  p = p * f + 0.3333345f;
  const f32 square = f * f;
  const f32 small = square * f * p - 0.5f * square + exponent * LN_2_LOW;
  return (small + f) + exponent * LN_2_HIGH;
}

// v = 2^exponent * (1 + f) with 1 + f in [3/4, 3/2), for a positive normal v.
struct Split {
  f32 f, exponent;
};
DEVICE Split split(f32 v) {
  constexpr u32 THREE_QUARTERS = 0x3F400000u;
  const u32 bits = bit_cast<u32>(v) - THREE_QUARTERS;
  return Split{bit_cast<f32>((bits & 0x007FFFFFu) + THREE_QUARTERS) - 1.0f, f32(i32(bits) >> 23)};
}

// The natural logarithm of a positive normal f32.
DEVICE f32 ln(f32 v) {
  const Split s = split(v);
  return log_parts(s.f, s.exponent);
}

// An Exp(1) variate from a word: -ln(1 - u), u = (word + 0.5) / 2^32; from u below 1/4, from 1 - u above.
DEVICE f32 exponential(u32 word) {
  const bool small = word < 1u << 30;
  const f32 v = (f32(small ? word : ~word) + 0.5f) * (1.0f / 4294967296.0f);
  const Split s = split(v);
  return -log_parts(small ? -v : s.f, small ? 0.0f : s.exponent);
}

// The least exponential of a group, from its word.
DEVICE f32 least_of(u32 word) { return exponential(word) * (1.0f / GROUP); }

// Least y that has a mass: -40 ln 2, rounded towards zero.
constexpr f32 LEAST_Y = -27.725885f;
// The mass of the row's maximum.
constexpr u64 ONE = 1ull << 40;

// floor(2^40 * exp(y)), 0 below LEAST_Y: a whole number, which f32 holds exactly.
DEVICE f32 whole_mass(f32 y) {
  constexpr f32 ROUND = 12582912.0f;  // 1.5 * 2^23: adding and subtracting it rounds to an integer
  const f32 bounded = y > LEAST_Y ? y : LEAST_Y;
  const f32 shifted = bounded * LOG2_E + ROUND;
  const f32 k = shifted - ROUND;
  const f32 r = (bounded - k * LN_2_HIGH) - k * LN_2_LOW;
  f32 p = 0.0013814596f;
  p = p * r + 0.0083687175f;
  p = p * r + 0.04166839f;
  p = p * r + 0.16666521f;
  p = p * r + 0.49999994f;
  const f32 e = (p * r * r + r) + 1.0f;
  const f32 scaled = bit_cast<f32>(bit_cast<u32>(e) + ((bit_cast<u32>(shifted) + 40) << 23));
  return y >= LEAST_Y ? __builtin_floorf(scaled) : 0.0f;
}

// A mass as an integer: both parts are exact.
DEVICE u64 whole(f32 mass) {
  const u32 high = u32(mass * (1.0f / 4294967296.0f));
  return u64(high) << 32 | u32(mass - f32(high) * 4294967296.0f);
}

DEVICE u64 mass_of(f32 y) { return whole(whole_mass(y)); }

// A u32 that orders as the f32 does; -0 and 0 are one.
DEVICE u32 order_of(f32 x) {
  const u32 bits = bit_cast<u32>(x + 0.0f);
  return bits ^ (u32(i32(bits) >> 31) | 0x80000000u);
}
DEVICE f32 value_of(u32 order) { return bit_cast<f32>(order & 0x80000000u ? order ^ 0x80000000u : ~order); }

}  // namespace specverify
