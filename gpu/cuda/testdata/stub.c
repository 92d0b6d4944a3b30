// A stand-in for libcuda.so.1 that notes calls, keeps "device" memory on the host and
// does what is asked at once. Handles are small numbers. Functions that need a context
// fail without one on the calling thread, as the driver's do.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef VERSION
#define VERSION 12040
#endif
#ifndef DEVICES
#define DEVICES 2
#endif

typedef int res;
typedef uint64_t ptr;

static char notes[1 << 16];
static int noted;
static char failing[64];
static res failure;
static _Thread_local uintptr_t current;
static int capturing;

// What tests call.
const char* stub_notes(void) { return notes; }
void stub_clear(void) { notes[noted = 0] = 0; }
void stub_fail(const char* name, res code) { snprintf(failing, sizeof failing, "%s", name), failure = code; }

#define NOTE(...) (noted < 60000 ? noted += snprintf(notes + noted, 1000, __VA_ARGS__) : 0)
static res enter(const char* name, int context) {
  NOTE("%s\n", name);
  if (strcmp(name, failing) == 0) return failure;
  return context && !current ? 201 : 0;
}
#define ENTER(context) { res r = enter(__func__, context); if (r) return r; }

res cuInit(unsigned flags) { ENTER(0) return flags ? 1 : 0; }
res cuDriverGetVersion(int* v) { *v = VERSION; return 0; }
res cuGetErrorName(res code, const char** s) { *s = code == 304 ? "CUDA_ERROR_OPERATING_SYSTEM" : 0; return *s ? 0 : 1; }
res cuGetErrorString(res code, const char** s) { *s = code == 304 ? "OS call failed or operation not supported on this OS" : 0; return *s ? 0 : 1; }
res cuDeviceGetCount(int* n) { *n = DEVICES; return 0; }
res cuDeviceGet(int* d, int i) { *d = 40 + i; return i < DEVICES ? 0 : 101; }
res cuDeviceGetName(char* s, int n, int d) { snprintf(s, n, "Stub %d", d - 40); return 0; }
res cuDeviceGetUuid(unsigned char* u, int d) { for (int i = 0; i < 16; i++) u[i] = i + d - 40; return 0; }
res cuDeviceGetPCIBusId(char* s, int n, int d) { snprintf(s, n, "0000:%02x:00.0", d); return 0; }
res cuDeviceTotalMem_v2(size_t* n, int d) { (void)d; *n = (size_t)80 << 30; return 0; }
res cuDeviceGetAttribute(int* v, int attribute, int d) {
  (void)d;
  *v = attribute;
  return attribute == 36 ? 1 : 0; // the memory clock is gone
}
res cuDevicePrimaryCtxRetain(uintptr_t* ctx, int d) { ENTER(0) *ctx = 1000 + d; return 0; }
res cuDevicePrimaryCtxRelease_v2(int d) { (void)d; ENTER(0) return 0; }
res cuDevicePrimaryCtxReset_v2(int d) { (void)d; ENTER(0) failing[0] = 0; return 0; }
res cuCtxSetCurrent(uintptr_t ctx) { current = ctx; return 0; }
res cuMemGetInfo_v2(size_t* f, size_t* t) { ENTER(1) *f = (size_t)70 << 30, *t = (size_t)80 << 30; return 0; }
res cuMemAlloc_v2(ptr* p, size_t n) {
  ENTER(1)
  if (n > 1 << 20) return 2;
  *p = (ptr)(uintptr_t)malloc(n);
  return 0;
}
res cuMemFree_v2(ptr p) { ENTER(1) free((void*)(uintptr_t)p); return 0; }
res cuMemHostAlloc(void** p, size_t n, unsigned flags) { ENTER(1) if (flags != 1) return 1; *p = malloc(n); return 0; }
res cuMemFreeHost(void* p) { ENTER(1) free(p); return 0; }
static res copy(void* to, const void* from, size_t n) { memcpy(to, from, n); return 0; }
res cuMemcpyHtoD_v2(ptr to, const void* from, size_t n) { ENTER(1) return copy((void*)(uintptr_t)to, from, n); }
res cuMemcpyDtoH_v2(void* to, ptr from, size_t n) { ENTER(1) return copy(to, (void*)(uintptr_t)from, n); }
res cuMemcpyHtoDAsync_v2(ptr to, const void* from, size_t n, uintptr_t s) { ENTER(1) return s < 100 ? 400 : copy((void*)(uintptr_t)to, from, n); }
res cuMemcpyDtoHAsync_v2(void* to, ptr from, size_t n, uintptr_t s) { ENTER(1) return s < 100 ? 400 : copy(to, (void*)(uintptr_t)from, n); }
res cuMemcpyDtoDAsync_v2(ptr to, ptr from, size_t n, uintptr_t s) { ENTER(1) return s < 100 ? 400 : copy((void*)(uintptr_t)to, (void*)(uintptr_t)from, n); }
res cuMemsetD8Async(ptr to, unsigned char v, size_t n, uintptr_t s) { ENTER(1) if (s < 100) return 400; memset((void*)(uintptr_t)to, v, n); return 0; }
res cuModuleLoadDataEx(uintptr_t* m, const char* image, unsigned n, const int* options, void** values) {
  ENTER(1)
  for (unsigned i = 0; i < n; i++) {
    if (options[i] == 3) snprintf(values[i], (size_t)values[i + 1], "compiled %zu bytes", strlen(image));
    if (options[i] == 5 && strstr(image, "bad")) {
      snprintf(values[i], (size_t)values[i + 1], "ptxas fatal: bad");
      return 218;
    }
  }
  *m = 300;
  return 0;
}
res cuModuleUnload(uintptr_t m) { ENTER(1) return m == 300 ? 0 : 400; }
res cuModuleGetFunction(uintptr_t* f, uintptr_t m, const char* name) { ENTER(1) NOTE(" %s\n", name); *f = 301; return m == 300 ? 0 : 400; }
res cuFuncGetAttribute(int* v, int attribute, uintptr_t f) { ENTER(1) *v = 10 * attribute + 1; return f == 301 ? 0 : 400; }
res cuFuncSetAttribute(uintptr_t f, int attribute, int v) { ENTER(1) NOTE(" %d=%d\n", attribute, v); return f == 301 ? 0 : 400; }
// The one kernel that there is takes an address, an int and a float.
res cuLaunchKernel(uintptr_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, uintptr_t s, void** params, void** extra) {
  ENTER(1)
  if (f != 301 || s < 100 || extra) return 400;
  NOTE(" %u,%u,%u x %u,%u,%u, %u bytes: %llx %d %g\n", gx, gy, gz, bx, by, bz, shared, *(unsigned long long*)params[0], *(int*)params[1], *(float*)params[2]);
  return 0;
}
res cuStreamCreate(uintptr_t* s, unsigned flags) { ENTER(1) *s = 100; return flags == 1 ? 0 : 1; }
res cuStreamDestroy_v2(uintptr_t s) { (void)s; ENTER(1) return 0; }
res cuStreamSynchronize(uintptr_t s) { (void)s; ENTER(1) return capturing ? 900 : 0; }
res cuStreamWaitEvent(uintptr_t s, uintptr_t e, unsigned flags) { ENTER(1) return s == 100 && e == 200 && !flags ? 0 : 400; }
res cuStreamBeginCapture_v2(uintptr_t s, int mode) { (void)s; ENTER(1) capturing = 1; return mode == 2 ? 0 : 1; }
res cuStreamEndCapture(uintptr_t s, uintptr_t* g) { (void)s; ENTER(1) capturing = 0; *g = 400; return 0; }
res cuGraphGetNodes(uintptr_t g, void* nodes, size_t* n) { ENTER(1) *n = 7; return g == 400 && !nodes ? 0 : 400; }
#ifndef OLD
res cuGraphInstantiateWithFlags(uintptr_t* x, uintptr_t g, unsigned long long flags) { ENTER(1) *x = 401; return g == 400 && !flags ? 0 : 400; }
#endif
res cuGraphDestroy(uintptr_t g) { ENTER(1) return g == 400 ? 0 : 400; }
res cuGraphLaunch(uintptr_t x, uintptr_t s) { ENTER(1) return x == 401 && s == 100 ? 0 : 400; }
res cuGraphExecDestroy(uintptr_t x) { ENTER(1) return x == 401 ? 0 : 400; }
res cuEventCreate(uintptr_t* e, unsigned flags) { ENTER(1) *e = 200; return flags == 1 ? 0 : 1; }
res cuEventDestroy_v2(uintptr_t e) { (void)e; ENTER(1) return 0; }
res cuEventRecord(uintptr_t e, uintptr_t s) { ENTER(1) return e == 200 && s == 100 ? 0 : 400; }
res cuEventQuery(uintptr_t e) { (void)e; ENTER(1) return 0; }
res cuEventSynchronize(uintptr_t e) { (void)e; ENTER(1) return 0; }
res cuEventElapsedTime(float* ms, uintptr_t a, uintptr_t b) { ENTER(1) *ms = 1.5f; return a == 200 && b == 200 ? 0 : 400; }
