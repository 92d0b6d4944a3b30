// Small kernels, each right or wrong in one way. planted.ptx is made of this file by
// the command in MANIFEST.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define KERNEL(name, ...) extern "C" __global__ void __attribute__((launch_bounds(256))) name(__VA_ARGS__)
#define FN static __device__ __attribute__((always_inline)) inline

typedef unsigned int u32;
FN int tid() { return __nvvm_read_ptx_sreg_tid_x(); }
FN int block() { return __nvvm_read_ptx_sreg_ctaid_x(); }
FN int threads() { return __nvvm_read_ptx_sreg_ntid_x(); }
FN void sync() { __syncthreads(); }
FN void sync_warp() { __nvvm_bar_warp_sync(0xffffffffu); }
FN u32 address(const void* p) {
  u32 r;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(r) : "l"(p));
  return r;
}
FN void copy16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address(to)), "l"(from) : "memory");
}
FN void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> FN void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// reverse: out[i] = in[n-1-i] of a block of n threads, by way of shared memory.
KERNEL(reverse_ok, float* out, const float* in) {
  __shared__ float s[256];
  s[tid()] = in[tid()];
  sync();
  out[tid()] = s[threads() - 1 - tid()];
}
// Here all is written before, so that only the race is wrong.
KERNEL(reverse_race, float* out, const float* in) {
  __shared__ float s[256];
  s[tid()] = 0;
  sync();
  s[tid()] = in[tid()];
  out[tid()] = s[threads() - 1 - tid()];
}
// The next round overwrites what slower warps still read.
KERNEL(reverse_twice_race, float* out, const float* in) {
  __shared__ float s[256];
  for (int i = 0; i < 2; i++) {
    s[tid()] = in[tid()];
    sync();
    out[tid()] = s[threads() - 1 - tid()];
  }
}
// Within a warp: neighbours exchange what they have.
KERNEL(swap_ok, float* out, const float* in) {
  __shared__ float s[256];
  s[tid()] = in[tid()];
  sync_warp();
  out[tid()] = s[tid() ^ 1];
}
KERNEL(swap_race, float* out, const float* in) {
  __shared__ float s[256];
  s[tid()] = 0;
  sync_warp();
  s[tid()] = in[tid()];
  out[tid()] = s[tid() ^ 1];
}
// One element too many, and not.
KERNEL(fill_ok, float* out, int n) {
  int i = block() * threads() + tid();
  if (i < n) out[i] = 1.0f;
}
KERNEL(fill_beyond, float* out, int n) {
  int i = block() * threads() + tid();
  if (i <= n) out[i] = 1.0f;
}
// Shared memory beyond its array.
KERNEL(shared_beyond, float* out) {
  __shared__ float s[64];
  s[tid()] = 1;
  sync();
  out[tid()] = s[tid()];
}
// Half of a warp, or every other warp, at a barrier.
KERNEL(barrier_in_branch, float* out, int odd) {
  if ((tid() / odd) & 1) {
    out[tid()] = 1;
    sync();
    out[tid()] = 2;
  } else {
    out[tid()] = 3;
    sync();
    out[tid()] = 4;
  }
}
// A barrier that some lanes pass by.
KERNEL(barrier_by_guard, float* out) {
  out[tid()] = 1;
  asm volatile("{ .reg .pred p; setp.lt.s32 p, %0, 7; @p bar.sync 0; }" ::"r"(tid()) : "memory");
}
// Blocks that hand each other work without an order.
KERNEL(neighbour_race, float* out) {
  out[block() * threads() + tid()] = 1;
  if (block() > 0) out[block() * threads() + tid() - threads()] = 2;
}
KERNEL(read_other_block, float* out, float* sum) {
  if (block() == 0) out[tid()] = 1;
  else sum[tid()] = out[tid()];
}
// A histogram, whose atomics may meet.
KERNEL(count, u32* bins, const u32* values) { __nvvm_atom_add_gen_i((int*)&bins[values[block() * threads() + tid()] & 7], 1); }
// Asynchronous copies of a tile of 16 bytes per thread, of which two are under way.
template <int N> FN void tiles(float* out, const float* in) {
  __shared__ __attribute__((aligned(16))) float s[2][128];
  copy16(&s[0][4 * tid()], in + 4 * tid());
  commit();
  copy16(&s[1][4 * tid()], in + 128 + 4 * tid());
  commit();
  wait<N>();
  sync_warp();
  for (int i = 0; i < 4; i++) out[4 * tid() + i] = s[0][4 * (tid() ^ 1) + i];
}
KERNEL(tiles_ok, float* out, const float* in) { tiles<1>(out, in); }
KERNEL(tiles_weak_wait, float* out, const float* in) { tiles<2>(out, in); }
// Overwrites by a copy what others may still read.
KERNEL(tiles_early_copy, float* out, const float* in) {
  __shared__ __attribute__((aligned(16))) float s[256];
  s[tid()] = in[tid()];
  sync();
  out[tid()] = s[threads() - 1 - tid()];
  if (tid() < 32) {
    copy16(&s[4 * tid()], in + 4 * tid());
    commit();
    wait<0>();
  }
}
// Collatz: lanes part and meet again.
KERNEL(collatz, int* steps, const u32* start) {
  u32 v = start[tid()];
  int n = 0;
  while (v != 1) {
    if (v & 1) v = 3 * v + 1;
    else v >>= 1;
    n++;
  }
  steps[tid()] = n;
}
KERNEL(forever, volatile int* go) {
  while (go[0] == 0) {
  }
}
// Sums by way of shuffles, of a block of whole warps.
KERNEL(sum, float* out, const float* in) {
  float v = in[block() * threads() + tid()];
  for (int o = 16; o; o >>= 1) v += __nvvm_shfl_sync_bfly_f32(0xffffffffu, v, o, 31);
  if ((tid() & 31) == 0) out[block() * (threads() / 32) + tid() / 32] = v;
}
// Shared memory whose size the launch says.
extern __shared__ float dynamic[];
KERNEL(dynamic_ok, float* out, int n) {
  for (int i = tid(); i < n; i += threads()) dynamic[i] = i;
  sync();
  for (int i = tid(); i < n; i += threads()) out[i] = dynamic[n - 1 - i];
}
// C[16,8] = A[16,16] * B[8,16]^T of one warp, by ldmatrix and mma; bf16 in, f32 out.
KERNEL(tile, float* c, const u32* a, const u32* b) {
  __shared__ __attribute__((aligned(16))) u32 s[192];
  int l = tid();
  for (int i = l; i < 128; i += 32) s[i] = a[i];
  for (int i = l; i < 64; i += 32) s[128 + i] = b[i];
  sync_warp();
  u32 x[4], y[2];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(address(s + (l & 15) * 8 + (l >> 4) * 4)) : "memory");
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(y[0]), "=r"(y[1]) : "r"(address(s + 128 + (l & 7) * 8 + ((l >> 3) & 1) * 4)) : "memory");
  float d[4] = {1, 1, 1, 1};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  for (int i = 0; i < 4; i++) c[((l >> 2) + i / 2 * 8) * 8 + (l & 3) * 2 + i % 2] = d[i];
}
// b = a^T of 8 x 8 halves, by ldmatrix.
KERNEL(transpose, u32* b, const u32* a) {
  __shared__ __attribute__((aligned(16))) u32 s[32];
  s[tid()] = a[tid()];
  sync_warp();
  u32 x;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(x) : "r"(address(s + (tid() & 7) * 4)) : "memory");
  b[tid()] = x;
}
// y[row] = dot(w[row], x), a row per warp: what decoding mostly does.
KERNEL(rows, float* y, const float* w, const float* x, int n) {
  int row = block() * (threads() / 32) + tid() / 32;
  float s = 0;
  for (int i = tid() & 31; i < n; i += 32) s = __builtin_fmaf(w[(unsigned long long)row * n + i], x[i], s);
  for (int o = 16; o; o >>= 1) s += __nvvm_shfl_sync_bfly_f32(0xffffffffu, s, o, 31);
  if ((tid() & 31) == 0) y[row] = s;
}
// One word that all read together, and that one thread then overwrites: after a barrier,
// or before the other warps have read it.
template <bool barrier> FN void pass_on(float* out) {
  __shared__ float s;
  if (tid() == 0) s = 1;
  sync();
  for (int i = 0; i < 3; i++) {
    float v = *(volatile float*)&s;
    if (barrier) sync();
    if (tid() == 0) s = v + 1;
    sync();
  }
  out[tid()] = s;
}
KERNEL(pass_on_ok, float* out) { pass_on<true>(out); }
KERNEL(pass_on_race, float* out) { pass_on<false>(out); }
// Neighbours of a block exchange what they have through device memory.
template <bool barrier> FN void exchange(float* out, float* by) {
  by[tid()] = tid();
  if (barrier) sync();
  out[tid()] = *(volatile float*)&by[tid() ^ 32];
}
KERNEL(exchange_ok, float* out, float* by) { exchange<true>(out, by); }
KERNEL(exchange_race, float* out, float* by) { exchange<false>(out, by); }
// Blocks, and threads, write halves and bytes that are next to each other, some words of
// which were read whole before.
KERNEL(halves_ok, unsigned short* h, unsigned char* b, u32* sum) {
  __shared__ unsigned short s[256];
  int i = 2 * tid() + block();
  h[i] = i;
  b[i] = i;
  s[tid()] = tid();
  sync();
  sum[threads() * block() + tid()] = s[threads() - 1 - tid()];
}
KERNEL(halves_race, unsigned short* h) { h[(tid() + block()) & 255] = 1; }
// A count by atomics that is read as if nothing went on.
KERNEL(count_and_read, u32* bins, u32* out) {
  __nvvm_atom_add_gen_i((int*)&bins[0], 1);
  out[block() * threads() + tid()] = *(volatile u32*)&bins[0];
}
