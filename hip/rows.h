// A row of logits: its elements, the request's bias and mask on them, and what the request asks for. Mirrors rows/{matrix,edits,
// prepared}.rs of the crate.
#pragma once

#include "abi.h"
#include "race.h"

namespace specverify {

constexpr u32 MAX_GROUPS = 4096;
constexpr u32 BINS = 1024;
// Of y = (x - max) / T, from 0 down to LEAST_Y.
constexpr f32 BINS_PER_NAT = 36.9f;
// A top_k up to this is found among the groups with the greatest maxima, a greater one from a histogram of the row.
constexpr i32 SMALL_K = 1024;

enum Fault : u32 { RAW_NAN = 1, RAW_INF = 2, EDIT_NAN = 4, EDIT_INF = 8 };
enum Status : i32 { GOOD = 0, HOLDS_NAN = 1, HOLDS_INF = 2, NO_MASS = 3, NOT_USED = 4 };

// What 16 bytes of a row hold. Rows start anywhere, so that loads are aligned to elements only.
template <typename T> struct Pack;
template <> struct Pack<f32> {
  typedef u32 Bits;
  typedef u32 Load __attribute__((ext_vector_type(4), aligned(4)));
  static constexpr u32 N = 4;
  static constexpr Bits NEGATIVE_INFINITY = 0xFF800000u;
  static DEVICE_MEMBER void widen(u32x4 v, f32 (&x)[4]) {
    for (u32 i = 0; i < 4; i++) x[i] = bit_cast<f32>(v[i]);
  }
};
template <> struct Pack<bf16> {
  typedef u16 Bits;
  typedef u32 Load __attribute__((ext_vector_type(4), aligned(2)));
  static constexpr u32 N = 8;
  static constexpr Bits NEGATIVE_INFINITY = 0xFF80u;
  static DEVICE_MEMBER void widen(u32x4 v, f32 (&x)[8]) {
    for (u32 i = 0; i < 4; i++) {
      x[2 * i] = bit_cast<f32>(v[i] << 16);
      x[2 * i + 1] = bit_cast<f32>(v[i] & 0xFFFF0000u);
    }
  }
};
template <> struct Pack<f16> {
  typedef u16 Bits;
  typedef u32 Load __attribute__((ext_vector_type(4), aligned(2)));
  static constexpr u32 N = 8;
  static constexpr Bits NEGATIVE_INFINITY = 0xFC00u;
  static DEVICE_MEMBER void widen(u32x4 v, f32 (&x)[8]) {
    for (u32 i = 0; i < 4; i++) {
      const f16x2 pair = bit_cast<f16x2>(v[i]);
      x[2 * i] = f32(pair.x);
      x[2 * i + 1] = f32(pair.y);
      // The compiler, which cannot see through this, would compare the halves of registers one by one instead.
      asm("" : "+v"(x[2 * i]), "+v"(x[2 * i + 1]));
    }
  }
};

// The greatest of the lanes that hold one group: 16 with f32, 8 with 16-bit types. Every lane gets it.
template <typename T> DEVICE f32 group_max(f32 x);
template <> __forceinline__ __device__ f32 group_max<f32>(f32 x) { return row_max(x); }
DEVICE f32 eighth_max(f32 x) {
  x = max(x, dpp<QUAD_SWAP_1>(x));
  x = max(x, dpp<QUAD_SWAP_2>(x));
  return max(x, dpp<HALF_MIRROR>(x));
}
template <> __forceinline__ __device__ f32 group_max<bf16>(f32 x) { return eighth_max(x); }
template <> __forceinline__ __device__ f32 group_max<f16>(f32 x) { return eighth_max(x); }

// What a request asks of its rows.
struct Law {
  f32 inverse_temperature;  // 1 at T = 0
  f32 least_y;
  i32 top_k;  // 0: all
  f32 top_p;
  bool greedy;

  DEVICE_MEMBER Law(const LogitRowsArgs& a, i32 request) {
    const f32 inverse = a.inverse_temperatures[request];
    greedy = inverse == 0.0f;
    inverse_temperature = greedy ? 1.0f : inverse;
    const i32 k = a.top_k && !greedy ? a.top_k[request] : 0;
    top_k = k > 0 && k < a.vocab ? k : 0;
    top_p = a.top_p && !greedy ? a.top_p[request] : 1.0f;
    const f32 min_p = a.min_p && !greedy ? a.min_p[request] : 0.0f;
    constexpr f32 LEAST_NORMAL = 1.17549435e-38f;
    least_y = LEAST_Y;
    if (min_p > LEAST_NORMAL) {
      const f32 least = ln(min_p);
      least_y = least > LEAST_Y ? least : LEAST_Y;
    }
  }
  // Whether the cut is looked for in a histogram of the whole row.
  DEVICE_MEMBER bool needs_bins() const { return top_k > SMALL_K || (top_k == 0 && top_p < 1.0f); }
};

DEVICE u32 bin_of(f32 y) { return min(u32(-y * BINS_PER_NAT), BINS - 1); }

template <typename T> struct Row {
  typedef typename Pack<T>::Bits Bits;
  // Elements of a lane's load, and groups of a wave's.
  static constexpr u32 N = Pack<T>::N;

  const Bits* logits;
  const i32* columns;
  const u32* allowed;
  const i32* bias_ids;
  const f32* bias_values;
  i32 bias_begin, bias_end;
  u32 vocab, groups;

  DEVICE_MEMBER Row(const LogitRowsArgs& a, u32 row, i32 request) {
    logits = (const Bits*)a.logits + i64(row) * a.row_stride;
    columns = a.columns;
    allowed = a.allowed ? a.allowed + i64(a.allowed_by_row ? i32(row) : request) * a.allowed_stride : nullptr;
    bias_ids = a.bias_ids;
    bias_values = a.bias_values;
    bias_begin = a.bias_offsets ? a.bias_offsets[request] : 0;
    bias_end = a.bias_offsets ? a.bias_offsets[request + 1] : 0;
    vocab = a.vocab;
    groups = (vocab + GROUP - 1) / GROUP;
  }

  DEVICE_MEMBER bool edited() const { return allowed || bias_begin < bias_end; }

  // One element as it came; -inf past the end, and for an id without a column.
  DEVICE_MEMBER Bits element(u32 id) const {
    if (id >= vocab) return Pack<T>::NEGATIVE_INFINITY;
    if (!columns) return logits[id];
    const i32 column = columns[id];
    return column < 0 ? Pack<T>::NEGATIVE_INFINITY : logits[column];
  }

  // 16 bytes of the elements from `id` on, as they came: whole where the row has so many, else one by one.
  DEVICE_MEMBER u32x4 pack_at(u32 id) const {
    if (!columns && id + N <= vocab) return *(const typename Pack<T>::Load*)(logits + id);
    u32x4 v;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
      if constexpr (sizeof(Bits) == 4) v[i] = element(id + i);
      else v[i] = element(id + 2 * i) | u32(element(id + 2 * i + 1)) << 16;
    }
    return v;
  }

  // The first entry of the bias that concerns an id from `id` on.
  DEVICE_MEMBER i32 first_entry(u32 id) const {
    for (i32 at = bias_begin; at < bias_end; at += WAVE) {
      const i32 entry = at + i32(lane_id());
      const u32 before = __builtin_popcountll(ballot(entry < bias_end && u32(bias_ids[min(entry, bias_end - 1)]) < id));
      if (before < WAVE) return at + i32(before);
    }
    return bias_end;
  }

  // Bias and mask on the logits of ids first + lane * M + 0..M-1.
  template <u32 M> DEVICE_MEMBER void edit(u32 first, f32 (&x)[M]) const {
    const u32 id = first + lane_id() * M;
    if (allowed) {
      // M divides 32: the ids of a lane share a word.
      const u32 word = id < vocab ? allowed[id / 32] >> id % 32 : 0;
#pragma unroll
      for (u32 i = 0; i < M; i++) x[i] = word >> i & 1 ? x[i] + 0.0f : -infinity();
    }
    if (bias_begin == bias_end) return;
    for (i32 entry = first_lane(first_entry(first)); entry < bias_end; entry++) {
      const u32 other = scalar_load(bias_ids + entry);
      if (other >= first + WAVE * M) break;
      const f32 bias = scalar_load(bias_values + entry);
#pragma unroll
      for (u32 i = 0; i < M; i++) x[i] = id + i == other ? x[i] + bias : x[i];
    }
  }

  // Goes over the groups [begin, end), of which every `waves`-th stretch of FLIGHT loads is this wave's: use(first, group, x, edited)
  // for the N elements x of each lane, as they came, of its `group`; `first` is that of lane 0. -inf where wanted(group) is false.
  template <u32 FLIGHT, typename Wanted, typename Use>
  DEVICE_MEMBER void sweep(u32 begin, u32 end, u32 wave, u32 waves, Wanted wanted, Use use) const {
    constexpr u32 FILL = sizeof(Bits) == 4 ? Pack<T>::NEGATIVE_INFINITY : Pack<T>::NEGATIVE_INFINITY * 0x10001u;
    const u32 mine = lane_id() * N / GROUP;
    const bool plain = !columns && !edited();
    for (u32 first = begin + wave * N * FLIGHT; first < end; first += waves * N * FLIGHT) {
      if (plain && (first + N * FLIGHT) * GROUP <= vocab) {
        // All loads of the stretch are in flight before the first is used.
        u32x4 v[FLIGHT];
#pragma unroll
        for (u32 u = 0; u < FLIGHT; u++) {
          const u32 group = first + u * N + mine;
          v[u] = u32x4{FILL, FILL, FILL, FILL};
          if (group < end && wanted(group))
            v[u] = *(const typename Pack<T>::Load*)(logits + (first + u * N) * GROUP + lane_id() * N);
        }
#pragma unroll
        for (u32 u = 0; u < FLIGHT; u++) {
          f32 x[N];
          Pack<T>::widen(v[u], x);
          use(first + u * N, first + u * N + mine, x, false);
        }
        continue;
      }
#pragma unroll 1
      for (u32 at = first; at < min(first + N * FLIGHT, end); at += N) {
        const u32 group = at + mine;
        u32x4 v = {FILL, FILL, FILL, FILL};
        if (group < end && wanted(group)) v = pack_at(at * GROUP + lane_id() * N);
        f32 x[N];
        Pack<T>::widen(v, x);
        use(at, group, x, edited());
      }
    }
  }

  // A logit a lane: that of id group * 64 + lane, as it came.
  DEVICE_MEMBER f32 raw(u32 group) const {
    const u32 bits = element(group * GROUP + lane_id());
    if constexpr (sizeof(Bits) == 4) return bit_cast<f32>(bits);
    f32 x[N];
    Pack<T>::widen(u32x4{bits, 0, 0, 0}, x);
    return x[0];
  }
  // The same after bias and mask.
  DEVICE_MEMBER f32 group(u32 group) const {
    f32 x[1] = {raw(group)};
    edit<1>(group * GROUP, x);
    return x[0];
  }
};

// The greatest logits of the row's parts (edited, as they came), and what is wrong with any: a lane a part.
struct Parts {
  f32 max, raw_max;
  u32 faults;

  DEVICE_MEMBER Parts(const LogitRowsArgs& a, u32 row) {
    const bool has = lane_id() < u32(a.parts);
    const u32 at = row * a.parts + min(lane_id(), u32(a.parts) - 1);
    max = first_lane(wave_max(has ? a.part_maxima[2 * at] : -infinity()));
    raw_max = first_lane(wave_max(has ? a.part_maxima[2 * at + 1] : -infinity()));
    const u32 mine = has ? a.part_faults[at] : 0;
    faults = 0;
    for (u32 bit = 1; bit <= EDIT_INF; bit *= 2) faults |= ballot(mine & bit) ? bit : 0;
  }

  // In the order in which the crate looks.
  DEVICE_MEMBER i32 status() const {
    if (faults & RAW_NAN) return HOLDS_NAN;
    if (faults & RAW_INF) return HOLDS_INF;
    if (faults & EDIT_NAN) return HOLDS_NAN;
    if (faults & EDIT_INF) return HOLDS_INF;
    return max == -infinity() ? NO_MASS : GOOD;
  }
};

}  // namespace specverify
