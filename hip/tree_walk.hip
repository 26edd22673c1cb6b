// Acceptance on the device: the target has drawn its own token of every row, so verification is a walk down the tree for as long as a
// child holds it. One wave a request; its lanes look at 64 nodes at a time. Nothing waits for the host.
#include "abi.h"
#include "device.h"

namespace specverify {

DEVICE bool stops(const TreeWalkArgs& a, i32 request, i32 token) {
  if (!a.stop_offsets) return false;
  const i32 end = a.stop_offsets[request + 1];
  for (i32 first = a.stop_offsets[request]; first < end; first += WAVE) {
    const i32 at = first + lane_id();
    if (ballot(at < end && a.stop_ids[at] == token)) return true;
  }
  return false;
}

// The first child of a node that holds the token; -1 for none.
DEVICE i32 child_with(const i32* parents, const i32* tokens, i32 nodes, i32 parent, i32 token) {
  for (i32 first = parent + 1; first < nodes; first += WAVE) {
    const i32 at = first + lane_id();
    const u64 found = ballot(at < nodes && parents[at] == parent && tokens[at] == token);
    if (found) return first + __builtin_ctzll(found);
  }
  return -1;
}

extern "C" __global__ WORKGROUP(64) void tree_walk(const TreeWalkArgs a) {
  const i32 request = block_x();
  const i32 first = a.cu_nodes[request], nodes = a.cu_nodes[request + 1] - first;
  const i32 row = first + request;
  const i32 *parents = a.parents + first, *tokens = a.tokens + first;
  i32* path = a.path + (i64)request * a.max_path;
  i32* emitted = a.emitted + (i64)request * (a.max_path + 1);

  i32 node = -1, accepted = 0, count = 0, last = -1, status = 0;
  while (true) {
    status = a.row_status ? a.row_status[row + node + 1] : 0;
    if (status) break;
    last = a.target_tokens[row + node + 1];
    if (lane_id() == 0) emitted[count] = last;
    count++;
    const i32 child = child_with(parents, tokens, nodes, node, last);
    if (child >= 0 && accepted == a.max_path) {
      status = -1;
      break;
    }
    if (child >= 0) {
      if (lane_id() == 0) path[accepted] = child;
      accepted++;
    }
    if (child < 0 || stops(a, request, last)) break;
    node = child;
  }
  for (i32 i = accepted + lane_id(); i < a.max_path; i += WAVE) path[i] = -1;
  for (i32 i = count + lane_id(); i <= a.max_path; i += WAVE) emitted[i] = -1;
  if (lane_id() == 0) {
    a.accepted[request] = accepted;
    a.counts[request] = count;
    a.last_token[request] = last;
    a.status[request] = status;
  }
}

}  // namespace specverify
