// A stand-in for libnvidia-ml.so.1 with two GPUs: one that tells everything, one that
// tells little.
#include <stdint.h>
#include <stdio.h>

#ifndef INIT
#define INIT 0
#endif

static int lost;
static int open_count;
void stub_lose(void) { lost = 1; }
int stub_open(void) { return open_count; }

int nvmlInit_v2(void) { open_count++; return INIT; }
int nvmlShutdown(void) { open_count--; return 0; }
int nvmlDeviceGetCount_v2(unsigned* n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, uintptr_t* h) { *h = 500 + i; return 0; }
int nvmlDeviceGetUUID(uintptr_t h, char* s, unsigned n) { snprintf(s, n, "GPU-%lu", (unsigned long)h); return 0; }

#define ANSWER(h) if (lost) return 15; if ((h) != 500) return 3;
int nvmlDeviceGetMemoryInfo(uintptr_t h, unsigned long long* m) { if (lost) return 15; m[0] = 80, m[1] = 50, m[2] = 30; (void)h; return 0; }
int nvmlDeviceGetUtilizationRates(uintptr_t h, unsigned* u) { ANSWER(h) u[0] = 75, u[1] = 40; return 0; }
int nvmlDeviceGetPowerUsage(uintptr_t h, unsigned* mw) { ANSWER(h) *mw = 123456; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(uintptr_t h, unsigned* mw) { ANSWER(h) *mw = 700000; return 0; }
int nvmlDeviceGetTotalEnergyConsumption(uintptr_t h, unsigned long long* mj) { ANSWER(h) *mj = 5000000001500ull; return 0; }
int nvmlDeviceGetTemperature(uintptr_t h, int sensor, unsigned* c) { ANSWER(h) if (sensor) return 2; *c = 61; return 0; }
int nvmlDeviceGetTotalEccErrors(uintptr_t h, int type, int counter, unsigned long long* n) { ANSWER(h) if (counter) return 2; *n = type == 0 ? 7 : 1; return 0; }
#ifndef OLD
int nvmlDeviceGetClockInfo(uintptr_t h, int clock, unsigned* mhz) { ANSWER(h) *mhz = clock == 1 ? 1980 : 3201; return 0; }
#endif
