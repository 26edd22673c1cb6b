// Absorbed MLA attention of a verification pass: all heads of a row share one latent key a token, 512 elements that are the value
// too and 64 that are rotated by position. Trees, paged cache and splits are those of tree_attention. docs/kernels.md explains
// the choices.
//
// One workgroup: one request x one split of the keys x ROWS query rows, a query row being a (tree row, head) pair. Its eight waves
// share the 64 x 32 scores of a tile of keys by 16 x 16 blocks, and then the 64 x 512 products with V by 64 columns: an
// accumulator so wide fits the registers of two waves a SIMD only when all of them hold a part. The latent is read from LDS
// as K and, transposed in registers, as V: it is there once.
#include "abi.h"
#include "attention.h"
#include "device.h"

namespace specverify {
namespace {

constexpr int THREADS = 512;
constexpr int WAVES = THREADS / WAVE;
constexpr int ROWS = 64;                 // query rows of a workgroup
constexpr int BLOCKS = ROWS / 16;        // of 16: a matrix tile
constexpr int KEYS = 32;                 // of a tile
constexpr int LATENT = 512, ROTARY = 64, WIDTH = LATENT + ROTARY;
constexpr int CHUNKS = WIDTH / 8;        // 16 bytes of a key in LDS
constexpr int SLICES = WIDTH / 32;       // steps of a q . k
constexpr int EACH = KEYS / WAVES;       // keys that a wave fetches
constexpr int AHEAD = 6;                 // steps of a q . k whose keys are on their way from LDS
constexpr int MAX_SPLITS = 256;
constexpr int REDUCE_WAVES = 4;
static_assert(BLOCKS * KEYS / 16 == WAVES && LATENT == 64 * WAVES && EACH == 4, "every wave has a block of scores and 64 columns");

// What the waves tell each other.
struct Shared {
  u32x4 tile[KEYS * CHUNKS];
  u32x2 p[ROWS * KEYS / 4];  // probabilities, four keys each
  f32 top[2][ROWS];          // greatest score of each half of the keys; at the end, sum of their weights
  f32 shrink[ROWS];          // factor of what was accumulated before
};

// T: type of q, out and the matrix cores. KV: type of the cache.
template <typename T, typename KV> struct MlaTreeAttention {
  typedef typename Fragment<T>::x8 Fragment8;
  typedef typename Cache<T, KV>::Eight Eight;
  typedef typename Cache<T, KV>::Four Four;

  Shared& shared;
  const MlaTreeAttentionArgs& a;
  u32 lane, wave, low, high;  // lane = 16 * high + low

  // The chunks of eight neighbouring keys start at the same bank: XORed with the key, the 8 (gfx950: 16) lanes that LDS serves in one cycle
  // meet different ones, in the writes of whole keys, in the reads of 16 keys by chunk and in those of 4 keys by 8 chunks.
  static __device__ __forceinline__ u32 tile_index(u32 key, u32 chunk) { return key * CHUNKS + (chunk ^ key % 8); }
  static __device__ __forceinline__ u32 p_index(u32 query, u32 quad) { return query * (KEYS / 4) + (quad ^ query / 2 % 8); }

  struct Staged {
    Eight latent[EACH];  // chunk `lane` of each key of the wave
    Four rotary;    // half a chunk of key `high`
  };
  struct State {
    f32x4 out[BLOCKS][4];  // [b][j][r]: query 16 b + low, column 64 wave + 16 high + 4 r + j
    f32 maximum, sum;      // of query 16 (wave % BLOCKS) + low; the sum is of this lane's keys
  };

  // ---- from the cache to registers
  struct Pages {
    i32 of[EACH];
  };
  __device__ __forceinline__ u32 page_of(const Range& range, u32 key) const {
    const u32 whole = a.page_size == 1 ? ~0u : 0;  // then the magic is 2^32, of which 32 bits hold 0
    return u32(u64(key) * range.page_magic >> 32) + (key & whole);
  }
  // Past the end, the last key once more: in the cache, whatever the page. stage() drops it.
  __device__ __forceinline__ i32 key_of(const Range& range, i32 tile, u32 i) const {
    return min(u32(tile) + EACH * wave + i, u32(range.end - 1));
  }
  __device__ __forceinline__ Pages lookup(const Range& range, const i32* table, i32 tile) const {
    Pages pages;
    for (int i = 0; i < EACH; i++) pages.of[i] = scalar_load(table + page_of(range, key_of(range, tile, i)));
    return pages;
  }
  __device__ __forceinline__ void fetch(Staged& staged, const Range& range, const Pages& pages, i32 tile) const {
    const u8* keys[EACH];
    for (int i = 0; i < EACH; i++) {
      const u32 key = key_of(range, tile, i), within = key - page_of(range, key) * u32(a.page_size);
      keys[i] = (const u8*)((const KV*)a.kv + pages.of[i] * a.kv_stride_page + within * a.kv_stride_token);
      staged.latent[i] = *(const Eight*)(keys[i] + lane * u32(sizeof(Eight)));
    }
    const u8* mine = high < 2 ? (high < 1 ? keys[0] : keys[1]) : high < 3 ? keys[2] : keys[3];
    staged.rotary = *(const Four*)(mine + LATENT * sizeof(KV) + low * u32(sizeof(Four)));
  }

  // ---- from registers to LDS
  __device__ __forceinline__ bool masked(const Range& range, i32 tile) const { return tile + KEYS > range.context; }

  // A row's hidden keys weigh zero, and zero times NaN or infinity is NaN. Where some row may not see a key, such values become
  // zero and the key's rotary part NaN: those who see the key get NaN as they should, the others nothing. Past the end lie zeros.
  __device__ __forceinline__ void stage(const Staged& staged, const Range& range, i32 tile) const {
    u32x4 latent[EACH];
    for (int i = 0; i < EACH; i++) latent[i] = Cache<T, KV>::widen(staged.latent[i]);
    u32x2 rotary = Cache<T, KV>::widen(staged.rotary);
    const u32 first = EACH * wave;
    if (masked(range, tile)) {
      u32 unsound = 0;
      for (int i = 0; i < EACH; i++) {
        const bool inside = tile + i32(first) + i < range.end, sound = finite<T>(latent[i]);
        unsound |= u32(ballot(!sound) != 0) << i;
        latent[i] = inside && sound ? latent[i] : u32x4{};
      }
      rotary = unsound >> high & 1 ? u32x2{~0u, ~0u} : rotary;
      rotary = tile + i32(first + high) < range.end ? rotary : u32x2{};
    }
    for (int i = 0; i < EACH; i++) shared.tile[tile_index(first + i, lane)] = latent[i];
    ((u32x2*)shared.tile)[tile_index(first + high, LATENT / 8 + low / 2) * 2 + low % 2] = rotary;
  }

  // ---- from LDS to the matrix cores
  // S^T = K Q^T of 16 keys and 16 queries: this lane has query `low` and keys 4 * high + r.
  __device__ __forceinline__ f32x4 scores(const Fragment8 (&query)[SLICES]) const {
    const u32 key = wave / BLOCKS * 16 + low, even = tile_index(key, high), odd = tile_index(key, 4 + high);
    const auto chunk = [&](int i) { return bit_cast<Fragment8>(shared.tile[(i % 2 ? odd : even) + i / 2 * 8]); };
    f32x4 s = {};
    Fragment8 keys[AHEAD];
    for (int i = 0; i < AHEAD; i++) keys[i] = chunk(i);
    for (int i = 0; i < SLICES; i++) {
      s = mfma_16x16x32(keys[i % AHEAD], query[i], s);
      if (i + AHEAD < SLICES) keys[i % AHEAD] = chunk(i + AHEAD);
      keep_order();
    }
    return s;
  }

  // V for O^T += V^T P^T. Of the 32 keys the lanes of `high` have quads `high` and 4 + high, here and there. A lane reads four
  // columns of each, 4 * low + j: matrix row `low` of the j-th product. With 64 banks, lanes 16 apart need keys of another
  // parity: odd `high` read the two keys of a pair the other way round, and put them right where halves are picked.
  struct Values {
    u32x2 of[8];
  };
  __device__ __forceinline__ Values values() const {
    const u32x2* tile = (const u32x2*)shared.tile;
    Values v;
    for (int i = 0; i < 4; i++) {
      const u32 at = tile_index(4 * high + (i ^ high % 2), 8 * wave + low / 2) * 2 + low % 2;
      v.of[i] = tile[at];
      v.of[4 + i] = tile[at + 16 * CHUNKS * 2];
    }
    return v;
  }
  __device__ __forceinline__ void accumulate(State& state, const Values& v, i32 blocks) const {
    u32x4 p[BLOCKS];
    f32 shrink[BLOCKS];
    bool moved = false;
    const u32 near = p_index(low, high), far = p_index(low, 4 + high);
    for (int b = 0; b < BLOCKS; b++) {
      const u32x2 x = shared.p[near + b * 16 * KEYS / 4], y = shared.p[far + b * 16 * KEYS / 4];
      p[b] = u32x4{x.x, x.y, y.x, y.y};
      shrink[b] = shared.shrink[16 * b + low];
      moved |= shrink[b] != 1;
    }
    if (ballot(moved))  // the maximum of a long context seldom moves
      for (int b = 0; b < BLOCKS; b++)
        for (int j = 0; j < 4; j++) state.out[b][j] *= shrink[b];
    const u32 odd = high % 2;
    const u32 low_halves = odd ? 0x01000504 : 0x05040100, high_halves = odd ? 0x03020706 : 0x07060302;
    Fragment8 columns[4];
    for (int j = 0; j < 4; j++) {
      u32x4 keys;
      for (int i = 0; i < 4; i++)
        keys[i] = __builtin_amdgcn_perm(v.of[2 * i + 1][j / 2], v.of[2 * i][j / 2], j % 2 ? high_halves : low_halves);
      columns[j] = bit_cast<Fragment8>(keys);
    }
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
      if (b >= blocks) break;
      for (int j = 0; j < 4; j++) state.out[b][j] = mfma_16x16x32(columns[j], bit_cast<Fragment8>(p[b]), state.out[b][j]);
    }
  }

  // One tile of keys, from the scores on.
  __device__ __forceinline__ void softmax(State& state, f32x4 s) const {
    const u32 half = wave / BLOCKS, query = wave % BLOCKS * 16 + low;
    const f32 top = column_max(max(max(s[0], s[1]), max(s[2], s[3])));
    if (high == 0) shared.top[half][query] = top;
    barrier();
    const f32 old = state.maximum;
    state.maximum = max(old, max(shared.top[0][query], shared.top[1][query]));
    const f32 origin = state.maximum == -infinity() ? 0 : state.maximum;  // nothing seen yet: every weight is 0
    const f32 shrink = exp2(old - origin);
    f32 sum = 0;
    for (int r = 0; r < 4; r++) sum += s[r] = exp2(s[r] - origin);
    state.sum = state.sum * shrink + sum;
    shared.p[p_index(query, 4 * half + high)] = u32x2{pack_probability<T>(s[0], s[1]), pack_probability<T>(s[2], s[3])};
    if (half == 0 && high == 0) shared.shrink[query] = shrink;
    barrier();
  }

  __device__ __forceinline__ void run() const {
    // Workgroups are dealt to the eight dies in turn. block_x names the die, so that those which read the same keys for other
    // query rows run on one die, one after the other, and find the keys in its cache.
    const u32 unit = block_z() * 8 + block_x();
    const u32 request = unit / u32(a.splits), split = unit % u32(a.splits);
    if (request >= u32(a.requests)) return;
    Range range = rows_of(a, request);
    const u32 heads = a.heads;
    const i32 queries = range.rows * i32(heads), first = block_y() * ROWS;
    if (first >= queries) return;
    split_keys(a, range, request, split);
    const i32 blocks = ceil_div(queries - first, 16);

    State state;
    for (int b = 0; b < BLOCKS; b++)
      for (int j = 0; j < 4; j++) state.out[b][j] = f32x4{};
    state.maximum = -infinity();
    state.sum = 0;
    const i32 index = first + wave % BLOCKS * 16 + low;
    const bool valid = index < queries, active = i32(wave % BLOCKS) < blocks;
    const u32 row = valid ? u32(index) / heads : 0, head = valid ? u32(index) - row * heads : 0;

    const i32* table = a.block_table + request * a.table_stride;
    if (range.begin < range.end) {
      // Three stages at once: the pages of the tile after next, the keys of the next tile in registers, this tile in LDS.
      Staged staged;
      fetch(staged, range, lookup(range, table, range.begin), range.begin);
      Pages pages = lookup(range, table, range.begin + KEYS);
      Fragment8 query[SLICES];
      const T* q = (const T*)a.q + (range.row_begin + i32(row)) * a.q_stride_row + head * a.q_stride_head + 8 * high;
      for (int i = 0; i < SLICES; i++) query[i] = valid ? *(const Fragment8*)(q + 32 * i) : Fragment8{};
      const Nodes seen = nodes(a, range.row_begin, row);
      // Wait for them here: left to the loop, the wait would be for the keys of the next tile as well, which come after.
      for (int i = 0; i < SLICES; i++) asm volatile("" : "+v"(query[i]));
      const f32 factor = a.scale * LOG2_E * (a.kv_scale ? scalar_load(a.kv_scale) : 1);
      for (i32 tile = range.begin; tile < range.end; tile += KEYS) {
        // Nobody reads the last tile any more: its values were read before the barriers of its softmax.
        stage(staged, range, tile);
        barrier();
        if (tile + KEYS < range.end) fetch(staged, range, pages, tile + KEYS);
        f32x4 s = {-infinity(), -infinity(), -infinity(), -infinity()};
        if (active) {
          s = scores(query) * factor;
          if (masked(range, tile))
            for (int r = 0; r < 4; r++) {
              const i32 key = tile + i32(wave / BLOCKS * 16 + 4 * high) + r, node = key - range.context - 1;
              s[r] = (key < range.end) & ((node < 0) | seen.has(node & 127)) ? s[r] : -infinity();
            }
        }
        pages = lookup(range, table, tile + 2 * KEYS);  // not before the scores: while it is under way no read of LDS can be told apart
        const Values v = values();  // while the waves wait for each other
        softmax(state, s);
        accumulate(state, v, blocks);
      }
      // vmcnt(0). Nothing is under way; the compiler, which does not see that, would wait wherever it takes the registers of `staged`.
      __builtin_amdgcn_s_waitcnt(0x0F70);
    }

    // The halves of the keys have summed their own weights.
    const f32 half_sum = column_sum(state.sum);
    if (high == 0) shared.top[wave / BLOCKS][wave % BLOCKS * 16 + low] = half_sum;
    barrier();
    const u32 slots = split * u32(a.rows);
    if (a.splits > 1 && valid && wave < BLOCKS && high == 0) {
      const u32 slot = (slots + u32(range.row_begin) + row) * heads + head;
      *(f32x2*)(a.partial_stats + 2 * u64(slot)) = f32x2{state.maximum, shared.top[0][16 * wave + low] + shared.top[1][16 * wave + low]};
    }
    if (range.begin >= range.end) return;  // the reduction does not read a part whose sum is 0
    const f32 value_scale = a.kv_scale ? scalar_load(a.kv_scale) : 1;
    for (int b = 0; b < BLOCKS; b++) {
      const i32 index = first + 16 * b + low;
      if (index >= queries) return;
      const u32 row = u32(index) / heads, head = u32(index) - row * heads, column = 64 * wave + 16 * high;
      f32x4 (&x)[4] = state.out[b];
      if (a.splits > 1) {
        const u32 slot = (slots + u32(range.row_begin) + row) * heads + head;
        f32* out = a.partial_out + u64(slot) * LATENT + column;
        for (int r = 0; r < 4; r++) *(f32x4*)(out + 4 * r) = f32x4{x[0][r], x[1][r], x[2][r], x[3][r]};
        continue;
      }
      const f32 factor = value_scale * reciprocal(shared.top[0][16 * b + low] + shared.top[1][16 * b + low]);
      T* out = (T*)a.out + (range.row_begin + i32(row)) * a.out_stride_row + head * a.out_stride_head + column;
      for (int j = 0; j < 4; j++) x[j] *= factor;
      for (int r = 0; r < 4; r++) *(u32x2*)(out + 4 * r) = u32x2{pack<T>(x[0][r], x[1][r]), pack<T>(x[2][r], x[3][r])};
    }
  }
};

}  // namespace

#define MLA_TREE_ATTENTION(q, Q, kv, KV)                                                                                            \
  extern "C" __global__ WORKGROUP(THREADS) WAVES_PER_SIMD(2) void mla_tree_attention_##q##_##kv(const MlaTreeAttentionArgs args) {    \
    __shared__ Shared shared;                                                                                                       \
    const u32 lane = lane_id();                                                                                                     \
    MlaTreeAttention<Q, KV>{shared, args, lane, wave_id(), lane % 16, lane / 16}.run();                                              \
  }
#define MLA_TREE_ATTENTION_REDUCE(q, Q)                                                                                         \
  extern "C" __global__ WORKGROUP(REDUCE_WAVES * WAVE) void mla_tree_attention_reduce_##q(const MlaTreeAttentionArgs args) {       \
    reduce_splits<Q, LATENT, MAX_SPLITS>(args, block_x() * REDUCE_WAVES + wave_id(),                                            \
                                         args.kv_scale ? scalar_load(args.kv_scale) : 1);                                       \
  }

MLA_TREE_ATTENTION(bf16, bf16, bf16, bf16)
MLA_TREE_ATTENTION(bf16, bf16, fp8, Fp8)
MLA_TREE_ATTENTION(f16, f16, f16, f16)
MLA_TREE_ATTENTION(f16, f16, fp8, Fp8)
MLA_TREE_ATTENTION_REDUCE(bf16, bf16)
MLA_TREE_ATTENTION_REDUCE(f16, f16)

}  // namespace specverify
