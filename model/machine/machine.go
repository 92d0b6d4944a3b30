package machine

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"strconv"
)

// Limits are what a process may use. Sizes are bytes; 0 = not known, or no limit.
type Limits struct {
	Total     int64   // memory of the machine
	Available int64   // what can be taken without swapping, within Group
	Group     int64   // least limit of memory of the control groups, if below Total
	GroupCPUs float64 // least limit of processors of the control groups
}

// Read returns the limits of this process.
func Read() Limits { return read(os.DirFS("/")) }

// read returns the limits that a file system's proc and sys tell of.
func read(root fs.FS) Limits {
	var l Limits
	b, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return l
	}
	l.Total, l.Available = kibibytes(b, "MemTotal:"), kibibytes(b, "MemAvailable:")
	if l.Available == 0 { // before Linux 3.14
		l.Available = kibibytes(b, "MemFree:")
	}
	b, err = fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return l
	}
	for line := range bytes.Lines(b) {
		// hierarchy-ID:controllers:path, the latter from the mount's root on, or from
		// that of another namespace.
		parts := bytes.SplitN(bytes.TrimSpace(line), []byte(":"), 3)
		if len(parts) == 3 {
			g := group{root: root, path: path.Clean("/" + string(parts[2]))}
			l.apply(&g, string(parts[1]))
		}
	}
	return l
}

// apply lowers limits to those of a group and of the groups that it is in. Where a
// container sees only its own part of the hierarchy the path leads nowhere, but for
// the root, which is the container's group.
func (l *Limits) apply(g *group, controllers string) {
	for _, v := range versions {
		if !v.names(controllers) {
			continue
		}
		for dir := g.path; ; dir = path.Dir(dir) {
			at := path.Join(v.mount, dir)
			if limit := g.number(path.Join(at, v.limit)); v.limit != "" && limit > 0 && limit < l.Total {
				if l.Group == 0 || limit < l.Group {
					l.Group = limit
				}
				left := limit - g.number(path.Join(at, v.usage)) + g.pages(path.Join(at, "memory.stat"), v.statPrefix)
				l.Available = max(0, min(l.Available, left, limit))
			}
			if cpus := v.cpus(g, at); cpus > 0 && (l.GroupCPUs == 0 || cpus < l.GroupCPUs) {
				l.GroupCPUs = cpus
			}
			if dir == "/" {
				break
			}
		}
	}
}

func kibibytes(b []byte, key string) int64 {
	n, _ := value(b, key)
	return n << 10
}

// value finds a line of a key and a number.
func value(b []byte, key string) (int64, bool) {
	for line := range bytes.Lines(b) {
		if words := bytes.Fields(line); len(words) >= 2 && string(words[0]) == key {
			n, err := strconv.ParseInt(string(words[1]), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
