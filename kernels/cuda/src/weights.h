// Weights in the order in which mma reads them.
//
// A weight [rows, cols] is cut into units of 16 rows and 32 columns, padded with zeros. The
// units of 16 rows lie together. In a unit, lane l of a warp has its 16 elements side by side:
// with g = l/4 and t = l%4, element j of half s (columns 16s to 16s+15) is that of row
// g + 8*(j/2%2) and column 16s + 2t + j%2 + 8*(j/4), for j from 0 to 7. Types:
//
//   F32, F16, BF16   elements as they are
//   Q8               signed bytes; scales apart: f16 [units][16 rows]
//   Q4               byte j is element j of half 0 (low nibble) and of half 1 (high), each
//                    8 above what it stands for; scales as those of Q8
//
// A factor of a product is a sum of bf16 parts: a weight of BF16 is one part, of F16 two and
// of F32 three, without rounding; quantised ones are integers that a part holds exactly.
#pragma once
#include "gk.h"

#define UNIT_ROWS 16
#define UNIT_COLS 32

// split takes the nearest bf16 of two elements off them.
GK_FN u32 split(float& lo, float& hi) {
  u32 p = f2bf2(lo, hi);
  lo -= bf_lo(p);
  hi -= bf_hi(p);
  return p;
}

struct WeightF32 {
  enum { PARTS = 3, SCALED = 0 };
  // load reads the fragments of a unit: a[part][half][4].
  static __device__ __attribute__((always_inline)) void load(u32 (*a)[2][4], const void* w, u64 unit, int lane) {
    const gk_u4* p = (const gk_u4*)w + (unit * 32 + lane) * 4;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      gk_u4 v = p[i];
      float x0 = gk_bits2f(v.x), x1 = gk_bits2f(v.y), x2 = gk_bits2f(v.z), x3 = gk_bits2f(v.w);
#pragma unroll
      for (int part = 0; part < PARTS; part++) {
        a[part][i / 2][i % 2 * 2] = split(x0, x1);
        a[part][i / 2][i % 2 * 2 + 1] = split(x2, x3);
      }
    }
  }
  static __device__ float at(const void* w, u64 i) { return ((const float*)w)[i]; }
};
struct WeightF16 {
  enum { PARTS = 2, SCALED = 0 };
  static __device__ __attribute__((always_inline)) void load(u32 (*a)[2][4], const void* w, u64 unit, int lane) {
    const gk_u4* p = (const gk_u4*)w + (unit * 32 + lane) * 2;
#pragma unroll
    for (int s = 0; s < 2; s++) {
      gk_u4 v = p[s];
      u32 r[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < 4; i++) {
        float lo = h2f((u16)r[i]), hi = h2f((u16)(r[i] >> 16));
        a[0][s][i] = split(lo, hi);
        a[1][s][i] = f2bf2(lo, hi);
      }
    }
  }
  static __device__ float at(const void* w, u64 i) { return h2f(((const u16*)w)[i]); }
};
struct WeightBF16 {
  enum { PARTS = 1, SCALED = 0 };
  static __device__ __attribute__((always_inline)) void load(u32 (*a)[2][4], const void* w, u64 unit, int lane) {
    const gk_u4* p = (const gk_u4*)w + (unit * 32 + lane) * 2;
#pragma unroll
    for (int s = 0; s < 2; s++) {
      gk_u4 v = p[s];
      a[0][s][0] = v.x; a[0][s][1] = v.y; a[0][s][2] = v.z; a[0][s][3] = v.w;
    }
  }
  static __device__ float at(const void* w, u64 i) { return bf2f(((const u16*)w)[i]); }
};
struct WeightQ8 {
  enum { PARTS = 1, SCALED = 1 };
  static __device__ __attribute__((always_inline)) void load(u32 (*a)[2][4], const void* w, u64 unit, int lane) {
    gk_u4 v = ((const gk_u4*)w)[unit * 32 + lane];
    u32 r[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      a[0][i / 2][i % 2 * 2] = f2bf2((float)(i8)r[i], (float)(i8)(r[i] >> 8));
      a[0][i / 2][i % 2 * 2 + 1] = f2bf2((float)(i8)(r[i] >> 16), (float)(i8)(r[i] >> 24));
    }
  }
  static __device__ float at(const void* w, u64 i) { return (float)((const i8*)w)[i]; }
};
struct WeightQ4 {
  enum { PARTS = 1, SCALED = 1 };
  static __device__ __attribute__((always_inline)) void load(u32 (*a)[2][4], const void* w, u64 unit, int lane) {
    gk_u2 v = ((const gk_u2*)w)[unit * 32 + lane];
    u32 r[2] = {v.x, v.y};
#pragma unroll
    for (int s = 0; s < 2; s++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        u32 pair = r[i / 2] >> (i % 2 * 16 + s * 4);
        a[0][s][i] = f2bf2((float)((int)(pair & 15) - 8), (float)((int)(pair >> 8 & 15) - 8));
      }
  }
  static __device__ float at(const void* w, u64 i) {
    u32 b = ((const u8*)w)[i / 16 * 8 + i % 8];
    return (float)((int)(i & 8 ? b >> 4 : b & 15) - 8);
  }
};
