package doctor

import (
	"runtime"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/randommodel"
	"github.com/troupe-llm/troupe/compute/cpu"
	kernels "github.com/troupe-llm/troupe/kernels/cpu"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/model/machine"
)

// Report is what was found. Sizes are bytes.
type Report struct {
	OS              string  `json:"os"`
	Instructions    string  `json:"instructions"` // the tier of kernels that runs
	Cores           int     `json:"cores"`
	Threads         int     `json:"threads"`      // that troupe serve would use
	MemoryTotal     int64   `json:"memory_total"` // 0 = not known
	MemoryAvailable int64   `json:"memory_available"`
	MemoryLimit     int64   `json:"memory_limit"`               // of the control groups; 0 = none below the total
	CPULimit        float64 `json:"cpu_limit"`                  // of the control groups, in cores; 0 = none below them
	Bandwidth       float64 `json:"bandwidth_bytes_per_second"` // of all threads
	SingleBandwidth float64 `json:"single_thread_bandwidth_bytes_per_second"`
	Sizes           []Fit   `json:"sizes"`
	Model           *Fit    `json:"model"` // null if none was named
}

// Fit says whether a model fits, and what it does then.
type Fit struct {
	Name            string `json:"name"`
	Type            string `json:"type"`
	NumParameters   int64  `json:"num_parameters"`
	WeightBytes     int64  `json:"weight_bytes"`
	KVBytesPerToken int64  `json:"kv_bytes_per_token"`
	Fits            bool   `json:"fits"`
	MissingBytes    int64  `json:"missing_bytes"` // 0 if it fits
	// ContextTokens is for how many tokens of one or many sequences the memory that
	// the weights leave has room; 0 if the model does not fit.
	ContextTokens int64 `json:"context_tokens"`
	MaxContext    int   `json:"max_context"` // of one sequence, as the model has it
	// DefaultContextTokens is for how many of them troupe serve takes memory by itself;
	// --kv-cache-memory-bytes takes more.
	DefaultContextTokens int64 `json:"default_context_tokens"`
	// TokensPerSecond is what to expect of one sequence that decodes alone.
	TokensPerSecond float64 `json:"tokens_per_second"`
}

// decodeShare is how much of the bandwidth a decode step gets, by docs/performance.md.
const decodeShare = 0.8

// kvBytes is the size of a key's or value's element: 16 bits.
const kvBytes = 2

// Examine measures the machine. readBytes is the size of the buffer for that; it is
// smaller where memory is short.
func Examine(readBytes int64) (*Report, error) {
	r := &Report{
		OS: runtime.GOOS + "/" + runtime.GOARCH, Instructions: kernels.Best().String(), Cores: runtime.NumCPU(),
		Threads: runtime.GOMAXPROCS(0), MemoryAvailable: model.AvailableMemory(),
	}
	r.limit(machine.Read())
	readBytes = max(min(readBytes, r.MemoryAvailable/4), minReadBytes)
	var err error
	if r.Bandwidth, err = bandwidth(r.Threads, readBytes); err != nil {
		return nil, err
	}
	if r.SingleBandwidth, err = bandwidth(1, readBytes); err != nil {
		return nil, err
	}
	for _, s := range randommodel.Shapes() {
		for _, name := range []string{"q4_0", "q8_0", "bf16"} {
			t, err := randommodel.FindType(name)
			if err != nil {
				return nil, err
			}
			f := Fit{Name: s.Name, Type: name, NumParameters: s.NumParameters(), WeightBytes: s.Bytes(t), KVBytesPerToken: s.KVBytesPerToken(kvBytes), MaxContext: s.Context}
			r.judge(&f, s.DecodeBytes(t))
			r.Sizes = append(r.Sizes, f)
		}
	}
	return r, nil
}

// minReadBytes is the least buffer that is read.
const minReadBytes = 1 << 20

// limit notes what the machine has, and what control groups leave of it.
func (r *Report) limit(l machine.Limits) {
	r.MemoryTotal, r.MemoryLimit = l.Total, l.Group
	if l.GroupCPUs < float64(r.Cores) {
		r.CPULimit = l.GroupCPUs
	}
}

// readings is how often the buffer is read: the best one counts, since what slows a
// machine down comes and goes.
const readings = 5

func bandwidth(threads int, bytes int64) (best float64, err error) {
	reader, err := cpu.NewReader(threads, bytes)
	if err != nil {
		return 0, err
	}
	for range readings {
		best = max(best, reader.Read())
	}
	return best, reader.Close()
}

// judge sets what follows from the machine.
func (r *Report) judge(f *Fit, decodeBytes int64) {
	left := r.MemoryAvailable - f.WeightBytes
	if left < f.KVBytesPerToken {
		f.MissingBytes = f.KVBytesPerToken - left
		return
	}
	f.Fits = true
	f.ContextTokens = left / f.KVBytesPerToken
	f.DefaultContextTokens = model.CacheBudget(left) / f.KVBytesPerToken
	f.TokensPerSecond = decodeShare * r.Bandwidth / float64(decodeBytes)
}

// Add judges a model.
func (r *Report) Add(name string, n model.Needs) {
	f := &Fit{
		Name: name, Type: n.Types, NumParameters: n.NumParameters, WeightBytes: n.WeightBytes,
		KVBytesPerToken: n.KVBytesPerToken, MaxContext: n.MaxContext,
	}
	r.judge(f, n.DecodeBytes)
	r.Model = f
}
