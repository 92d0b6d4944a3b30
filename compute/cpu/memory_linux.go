package cpu

import (
	"sync"

	"golang.org/x/sys/unix"
)

// adviseHuge asks for huge pages where memory will be touched whole, and for
// small ones where it is to become real bit by bit. It is advice: a refusal
// changes nothing but speed.
func adviseHuge(b []byte, huge bool) {
	advice := unix.MADV_NOHUGEPAGE
	if huge {
		advice = unix.MADV_HUGEPAGE
	}
	_ = unix.Madvise(b, advice)
}

// maxBytes is the machine's memory: more than that can be mapped, but never used.
var maxBytes = sync.OnceValue(func() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 1 << 46
	}
	return int64(min((uint64(info.Totalram)+uint64(info.Totalswap))*uint64(info.Unit), 1<<46))
})
