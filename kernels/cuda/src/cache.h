// Keys and values in the cache: of each layer [slots][kv heads][padded dim], where padded is dim
// rounded up to 8 and the rest is zero. Types F32, F16, BF16, and I8: integers with a unit, an
// f32 [slots][kv heads], which is a 127th of the largest magnitude.
#pragma once
#include "gk.h"

GK_FN int padded(int dim) { return (dim + 7) & ~7; }

struct CacheF32 {
  enum { HAS_UNIT = 0 };
  typedef float T;
  static __device__ __attribute__((always_inline)) void load8(float* v, const T* p) {
    const gk_u4* q = (const gk_u4*)p;
    gk_u4 a = q[0], b = q[1];
    u32 r[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = gk_bits2f(r[i]);
  }
  static __device__ __attribute__((always_inline)) float load(const T* p) { return *p; }
  static __device__ __attribute__((always_inline)) T make(float x) { return x; }
};
struct CacheF16 {
  enum { HAS_UNIT = 0 };
  typedef u16 T;
  static __device__ __attribute__((always_inline)) void load8(float* v, const T* p) {
    gk_u4 a = *(const gk_u4*)p;
    u32 r[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = h2f((u16)(r[i / 2] >> i % 2 * 16));
  }
  static __device__ __attribute__((always_inline)) float load(const T* p) { return h2f(*p); }
  static __device__ __attribute__((always_inline)) T make(float x) { return f2h(x); }
};
struct CacheBF16 {
  enum { HAS_UNIT = 0 };
  typedef u16 T;
  static __device__ __attribute__((always_inline)) void load8(float* v, const T* p) {
    gk_u4 a = *(const gk_u4*)p;
    u32 r[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = i % 2 ? bf_hi(r[i / 2]) : bf_lo(r[i / 2]);
  }
  static __device__ __attribute__((always_inline)) float load(const T* p) { return bf2f(*p); }
  static __device__ __attribute__((always_inline)) T make(float x) { return f2bf(x); }
};
struct CacheI8 {
  enum { HAS_UNIT = 1 };
  typedef i8 T;
  static __device__ __attribute__((always_inline)) void load8(float* v, const T* p) {
    gk_u2 a = *(const gk_u2*)p;
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = (float)(i8)((i < 4 ? a.x : a.y) >> i % 4 * 8);
  }
  static __device__ __attribute__((always_inline)) float load(const T* p) { return (float)*p; }
  static __device__ __attribute__((always_inline)) T make(float x) { return (T)f2i(x); }
};
