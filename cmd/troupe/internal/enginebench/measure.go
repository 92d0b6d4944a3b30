package enginebench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-llm/troupe/compute/cpu"
)

// Plan says what is measured of every engine.
type Plan struct {
	Prefills    []int // lengths of prompts, one at a time
	Batches     []int // numbers of sequences that decode together
	Context     int   // tokens of each before they decode
	Tokens      int   // tokens that each decodes
	Repetitions int   // after one that warms up
	Threads     int   // that read memory
	ReadBytes   int64 // of a buffer that is read plainly, far beyond the caches
	Note        func(string)
}

// Report is the result. Engines and measurements take turns, so that what slows the
// machine for a while slows all of them.
type Report struct {
	Threads     int      `json:"threads"`
	Context     int      `json:"context"`
	Tokens      int      `json:"tokens"`
	Bandwidth   *Spread  `json:"bandwidth_bytes_per_second"` // of plain reading, in the same turns
	Engines     []Result `json:"engines"`
	Repetitions int      `json:"repetitions"`
	Interrupted bool     `json:"interrupted"`
}

// Result is one engine's part.
type Result struct {
	Name           string  `json:"name"`
	Device         string  `json:"device"`
	Types          string  `json:"types"`
	DecodeBytes    int64   `json:"decode_bytes"` // of weights, read by each decode step
	LoadingSeconds float64 `json:"loading_seconds"`
	Rows           []Row   `json:"rows"`
}

// Row is one measurement: of a prefill of so many tokens, or of a decode of so many
// sequences.
type Row struct {
	Kind            string  `json:"kind"` // "prefill" or "decode"
	Size            int     `json:"size"`
	TokensPerSecond *Spread `json:"tokens_per_second"`
	// KVBytes is how many bytes of keys and values a decode step reads, besides the
	// weights; the mean over a measurement's steps.
	KVBytes float64 `json:"kv_bytes_per_step"`
	// BandwidthShare is the bytes of weights, keys and values that a second of decoding
	// reads over those that plain reading does, median over median; 0 for a prefill.
	BandwidthShare float64 `json:"bandwidth_share"`
}

// Spread is the median of values, and the least and the greatest.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`

	values []float64
}

func (s *Spread) add(v float64) {
	s.values = append(s.values, v)
	sorted := slices.Sorted(slices.Values(s.values))
	n := len(sorted)
	s.Min, s.Max, s.Median = sorted[0], sorted[n-1], (sorted[(n-1)/2]+sorted[n/2])/2
}

// Measure runs a plan over engines until it is done or ctx ends; what was measured
// up to then is reported.
func Measure(ctx context.Context, engines []*Engine, p Plan) (*Report, error) {
	reader, err := cpu.NewReader(p.Threads, p.ReadBytes)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	r := &Report{Threads: p.Threads, Context: p.Context, Tokens: p.Tokens, Repetitions: p.Repetitions, Bandwidth: &Spread{}}
	for _, e := range engines {
		r.Engines = append(r.Engines, e.result(&p))
	}
	for turn := range p.Repetitions + 1 {
		p.Note(fmt.Sprintf("turn %d of %d", turn, p.Repetitions))
		for i, e := range engines {
			if err := r.turn(ctx, e, turn, i, &p); err != nil {
				return nil, err
			}
		}
		if ctx.Err() != nil {
			r.Interrupted = true
			break
		}
		if bandwidth := max(reader.Read(), reader.Read()); turn > 0 {
			r.Bandwidth.add(bandwidth)
		}
	}
	r.share()
	return r, nil
}

func (e *Engine) result(p *Plan) Result {
	out := Result{Name: e.Name, Device: e.Spec.Device, Types: e.Spec.DType, DecodeBytes: e.Weights, LoadingSeconds: e.Loading.Seconds()}
	for _, n := range p.Prefills {
		out.Rows = append(out.Rows, Row{Kind: "prefill", Size: n, TokensPerSecond: &Spread{}})
	}
	for _, n := range p.Batches {
		out.Rows = append(out.Rows, Row{Kind: "decode", Size: n, TokensPerSecond: &Spread{}})
	}
	return out
}

// turn measures every row of an engine once; turn 0 warms up.
func (r *Report) turn(ctx context.Context, e *Engine, turn, engine int, p *Plan) error {
	for i := range r.Engines[engine].Rows {
		row := &r.Engines[engine].Rows[i]
		if ctx.Err() != nil {
			return nil
		}
		var took time.Duration
		var err error
		tokens := row.Size
		if row.Kind == "prefill" {
			took, err = e.Prefill(row.Size)
		} else {
			var d Decoding
			d, err = e.Decode(row.Size, p.Context, p.Tokens)
			took, tokens, row.KVBytes = d.Took, tokens*p.Tokens, float64(d.KVBytes)/float64(p.Tokens)
		}
		if err != nil {
			return fmt.Errorf("%s, %s of %d: %w", e.Name, row.Kind, row.Size, err)
		}
		if turn > 0 {
			row.TokensPerSecond.add(float64(tokens) / took.Seconds())
		}
	}
	return nil
}

// share sets how much of the bandwidth decoding takes.
func (r *Report) share() {
	for i := range r.Engines {
		e := &r.Engines[i]
		for j := range e.Rows {
			if row := &e.Rows[j]; row.Kind == "decode" && r.Bandwidth.Median > 0 {
				steps := row.TokensPerSecond.Median / float64(row.Size)
				row.BandwidthShare = steps * (float64(e.DecodeBytes) + row.KVBytes) / r.Bandwidth.Median
			}
		}
	}
}
