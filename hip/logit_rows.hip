// The passes over rows of logits that target_tokens and coupled_children start from, split over the parts of a row so that a few rows
// fill the chip.
//
// row_maxima reads the row: the maximum of every group of 64 ids. Unfiltered, nothing else reads it as a whole again. row_masses reads
// it a second time where top_p or a great top_k needs to know where the mass lies: a histogram over y = (x - max) / T.
#include "rows.h"

namespace specverify {

constexpr u32 THREADS = 256;
constexpr u32 WAVES = THREADS / WAVE;
// 16-byte loads of a lane in flight.
constexpr u32 FLIGHT = 4;

template <typename T> DEVICE void row_maxima(const LogitRowsArgs& a) {
  constexpr u32 N = Row<T>::N;
  const u32 part = block_x(), index = block_y();
  const i32 request = scalar_load(a.requests + index);
  if (request < 0) return;
  const Row<T> row(a, index, request);
  const bool keeps_raw = a.raw_maxima;
  const u32 begin = part * a.part_groups, end = min(begin + a.part_groups, row.groups);
  f32* maxima = a.maxima + i64(index) * row.groups;
  f32* raw_maxima = a.raw_maxima + i64(index) * row.groups;

  bool nan = false, edit_nan = false;
  f32 greatest = -infinity(), raw_greatest = -infinity();
  const auto most_of = [](const f32(&x)[N], bool& nan) {
    f32 most = -infinity();
#pragma unroll
    for (u32 i = 0; i < N; i += 2) {
      nan |= __builtin_isunordered(x[i], x[i + 1]);
      most = max(most, max(x[i], x[i + 1]));
    }
    return group_max<T>(most);
  };
  row.template sweep<FLIGHT>(
      begin, end, wave_id(), WAVES, [](u32) { return true; },
      [&](u32 first, u32 group, f32(&x)[N], bool edited) {
        const bool writes = lane_id() * N % GROUP == 0 && group < end;
        f32 most = most_of(x, nan);
        if (keeps_raw && writes) raw_maxima[group] = most;
        raw_greatest = max(raw_greatest, most);
        if (edited) {
          row.edit(first * GROUP, x);
          most = most_of(x, edit_nan);
        }
        if (writes) maxima[group] = most;
        greatest = max(greatest, most);
      });
  greatest = wave_max(greatest);
  raw_greatest = wave_max(raw_greatest);
  // max passes over NaN, so that +inf shows in the maximum.
  u32 faults = (ballot(nan) ? RAW_NAN : 0) | (raw_greatest == infinity() ? RAW_INF : 0);
  if (row.edited()) faults |= (ballot(edit_nan) ? EDIT_NAN : 0) | (greatest == infinity() ? EDIT_INF : 0);

  __shared__ f32 wave_greatest[WAVES], wave_raw[WAVES];
  __shared__ u32 wave_faults[WAVES];
  if (lane_id() == 0) {
    wave_greatest[wave_id()] = greatest;
    wave_raw[wave_id()] = raw_greatest;
    wave_faults[wave_id()] = faults;
  }
  barrier();
  if (thread_id() != 0) return;
  for (u32 wave = 1; wave < WAVES; wave++) {
    greatest = max(greatest, wave_greatest[wave]);
    raw_greatest = max(raw_greatest, wave_raw[wave]);
    faults |= wave_faults[wave];
  }
  const i64 at = i64(index) * a.parts + part;
  a.part_maxima[2 * at] = greatest;
  a.part_maxima[2 * at + 1] = raw_greatest;
  a.part_faults[at] = faults;
}

template <typename T> DEVICE void row_masses(const LogitRowsArgs& a) {
  constexpr u32 N = Row<T>::N;
  const u32 part = block_x(), index = block_y();
  const i32 request = scalar_load(a.requests + index);
  if (request < 0) return;
  const Law law(a, request);
  const bool wants_bins = law.needs_bins() || a.totals, wants_raw = a.raw_totals;
  if (!wants_bins && !wants_raw) return;
  const Parts parts(a, index);
  if (parts.status() != GOOD) return;
  const Row<T> row(a, index, request);
  const u32 begin = part * a.part_groups, end = min(begin + a.part_groups, row.groups);
  const f32* maxima = a.maxima + i64(index) * row.groups;

  __shared__ u64 masses[BINS];
  __shared__ u32 counts[BINS];
  __shared__ u64 wave_totals[WAVES];
  for (u32 bin = thread_id(); bin < BINS; bin += THREADS) {
    masses[bin] = 0;
    counts[bin] = 0;
  }
  barrier();
  u64 total = 0;
  row.template sweep<FLIGHT>(
      begin, end, wave_id(), WAVES,
      [&](u32 group) { return wants_raw || (maxima[group] - parts.max) * law.inverse_temperature >= law.least_y; },
      [&](u32 first, u32, f32(&x)[N], bool edited) {
        if (wants_raw) {
#pragma unroll
          for (u32 i = 0; i < N; i++) total += mass_of(x[i] - parts.raw_max);
        }
        if (!wants_bins) return;
        // What was not loaded is -inf; an edit leaves it so.
        if (edited) row.edit(first * GROUP, x);
#pragma unroll
        for (u32 i = 0; i < N; i++) {
          const f32 y = (x[i] - parts.max) * law.inverse_temperature;
          if (y >= law.least_y) {
            const u32 bin = bin_of(y);
            atomic_add(&masses[bin], mass_of(y));
            atomic_add(&counts[bin], 1u);
          }
        }
      });
  if (wants_raw) {
    for (u32 mask = 1; mask < WAVE; mask *= 2) total += shuffle_xor(total, mask);
    if (lane_id() == 0) wave_totals[wave_id()] = total;
  }
  barrier();
  const i64 at = i64(index) * a.parts + part;
  if (wants_bins) {
    for (u32 bin = thread_id(); bin < BINS; bin += THREADS) {
      a.bin_masses[at * BINS + bin] = masses[bin];
      a.bin_counts[at * BINS + bin] = counts[bin];
    }
  }
  if (wants_raw && thread_id() == 0) {
    total = 0;
    for (u32 wave = 0; wave < WAVES; wave++) total += wave_totals[wave];
    a.raw_totals[at] = total;
  }
}

#define KERNELS(T)                                                                                                 \
  extern "C" __global__ WORKGROUP(256) void row_maxima_##T(const LogitRowsArgs a) { row_maxima<T>(a); }              \
  extern "C" __global__ WORKGROUP(256) void row_masses_##T(const LogitRowsArgs a) { row_masses<T>(a); }
KERNELS(f32)
KERNELS(bf16)
KERNELS(f16)

}  // namespace specverify
