// The target's own token of each row of logits: the winner of the race at T > 0, the greatest logit at T = 0. A workgroup finishes a row
// that row_maxima (and, where the filters ask for it, row_masses) has read.
#include "finish.h"

namespace specverify {

template <typename T> DEVICE void target_tokens(const TargetTokensArgs& a) {
  __shared__ Finish s;
  const LogitRowsArgs& rows = a.rows;
  const u32 index = block_x();
  const i32 request = scalar_load(rows.requests + index);
  const bool writes = thread_id() == 0;
  i32 status = NOT_USED;
  f32 max = 0;
  if (request >= 0) {
    const Parts parts(rows, index);
    status = parts.status();
    max = parts.max;
  }
  if (status != GOOD) {
    if (writes) {
      a.tokens[index] = -1;
      a.status[index] = status;
    }
    return;
  }
  const Row<T> row(rows, index, request);
  const Law law(rows, request);
  const Maxima maxima(rows.maxima + i64(index) * row.groups, row.groups);
  u32 token;
  if (law.greedy) {
    // The first group that holds the maximum, and its first member that does.
    u32 first = ~0u;
#pragma unroll
    for (u32 i = 4; i > 0; i--) first = maxima.of[i - 1] == max ? 4 * thread_id() + i - 1 : first;
    const u32 group = first_lane(u32(s.block.least(first)));
    if (wave_id() != 0) return;
    token = group * GROUP + u32(__builtin_ctzll(ballot(row.group(group) == max)));
  } else {
    const u64 seed = rows.seeds[request];
    const Coins coins = {u32(seed), u32(seed >> 32), rows.positions[index]};
    const Cut cut = rows.cuts ? ((const Cut*)rows.cuts)[index] : Cut::of(law, max);
    const Field<T> field = {row, cut, law.inverse_temperature, coins, true, false};
    token = id_of(race(field, maxima, s, Winner{}).best);
  }
  if (!writes) return;
  a.tokens[index] = i32(token);
  a.status[index] = GOOD;
}

// 1 / x, to the last bit or nearly so, by Newton's method: the hardware's estimate has 24 bits.
DEVICE f64 inverse_of(f64 x) {
  f64 r = f64(reciprocal(f32(x)));
  for (int i = 0; i < 3; i++) r = r + r * (1.0 - x * r);
  return r;
}

// ln(total / 2^40) for a total of at least 2^40, within a few units in the last place of f64.
DEVICE f64 log_of(u64 total) {
  const u64 bits = bit_cast<u64>(f64(total));
  i32 exponent = i32(bits >> 52) - 1023 - 40;
  f64 m = bit_cast<f64>((bits & 0x000FFFFFFFFFFFFFull) | 0x3FF0000000000000ull);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    exponent++;
  }
  // ln m = 2 artanh(s)
  const f64 s = (m - 1.0) * inverse_of(m + 1.0), square = s * s;
  f64 sum = 1.0 / 23.0;
  constexpr f64 TERMS[] = {1.0 / 21.0, 1.0 / 19.0, 1.0 / 17.0, 1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0,
                           1.0 / 9.0,  1.0 / 7.0,  1.0 / 5.0,  1.0 / 3.0,  1.0};
#pragma unroll
  for (f64 term : TERMS) sum = sum * square + term;
  return f64(exponent) * 0.69314718055994531 + 2.0 * s * sum;
}

template <typename T> DEVICE void target_logprobs(const TargetTokensArgs& a) {
  __shared__ Finish s;
  const LogitRowsArgs& rows = a.rows;
  const u32 index = block_x();
  const i32 request = scalar_load(rows.requests + index);
  const bool good = request >= 0 && scalar_load(a.status + index) == GOOD;
  const i32 first_child = a.child_offsets ? scalar_load(a.child_offsets + index) : 0;
  const i32 end_child = a.child_offsets ? scalar_load(a.child_offsets + index + 1) : 0;
  if (!good) {
    for (i32 child = first_child + i32(thread_id()); child < end_child; child += FINISH_THREADS) a.child_probabilities[child] = 0;
    if (thread_id() == 0 && a.token_logprobs) a.token_logprobs[index] = -infinity();
    if (thread_id() < u32(a.top)) {
      a.top_ids[i64(index) * a.top + thread_id()] = -1;
      a.top_logprobs[i64(index) * a.top + thread_id()] = -infinity();
    }
    return;
  }
  const Row<T> row(rows, index, request);
  const Law law(rows, request);
  const Cut cut = rows.cuts ? ((const Cut*)rows.cuts)[index] : Cut::of(law, 0);
  const u32 token = scalar_load(a.tokens + index);

  // Of the children: mass / total, 0 for those that the filters drop; at T = 0 the token alone has mass.
  if (first_child < end_child) {
    const f64 inverse_total = inverse_of(f64(cut.total));
    for (i32 child = first_child + i32(wave_id()); child < end_child; child += FINISH_WAVES) {
      const u32 id = scalar_load(a.child_ids + child);
      f32 p = 0;
      if (law.greedy) {
        p = id == token ? 1.0f : 0.0f;
      } else if (id < row.vocab) {
        const f32 x = read_lane(row.group(id / GROUP), id % GROUP), y = (x - cut.max) * law.inverse_temperature;
        if (cut.keeps(x, y, id)) p = f32(f64(whole_mass(y)) * inverse_total);
      }
      if (lane_id() == 0) a.child_probabilities[child] = p;
    }
  }
  if (!a.token_logprobs && a.top == 0) return;

  // Log-probabilities: of the logits as they came, at T = 1; or of what the parameters leave, at T = 0 unscaled and unfiltered.
  Cut of = Cut::unfiltered(cut.max);
  of.total = cut.total;
  if (a.raw) {
    of.max = Parts(rows, index).raw_max;
    of.total = 0;
    for (i32 part = 0; part < rows.parts; part++) of.total += rows.raw_totals[i64(index) * rows.parts + part];
  } else if (!law.greedy) {
    of = cut;
  }
  const Maxima maxima((a.raw ? rows.raw_maxima : rows.maxima) + i64(index) * row.groups, row.groups);
  const Field<T> field = {row, of, a.raw ? 1.0f : law.inverse_temperature, Coins{}, false, bool(a.raw)};
  const f64 log_total = log_of(of.total);
  const auto logprob = [&](f32 x) { return f32(f64(field.scaled(x)) - log_total); };
  if (a.token_logprobs && wave_id() == 0) {
    const f32 x = read_lane(a.raw ? row.raw(token / GROUP) : row.group(token / GROUP), token % GROUP);
    const bool kept = x > -infinity() && of.keeps(x, field.scaled(x), token);
    if (lane_id() == 0) a.token_logprobs[index] = kept ? logprob(x) : -infinity();
  }
  if (a.top == 0) return;
  const Podium podium = race(field, maxima, s, Podium{u32(a.top)});
  if (thread_id() < u32(a.top)) {
    const bool has = podium.entry != 0;
    a.top_ids[i64(index) * a.top + thread_id()] = has ? i32(id_of(podium.entry)) : -1;
    a.top_logprobs[i64(index) * a.top + thread_id()] = has ? logprob(score_of(podium.entry)) : -infinity();
  }
}

#define KERNELS(T)                                                                                                    \
  extern "C" __global__ WORKGROUP(1024) void target_tokens_##T(const TargetTokensArgs a) { target_tokens<T>(a); }     \
  extern "C" __global__ WORKGROUP(1024) void target_logprobs_##T(const TargetTokensArgs a) { target_logprobs<T>(a); }
KERNELS(f32)
KERNELS(bf16)
KERNELS(f16)

}  // namespace specverify
