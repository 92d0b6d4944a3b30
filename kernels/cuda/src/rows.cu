// Operations on rows of activations: f32, row-major. One block per row, unless said.
#include "gk.h"

// rms returns 1/sqrt(mean of squares + eps) of a row. inv is 1/n.
GK_FN float rms(const float* x, int n, float inv, float eps, float* red) {
  float s = 0;
  for (int i = tidx(); i < n; i += bdimx()) s = gk_fma(x[i], x[i], s);
  return gk_rsqrt(gk_fma(block_sum(s, red), inv, eps));
}
// dst [rows, n] = x / rms(x) * w
KERNEL(256, rms_norm, float* dst, const float* x, const float* w, int n, float inv, float eps) {
  SHARED(float, red, [32]);
  u64 at = (u64)bidx() * n;
  float r = rms(x + at, n, inv, eps, red);
  for (int i = tidx(); i < n; i += bdimx()) dst[at + i] = x[at + i] * r * w[i];
}
// dst [rows, n] += x / rms(x) * w
KERNEL(256, rms_norm_add, float* dst, const float* x, const float* w, int n, float inv, float eps) {
  SHARED(float, red, [32]);
  u64 at = (u64)bidx() * n;
  float r = rms(x + at, n, inv, eps, red);
  for (int i = tidx(); i < n; i += bdimx()) dst[at + i] += x[at + i] * r * w[i];
}
// Every query and key of qkv [rows, stride] becomes itself / rms * its weight [dim]. A warp per head.
KERNEL(128, head_norm, float* qkv, const float* wq, const float* wk, int stride, int heads, int kv_heads, int dim, float inv, float eps) {
  for (int h = warp_id(); h < heads + kv_heads; h += bdimx() >> 5) {
    float* x = qkv + (u64)bidx() * stride + (u64)h * dim;
    const float* w = h < heads ? wq : wk;
    float s = 0;
    for (int i = lane_id(); i < dim; i += 32) s = gk_fma(x[i], x[i], s);
    float r = gk_rsqrt(gk_fma(warp_sum(s), inv, eps));
    for (int i = lane_id(); i < dim; i += 32) x[i] = x[i] * r * w[i];
  }
}
// dst [rows, n] += bias [n]
KERNEL(256, add_bias, float* dst, const float* bias, int n) {
  float* x = dst + (u64)bidx() * n;
  for (int i = tidx(); i < n; i += bdimx()) x[i] += bias[i];
}
// dst [rows, n] *= factor
KERNEL(256, scale_rows, float* dst, int n, float factor) {
  float* x = dst + (u64)bidx() * n;
  for (int i = tidx(); i < n; i += bdimx()) x[i] *= factor;
}
// dst [rows, n] = limit * tanh(dst / limit). inv is 1/limit.
KERNEL(256, soft_cap, float* dst, int n, float limit, float inv) {
  float* x = dst + (u64)bidx() * n;
  for (int i = tidx(); i < n; i += bdimx()) x[i] = limit * gk_tanh(x[i] * inv);
}
// dst [rows, n] = silu(gate) * up; a row of src [rows, 2n] is gate, then up.
KERNEL(256, silu_mul, float* dst, const float* src, const int* count, int rows, int n) {
  if (bidx() >= num_rows(count, rows)) return;
  const float* gate = src + (u64)bidx() * 2 * n;
  for (int i = tidx(); i < n; i += bdimx()) {
    float x = gate[i];
    dst[(u64)bidx() * n + i] = x * sigmoid(x) * gate[n + i];
  }
}
// gelu in its approximation by tanh: x * sigmoid(2u) is x/2 * (1 + tanh(u)).
KERNEL(256, gelu_mul, float* dst, const float* src, const int* count, int rows, int n) {
  if (bidx() >= num_rows(count, rows)) return;
  const float* gate = src + (u64)bidx() * 2 * n;
  for (int i = tidx(); i < n; i += bdimx()) {
    float x = gate[i];
    float u = 0.797884560802865f * gk_fma(0.044715f * x * x, x, x);
    dst[(u64)bidx() * n + i] = x * sigmoid(2.0f * u) * gate[n + i];
  }
}
// dst [rows, n]: row i is row ids[i] of src
KERNEL(256, gather, float* dst, const float* src, const int* ids, int n) {
  const float* from = src + (u64)ids[bidx()] * n;
  for (int i = tidx(); i < n; i += bdimx()) dst[(u64)bidx() * n + i] = from[i];
}
