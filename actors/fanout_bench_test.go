package actors

import (
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
	"github.com/troupe-llm/troupe/scheduler"
)

const fanOutWidth = 256

// countdown is closed when so many outputs have been handled.
type countdown struct {
	left atomic.Int64
	done chan struct{}
}

func (d *countdown) count() {
	if d.left.Add(-1) == 0 {
		d.done <- struct{}{}
	}
}

// receiver stands for a sequence.
type receiver struct{ step *countdown }

func (r receiver) Receive(c actor.Context) {
	if _, ok := c.Message().(*SequenceOutput); ok {
		r.step.count()
	}
}

// BenchmarkFanOut compares handing one step's outputs to 256 sequence actors with
// sending as many messages over 256 channels. Wanted: actors within 3 times.
func BenchmarkFanOut(b *testing.B) {
	step := &countdown{done: make(chan struct{}, 1)}
	b.Run("actors", func(b *testing.B) { benchActors(b, step) })
	b.Run("channels", func(b *testing.B) { benchChannels(b, step) })
}

func benchActors(b *testing.B, step *countdown) {
	root := testkit.System().Root
	outputs := make([]scheduler.Output, fanOutWidth)
	for i := range outputs {
		pid := root.Spawn(actor.PropsFromProducer(func() actor.Actor { return receiver{step} }))
		defer root.Stop(pid)
		seq := scheduler.NewSequence(scheduler.SequenceOptions{
			ID: infer.SeqID(i), Prompt: []int32{1}, Tag: &entry{id: infer.SeqID(i), pid: pid},
		})
		outputs[i] = scheduler.Output{Seq: seq, NewTokenIDs: []int32{2}, NumOutputTokens: 1}
	}
	batcher := &BatcherActor{}
	b.ReportAllocs()
	for b.Loop() {
		step.left.Store(fanOutWidth)
		batcher.collect(outputs, 1)
		batcher.fanOut(root)
		<-step.done
	}
}

func benchChannels(b *testing.B, step *countdown) {
	channels := make([]chan *SequenceOutput, fanOutWidth)
	for i := range channels {
		channels[i] = make(chan *SequenceOutput, 1)
		go func() {
			for range channels[i] {
				step.count()
			}
		}()
	}
	b.ReportAllocs()
	for b.Loop() {
		step.left.Store(fanOutWidth)
		messages := make([]SequenceOutput, fanOutWidth)
		for i, channel := range channels {
			channel <- &messages[i]
		}
		<-step.done
	}
	for _, channel := range channels {
		close(channel)
	}
}
