// The device header: the few things every kernel needs, built on compiler builtins alone, so that the same source compiles with
// hipcc and its headers and with a bare clang (-nogpuinc -nostdinc). Only gfx942 and gfx950 (wave64, MFMA) are supported.
#pragma once

#if __has_include(<hip/hip_runtime.h>)
#include <hip/hip_runtime.h>
#endif
#ifndef __global__
#define __global__ __attribute__((global))
#endif
#ifndef __device__
#define __device__ __attribute__((device))
#endif
#ifndef __shared__
#define __shared__ __attribute__((shared))
#endif
#ifndef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
#endif
// HIP's __launch_bounds__ allows smaller workgroups, and without HIP's headers it is ignored: state the exact size instead.
#define WORKGROUP(threads) __attribute__((amdgpu_flat_work_group_size(threads, threads)))
// At least so many waves on each SIMD: limits the registers.
#define WAVES_PER_SIMD(waves) __attribute__((amdgpu_waves_per_eu(waves)))

#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__

// HIP's headers, which hipcc puts before every source, have an exp2, a max and a min of their own, which round otherwise. Inside a
// namespace ours hide them: kernels are written in it too.
namespace specverify {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
typedef float f32;
typedef double f64;
typedef _Float16 f16;
typedef __bf16 bf16;

typedef short s16x4 __attribute__((ext_vector_type(4)));
typedef u32 u32x2 __attribute__((ext_vector_type(2)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef f32 f32x2 __attribute__((ext_vector_type(2)));
typedef f32 f32x4 __attribute__((ext_vector_type(4)));
typedef bf16 bf16x2 __attribute__((ext_vector_type(2)));
typedef bf16 bf16x4 __attribute__((ext_vector_type(4)));
typedef bf16 bf16x8 __attribute__((ext_vector_type(8)));
typedef f16 f16x2 __attribute__((ext_vector_type(2)));
typedef f16 f16x4 __attribute__((ext_vector_type(4)));
typedef f16 f16x8 __attribute__((ext_vector_type(8)));

constexpr int WAVE = 64;
constexpr f32 LOG2_E = 1.44269504088896341f;
DEVICE f32 infinity() { return __builtin_inff(); }

template <typename To, typename From> DEVICE To bit_cast(From x) { return __builtin_bit_cast(To, x); }

// ---- where this thread is
DEVICE u32 thread_id() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE u32 lane_id() { return __builtin_amdgcn_workitem_id_x() % WAVE; }
// The same for the whole wave: kept in a scalar register, so that what is derived from it is computed once a wave.
DEVICE u32 wave_id() { return __builtin_amdgcn_readfirstlane(__builtin_amdgcn_workitem_id_x() / WAVE); }
DEVICE u32 block_x() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE u32 block_y() { return __builtin_amdgcn_workgroup_id_y(); }
DEVICE u32 block_z() { return __builtin_amdgcn_workgroup_id_z(); }

// Every wave of the workgroup arrives, and sees what the others wrote to LDS. Global loads in flight are not waited for.
DEVICE void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
  // lgkmcnt(0). The fence alone lets a read of LDS whose value nobody wants outlive the barrier.
  __builtin_amdgcn_s_waitcnt(0xC07F);
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}

// The compiler moves nothing across: loads stay as far ahead of their use as they are written.
DEVICE void keep_order() { __builtin_amdgcn_sched_barrier(0); }

// A value at a wave-uniform address in memory that nobody writes while the kernel runs: one scalar load for the wave.
template <typename T> DEVICE T scalar_load(const T* p) { return *(const __attribute__((address_space(4))) T*)p; }

// ---- mathematics, one instruction each (1 ulp)
DEVICE f32 exp2(f32 x) { return __builtin_amdgcn_exp2f(x); }
DEVICE f32 reciprocal(f32 x) { return __builtin_amdgcn_rcpf(x); }
DEVICE f32 max(f32 a, f32 b) { return __builtin_fmaxf(a, b); }
DEVICE i32 max(i32 a, i32 b) { return a > b ? a : b; }
DEVICE u32 max(u32 a, u32 b) { return a > b ? a : b; }
DEVICE u32 min(u32 a, u32 b) { return a < b ? a : b; }
DEVICE u64 max(u64 a, u64 b) { return a > b ? a : b; }
DEVICE i32 ceil_div(i32 a, i32 b) { return (a + b - 1) / b; }

// ---- between the lanes of a wave
template <typename T> DEVICE T shuffle(T x, u32 lane) {
  static_assert(sizeof(T) == 4, "one register");
  return bit_cast<T>(__builtin_amdgcn_ds_bpermute(i32(lane * 4), bit_cast<i32>(x)));
}
template <typename T> DEVICE T shuffle_xor(T x, u32 mask) { return shuffle(x, lane_id() ^ mask); }
template <typename T> DEVICE T read_lane(T x, u32 lane) {
  static_assert(sizeof(T) == 4, "one register");
  return bit_cast<T>(__builtin_amdgcn_readlane(bit_cast<i32>(x), i32(lane)));
}
// The first active lane's. The compiler knows that it is the same for all, so that what depends on it branches as one.
DEVICE u32 first_lane(u32 x) { return __builtin_amdgcn_readfirstlane(x); }
DEVICE i32 first_lane(i32 x) { return i32(first_lane(u32(x))); }
DEVICE u64 first_lane(u64 x) { return u64(first_lane(u32(x >> 32))) << 32 | first_lane(u32(x)); }
DEVICE f32 first_lane(f32 x) { return bit_cast<f32>(first_lane(bit_cast<u32>(x))); }
DEVICE u64 ballot(bool x) { return __builtin_amdgcn_ballot_w64(x); }
DEVICE u64 shuffle(u64 x, u32 lane) { return u64(shuffle(u32(x >> 32), lane)) << 32 | shuffle(u32(x), lane); }
DEVICE u64 shuffle_xor(u64 x, u32 mask) { return shuffle(x, lane_id() ^ mask); }
// Bits of a mask below this lane.
DEVICE u32 count_below(u64 mask) { return __builtin_amdgcn_mbcnt_hi(u32(mask >> 32), __builtin_amdgcn_mbcnt_lo(u32(mask), 0)); }

// Adds to a value in LDS, whatever the other waves of the workgroup add meanwhile; returns what was there.
template <typename T> DEVICE T atomic_add(T* p, T x) {
  return __hip_atomic_fetch_add(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
}

// Data-parallel primitive: the value of another lane of the same row of 16, at no cost over the operation that uses it.
template <int CONTROL> DEVICE f32 dpp(f32 x) {
  return bit_cast<f32>(__builtin_amdgcn_update_dpp(0, bit_cast<i32>(x), CONTROL, 0xf, 0xf, true));
}
constexpr int ROW_ROTATE = 0x120;  // + 1..15 lanes to the right
constexpr int QUAD_SWAP_1 = 0xB1;  // lane ^ 1
constexpr int QUAD_SWAP_2 = 0x4E;  // lane ^ 2
constexpr int HALF_MIRROR = 0x141;  // the 8 lanes of a half row in reverse

// Over the 16 lanes of a row; every lane gets the result, in an order of operations that depends on the lane only by symmetry.
DEVICE f32 row_max(f32 x) {
  x = max(x, dpp<ROW_ROTATE + 8>(x));
  x = max(x, dpp<ROW_ROTATE + 4>(x));
  x = max(x, dpp<ROW_ROTATE + 2>(x));
  return max(x, dpp<ROW_ROTATE + 1>(x));
}
DEVICE f32 row_sum(f32 x) {
  x += dpp<ROW_ROTATE + 8>(x);
  x += dpp<ROW_ROTATE + 4>(x);
  x += dpp<ROW_ROTATE + 2>(x);
  return x + dpp<ROW_ROTATE + 1>(x);
}
// Over the four rows of a wave: lanes with the same lane % 16.
DEVICE f32 column_max(f32 x) {
  x = max(x, shuffle_xor(x, 16));
  return max(x, shuffle_xor(x, 32));
}
DEVICE f32 column_sum(f32 x) {
  x += shuffle_xor(x, 16);
  return x + shuffle_xor(x, 32);
}
DEVICE f32 wave_max(f32 x) { return column_max(row_max(x)); }
DEVICE f32 wave_sum(f32 x) { return column_sum(row_sum(x)); }

// ---- numbers
// Two f32 rounded to the nearest pair of T, packed in one register.
template <typename T> DEVICE u32 pack(f32 low, f32 high);
template <> __forceinline__ __device__ u32 pack<f16>(f32 low, f32 high) {
  return bit_cast<u32>(f16x2{f16(low), f16(high)});
}
template <> __forceinline__ __device__ u32 pack<bf16>(f32 low, f32 high) {
  return bit_cast<u32>(bf16x2{bf16(low), bf16(high)});
}
// As pack, for a probability: the compiler's conversion to bf16 spends half its instructions on keeping NaN apart.
template <typename T> DEVICE u32 pack_probability(f32 low, f32 high) { return pack<T>(low, high); }
#if defined(__gfx942__)
template <> __forceinline__ __device__ u32 pack_probability<bf16>(f32 low, f32 high) {
  const u32 a = bit_cast<u32>(low), b = bit_cast<u32>(high);
  return __builtin_amdgcn_perm(b + (0x7fff + (b >> 16 & 1)), a + (0x7fff + (a >> 16 & 1)), 0x07060302);
}
#endif
// The high halves of two registers.
DEVICE u32 high_halves(u32 low, u32 high) { return __builtin_amdgcn_perm(high, low, 0x07060302); }
DEVICE u32 low_halves(u32 low, u32 high) { return __builtin_amdgcn_perm(high, low, 0x05040100); }

// Two of the four e4m3 values in a register: fnuz on gfx942, OCP on gfx950, as the hardware converts.
template <bool HIGH> DEVICE f32x2 fp8_pair(u32 four) { return __builtin_amdgcn_cvt_pk_f32_fp8(i32(four), HIGH); }
// Four e4m3 values as four T. Exact: e4m3 fits in the significand and the range of both types.
template <typename T> DEVICE u32x2 widen_fp8(u32 four);
template <> __forceinline__ __device__ u32x2 widen_fp8<bf16>(u32 four) {
  const f32x2 a = fp8_pair<false>(four), b = fp8_pair<true>(four);
  return u32x2{high_halves(bit_cast<u32>(a.x), bit_cast<u32>(a.y)), high_halves(bit_cast<u32>(b.x), bit_cast<u32>(b.y))};
}
template <> __forceinline__ __device__ u32x2 widen_fp8<f16>(u32 four) {
  const f32x2 a = fp8_pair<false>(four), b = fp8_pair<true>(four);
  return u32x2{pack<f16>(a.x, a.y), pack<f16>(b.x, b.y)};
}

// ---- matrix cores: c[i][j] += sum over k of a[i][k] * b[j][k], in f32
// Operands: lane l holds row l % 16 and, of the 16 (32) k, the 4 (8) that start at 4 (8) * (l / 16).
// Result: lane l holds column l % 16 and rows 4 * (l / 16) + 0..3.
template <typename T> struct Fragment;
template <> struct Fragment<bf16> { typedef bf16x4 x4; typedef bf16x8 x8; };
template <> struct Fragment<f16> { typedef f16x4 x4; typedef f16x8 x8; };

#if defined(__gfx942__) || defined(__gfx950__)
DEVICE f32x4 mfma_16x16x16(bf16x4 a, bf16x4 b, f32x4 c) {
  return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(bit_cast<s16x4>(a), bit_cast<s16x4>(b), c, 0, 0, 0);
}
DEVICE f32x4 mfma_16x16x16(f16x4 a, f16x4 b, f32x4 c) { return __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0); }
#if defined(__gfx950__)
DEVICE f32x4 mfma_16x16x32(bf16x8 a, bf16x8 b, f32x4 c) { return __builtin_amdgcn_mfma_f32_16x16x32_bf16(a, b, c, 0, 0, 0); }
DEVICE f32x4 mfma_16x16x32(f16x8 a, f16x8 b, f32x4 c) { return __builtin_amdgcn_mfma_f32_16x16x32_f16(a, b, c, 0, 0, 0); }
#else
// gfx942 has no such instruction. The halves pair other k than one instruction would, but the same in both operands.
template <typename V> DEVICE f32x4 mfma_16x16x32(V a, V b, f32x4 c) {
  return mfma_16x16x16(a.hi, b.hi, mfma_16x16x16(a.lo, b.lo, c));
}
#endif
#elif defined(__HIP_DEVICE_COMPILE__)
#error "these kernels need the matrix cores of gfx942 or gfx950"
#endif

}  // namespace specverify
