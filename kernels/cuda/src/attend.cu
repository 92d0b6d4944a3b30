// Attention of queries over a paged cache, for prefill, decode and both together.
//
// Positions are cut into tiles of 256. A query's result is a fixed function of its tiles: in
// each, scores, their maximum, weights and the weighted sum of values; then the tiles are merged
// in order. Either one block goes through the tiles of a query, or a block per tile leaves its
// part for attend_merge, which does the very same; so few queries over long contexts occupy the
// device, and many need no memory for parts. Block tables are read through; where a block lies
// and how large it is changes no bit.
#include "cache.h"

#define TILE 256
#define MAX_DIM 256
#define THREADS 128

// Merged is a sum of weighted values: weights are relative to exp2(max), and the values have
// not been divided by their total yet.
struct Merged {
  float max, total, value[2];
};
GK_FN void merge(Merged& m, float max, float total, float v0, float v1) {
  float most = gk_max(m.max, max), a = gk_exp2(m.max - most), b = gk_exp2(max - most);
  m.max = most;
  m.total = gk_fma(total, b, m.total * a);
  m.value[0] = gk_fma(v0, b, m.value[0] * a);
  m.value[1] = gk_fma(v1, b, m.value[1] * a);
}
// write_out stores the quotient: dimensions tidx and tidx + THREADS of dst.
GK_FN void write_out(float* dst, const Merged& m, int dim) {
  float inv = 1.0f / m.total;
#pragma unroll
  for (int r = 0; r < 2; r++)
    if (tidx() + r * THREADS < dim) dst[tidx() + r * THREADS] = m.value[r] * inv;
}

// attend: grid (queries, kv heads * groups of G heads that share one, tiles if part, else 1).
// Query i is row rows[i] of qkv and of dst, at position pos[i], and its block table starts at
// tables[starts[i]]. Scores are q·k times scale, in units of log2; with cap > 0 they become
// cap * tanh(score * inv_cap). part: [queries][heads][tiles][dim, max, total].
template <class C, int G>
GK_FN void attend(float* dst, float* part, const float* qkv, const typename C::T* keys, const typename C::T* values,
                  const float* key_units, const float* value_units, const int* rows, const int* pos, const int* starts,
                  const int* tables, int heads, int kv_heads, int dim, int block_size, int window, float scale, float cap,
                  float inv_cap) {
  SHARED(float, query, [G * MAX_DIM]);
  SHARED(float, score, [G * TILE]);
  SHARED(float, stat, [2 * G]);
  SHARED(int, slot, [TILE]);
  int i = bidx(), p = pos[i], row = rows[i], group = heads / kv_heads, chunks = (group + G - 1) / G;
  int kv = bidy() / chunks, h0 = kv * group + bidy() % chunks * G, num = group - bidy() % chunks * G;
  if (num > G) num = G;
  int first = window > 0 && p >= window ? p - window + 1 : 0;
  int t0 = first / TILE, t1 = p / TILE, wide = padded(dim);
  if (part) {
    t0 += bidz();
    if (t0 > t1) return;
    t1 = t0;
  }
  const float* q = qkv + (u64)row * (heads + 2 * kv_heads) * dim + h0 * dim;
  for (int j = tidx(); j < G * wide; j += THREADS) {
    int c = j / wide, e = j % wide;
    query[j] = c < num && e < dim ? q[c * dim + e] * scale : 0.0f;
  }
  Merged sum[G];
#pragma unroll
  for (int c = 0; c < G; c++) sum[c] = {LOWEST, 0, {0, 0}};
  gk_sync();
  for (int t = t0; t <= t1; t++) {
    int lo = t * TILE < first ? first : t * TILE, n = (p < t * TILE + TILE - 1 ? p : t * TILE + TILE - 1) + 1 - lo;
    for (int k = tidx(); k < n; k += THREADS) {
      int key = lo + k, s = tables[starts[i] + key / block_size] * block_size + key % block_size;
      slot[k] = s;
      u64 at = (u64)s * kv_heads + kv;
      const typename C::T* from = keys + at * wide;
      float dot[G];
#pragma unroll
      for (int c = 0; c < G; c++) dot[c] = 0;
#pragma unroll 1
      for (int e = 0; e < wide; e += 8) {
        float v[8];
        C::load8(v, from + e);
#pragma unroll
        for (int c = 0; c < G; c++)
#pragma unroll
          for (int x = 0; x < 8; x++) dot[c] = gk_fma(query[c * wide + e + x], v[x], dot[c]);
      }
#pragma unroll
      for (int c = 0; c < G; c++) {
        float x = C::HAS_UNIT ? dot[c] * key_units[at] : dot[c];
        score[c * TILE + k] = cap > 0 ? cap * gk_tanh(x * inv_cap) : x;
      }
    }
    gk_sync();
    if (warp_id() < G) {
      float *w = score + warp_id() * TILE, most = LOWEST, total = 0;
      for (int k = lane_id(); k < n; k += 32) most = gk_max(most, w[k]);
      most = warp_max(most);
      for (int k = lane_id(); k < n; k += 32) {
        float x = gk_exp2(w[k] - most);
        total += x;
        w[k] = C::HAS_UNIT ? x * value_units[(u64)slot[k] * kv_heads + kv] : x;
      }
      total = warp_sum(total);
      if (lane_id() == 0) {
        stat[2 * warp_id()] = most;
        stat[2 * warp_id() + 1] = total;
      }
    }
    gk_sync();
    float v[2][G];
#pragma unroll
    for (int r = 0; r < 2; r++) {
      int e = tidx() + r * THREADS;
#pragma unroll
      for (int c = 0; c < G; c++) v[r][c] = 0;
      if (e >= dim) continue;
      for (int k = 0; k < n; k++) {
        float x = C::load(values + ((u64)slot[k] * kv_heads + kv) * wide + e);
#pragma unroll
        for (int c = 0; c < G; c++) v[r][c] = gk_fma(score[c * TILE + k], x, v[r][c]);
      }
    }
#pragma unroll
    for (int c = 0; c < G; c++) {
      float most = stat[2 * c], total = stat[2 * c + 1];
      if (!part) {
        merge(sum[c], most, total, v[0][c], v[1][c]);
      } else if (c < num) {
        float* to = part + (((u64)i * heads + h0 + c) * gdimz() + bidz()) * (dim + 2);
#pragma unroll
        for (int r = 0; r < 2; r++)
          if (tidx() + r * THREADS < dim) to[tidx() + r * THREADS] = v[r][c];
        if (tidx() == 0) {
          to[dim] = most;
          to[dim + 1] = total;
        }
      }
    }
    gk_sync();
  }
  if (part) return;
#pragma unroll
  for (int c = 0; c < G; c++)
    if (c < num) write_out(dst + (u64)row * heads * dim + (h0 + c) * dim, sum[c], dim);
}

// attend_merge: grid (queries, heads), 128 threads.
KERNEL(128, attend_merge, float* dst, const float* part, const int* rows, const int* pos, int tiles, int heads, int dim, int window) {
  int p = pos[bidx()], first = window > 0 && p >= window ? p - window + 1 : 0, n = p / TILE - first / TILE + 1;
  Merged sum = {LOWEST, 0, {0, 0}};
  for (int t = 0; t < n; t++) {
    const float* from = part + (((u64)bidx() * heads + bidy()) * tiles + t) * (dim + 2);
    float v0 = tidx() < dim ? from[tidx()] : 0.0f, v1 = tidx() + THREADS < dim ? from[tidx() + THREADS] : 0.0f;
    merge(sum, from[dim], from[dim + 1], v0, v1);
  }
  write_out(dst + (u64)rows[bidx()] * heads * dim + bidy() * dim, sum, dim);
}

#define ATTEND(name, C, G)                                                                                                         \
  KERNEL(128, attend##G##_##name, float* dst, float* part, const float* qkv, const C::T* keys, const C::T* values,                 \
         const float* key_units, const float* value_units, const int* rows, const int* pos, const int* starts, const int* tables,  \
         int heads, int kv_heads, int dim, int block_size, int window, float scale, float cap, float inv_cap) {                    \
    attend<C, G>(dst, part, qkv, keys, values, key_units, value_units, rows, pos, starts, tables, heads, kv_heads, dim,            \
                 block_size, window, scale, cap, inv_cap);                                                                         \
  }
#define ATTENDS(name, C) ATTEND(name, C, 1) ATTEND(name, C, 2) ATTEND(name, C, 4)
ATTENDS(f32, CacheF32)
ATTENDS(f16, CacheF16)
ATTENDS(bf16, CacheBF16)
ATTENDS(i8, CacheI8)
