package doctor

import (
	"runtime"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/randommodel"
	"github.com/troupe-llm/troupe/compute/cpu"
	kernels "github.com/troupe-llm/troupe/kernels/cpu"
	"github.com/troupe-llm/troupe/model"
)

// Report is what was found. Sizes are bytes.
type Report struct {
	OS              string  `json:"os"`
	Instructions    string  `json:"instructions"` // the tier of kernels that runs
	Cores           int     `json:"cores"`
	Threads         int     `json:"threads"` // that troupe serve would use
	MemoryAvailable int64   `json:"memory_available"`
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
	// TokensPerSecond is what to expect of one sequence that decodes alone.
	TokensPerSecond float64 `json:"tokens_per_second"`
}

// decodeShare is how much of the bandwidth a decode step gets, by docs/performance.md.
const decodeShare = 0.8

// kvBytes is the size of a key's or value's element: 16 bits.
const kvBytes = 2

// Examine measures the machine. readBytes is the size of the buffer for that.
func Examine(readBytes int64) (*Report, error) {
	r := &Report{
		OS: runtime.GOOS + "/" + runtime.GOARCH, Instructions: kernels.Best().String(), Cores: runtime.NumCPU(),
		Threads: runtime.GOMAXPROCS(0), MemoryAvailable: model.AvailableMemory(),
	}
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
