// Products of activations with weights: c [rows, ldc] (+)= x · wᵀ.
//
// pack_rows takes activations apart into bf16 parts, three of which are an f32 without
// rounding, and lays them out as mma reads them. The product proper is then, for each
// element, one fixed sum: the units of 32 columns are dealt to SPANS spans; in a span the
// unit's products by mma are summed in order (of a quantised weight: times the unit's scale);
// and the spans' sums are added in order. Both kernels compute that sum: narrow has a warp
// per span, wide goes through the spans one by one and reads weights once for 64 rows.
#include "weights.h"

#define SPANS 8
#define ROW_TILE 8  // rows that an mma computes together

// pack_rows: x [rows, cols] to packed [row tiles][units][parts][32 lanes] of 16 bytes: those of
// both halves. order, if there is one, says which row of x is which; the units and the row tiles,
// of which there are a multiple of pad, are filled up with zeros. Grid (units/4 rounded up, row
// tiles), 128 threads.
KERNEL(128, pack_rows, gk_u4* packed, const float* x, const int* order, const int* count, int rows, int cols, int units, int parts,
       int pad) {
  int n = num_rows(count, rows), lane = lane_id(), unit = bidx() * 4 + warp_id();
  int row = bidy() * ROW_TILE + (lane >> 2);
  if (bidy() / pad * pad * ROW_TILE >= n || unit >= units) return;
  float v[8];
#pragma unroll
  for (int i = 0; i < 8; i++) v[i] = 0;
  if (row < n) {
    const float* from = x + (u64)(order ? order[row] : row) * cols;
#pragma unroll
    for (int i = 0; i < 8; i++) {
      int col = unit * UNIT_COLS + i / 2 * 8 + (lane & 3) * 2 + i % 2;
      if (col < cols) v[i] = from[col];
    }
  }
  gk_u4* to = packed + (((u64)bidy() * units + unit) * parts) * 32 + lane;
  for (int p = 0; p < parts; p++) {
    gk_u4 r;
    r.x = split(v[0], v[1]);
    r.y = split(v[2], v[3]);
    r.z = split(v[4], v[5]);
    r.w = split(v[6], v[7]);
    to[p * 32] = r;
  }
}

// add_unit adds a unit's products to acc[tiles][4] of a warp. x: where the first tile's
// parts of this unit are; stride: to the next tile's.
template <class W, int TILES>
GK_FN void add_unit(float (*acc)[4], const u32 (*a)[2][4], const gk_u4* x, u64 stride, int parts) {
#pragma unroll 1
  for (int p = 0; p < parts; p++)
#pragma unroll
    for (int m = 0; m < TILES; m++) {
      gk_u4 v = x[m * stride + p * 32];
      u32 b[2][2] = {{v.x, v.y}, {v.z, v.w}};
#pragma unroll
      for (int i = 0; i < W::PARTS; i++) {
        if (i + p > 2) continue;  // below what an f32 can hold
        mma_bf16(acc[m], a[i][0], b[0]);
        mma_bf16(acc[m], a[i][1], b[1]);
      }
    }
}
// add_scaled is add_unit for a weight with scales: those of the lane's two rows.
template <class W, int TILES>
GK_FN void add_scaled(float (*acc)[4], const u32 (*a)[2][4], const gk_u4* x, u64 stride, int parts, const float* scale) {
  float sum[TILES][4];
#pragma unroll
  for (int m = 0; m < TILES; m++)
#pragma unroll
    for (int j = 0; j < 4; j++) sum[m][j] = 0;
  add_unit<W, TILES>(sum, a, x, stride, parts);
#pragma unroll
  for (int m = 0; m < TILES; m++)
#pragma unroll
    for (int j = 0; j < 4; j++) acc[m][j] = gk_fma(scale[j / 2], sum[m][j], acc[m][j]);
}
template <class W> GK_FN void load_scale(float* scale, const u16* scales, u64 unit, int lane) {
  if (W::SCALED) {
    scale[0] = h2f(scales[unit * UNIT_ROWS + (lane >> 2)]);
    scale[1] = h2f(scales[unit * UNIT_ROWS + (lane >> 2) + 8]);
  }
}

// narrow: grid (units of 16 rows of the weight, row tiles / TILES rounded up), 256 threads.
// x holds whole multiples of TILES tiles. n: rows of the weight; add: keep what c holds.
template <class W, int TILES>
GK_FN void narrow(float* c, const gk_u4* x, const void* w, const u16* scales, const int* count, int rows, int n, int ldc, int units,
                  int parts, int add) {
  SHARED(float, red, [SPANS * TILES * 128]);
  int m0 = bidy() * TILES * ROW_TILE, total = num_rows(count, rows), lane = lane_id(), span = warp_id();
  if (m0 >= total) return;
  int per = (units + SPANS - 1) / SPANS, from = span * per, to = from + per < units ? from + per : units;
  float acc[TILES][4];
#pragma unroll
  for (int m = 0; m < TILES; m++)
#pragma unroll
    for (int j = 0; j < 4; j++) acc[m][j] = 0;
  u64 stride = (u64)units * parts * 32;
#pragma unroll 1
  for (int k = from; k < to; k++) {
    u32 a[W::PARTS][2][4];
    float scale[2];
    u64 unit = (u64)bidx() * units + k;
    W::load(a, w, unit, lane);
    load_scale<W>(scale, scales, unit, lane);
    const gk_u4* xk = x + bidy() * TILES * stride + (u64)k * parts * 32 + lane;
    if (W::SCALED) add_scaled<W, TILES>(acc, a, xk, stride, parts, scale);
    else add_unit<W, TILES>(acc, a, xk, stride, parts);
  }
#pragma unroll
  for (int m = 0; m < TILES; m++)
#pragma unroll
    for (int j = 0; j < 4; j++) red[(span * TILES + m) * 128 + j * 32 + lane] = acc[m][j];
  gk_sync();
  int spans = (units + per - 1) / per;
  for (int i = tidx(); i < TILES * 128; i += 256) {
    int col = i & 15, row = i >> 4, tile = row >> 3;
    int at = tile * 128 + ((col >> 3) * 2 + (row & 1)) * 32 + (col & 7) * 4 + ((row & 7) >> 1);
    float sum = red[at];
#pragma unroll 1
    for (int s = 1; s < spans; s++) sum += red[s * TILES * 128 + at];
    if (m0 + row >= total || bidx() * UNIT_ROWS + col >= n) continue;
    float* out = c + (u64)(m0 + row) * ldc + bidx() * UNIT_ROWS + col;
    *out = add ? *out + sum : sum;
  }
}

// wide: grid (units of 16 rows of the weight / 8 rounded up, row tiles / 8), 256 threads: 4 by 2
// warps, each with 32 rows of the weight and 4 tiles of rows. x holds whole multiples of 8 tiles.
#define WIDE_TILES 4
template <class W>
GK_FN void wide(float* c, const gk_u4* x, const void* w, const u16* scales, const int* count, int rows, int n, int ldc, int units,
                int parts, int add) {
  int total = num_rows(count, rows), lane = lane_id(), warp = warp_id();
  int tile = bidy() * 2 * WIDE_TILES + (warp >> 2) * WIDE_TILES, u0 = bidx() * 8 + (warp & 3) * 2;
  int bands = (n + UNIT_ROWS - 1) / UNIT_ROWS;
  if (tile * ROW_TILE >= total || u0 >= bands) return;
  float acc[2][WIDE_TILES][4], sum[2][WIDE_TILES][4];
  int per = (units + SPANS - 1) / SPANS;
  u64 stride = (u64)units * parts * 32;
  for (int from = 0; from < units; from += per) {
#pragma unroll
    for (int i = 0; i < 2 * WIDE_TILES * 4; i++) (&acc[0][0][0])[i] = 0;
#pragma unroll 1
    for (int k = from; k < from + per && k < units; k++) {
      const gk_u4* xk = x + tile * stride + (u64)k * parts * 32 + lane;
#pragma unroll
      for (int u = 0; u < 2; u++) {
        u32 a[W::PARTS][2][4];
        float scale[2];
        u64 unit = (u64)(u0 + u < bands ? u0 + u : u0) * units + k;
        W::load(a, w, unit, lane);
        load_scale<W>(scale, scales, unit, lane);
        if (W::SCALED) add_scaled<W, WIDE_TILES>(acc[u], a, xk, stride, parts, scale);
        else add_unit<W, WIDE_TILES>(acc[u], a, xk, stride, parts);
      }
    }
#pragma unroll
    for (int i = 0; i < 2 * WIDE_TILES * 4; i++) {
      float a = (&acc[0][0][0])[i];
      (&sum[0][0][0])[i] = from == 0 ? a : (&sum[0][0][0])[i] + a;
    }
  }
#pragma unroll
  for (int u = 0; u < 2; u++)
#pragma unroll
    for (int m = 0; m < WIDE_TILES; m++)
#pragma unroll
      for (int j = 0; j < 4; j++) {
        int row = (tile + m) * ROW_TILE + (lane & 3) * 2 + (j & 1), col = (u0 + u) * UNIT_ROWS + (lane >> 2) + (j >> 1) * 8;
        if (row >= total || col >= n) continue;
        float* out = c + (u64)row * ldc + col;
        *out = add ? *out + sum[u][m][j] : sum[u][m][j];
      }
}

#define LINEAR(name, W)                                                                                                          \
  KERNEL(256, narrow1_##name, float* c, const gk_u4* x, const void* w, const u16* scales, const int* count, int rows, int n,     \
         int ldc, int units, int parts, int add) {                                                                               \
    narrow<W, 1>(c, x, w, scales, count, rows, n, ldc, units, parts, add);                                                       \
  }                                                                                                                              \
  KERNEL(256, narrow4_##name, float* c, const gk_u4* x, const void* w, const u16* scales, const int* count, int rows, int n,     \
         int ldc, int units, int parts, int add) {                                                                               \
    narrow<W, 4>(c, x, w, scales, count, rows, n, ldc, units, parts, add);                                                       \
  }                                                                                                                              \
  KERNEL(256, wide_##name, float* c, const gk_u4* x, const void* w, const u16* scales, const int* count, int rows, int n,        \
         int ldc, int units, int parts, int add) {                                                                               \
    wide<W>(c, x, w, scales, count, rows, n, ldc, units, parts, add);                                                            \
  }                                                                                                                              \
  /* embed: dst [ids, cols]: rows of a band of a table: its rows are first to first+n-1 of all. */                               \
  KERNEL(256, embed_##name, float* dst, const void* w, const u16* scales, const int* ids, int first, int n, int cols, int units) { \
    embed<W>(dst, w, scales, ids, first, n, cols, units);                                                                        \
  }

template <class W>
GK_FN void embed(float* dst, const void* w, const u16* scales, const int* ids, int first, int n, int cols, int units) {
  int row = ids[bidx()] - first;
  if (row < 0 || row >= n) return;
  for (int i = tidx(); i < cols; i += bdimx()) {
    u64 unit = (u64)(row / UNIT_ROWS) * units + i / UNIT_COLS;
    int r = row % UNIT_ROWS, k = i % 16, lane = (r % 8) * 4 + k % 8 / 2;
    float v = W::at(w, (unit * 32 + lane) * 16 + i % UNIT_COLS / 16 * 8 + k / 8 * 4 + r / 8 * 2 + k % 2);
    if (W::SCALED) v = h2f(scales[unit * UNIT_ROWS + r]) * v;
    dst[(u64)bidx() * cols + i] = v;
  }
}

LINEAR(f32, WeightF32)
LINEAR(f16, WeightF16)
LINEAR(bf16, WeightBF16)
LINEAR(q8_0, WeightQ8)
LINEAR(q4_0, WeightQ4)
