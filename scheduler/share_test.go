package scheduler_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-llm/troupe/scheduler"
)

// oneSeat is a configuration in which sequences start one after the other.
func oneSeat() scheduler.Config {
	return scheduler.Config{MaxNumSeqs: 1, MaxNumBatchedTokens: 64, MaxModelLen: 64, NumBlocks: 64, BlockSize: 4}
}

// startNext runs steps until the next sequence starts and returns it; nil = none is left.
func (m *simulation) startNext() *entry {
	for len(m.live()) > 0 {
		m.schedule()
		first := m.s.Scheduled()
		m.commit(func() bool { return false })
		if len(first) > 0 {
			return m.byID(first[0].ID)
		}
	}
	return nil
}

// TestOneKeyComesFirstServed: with one key, whatever its name, the order is that
// of adding.
func TestOneKeyComesFirstServed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newSimulation(t, oneSeat())
		key := rapid.SampledFrom([]string{"", "a"}).Draw(t, "key")
		next := 0
		for range rapid.IntRange(1, 12).Draw(t, "sequences") {
			o := promptOptions(rapid.IntRange(1, 60).Draw(t, "prompt"), rapid.IntRange(1, 3).Draw(t, "max_tokens"))
			o.Key, o.Weight = key, rapid.IntRange(0, 3).Draw(t, "weight")
			m.add(o)
			if rapid.Bool().Draw(t, "start") {
				require.Equal(t, m.entries[next], m.startNext())
				next++
			}
		}
		for ; next < len(m.entries); next++ {
			require.Equal(t, m.entries[next], m.startNext())
		}
	})
}

// TestKeysShareByWeight: while two keys both have something waiting, what they
// got, divided by their weights, never differs by more than one sequence of each.
func TestKeysShareByWeight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newSimulation(t, oneSeat())
		keys := []string{"a", "b", "c"}[:rapid.IntRange(2, 3).Draw(t, "keys")]
		weights := map[string]float64{}
		left := map[string]int{}
		for _, key := range keys {
			weights[key] = float64(rapid.IntRange(1, 4).Draw(t, "weight"))
			left[key] = rapid.IntRange(1, 8).Draw(t, "burst")
			for range left[key] {
				o := promptOptions(rapid.IntRange(1, 40).Draw(t, "prompt"), rapid.IntRange(1, 3).Draw(t, "max_tokens"))
				o.Key, o.Weight = key, int(weights[key])
				m.add(o)
			}
		}
		const most = 43 // tokens of a sequence
		got := map[string]float64{}
		for e := m.startNext(); e != nil; e = m.startNext() {
			got[e.opts.Key] += float64(len(e.opts.Prompt)+e.opts.Params.MaxTokens) / weights[e.opts.Key]
			left[e.opts.Key]--
			for _, a := range keys {
				for _, b := range keys {
					if left[a] > 0 && left[b] > 0 {
						require.LessOrEqual(t, got[a]-got[b], most/weights[a]+most/weights[b]+1, "%s is ahead of %s", a, b)
					}
				}
			}
		}
	})
}

// TestBurstDoesNotStarve: whoever comes behind another key's burst waits for one
// of its sequences at most, and so does its next sequence after the first.
func TestBurstDoesNotStarve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newSimulation(t, oneSeat())
		burst := promptOptions(8, 2)
		burst.Key = "burst"
		for range 20 {
			m.add(burst)
		}
		for range rapid.IntRange(1, 10).Draw(t, "started") {
			m.startNext()
		}
		for range 3 {
			polite := promptOptions(8, 2)
			polite.Key = "polite"
			m.add(polite)
			waited := 0
			for m.startNext().opts.Key != "polite" {
				waited++
			}
			require.LessOrEqual(t, waited, 1)
		}
	})
}

// TestSilenceEarnsNothing: a key that comes late has no claim to what others got
// before; from then on they take turns.
func TestSilenceEarnsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newSimulation(t, oneSeat())
		add := func(key string, n int) {
			for range n {
				o := promptOptions(8, 1)
				o.Key = key
				m.add(o)
			}
		}
		add("early", 16)
		for range rapid.IntRange(1, 10).Draw(t, "started") {
			m.startNext()
		}
		add("late", 6)
		late := 0
		for n := 1; n <= 6; n++ {
			if m.startNext().opts.Key == "late" {
				late++
			}
			require.InDelta(t, float64(n)/2, late, 1)
		}
	})
}
