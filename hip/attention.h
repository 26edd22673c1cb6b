// What the attention kernels share: elements of the cache, what a row sees, which keys a workgroup reads, the reduction of splits.
#pragma once
#include "device.h"

namespace specverify {

// The masked and the unmasked code must round alike, or a row would depend on how many others there are.
#pragma clang fp contract(off)

struct Fp8 {
  u8 bits;
};
// Eight neighbouring elements of a key and four as they lie in the cache, and as the T that they become.
template <typename T, typename KV> struct Cache {
  typedef u32x4 Eight;
  typedef u32x2 Four;
  static __device__ __forceinline__ u32x4 widen(Eight raw) { return raw; }
  static __device__ __forceinline__ u32x2 widen(Four raw) { return raw; }
};
template <typename T> struct Cache<T, Fp8> {
  typedef u32x2 Eight;
  typedef u32 Four;
  static __device__ __forceinline__ u32x2 widen(Four raw) { return widen_fp8<T>(raw); }
  static __device__ __forceinline__ u32x4 widen(Eight raw) {
    const u32x2 a = widen(raw.x), b = widen(raw.y);
    return u32x4{a.x, a.y, b.x, b.y};
  }
};
template <typename T> DEVICE bool finite(u32x4 x) {
  const u32 exponent = bit_cast<u16>(T(infinity()));
  bool all = true;
  for (int i = 0; i < 4; i++) all &= ((x[i] & exponent) != exponent) & ((x[i] >> 16 & exponent) != exponent);
  return all;
}

#if defined(__gfx950__)
constexpr int LINE = 256;  // bytes of LDS that are read in one cycle: 64 banks
#else
constexpr int LINE = 128;
#endif

// ---- trees
// The nodes that a row sees: bit j is node j.
struct Nodes {
  u64 word[2];
  __device__ __forceinline__ bool has(u32 j) const { return (j < 64 ? word[0] >> j : word[1] >> (j - 64)) & 1; }
  __device__ __forceinline__ i32 count() const { return __builtin_popcountll(word[0]) + __builtin_popcountll(word[1]); }
};
template <typename Args> DEVICE Nodes nodes(const Args& a, i32 row_begin, i32 row) {
  if (!a.ancestors)
    return Nodes{{row < 64 ? (1ull << row) - 1 : ~0ull, row <= 64 ? 0 : row < 128 ? (1ull << (row - 64)) - 1 : ~0ull}};
  const u64* words = a.ancestors + i64(row_begin + row) * a.words;
  return Nodes{{words[0], a.words > 1 ? words[1] : 0}};
}

// ---- keys
// What a request has, and the part of its keys that a workgroup reads.
struct Range {
  i32 row_begin, rows, context, begin, end;
  u32 page_magic;  // ceil(2^32 / page_size): a division by it is one multiplication
};
template <typename Args> DEVICE Range rows_of(const Args& a, u32 request) {
  Range range = {};
  range.row_begin = scalar_load(a.cu_rows + request);
  range.rows = scalar_load(a.cu_rows + request + 1) - range.row_begin;
  range.page_magic = 0xffffffffu / u32(a.page_size) + 1;
  return range;
}
template <typename Args> DEVICE void split_keys(const Args& a, Range& range, u32 request, u32 split) {
  range.context = scalar_load(a.context_lens + request);
  const i32 total = range.context + range.rows;
  const i32 split_keys = a.split_keys > 0 ? a.split_keys : ceil_div(range.context / 64 + 1, a.splits) * 64;
  const i64 from = i64(split) * split_keys;
  range.begin = from < total ? i32(from) : total;
  range.end = split + 1 == u32(a.splits) || from + split_keys > total ? total : i32(from) + split_keys;
}

// ---- splits
// One wave for each (row, head): the parts of up to MAX_SPLITS splits, each scaled to the common maximum.
template <typename T, int D, int MAX_SPLITS, typename Args>
DEVICE void reduce_splits(const Args& a, u32 pair, f32 value_scale) {
  constexpr int EACH = (D + WAVE - 1) / WAVE, LOOKS = MAX_SPLITS / WAVE;
  const u32 lane = lane_id();
  const u32 row = pair / u32(a.heads), head = pair - row * u32(a.heads);
  if (i32(row) >= scalar_load(a.cu_rows + a.requests)) return;
  const u32 step = u32(a.rows) * u32(a.heads);
  f32x2 stats[LOOKS];
  f32 top = -infinity(), sum = 0;
  for (int i = 0; i < LOOKS; i++) {
    const i32 split = i * WAVE + lane;
    stats[i] = f32x2{-infinity(), 0};
    if (split < a.splits) stats[i] = *(const f32x2*)(a.partial_stats + 2 * u64(split * step + pair));
    top = max(top, stats[i].x);
  }
  top = wave_max(top);
  f32 weight[LOOKS];
  for (int i = 0; i < LOOKS; i++) {
    weight[i] = stats[i].y == 0 ? 0 : exp2(stats[i].x - (top == -infinity() ? 0 : top));
    sum += weight[i] * stats[i].y;
  }
  const f32 factor = value_scale * reciprocal(wave_sum(sum));
  f32 out[EACH] = {};
  for (int i = 0; i < LOOKS; i++)
    for (i32 split = i * WAVE; split < a.splits && split < (i + 1) * WAVE; split++) {
      if (read_lane(stats[i].y, split % WAVE) == 0) continue;  // nothing was written there
      const f32 share = read_lane(weight[i] * factor, split % WAVE);
      const f32* part = a.partial_out + u64(split * step + pair) * D;
      for (int d = 0; d < EACH; d++)
        if (D % WAVE == 0 || d * WAVE + lane < D) out[d] += share * part[d * WAVE + lane];
    }
  T* row_out = (T*)a.out + row * a.out_stride_row + head * a.out_stride_head;
  for (int d = 0; d < EACH; d++)
    if (D % WAVE == 0 || d * WAVE + lane < D) row_out[d * WAVE + lane] = T(out[d]);
}

}  // namespace specverify
