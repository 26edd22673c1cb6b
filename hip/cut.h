// What the filters leave of a row. All three keep a head of one order (logit descending, id ascending), so that this is where the order is
// cut. Mirrors the Support of rows/support.rs of the crate.
#pragma once

#include "rows.h"

namespace specverify {

struct Cut {
  f32 least_y;
  f32 threshold;  // least logit
  u32 last;       // greatest id with that logit
  f32 max;        // of the row
  u64 total;      // mass of the ids kept; 0 when nothing needed it

  // All ids that have mass, or of min_p at least that much.
  static DEVICE_MEMBER Cut of(const Law& law, f32 max) { return Cut{law.least_y, -infinity(), ~0u, max, 0}; }
  // All ids that are not -inf, however unlikely.
  static DEVICE_MEMBER Cut unfiltered(f32 max) { return Cut{-infinity(), -infinity(), ~0u, max, 0}; }

  DEVICE_MEMBER bool keeps(f32 x, f32 y, u32 id) const {
    return y >= least_y && (x > threshold || (x == threshold && id <= last));
  }
  // Whether a group of that maximum may hold a kept id.
  DEVICE_MEMBER bool reaches(f32 x, f32 y) const { return y >= least_y && x >= threshold; }
};
static_assert(sizeof(Cut) == 24, "abi.h states it");

}  // namespace specverify
