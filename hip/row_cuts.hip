// Where min_p, top_k and top_p cut the order of a row's ids, as rows/support.rs of the crate has it. A workgroup searches a row.
//
// The cut is looked for from coarse to fine. A histogram over y, of the row (row_masses) or for a small top_k of its group maxima, names
// a bin; the ids of the bin are collected from the groups that reach it; they are sorted and the cut is read off. Where they are too
// many to be sorted, they are equal, and counted, or a histogram over the bits of their logits splits the bin.
#include "block.h"
#include "cut.h"

namespace specverify {

// Ids that are sorted at once.
constexpr u32 LISTED = 2048;

// In LDS.
struct Search {
  union {
    u64 list[LISTED];  // order_of(logit) << 32 | ~id: the greatest is kept first
    struct {
      u64 masses[BINS];
      u32 counts[BINS];
    } bins;
  };
  f32 maxima[MAX_GROUPS];
  u8 members[MAX_GROUPS];  // of a group, collected
  Block block;
  u64 found[3];  // written after a sum_before only: its barriers come after all readings of what was found before
  u32 listed;
};

// The maxima of a row's groups, -inf after the last. Whoever reads those of other threads has a barrier of its own first.
DEVICE void load_maxima(Search& s, const f32* maxima, u32 groups) {
  for (u32 group = thread_id(); group < MAX_GROUPS; group += FINISH_THREADS) {
    s.maxima[group] = group < groups ? maxima[group] : -infinity();
  }
}

// What a cut is looked for by: the rank of the last id kept, or the mass that those kept must reach.
struct Goal {
  bool by_mass;
  u64 rank;
  f64 needed;
  DEVICE_MEMBER bool reached(u64 count, u64 mass) const { return by_mass ? f64(mass) >= needed : count >= rank; }
};

// Where a cut lies: among the ids with y in these bins and order_of(logit) in this range; and what stands above them.
struct Place {
  u32 first_bin, last_bin, low, high;
  u64 count, mass;
};

struct Found {
  bool any;
  u32 order, id;
  u64 total;  // mass up to the id; of all ids in the list when there is no such id
};

template <typename T> struct Finder {
  static constexpr u32 N = Row<T>::N;
  static constexpr u64 NOWHERE = ~0ull;

  const LogitRowsArgs& a;
  const Row<T>& row;
  const Law& law;
  u32 index;
  f32 max;
  Search& s;
  u32 sorted;  // ids in the list, from the row's maximum on; 0 when it does not begin there

  DEVICE_MEMBER f32 scaled(f32 x) const { return (x - max) * law.inverse_temperature; }

  DEVICE_MEMBER bool holds(const Place& place, f32 x, u32 order) const {
    const f32 y = scaled(x);
    if (!(y >= law.least_y) || order < place.low || order > place.high) return false;
    const u32 bin = bin_of(y);
    return bin >= place.first_bin && bin <= place.last_bin;
  }
  DEVICE_MEMBER bool reaches(const Place& place, f32 most) const {
    const f32 y = scaled(most);
    return y >= law.least_y && order_of(most) >= place.low && bin_of(y) <= place.last_bin;
  }

  // The bin (a thread has one) in which the goal is reached, and what stands above it.
  DEVICE_MEMBER bool pick(u64 count, u64 mass, const Goal& goal, Place& place, u32& bin) {
    const u64 counted = place.count + s.block.sum_before(count);
    if (thread_id() < 3) s.found[thread_id()] = NOWHERE;
    const u64 weighed = place.mass + s.block.sum_before(mass);
    if (!goal.reached(counted, weighed) && goal.reached(counted + count, weighed + mass)) {
      s.found[0] = thread_id();
      s.found[1] = counted;
      s.found[2] = weighed;
    }
    barrier();
    const u64 at = first_lane(s.found[0]);
    if (at == NOWHERE) return false;
    bin = u32(at);
    place.count = s.found[1];
    place.mass = s.found[2];
    return true;
  }

  // Lists the ids of a place, as many as there is room for; their number and the ends of their range.
  DEVICE_MEMBER u32 collect(const Place& place, u32& low, u32& high) {
    if (thread_id() == 0) s.listed = 0;
    ((u32*)s.members)[thread_id()] = 0;
    barrier();
    u32 least = ~0u, most = 0;
    row.template sweep<1>(
        0, row.groups, wave_id(), FINISH_WAVES, [&](u32 group) { return reaches(place, s.maxima[group]); },
        [&](u32 first, u32 group, f32(&x)[N], bool edited) {
          if (edited) row.edit(first * GROUP, x);
          u32 orders[N], inside = 0;
#pragma unroll
          for (u32 i = 0; i < N; i++) {
            orders[i] = order_of(x[i]);
            const bool in = holds(place, x[i], orders[i]);
            inside |= u32(in) << i;
            least = in ? min(least, orders[i]) : least;
            most = in ? specverify::max(most, orders[i]) : most;
          }
          if (!ballot(inside)) return;
          u32 mine = __builtin_popcount(inside), at = mine ? atomic_add(&s.listed, mine) : 0;
#pragma unroll
          for (u32 i = 0; i < N; i++) {
            const u32 id = first * GROUP + lane_id() * N + i;
            if (inside >> i & 1 && at < LISTED) s.list[at++] = u64(orders[i]) << 32 | ~id;
          }
          for (u32 mask = 1; mask < GROUP / N; mask *= 2) mine += shuffle_xor(mine, mask);
          if (lane_id() * N % GROUP == 0 && group < row.groups) s.members[group] = u8(mine);
        });
    low = u32(s.block.least(least));
    high = u32(s.block.greatest(most));
    return first_lane(s.listed);
  }

  // The same ids by their place in the range.
  DEVICE_MEMBER void count(const Place& place, u32 shift) {
    s.bins.masses[thread_id()] = 0;
    s.bins.counts[thread_id()] = 0;
    barrier();
    row.template sweep<1>(
        0, row.groups, wave_id(), FINISH_WAVES, [&](u32 group) { return reaches(place, s.maxima[group]); },
        [&](u32 first, u32, f32(&x)[N], bool edited) {
          if (edited) row.edit(first * GROUP, x);
#pragma unroll
          for (u32 i = 0; i < N; i++) {
            const u32 order = order_of(x[i]);
            if (holds(place, x[i], order)) {
              const u32 bin = (place.high - order) >> shift;
              atomic_add(&s.bins.masses[bin], mass_of(scaled(x[i])));
              atomic_add(&s.bins.counts[bin], 1u);
            }
          }
        });
    barrier();
  }

  // Sorts the list, the greatest first (Batcher's bitonic network: the same steps whatever the values).
  DEVICE_MEMBER void sort(u32 n) {
    u32 size = 2;
    while (size < n) size *= 2;
    for (u32 i = n + thread_id(); i < size; i += FINISH_THREADS) s.list[i] = 0;
    barrier();
    for (u32 run = 2; run <= size; run *= 2) {
      for (u32 step = run / 2; step > 0; step /= 2) {
        if (thread_id() < size / 2) {
          const u32 i = 2 * (thread_id() & ~(step - 1)) | (thread_id() & (step - 1));
          const u64 x = s.list[i], y = s.list[i + step];
          if ((x < y) == !(i & run)) {
            s.list[i] = y;
            s.list[i + step] = x;
          }
        }
        barrier();
      }
    }
  }

  DEVICE_MEMBER Found find_in_list(u32 n, const Place& place, const Goal& goal) {
    const u32 i = 2 * thread_id();
    u64 masses[2], entries[2];
    for (u32 e = 0; e < 2; e++) {
      entries[e] = i + e < n ? s.list[i + e] : 0;
      masses[e] = i + e < n ? mass_of(scaled(value_of(u32(entries[e] >> 32)))) : 0;
    }
    u64 count = place.count + i, mass = place.mass + s.block.sum_before(masses[0] + masses[1]);
    if (thread_id() < 3) s.found[thread_id()] = NOWHERE;
    const u64 all = place.mass + s.block.sum(masses[0] + masses[1]);
    for (u32 e = 0; e < 2; e++) {
      if (i + e < n && !goal.reached(count, mass) && goal.reached(count + 1, mass + masses[e])) {
        s.found[0] = i + e;
        s.found[1] = entries[e];
        s.found[2] = mass + masses[e];
      }
      count++;
      mass += masses[e];
    }
    barrier();
    const bool any = first_lane(s.found[0]) != NOWHERE;
    const u64 entry = s.found[1], total = s.found[2];
    return any ? Found{true, u32(entry >> 32), ~u32(entry), total} : Found{false, 0, 0, all};
  }

  // Among n ids of one logit, of which `members` has the number in each group.
  DEVICE_MEMBER Found find_in_tie(u32 n, u32 order, const Place& place, const Goal& goal) {
    const u64 mass = mass_of(scaled(value_of(order)));
    u64 nth = 1, last = n;
    while (nth < last) {
      const u64 middle = (nth + last) / 2;
      if (goal.reached(place.count + middle, place.mass + middle * mass)) last = middle;
      else nth = middle + 1;
    }
    const u32 four = ((const u32*)s.members)[thread_id()];
    u64 before = s.block.sum_before((four & 0xFF) + (four >> 8 & 0xFF) + (four >> 16 & 0xFF) + (four >> 24));
    for (u32 i = 0; i < 4; i++) {
      const u32 here = four >> 8 * i & 0xFF;
      if (before < nth && nth <= before + here) {
        s.found[0] = 4 * thread_id() + i;
        s.found[1] = nth - before;
      }
      before += here;
    }
    barrier();
    const u32 group = first_lane(u32(s.found[0]));
    u32 left = first_lane(u32(s.found[1]));
    u64 equal = ballot(order_of(row.group(group)) == order);
    for (; left > 1; left--) equal &= equal - 1;
    return Found{true, order, group * GROUP + u32(__builtin_ctzll(equal)), place.mass + nth * mass};
  }

  // The last id kept. Where the list already begins at the row's maximum, the place that it was made for tells nothing more.
  DEVICE_MEMBER Found search(Place place, const Goal& goal) {
    while (true) {
      u32 low = 0, high = 0, n = sorted;
      if (n == 0) {
        n = collect(place, low, high);
        if (n <= LISTED) sort(n);
      }
      if (n <= LISTED) {
        sorted = first_lane(u32(place.count == 0)) ? n : 0;
        return find_in_list(n, place, goal);
      }
      if (low == high) return find_in_tie(n, low, place, goal);
      place.low = low;
      place.high = high;
      const u32 bits = 32 - __builtin_clz(high - low), shift = bits > 10 ? bits - 10 : 0;
      count(place, shift);
      const u32 counted = s.bins.counts[thread_id()];
      const u64 weighed = s.bins.masses[thread_id()];
      u32 bin = 0;
      if (!pick(counted, weighed, goal, place, bin)) return Found{false, 0, 0, 0};
      place.high = high - (bin << shift);
      place.low = specverify::max(low, place.high - ((1u << shift) - 1));
      if (place.low > place.high) place.low = low;
    }
  }

  // Bins from the greatest on that hold at least k ids, judged by the maxima of the groups alone.
  DEVICE_MEMBER u32 bins_of(u32 k) {
    s.bins.counts[thread_id()] = 0;
    barrier();
    for (u32 group = thread_id(); group < row.groups; group += FINISH_THREADS) {
      const f32 y = scaled(s.maxima[group]);
      if (y >= law.least_y) atomic_add(&s.bins.counts[bin_of(y)], 1u);
    }
    barrier();
    Place top = {};
    u32 bin = 0;
    return pick(s.bins.counts[thread_id()], 0, Goal{false, k, 0}, top, bin) ? bin : BINS - 1;
  }

  DEVICE_MEMBER Cut find() {
    Cut cut = Cut::of(law, max);
    const bool binned = a.bin_masses && (law.needs_bins() || a.totals);
    u64 mass = 0, all = 0;
    u32 count = 0;
    if (binned) {
      for (i32 part = 0; part < a.parts; part++) {
        const i64 at = (i64(index) * a.parts + part) * BINS + thread_id();
        mass += a.bin_masses[at];
        count += a.bin_counts[at];
      }
      all = s.block.sum(mass);
    }
    cut.total = all;
    // A small top_k is found among the groups with the greatest maxima, the rest by the histogram of the row.
    const bool by_groups = law.top_k > 0 && (law.top_k <= SMALL_K || !a.bin_masses);
    const u32 last_bin = by_groups ? bins_of(law.top_k) : BINS - 1;
#pragma unroll 1
    for (u32 filter = 0; filter < 2; filter++) {
      const bool by_mass = filter == 1;
      if (by_mass ? law.top_p >= 1.0f : law.top_k == 0) continue;
      const Goal goal = {by_mass, u64(law.top_k), f64(law.top_p) * f64(cut.total)};
      Place place = {0, last_bin, 0, ~0u, 0, 0};
      if (!by_groups) {
        u32 bin = 0;
        // Fewer than top_k ids.
        if (!pick(count, mass, goal, place, bin)) continue;
        place.first_bin = place.last_bin = bin;
      }
      const Found found = search(place, goal);
      if (found.any) {
        cut.threshold = value_of(found.order);
        cut.last = found.id;
      }
      cut.total = found.total;
    }
    return cut;
  }
};

template <typename T> DEVICE void row_cuts(const LogitRowsArgs& a) {
  __shared__ Search s;
  const u32 index = block_x();
  const i32 request = scalar_load(a.requests + index);
  if (request < 0) return;
  const Parts parts(a, index);
  if (parts.status() != GOOD) return;
  const Row<T> row(a, index, request);
  const Law law(a, request);
  load_maxima(s, a.maxima + i64(index) * row.groups, row.groups);
  Finder<T> finder = {a, row, law, index, parts.max, s, 0};
  const Cut cut = finder.find();
  if (thread_id() == 0) ((Cut*)a.cuts)[index] = cut;
}

#define KERNEL(T) \
  extern "C" __global__ WORKGROUP(1024) void row_cuts_##T(const LogitRowsArgs a) { row_cuts<T>(a); }
KERNEL(f32)
KERNEL(bf16)
KERNEL(f16)

}  // namespace specverify
