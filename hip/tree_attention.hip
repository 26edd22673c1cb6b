// Attention of a verification pass over a paged KV cache: the rows of a request are the root and the nodes of its draft tree.
// Every row sees the prefix and the root; which nodes it sees, its ancestor bits say. docs/kernels.md explains the choices.
//
// One workgroup: one request x one KV head x one split of the keys x ROWS query rows, a query row being a (tree row, head of the
// GQA group) pair. Keys come in tiles that start at multiples of KEYS, whatever the request, so that the result of a row depends
// on what it sees and on nothing else. S^T = K Q^T leaves the probabilities of a query in the registers that O^T = V^T P^T wants
// them in: they never go through LDS, and the softmax state of a query is local to its four lanes.
#include "abi.h"
#include "attention.h"
#include "device.h"

namespace specverify {

namespace {

constexpr int THREADS = 256;
constexpr int WAVES = THREADS / WAVE;
constexpr int GROUP = 16;  // keys that one wave loads together: they lie in one page, whose size is a multiple of 16

constexpr int ROWS = 16 * WAVES;  // query rows of a workgroup, 16 a wave

// T: type of q, out and the matrix cores. KV: type of the cache. D: head dimension.
template <typename T, typename KV, int D> struct TreeAttention {
  typedef typename Fragment<T>::x4 Fragment4;
  typedef typename Fragment<T>::x8 Fragment8;
  typedef typename Cache<T, KV>::Eight Raw;

  static constexpr int COLUMNS = D / 8;                     // 16-byte chunks of a key
  static constexpr int K_CHUNKS = D <= 64 ? 8 : D <= 128 ? 16 : 32;  // of its row in LDS: a power of two, for the swizzle
  static constexpr int KEYS = D <= 128 ? 64 : 32;           // of a tile: 32 KiB of LDS and the registers for two waves a SIMD
  static constexpr int V_CHUNKS = KEYS / 8;
  static constexpr int BLOCKS = KEYS / 32;                  // pairs of 16-key matrix tiles
  static constexpr int SLICES = D / 32;                     // full 32-wide steps of a q . k
  static constexpr bool TAIL = D % 32 != 0;                 // and a 16-wide one
  static constexpr int GROUPS = KEYS / GROUP;
  static_assert(D % 16 == 0 && GROUPS * ((COLUMNS + 15) / 16) == WAVES, "a wave loads 16 columns of 16 keys");
  static_assert(V_CHUNKS * 16 <= LINE, "several rows of V share a line of banks");

  // K: [KEYS][K_CHUNKS], and V transposed: [D][V_CHUNKS]. Where a chunk lies is XORed with bits of its row, so that the lanes which LDS
  // serves in one cycle meet different banks: 8 of those that read or write 16 bytes, 16 of those that write 8. On gfx950 twice as many
  // read, lanes 0-3, 12-15, 20-23 and 24-27 first, from twice as many banks.
  u32x4* k_tile;
  u32x4* v_tile;
  const TreeAttentionArgs& a;
  u32 lane, wave, low, high;

  // A wave reads the keys of a matrix tile as 8 * (low / 4) + low % 4. Eight lanes write the chunks of one key, in any order.
  static __device__ __forceinline__ u32 k_index(u32 key, u32 chunk) {
    const u32 low = key % 4 + key / 8 % 4 * 4;
    const u32 swizzle = K_CHUNKS >= 16 ? low : LINE == 128 ? low % 8 : low / 2;  // two short keys share a line of 256 bytes
    return (key * K_CHUNKS + chunk) ^ swizzle;
  }
  // A wave reads 16 neighbouring d; eight lanes write d that are 8 apart. On gfx950 half the lanes of a cycle read a chunk, and the
  // other half, whose d differ in d / 4 % 2 ^ d / 8 % 2, the next chunk.
  static __device__ __forceinline__ u32 v_index(u32 d, u32 chunk) {
    constexpr u32 rows = LINE / (V_CHUNKS * 16);
    const u32 reads = LINE == 128 ? d / rows % V_CHUNKS : V_CHUNKS == 8 ? d / 2 % 8 : d / 8 % 2 * 2;
    const u32 writes = LINE == 128 ? d / 8 % 8 : V_CHUNKS == 8 ? d / 16 % 4 : d / 16 % 2 + d / 32 % 2 * 4;
    return (d * V_CHUNKS + chunk) ^ reads ^ writes;
  }

  struct Staged {
    Raw k[4], v[4];  // four neighbouring keys of one column
  };
  struct Query {
    Fragment8 full[SLICES];
    Fragment4 tail;
    i32 row;  // in the request
  };
  struct State {
    f32x4 out[D / 16];
    f32 maximum, sum;
  };

  // ---- from the cache to registers
  // Eight lanes fetch 128 bytes of one key; lanes 8 apart hold neighbouring quads, which share a chunk of the transposed V.
  // Lanes beyond the last column do as the last one's: were they to leave instead, the compiler would take the loop over tiles for one that
  // lanes leave at different times, look up pages lane by lane, and wait for the next tile's keys before it uses this one's.
  __device__ __forceinline__ u32 column() const { return min(wave / GROUPS * 16 + lane / 16 % 2 * 8 + lane % 8, COLUMNS - 1); }
  __device__ __forceinline__ u32 quad() const { return lane / 32 * 2 + lane / 8 % 2; }
  __device__ __forceinline__ u32 first_key() const { return wave % GROUPS * GROUP; }  // of this wave, in the tile

  __device__ __forceinline__ i32 lookup(const Range& range, i32 request, i32 key) const {
    if (key >= range.end) return 0;
    const u32 page = u32(u64(u32(key)) * range.page_magic >> 32);
    return scalar_load(a.block_table + request * a.table_stride + page);
  }

  // Past the end, the last key once more: in the cache, whatever the page. stage() drops it.
  __device__ __forceinline__ void fetch(Staged& staged, const Range& range, i32 page, i32 key, const KV* k_head, const KV* v_head) const {
    if (key >= range.end) return;
    const u32 within = u32(key) - u32(u64(u32(key)) * range.page_magic >> 32) * a.page_size, last = range.end - 1 - key;
    const u8* k = (const u8*)(k_head + page * a.k_stride_page + within * a.k_stride_token);
    const u8* v = (const u8*)(v_head + page * a.v_stride_page + within * a.v_stride_token);
    const u32 c = column();
    for (int i = 0; i < 4; i++) {
      const u32 token = min(4 * quad() + i, last);
      staged.k[i] = *(const Raw*)(k + (token * u32(a.k_stride_token) + 8 * c) * u32(sizeof(KV)));
      staged.v[i] = *(const Raw*)(v + (token * u32(a.v_stride_token) + 8 * c) * u32(sizeof(KV)));
    }
  }

  // ---- from registers to LDS
  // A row's hidden keys weigh zero, and zero times NaN or infinity is NaN. Where some row may not see a key, such a V becomes
  // zero and its K becomes NaN: those who see the key get NaN as they should, the others nothing. Past the end lie zeros.
  __device__ __forceinline__ void stage(const Staged& staged, const Range& range, i32 tile) const {
    const u32 key = first_key() + 4 * quad(), c = column();
    u32x4 k[4], v[4];
    for (int i = 0; i < 4; i++) {
      k[i] = Cache<T, KV>::widen(staged.k[i]);
      v[i] = Cache<T, KV>::widen(staged.v[i]);
    }
    if (masked(range, tile))
      for (int i = 0; i < 4; i++) {
        const bool inside = tile + i32(key) + i < range.end, sound = finite<T>(v[i]);
        k[i] = inside ? k[i] : u32x4{};
        v[i] = inside && sound ? v[i] : u32x4{};
        k[i].x = inside && !sound ? ~0u : k[i].x;
      }
    for (int i = 0; i < 4; i++) k_tile[k_index(key + i, c)] = k[i];
    u32x2* half = (u32x2*)v_tile;
    for (int j = 0; j < 8; j++) {
      const u32x2 keys = j % 2 ? u32x2{high_halves(v[0][j / 2], v[1][j / 2]), high_halves(v[2][j / 2], v[3][j / 2])}
                               : u32x2{low_halves(v[0][j / 2], v[1][j / 2]), low_halves(v[2][j / 2], v[3][j / 2])};
      half[v_index(8 * c + j, key / 8) * 2 + key / 4 % 2] = keys;
    }
  }

  // ---- from LDS to the matrix cores
  __device__ __forceinline__ Fragment4 half_of(u32x4 chunk) const {
    return bit_cast<Fragment4>(high < 2 ? u32x2{chunk.x, chunk.y} : u32x2{chunk.z, chunk.w});
  }

  __device__ __forceinline__ void load_query(Query& query, const T* q, bool valid) const {
    for (int s = 0; s < SLICES; s++)
      query.full[s] = valid ? *(const Fragment8*)(q + 32 * s + 8 * high) : Fragment8{};
    if (TAIL) query.tail = valid ? *(const Fragment4*)(q + 32 * SLICES + high % 2 * 8 + high / 2 * 4) : Fragment4{};
    // Wait for them here: left to the loop, the wait would be for the keys of the next tile as well, which come after.
    for (int s = 0; s < SLICES; s++) asm volatile("" : "+v"(query.full[s]));
    if (TAIL) asm volatile("" : "+v"(query.tail));
  }

  struct Scaling {
    f32 factor;   // from q . k to the logarithm of base 2, or to the argument of exp2 in tanh
    f32 softcap;  // in base 2
  };
  // Behind a branch, which the empty assembly keeps the compiler from turning into a choice between two results: who has no soft-cap
  // would compute it for nothing, a third of all vector time. At dimension 256 the branch costs registers that are not there.
  __device__ __forceinline__ void cap(f32x4 (&s)[2 * BLOCKS], const Scaling& scaling) const {
    const bool capped = a.softcap != 0;
    if (D <= 128) {
      if (!capped) return;
      asm volatile("");
    }
    for (int t = 0; t < 2 * BLOCKS; t++)
      for (int r = 0; r < 4; r++) {
        const f32 tanh = 1 - 2 * reciprocal(exp2(s[t][r]) + 1);  // tanh(y) = 1 - 2 / (exp(2 y) + 1)
        s[t][r] = D <= 128 || capped ? scaling.softcap * tanh : s[t][r];
      }
  }

  // Whether some row may not see some key of a tile.
  __device__ __forceinline__ bool masked(const Range& range, i32 tile) const {
    return tile + KEYS > range.context || (a.window > 0 && range.context + range.rows - tile > a.window);
  }
  __device__ __forceinline__ void mask(f32x4 (&s)[2 * BLOCKS], const Range& range, i32 row, i32 tile) const {
    const Nodes seen = nodes(a, range.row_begin, row);
    const i32 depth = seen.count();
    u32 bits = 0;  // of this lane's keys, in the order of s: a loop that is not unrolled, for it is long and runs seldom
#pragma clang loop unroll(disable)
    for (int n = 0; n < 8 * BLOCKS; n++) {
      const i32 key = tile + 32 * (n / 8) + 8 * high + n % 8, node = key - range.context - 1;
      bool visible = key < range.end && (node < 0 || (node < 128 && seen.has(node)));
      if (a.window > 0) {
        if (node < 0)
          visible = visible && range.context + depth - key < a.window;
        else if (a.window < range.rows && visible)  // a window as long as the tree cuts off no node
          visible = depth - nodes(a, range.row_begin, node + 1).count() < a.window;
      }
      bits |= u32(visible) << n;
    }
    for (int t = 0; t < 2 * BLOCKS; t++)
      for (int r = 0; r < 4; r++) s[t][r] = bits >> (4 * t + r) & 1 ? s[t][r] : -infinity();
  }

  // One tile of keys.
  __device__ __forceinline__ void attend(State& state, const Query& query, const Range& range, i32 tile,
                                         const Scaling& scaling) const {
    f32x4 s[2 * BLOCKS];
    const u32 k_row = 8 * (low / 4) + low % 4;
    for (int t = 0; t < 2 * BLOCKS; t++) {
      const u32 key = 32 * (t / 2) + 4 * (t % 2) + k_row;
      s[t] = f32x4{};
      for (int i = 0; i < SLICES; i++)
        s[t] = mfma_16x16x32(bit_cast<Fragment8>(k_tile[k_index(key, 4 * i + high)]), query.full[i], s[t]);
      if (TAIL) s[t] = mfma_16x16x16(half_of(k_tile[k_index(key, 4 * SLICES + high % 2)]), query.tail, s[t]);
      s[t] *= scaling.factor;
    }
    cap(s, scaling);
    if (masked(range, tile)) mask(s, range, query.row, tile);
    f32 top = s[0][0];
    for (int t = 0; t < 2 * BLOCKS; t++)
      for (int r = 0; r < 4; r++) top = max(top, s[t][r]);
    const f32 old = state.maximum;
    state.maximum = max(old, column_max(top));
    const f32 origin = state.maximum == -infinity() ? 0 : state.maximum;  // nothing seen yet: every weight is 0
    const f32 shrink = exp2(old - origin);
    f32 sum = 0;
    for (int t = 0; t < 2 * BLOCKS; t++)
      for (int r = 0; r < 4; r++) sum += s[t][r] = exp2(s[t][r] - origin);
    state.sum = state.sum * shrink + sum;
    if (ballot(shrink != 1))  // the maximum of a long context seldom moves
      for (int i = 0; i < D / 16; i++) state.out[i] *= shrink;
    Fragment8 p[BLOCKS];
    for (int b = 0; b < BLOCKS; b++) {
      const f32x4 x = s[2 * b], y = s[2 * b + 1];
      p[b] = bit_cast<Fragment8>(u32x4{pack_probability<T>(x[0], x[1]), pack_probability<T>(x[2], x[3]),
                                       pack_probability<T>(y[0], y[1]), pack_probability<T>(y[2], y[3])});
    }
    for (int i = 0; i < D / 16; i++)
      for (int b = 0; b < BLOCKS; b++) {
        const Fragment8 v = bit_cast<Fragment8>(v_tile[v_index(16 * i + low, 4 * b + high)]);
        state.out[i] = mfma_16x16x32(v, p[b], state.out[i]);
      }
  }

  __device__ __forceinline__ void run() const {
    // Workgroups are dealt to the eight dies in turn. block_x names the die, so that those which read the same keys for other
    // query rows run on one die, one after the other, and find the keys in its cache.
    const u32 unit = block_z() * 8 + block_x();
    const u32 splits = a.splits, kv_heads = a.kv_heads, heads_per_kv = u32(a.heads) / kv_heads;
    const u32 request = unit / (splits * kv_heads);
    if (request >= u32(a.requests)) return;
    const u32 kv_head = unit / splits % kv_heads, split = unit % splits;

    Range range = rows_of(a, request);
    const i32 queries = range.rows * heads_per_kv, first = block_y() * ROWS;
    if (first >= queries) return;
    split_keys(a, range, request, split);
    if (a.window > 0) range.begin = max(range.begin, (range.context - a.window + 1) / KEYS * KEYS);

    const u32 head_magic = 65536 / heads_per_kv + 1;  // exact for the 2048 queries of 128 rows x 16 heads
    const i32 tile_first = first + wave * 16, index = tile_first + low;
    const bool valid = index < queries;
    Query query;
    query.row = valid ? u32(index) * head_magic >> 16 : 0;
    const i64 row = range.row_begin + query.row;
    const i32 head = valid ? i32(kv_head * heads_per_kv) + index - query.row * i32(heads_per_kv) : 0;
    State state;
    for (int i = 0; i < D / 16; i++) state.out[i] = f32x4{};
    state.maximum = -infinity();
    state.sum = 0;

    // Where the result goes, settled now: what it is computed from would fill the scalar registers throughout the loop.
    const u32 slot = (split * u32(a.rows) + u32(row)) * u32(a.heads) + u32(head);
    u8* out = splits == 1 ? (u8*)((T*)a.out + row * a.out_stride_row + head * a.out_stride_head) + 8 * high
                          : (u8*)(a.partial_out + u64(slot) * D) + 16 * high;
    f32* stats = a.partial_stats + 2 * u64(slot);
    asm volatile("" : "+v"(out), "+v"(stats));

    Scaling scaling;
    const f32 scale = a.scale * (a.k_scale ? scalar_load(a.k_scale) : 1);
    scaling.factor = a.softcap == 0 ? scale * LOG2_E : scale * (2 * LOG2_E) * reciprocal(a.softcap);
    scaling.softcap = a.softcap * LOG2_E;

    const KV* k_head = (const KV*)a.k + kv_head * a.k_stride_head;
    const KV* v_head = (const KV*)a.v + kv_head * a.v_stride_head;
    if (range.begin < range.end) {
      // Three stages at once: the page of the tile after next, the keys of the next tile in registers, this tile in LDS.
      Staged staged = {};
      const i32 mine = range.begin + first_key();
      fetch(staged, range, lookup(range, request, mine), mine, k_head, v_head);
      i32 page = lookup(range, request, mine + KEYS);
      load_query(query, (const T*)a.q + row * a.q_stride_row + head * a.q_stride_head, valid);
      for (i32 tile = range.begin; tile < range.end; tile += KEYS) {
        if (tile != range.begin) barrier();
        stage(staged, range, tile);
        barrier();
        const i32 next = tile + KEYS + first_key();
        fetch(staged, range, page, next, k_head, v_head);
        page = lookup(range, request, next + KEYS);
        if (tile_first < queries) attend(state, query, range, tile, scaling);
      }
    }

    if (!valid) return;
    const f32 sum = column_sum(state.sum);
    if (splits == 1) {
      const f32 factor = (a.v_scale ? scalar_load(a.v_scale) : 1) * reciprocal(sum);
      for (int i = 0; i < D / 16; i++) {
        const f32x4 x = state.out[i] * factor;
        *(u32x2*)(out + 32 * i) = u32x2{pack<T>(x[0], x[1]), pack<T>(x[2], x[3])};
      }
      return;
    }
    if (high == 0) *(f32x2*)stats = f32x2{state.maximum, sum};
    if (range.begin < range.end)  // the reduction does not read a part whose sum is 0
      for (int i = 0; i < D / 16; i++) *(f32x4*)(out + 64 * i) = state.out[i];
  }
};

}  // namespace

#define TREE_ATTENTION(q, Q, kv, KV, dim)                                                                       \
  extern "C" __global__ WORKGROUP(THREADS) WAVES_PER_SIMD(2) void tree_attention_##q##_##kv##_d##dim(const TreeAttentionArgs args) { \
    typedef TreeAttention<Q, KV, dim> Kernel;                                                                   \
    __shared__ u32x4 k_tile[Kernel::KEYS * Kernel::K_CHUNKS], v_tile[dim * Kernel::V_CHUNKS];                   \
    const u32 lane = lane_id();                                                                                 \
    Kernel{k_tile, v_tile, args, lane, wave_id(), lane % 16, lane / 16}.run();                                  \
  }
#define TREE_ATTENTION_REDUCE(q, Q, dim)                                                                             \
  extern "C" __global__ WORKGROUP(THREADS) void tree_attention_reduce_##q##_d##dim(const TreeAttentionArgs args) {     \
    reduce_splits<Q, dim, WAVE>(args, block_x() * WAVES + wave_id(), args.v_scale ? scalar_load(args.v_scale) : 1);     \
  }
#define TREE_ATTENTION_DIM(dim)                     \
  TREE_ATTENTION(bf16, bf16, bf16, bf16, dim)       \
  TREE_ATTENTION(bf16, bf16, fp8, Fp8, dim)         \
  TREE_ATTENTION(f16, f16, f16, f16, dim)           \
  TREE_ATTENTION(f16, f16, fp8, Fp8, dim)           \
  TREE_ATTENTION_REDUCE(bf16, bf16, dim)            \
  TREE_ATTENTION_REDUCE(f16, f16, dim)

TREE_ATTENTION_DIM(64)
TREE_ATTENTION_DIM(80)
TREE_ATTENTION_DIM(96)
TREE_ATTENTION_DIM(112)
TREE_ATTENTION_DIM(128)
TREE_ATTENTION_DIM(256)

}  // namespace specverify
