package model

import (
	"bytes"
	"os"
	"strconv"
)

// availableMemory returns the bytes that can be taken without swapping: what
// the kernel estimates, or the control group's limit if that is lower.
func availableMemory() int64 {
	available := int64(fallbackMemory)
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		if kb, ok := meminfoValue(b, "MemAvailable:"); ok {
			available = kb << 10
		}
	}
	if b, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		// "max" does not parse: no limit.
		if limit, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64); err == nil {
			available = min(available, limit)
		}
	}
	return available
}

// meminfoValue finds a line "key   123 kB".
func meminfoValue(b []byte, key string) (int64, bool) {
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte(key)); ok {
			words := bytes.Fields(rest)
			if len(words) == 0 {
				return 0, false
			}
			kb, err := strconv.ParseInt(string(words[0]), 10, 64)
			return kb, err == nil
		}
	}
	return 0, false
}
