package metrics

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/troupe-llm/troupe/infer"
)

const defaultLogInterval = 10 * time.Second // vLLM's

// StatsLoggerOptions say what to log, where to, and how often.
type StatsLoggerOptions struct {
	Engine      *Engine           // nil = nothing is ever logged
	EngineIndex int               // printed as Engine 000
	Interval    time.Duration     // 0 = 10 s
	Log         func(line string) // called from the logger's goroutine
	Now         func() int64      // nanoseconds, monotonic; nil = infer.Now
	Ticks       <-chan time.Time  // when to log; nil = a ticker of Interval
}

// StatsLogger writes the periodic line of vLLM's log. It falls silent when a
// line would be the second in a row without any throughput.
type StatsLogger struct {
	o          StatsLoggerOptions
	last       window
	wasIdle    bool
	stop, done chan struct{}
}

// window is the state at the last line.
type window struct {
	at                                          int64
	promptTokens, generationTokens, preemptions int64
	speculation                                 specWindow
}

// StartStatsLogger starts the goroutine that logs. Stop ends it.
func StartStatsLogger(o StatsLoggerOptions) *StatsLogger {
	if o.Interval == 0 {
		o.Interval = defaultLogInterval
	}
	if o.Now == nil {
		o.Now = infer.Now
	}
	l := &StatsLogger{o: o, wasIdle: true, stop: make(chan struct{}), done: make(chan struct{})}
	if o.Engine == nil {
		close(l.done)
		return l
	}
	l.last = l.read()
	go l.run()
	return l
}

// Stop ends the logger and waits until it no longer logs. Call it once.
func (l *StatsLogger) Stop() {
	close(l.stop)
	<-l.done
}

func (l *StatsLogger) run() {
	defer close(l.done)
	ticks := l.o.Ticks
	if ticks == nil {
		t := time.NewTicker(l.o.Interval)
		defer t.Stop()
		ticks = t.C
	}
	for {
		select {
		case <-l.stop:
			return
		case <-ticks:
			l.tick()
		}
	}
}

func (l *StatsLogger) tick() {
	now := l.read()
	elapsed := float64(now.at-l.last.at) / nsPerSecond
	prompt := rate(now.promptTokens-l.last.promptTokens, elapsed)
	generation := rate(now.generationTokens-l.last.generationTokens, elapsed)
	preemptions := now.preemptions - l.last.preemptions
	drafted := now.speculation.since(l.last.speculation)
	l.last = now
	idle := prompt == 0 && generation == 0
	silent := idle && l.wasIdle
	l.wasIdle = idle
	if !silent {
		l.o.Log(l.line(prompt, generation, preemptions))
	}
	if drafted.drafts > 0 {
		l.o.Log(drafted.line(elapsed))
	}
}

func (l *StatsLogger) read() window {
	r := &l.o.Engine.recent
	return window{
		at:               l.o.Now(),
		promptTokens:     r.promptTokens.Load(),
		generationTokens: r.generationTokens.Load(),
		preemptions:      r.preemptions.Load(),
		speculation:      readSpecWindow(r),
	}
}

// line words the numbers as vLLM does; its optional parts appear when not 0.
func (l *StatsLogger) line(prompt, generation float64, preemptions int64) string {
	r := &l.o.Engine.recent
	var b strings.Builder
	fmt.Fprintf(&b, "Engine %03d: Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f tokens/s, Running: %d reqs, Waiting: %d reqs, ",
		l.o.EngineIndex, prompt, generation, r.running.Load(), r.waiting.Load())
	if n := r.deferred.Load(); n > 0 {
		fmt.Fprintf(&b, "Deferred: %d reqs, ", n)
	}
	if preemptions > 0 {
		fmt.Fprintf(&b, "Preemptions: %d, ", preemptions)
	}
	fmt.Fprintf(&b, "GPU KV cache usage: %.1f%%, Prefix cache hit rate: %.1f%%",
		100*math.Float64frombits(r.kvUsage.Load()), 100*r.hitRate())
	return b.String()
}

func rate(n int64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(n) / seconds
}
