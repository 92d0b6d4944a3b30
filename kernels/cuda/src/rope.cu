// Rotary embedding and the store of keys and values.
#include "cache.h"

// store writes a head's vector x[dim] to a slot. A warp.
template <class C> GK_FN void store(typename C::T* to, float* unit, const float* x, int dim) {
  int lane = lane_id();
  float inv = 1;
  if (C::HAS_UNIT) {
    float most = 0;
    bool nan = false;
    for (int i = lane; i < dim; i += 32) {
      most = gk_max(most, gk_abs(x[i]));
      nan = nan || x[i] != x[i];
    }
    most = gk_ballot(nan) ? gk_bits2f(0x7fc00000u) : warp_max(most);
    inv = most > 0 ? 127.0f / most : 0.0f;
    if (lane == 0) *unit = most / 127.0f;
  }
  for (int i = lane; i < padded(dim); i += 32) to[i] = C::make(i < dim ? x[i] * inv : 0.0f);
}

// rope_store rotates queries and keys of qkv [rows, (heads + 2 kv_heads) * dim] in place, the
// first 2*half elements of a head by cs [positions][cos, sin][half], and stores keys and values
// in slots. Grid (rows), 128 threads.
template <class C>
GK_FN void rope_store(float* qkv, typename C::T* keys, typename C::T* values, float* key_units, float* value_units, const float* cs,
                      const int* pos, const int* slots, int heads, int kv_heads, int dim, int half) {
  float* row = qkv + (u64)bidx() * (heads + 2 * kv_heads) * dim;
  const float *cos = cs + (u64)pos[bidx()] * 2 * half, *sin = cos + half;
  for (int h = warp_id(); h < heads + kv_heads; h += 4)
    for (int i = lane_id(); i < half; i += 32) {
      float* x = row + h * dim + i;
      float a = x[0], b = x[half], c = cos[i], s = sin[i];
      x[0] = gk_fma(a, c, -(b * s));
      x[half] = gk_fma(b, c, a * s);
    }
  gk_sync();
  u64 slot = slots[bidx()];
  for (int h = warp_id(); h < 2 * kv_heads; h += 4) {
    int kv = h < kv_heads ? h : h - kv_heads;
    u64 at = slot * kv_heads + kv;
    store<C>((h < kv_heads ? keys : values) + at * padded(dim), (h < kv_heads ? key_units : value_units) + at,
             row + (heads + h) * dim, dim);
  }
}
#define ROPE(name, C)                                                                                                              \
  KERNEL(128, rope_store_##name, float* qkv, C::T* keys, C::T* values, float* key_units, float* value_units, const float* cs,      \
         const int* pos, const int* slots, int heads, int kv_heads, int dim, int half) {                                           \
    rope_store<C>(qkv, keys, values, key_units, value_units, cs, pos, slots, heads, kv_heads, dim, half);                          \
  }
ROPE(f32, CacheF32)
ROPE(f16, CacheF16)
ROPE(bf16, CacheBF16)
ROPE(i8, CacheI8)
