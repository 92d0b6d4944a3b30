// Package nvml reads what NVIDIA's management library, libnvidia-ml.so.1, says of
// GPUs: memory, utilisation, power, energy, temperature, ECC errors. It is looked
// for at run time, like gpu/cuda's driver and with the same limits.
//
// Not every GPU can tell everything: what one does not support is absent from a
// Reading and no error. Reading costs some microseconds to milliseconds, so it is for
// a goroutine of its own, not for one that a step waits for.
package nvml
