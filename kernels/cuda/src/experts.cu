// Routing of rows to the experts of a mixture.
#include "gk.h"

#define MAX_EXPERTS 1024
#define NONE (-1.0f)

// route: weights [rows, experts] of the chosen experts, NONE for the others; those with the
// largest of logits [rows, experts] are chosen, of equal ones the first. A NaN is the largest, so
// that it reaches the result. normalize: the softmax is over the chosen ones, else over all.
// Grid (rows), 32 threads.
KERNEL(32, route, float* weights, const float* logits, int experts, int chosen, int normalize) {
  SHARED(float, left, [MAX_EXPERTS]);
  const float* x = logits + (u64)bidx() * experts;
  float* w = weights + (u64)bidx() * experts;
  int lane = lane_id();
  float most = LOWEST;
  for (int i = lane; i < experts; i += 32) {
    left[i] = x[i] != x[i] ? 3.4e38f : x[i];
    most = gk_max(most, x[i]);
    w[i] = NONE;
  }
  most = warp_max(most);
  float total = 0;
  if (!normalize) {
    for (int i = lane; i < experts; i += 32) total += gk_exp2((x[i] - most) * LOG2E);
    total = warp_sum(total);
  }
  gk_syncwarp();
  for (int c = 0; c < chosen; c++) {
    float best = -gk_bits2f(0x7f800000u);
    int at = MAX_EXPERTS;
    for (int i = lane; i < experts; i += 32)
      if (w[i] == NONE && (left[i] > best || at == MAX_EXPERTS)) {
        best = left[i];
        at = i;
      }
    for (int o = 16; o; o >>= 1) {
      float b = shfl_xor(best, o);
      int a = shfl_xor(at, o);
      if (a != MAX_EXPERTS && (at == MAX_EXPERTS || b > best || (b == best && a < at))) {
        best = b;
        at = a;
      }
    }
    float e = gk_exp2((x[at] - most) * LOG2E);
    if (normalize) total += e;
    if (lane == at % 32) w[at] = e;
    gk_syncwarp();
  }
  for (int i = lane; i < experts; i += 32)
    if (w[i] != NONE) w[i] = w[i] / total;
}

// expert_rows: the rows that chose an expert, in order: order [experts][stride], counts
// [experts]. Grid (experts), 32 threads.
KERNEL(32, expert_rows, int* order, int* counts, const float* weights, int rows, int experts, int stride) {
  int n = 0, lane = lane_id();
  for (int r0 = 0; r0 < rows; r0 += 32) {
    int r = r0 + lane;
    bool on = r < rows && weights[(u64)r * experts + bidx()] != NONE;
    u32 all = gk_ballot(on);
    if (on) order[(u64)bidx() * stride + n + gk_popc(all & ((1u << lane) - 1))] = r;
    n += gk_popc(all);
  }
  if (lane == 0) counts[bidx()] = n;
}

// add_expert: row order[i] of dst [rows, n] += its weight for the expert * row i of x, for the
// first *count rows. Grid (most rows), 256 threads.
KERNEL(256, add_expert, float* dst, const float* x, const float* weights, const int* order, const int* count, int experts, int expert,
       int n) {
  if (bidx() >= *count) return;
  int row = order[bidx()];
  float w = weights[(u64)row * experts + expert];
  for (int i = tidx(); i < n; i += bdimx()) {
    float* to = dst + (u64)row * n + i;
    *to = gk_fma(w, x[(u64)bidx() * n + i], *to);
  }
}
