package machine

import (
	"math"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const meminfo = "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:    8388608 kB\n"

func TestRead(t *testing.T) {
	const gib = 1 << 30
	v1 := "9:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n0::/\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  Limits
	}{
		{"nothing is known", nil, Limits{}},
		{"no groups", map[string]string{"proc/meminfo": meminfo}, Limits{Total: 16 * gib, Available: 8 * gib}},
		{"no limit", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/memory.max": "max\n", "sys/fs/cgroup/a/cpu.max": "max 100000\n"}, Limits{Total: 16 * gib, Available: 8 * gib}},
		{"files in the cache can be given up", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/memory.max": "4294967296\n", "sys/fs/cgroup/a/memory.current": "3221225472\n",
			"sys/fs/cgroup/a/memory.stat": "anon 5\ninactive_file 1073741824\nactive_file 1048576\n"},
			Limits{Total: 16 * gib, Available: 2*gib + 1<<20, Group: 4 * gib}},
		{"the tightest of the groups around", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "6442450944\n", "sys/fs/cgroup/a/memory.max": "5368709120\n", "sys/fs/cgroup/a/memory.current": "1073741824",
			"sys/fs/cgroup/a/b/cpu.max": "400000 100000\n", "sys/fs/cgroup/a/cpu.max": "150000 100000\n"},
			Limits{Total: 16 * gib, Available: 4 * gib, Group: 5 * gib, GroupCPUs: 1.5}},
		{"more in use than allowed", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "1000\n", "sys/fs/cgroup/memory.current": "2000\n"}, Limits{Total: 16 * gib, Group: 1000}},
		{"the first version, seen from outside and from within", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": v1,
			"sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":          "2147483648\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "1073741824\n",
			"sys/fs/cgroup/memory/memory.stat":   "active_file 1\ntotal_active_file 4096\ntotal_inactive_file 4096\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"},
			Limits{Total: 16 * gib, Available: gib + 8192, Group: 2 * gib, GroupCPUs: 0.5}},
		{"garbage", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "x\n::\n0::/../../../etc\n\n",
			"sys/fs/cgroup/memory.max": "\xff", "sys/fs/cgroup/cpu.max": "1", "sys/fs/cgroup/etc/cpu.max": "NaN 0"}, Limits{Total: 16 * gib, Available: 8 * gib}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := fstest.MapFS{}
			for name, text := range tt.files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			require.Equal(t, tt.want, read(root))
		})
	}
}

// What this machine says is at least possible.
func TestReadHere(t *testing.T) {
	l := Read()
	require.LessOrEqual(t, l.Available, l.Total)
	require.False(t, math.IsNaN(l.GroupCPUs))
}
