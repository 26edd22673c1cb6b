// Compaction of the cache: accepted nodes move to the slots after the root, every layer in one launch, in place.
//
// A thread owns a column of a few bytes of one head and makes all moves of its request itself, in order, so no thread reads what another
// writes. Within a column a destination is never the source of a later move: the i-th node of a path has number i or more, so sources
// only lie further on. Four moves are therefore loaded before the first is stored.
#include "abi.h"
#include "device.h"

namespace specverify {

constexpr i32 THREADS = 256;
constexpr i32 AT_ONCE = 4;

template <typename Column, typename Address>
DEVICE void move(i32 moves, Address address) {
  for (i32 first = 0; first < moves; first += AT_ONCE) {
    Column held[AT_ONCE];
#pragma unroll
    for (i32 i = 0; i < AT_ONCE; i++)
      if (first + i < moves) held[i] = *address(first + i, true);
#pragma unroll
    for (i32 i = 0; i < AT_ONCE; i++)
      if (first + i < moves) *address(first + i, false) = held[i];
  }
}

// The first byte of the thread's column within a token, or -1 for a surplus thread.
template <typename Column>
DEVICE i64 column_of(i32 heads, i32 head_bytes, i64 head_stride) {
  const i32 columns = head_bytes / (i32)sizeof(Column);
  const i32 index = block_z() * THREADS + thread_id();
  if (index >= heads * columns) return -1;
  return index / columns * head_stride + index % columns * (i64)sizeof(Column);
}

template <typename Column>
DEVICE void compact(const KvCompactArgs& a) {
  const i32 request = block_y();
  const i64 column = column_of<Column>(a.heads, a.head_bytes, a.head_stride);
  if (column < 0) return;
  const i32* path = a.path + (i64)request * a.max_path;
  const i32* table = a.block_table + request * a.table_stride;
  const i32 accepted = a.accepted[request], base = a.context_lens[request] + 1;
  // What stands where it belongs stays: a chain needs no move at all.
  i32 in_place = 0;
  while (in_place < accepted && path[in_place] == in_place) in_place++;
  char* const pool = (char*)a.bases[block_x()] + column;
  move<Column>(accepted - in_place, [&](i32 i, bool from) {
    const i32 slot = base + (from ? path[in_place + i] : in_place + i);
    return (Column*)(pool + table[slot / a.page_size] * a.page_stride + slot % a.page_size * a.token_stride);
  });
}

template <typename Column>
DEVICE void move_slots(const KvMoveArgs& a) {
  const i64 column = column_of<Column>(a.heads, a.head_bytes, a.head_stride);
  if (column < 0) return;
  const i32 first = a.move_offsets[block_y()], last = a.move_offsets[block_y() + 1];
  char* const pool = (char*)a.bases[block_x()] + column;
  for (i32 i = first; i < last; i++) {
    // A plan may move a slot into one that a later move reads from: one at a time.
    const i64 from = a.sources[i], to = a.destinations[i];
    const auto at = [&](i64 slot) {
      return (Column*)(pool + slot / a.page_size * a.page_stride + slot % a.page_size * a.token_stride);
    };
    *at(to) = *at(from);
  }
}

typedef u32 Bytes16 __attribute__((ext_vector_type(4)));

extern "C" __global__ WORKGROUP(THREADS) void kv_compact_16(const KvCompactArgs a) { compact<Bytes16>(a); }
extern "C" __global__ WORKGROUP(THREADS) void kv_compact_4(const KvCompactArgs a) { compact<u32>(a); }
extern "C" __global__ WORKGROUP(THREADS) void kv_compact_1(const KvCompactArgs a) { compact<unsigned char>(a); }
extern "C" __global__ WORKGROUP(THREADS) void kv_move_16(const KvMoveArgs a) { move_slots<Bytes16>(a); }
extern "C" __global__ WORKGROUP(THREADS) void kv_move_4(const KvMoveArgs a) { move_slots<u32>(a); }
extern "C" __global__ WORKGROUP(THREADS) void kv_move_1(const KvMoveArgs a) { move_slots<unsigned char>(a); }

}  // namespace specverify
