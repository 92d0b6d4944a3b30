// What the kernels share: vectors, reductions, functions of one element.
//
// Sums are in an order that depends on the shape of a row alone, and fused multiply-adds
// are written out (the compiler may form none), so a row's bits never depend on the rows
// beside it nor on which of two kernels computed it.
#pragma once
#include "gk_ptx.h"

struct alignas(16) gk_u4 { u32 x, y, z, w; };
struct alignas(8) gk_u2 { u32 x, y; };

// LOWEST is below every finite score. exp2(LOWEST - x) is 0 for ordinary x.
#define LOWEST (-3e38f)
#define LOG2E 1.44269504f

GK_FN float warp_sum(float v) {
  for (int o = 16; o; o >>= 1) v += shfl_xor(v, o);
  return v;
}
GK_FN float warp_max(float v) {
  for (int o = 16; o; o >>= 1) v = gk_max(v, shfl_xor(v, o));
  return v;
}
// block_sum returns the sum over the block to every thread. red: 32 floats of shared memory.
GK_FN float block_sum(float v, float* red) {
  v = warp_sum(v);
  if (lane_id() == 0) red[warp_id()] = v;
  gk_sync();
  float t = 0;
  for (int i = 0; i < (bdimx() + 31) >> 5; i++) t += red[i];
  gk_sync();
  return t;
}
// num_rows returns how many rows there are: *count of those that a router chose, else rows.
GK_FN int num_rows(const int* count, int rows) { return count ? *count : rows; }

// sigmoid is 1/(1+exp(-x)) without overflow: exp2 gives infinity, and its reciprocal is 0.
GK_FN float sigmoid(float x) { return gk_rcp(1.0f + gk_exp2(-LOG2E * x)); }
// tanh by exp2; the error is about 1e-7, absolute.
GK_FN float gk_tanh(float x) { return 1.0f - 2.0f * gk_rcp(1.0f + gk_exp2(2.0f * LOG2E * x)); }
