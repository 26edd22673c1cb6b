// Coupled drafting on the device: the first finishers of the target's own race, run over a drafter's rows (couple.rs of the crate). A
// workgroup finishes a row that row_maxima has read.
#include "finish.h"

namespace specverify {

template <typename T> DEVICE void coupled_children(const CoupledChildrenArgs& a) {
  __shared__ Finish s;
  const LogitRowsArgs& rows = a.rows;
  const u32 index = block_x(), place = thread_id();
  const i32 request = scalar_load(rows.requests + index);
  i32 status = NOT_USED;
  f32 max = 0;
  if (request >= 0) {
    const Parts parts(rows, index);
    status = parts.status();
    max = parts.max;
  }
  if (place == 0) a.status[index] = status;
  u64 entry = 0;
  if (status == GOOD) {
    const Row<T> row(rows, index, request);
    const Law law(rows, request);
    const Maxima maxima(rows.maxima + i64(index) * row.groups, row.groups);
    Cut cut = law.greedy ? Cut::unfiltered(max) : rows.cuts ? ((const Cut*)rows.cuts)[index] : Cut::of(law, max);
    const u64 seed = rows.seeds[request];
    const Coins coins = {u32(seed), u32(seed >> 32), rows.positions[index]};
    const Field<T> field = {row, cut, law.inverse_temperature, coins, !law.greedy, false};
    entry = race(field, maxima, s, Podium{u32(a.places)}).entry;
  }
  if (place >= u32(a.places)) return;
  const i64 at = i64(index) * a.places + place;
  a.tokens[at] = entry ? i32(id_of(entry)) : -1;
  a.scores[at] = score_of(entry);
}

#define KERNEL(T) \
  extern "C" __global__ WORKGROUP(1024) void coupled_children_##T(const CoupledChildrenArgs a) { coupled_children<T>(a); }
KERNEL(f32)
KERNEL(bf16)
KERNEL(f16)

}  // namespace specverify
