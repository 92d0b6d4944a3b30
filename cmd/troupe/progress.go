package main

import (
	"fmt"
	"io"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress shows how far loading is, once that has taken a second: a bar on a
// terminal, else a line now and then. It is used from one goroutine.
type progress struct {
	label    string // what is done
	w        io.Writer
	terminal bool
	now      func() time.Time

	start, lastLine time.Time
	bars            *mpb.Progress // nil until the bar is shown
	bar             *mpb.Bar
}

const (
	progressDelay    = time.Second
	progressInterval = 5 * time.Second // between lines
)

func newProgress(w io.Writer, terminal bool) *progress {
	return &progress{label: "Loading weights", w: w, terminal: terminal, now: time.Now, start: time.Now()}
}

// update tells bytes done of total.
func (p *progress) update(done, total int64) {
	now := p.now()
	if now.Sub(p.start) < progressDelay {
		return
	}
	if !p.terminal {
		if now.Sub(p.lastLine) >= progressInterval {
			p.lastLine = now
			fmt.Fprintf(p.w, "%s: %d%% of %s\n", p.label, 100*done/max(total, 1), byteSize(total))
		}
		return
	}
	if p.bar == nil {
		p.bars = mpb.New(mpb.WithOutput(p.w), mpb.WithWidth(48))
		p.bar = p.bars.AddBar(total, mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(p.label+" ")),
			mpb.AppendDecorators(decor.CountersKibiByte(" % .1f / % .1f")))
	}
	p.bar.SetCurrent(done)
}

// stop takes the bar away, whether or not it came to its end.
func (p *progress) stop() {
	if p.bar == nil {
		return
	}
	p.bar.Abort(true)
	p.bars.Wait()
}

// byteSize writes a size with a binary unit.
func byteSize(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1024, 0
	for v >= 1024 && unit < len(units)-1 {
		v, unit = v/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[unit])
}
