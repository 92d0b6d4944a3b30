// The device functions of the kernels: clang's builtins and inline PTX of sm_80, without
// headers or libraries of a CUDA toolkit.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

#define GK_FN static __device__ __attribute__((always_inline)) inline
// KERNEL(most threads of a block, name, parameters...) {body}. With the 1, the assembler spills no
// register for the sake of more blocks at once.
#define KERNEL(threads, name, ...) extern "C" __global__ void __launch_bounds__(threads, 1) name(__VA_ARGS__)
#define SHARED(T, name, dims) __shared__ T name dims

typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

GK_FN int tidx() { return __nvvm_read_ptx_sreg_tid_x(); }
GK_FN int bidx() { return __nvvm_read_ptx_sreg_ctaid_x(); }
GK_FN int bidy() { return __nvvm_read_ptx_sreg_ctaid_y(); }
GK_FN int bidz() { return __nvvm_read_ptx_sreg_ctaid_z(); }
GK_FN int bdimx() { return __nvvm_read_ptx_sreg_ntid_x(); }
GK_FN int gdimz() { return __nvvm_read_ptx_sreg_nctaid_z(); }
GK_FN int lane_id() { return tidx() & 31; }
GK_FN int warp_id() { return tidx() >> 5; }
GK_FN void gk_sync() { __syncthreads(); }
GK_FN void gk_syncwarp() { __nvvm_bar_warp_sync(0xffffffffu); }
GK_FN float shfl_xor(float v, int m) { return __nvvm_shfl_sync_bfly_f32(0xffffffffu, v, m, 0x1f); }
GK_FN int shfl_xor(int v, int m) { return __nvvm_shfl_sync_bfly_i32(0xffffffffu, v, m, 0x1f); }
GK_FN u32 gk_ballot(bool p) { return __nvvm_vote_ballot_sync(0xffffffffu, p); }
GK_FN int gk_popc(u32 v) { return __builtin_popcount(v); }
GK_FN float gk_max(float a, float b) { return __nvvm_fmax_f(a, b); }
GK_FN float gk_abs(float a) { return __builtin_fabsf(a); }
GK_FN float gk_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

GK_FN float gk_bits2f(u32 v) { return __builtin_bit_cast(float, v); }
GK_FN u32 gk_f2bits(float f) { return __builtin_bit_cast(u32, f); }
// Approximations to about 2^-22 that flush subnormals.
GK_FN float gk_exp2(float x) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
GK_FN float gk_rsqrt(float x) { float r; asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
GK_FN float gk_rcp(float x) { float r; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }

// Conversions; to a narrower type they round to the nearest, ties to even.
GK_FN float h2f(u16 v) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v)); return r; }
GK_FN u16 f2h(float f) { u16 r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(f)); return r; }
GK_FN float bf2f(u16 v) { return gk_bits2f((u32)v << 16); }
GK_FN u16 f2bf(float f) { u16 r; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(f)); return r; }
GK_FN int f2i(float f) { int r; asm("cvt.rni.s32.f32 %0, %1;" : "=r"(r) : "f"(f)); return r; }
// Two bf16 of one register: lo is the element that comes first in memory.
GK_FN u32 f2bf2(float lo, float hi) { u32 r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo)); return r; }
GK_FN float bf_lo(u32 v) { return gk_bits2f(v << 16); }
GK_FN float bf_hi(u32 v) { return gk_bits2f(v & 0xffff0000u); }

// D += A(16x16, rows) * B(16x8, columns) of one warp; bf16 factors, f32 sums. Lane l holds,
// with g = l/4 and t = l%4: of A rows g and g+8, of B column g, at k = 2t, 2t+1, 2t+8, 2t+9;
// of D rows g (d[0], d[1]) and g+8 (d[2], d[3]) of columns 2t, 2t+1.
GK_FN void mma_bf16(float* d, const u32* a, const u32* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
