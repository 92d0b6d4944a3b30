package machine

import (
	"bytes"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// group is a control group.
type group struct {
	root fs.FS
	path string // from the hierarchy's root on
}

// version says where a hierarchy has its files.
type version struct {
	controller   string // "" = that of version 2, which has all
	mount        string
	limit, usage string // files of memory; "" = not in this hierarchy
	statPrefix   string // of the keys of memory.stat that count the groups below, too
	cpus         func(g *group, dir string) float64
}

// versions are the hierarchies. Source: Linux, Documentation/admin-guide/cgroup-v2.rst
// and cgroup-v1/memory.rst, scheduler/sched-bwc.rst.
var versions = []version{
	{"", "sys/fs/cgroup", "memory.max", "memory.current", "", quota},
	{"memory", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_", noQuota},
	{"cpu", "sys/fs/cgroup/cpu", "", "", "", oldQuota},
}

func (v *version) names(controllers string) bool {
	if v.controller == "" {
		return controllers == ""
	}
	return slices.Contains(strings.Split(controllers, ","), v.controller)
}

// number reads a file that holds a number; 0 if it holds none, such as "max".
func (g *group) number(name string) int64 {
	b, err := fs.ReadFile(g.root, name)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// pages returns the bytes of cached files, which the kernel gives up for who needs memory.
func (g *group) pages(name, prefix string) int64 {
	b, err := fs.ReadFile(g.root, name)
	if err != nil {
		return 0
	}
	active, _ := value(b, prefix+"active_file")
	inactive, _ := value(b, prefix+"inactive_file")
	return active + inactive
}

func noQuota(*group, string) float64 { return 0 }

// quota reads "microseconds period", or "max period".
func quota(g *group, dir string) float64 {
	b, err := fs.ReadFile(g.root, path.Join(dir, "cpu.max"))
	if err != nil {
		return 0
	}
	words := strings.Fields(string(b))
	if len(words) != 2 {
		return 0
	}
	used, err1 := strconv.ParseFloat(words[0], 64)
	period, err2 := strconv.ParseFloat(words[1], 64)
	if err1 != nil || err2 != nil || !(used > 0 && period > 0) {
		return 0
	}
	return used / period
}

// oldQuota reads a quota that is -1 if there is none, and its period.
func oldQuota(g *group, dir string) float64 {
	used, period := g.number(path.Join(dir, "cpu.cfs_quota_us")), g.number(path.Join(dir, "cpu.cfs_period_us"))
	if used <= 0 || period <= 0 {
		return 0
	}
	return float64(used) / float64(period)
}
