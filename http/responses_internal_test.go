package http

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/infer"
)

func kept(k *key, id string, since time.Time, numBytes int) *keptResponse {
	return &keptResponse{id: id, owner: k, since: since, over: make(chan struct{}), input: []json.RawMessage{make([]byte, numBytes)}}
}

func (s *responseStore) has(k *key, id string, now time.Time) bool {
	_, ok := s.find(k, id, now)
	return ok
}

func (s *responseStore) addOver(t *testing.T, r *keptResponse) {
	t.Helper()
	require.NoError(t, s.add(r))
	s.finish(r, responseEnd{body: []byte("x")})
}

func TestResponseStoreIsBounded(t *testing.T) {
	var s responseStore
	mine, other := &key{}, &key{}
	now := time.Now()
	s.addOver(t, kept(other, "0", now, 1))
	for i := range maxKeptResponses + 1 {
		s.addOver(t, kept(mine, fmt.Sprint(i), now, 1))
	}
	require.False(t, s.has(mine, "0", now), "the oldest goes first")
	require.True(t, s.has(mine, "1", now))
	require.True(t, s.has(other, "0", now), "one key pushes out nothing of another's")
	require.False(t, s.has(nil, "1", now))

	s.addOver(t, kept(mine, "large", now, maxKeptBytes-2*responseOverhead))
	require.False(t, s.has(mine, fmt.Sprint(maxKeptResponses), now))
	require.True(t, s.has(mine, "large", now))
	require.Error(t, s.add(kept(mine, "larger", now, maxKeptBytes+1)), "too large by itself")

	require.True(t, s.has(other, "0", now.Add(responseLife)))
	s.addOver(t, kept(mine, "late", now.Add(responseLife+1), 1))
	require.Zero(t, s.shelves[other].order.Len(), "of a key that asks for nothing too")
	require.Zero(t, s.running)
}

func TestResponsesInProgressAreBounded(t *testing.T) {
	var s responseStore
	now := time.Now()
	code := func(r *keptResponse) infer.Code {
		err := infer.AsError(s.add(r))
		require.NotZero(t, err.RetryAfter)
		require.Contains(t, err.Message, "the limit is")
		return err.Code
	}
	const keys = maxAllRunningResponses / maxRunningResponses
	var all []*keptResponse
	for range keys {
		k := &key{}
		for i := range maxRunningResponses {
			r := kept(k, fmt.Sprint(i), now, 1)
			require.NoError(t, s.add(r))
			all = append(all, r)
		}
		require.Equal(t, infer.CodeRateLimited, code(kept(k, "more", now, 1)))
	}
	require.Equal(t, infer.CodeOverloaded, code(kept(nil, "more", now, 1)))
	require.True(t, s.has(all[0].owner, "0", now.Add(2*responseLife)), "what is in progress is not dropped")
	s.remove(all[0].owner, "0")
	require.Equal(t, infer.CodeOverloaded, code(kept(nil, "more", now, 1)), "it still runs")
	s.drop(all[0])
	last := kept(nil, "more", now, 1)
	last.isBackground = true
	require.NoError(t, s.add(last))
	require.ErrorContains(t, s.add(kept(nil, "more", now, 1)), "is in progress")
	require.True(t, s.grow(last, maxKeptBytes/2))
	require.False(t, s.grow(last, maxKeptBytes/2))
	for _, r := range append(all[1:], last) {
		s.finish(r, responseEnd{body: []byte("x")})
	}
	require.Zero(t, s.running)
	for _, f := range s.shelves {
		require.Zero(t, f.running)
	}
}

func TestResponseStoreAtTheEnd(t *testing.T) {
	var s responseStore
	now := time.Now()
	first, second := kept(nil, "a", now, 10), kept(nil, "a", now, 20)
	require.NoError(t, s.add(first))
	require.NoError(t, s.add(second))
	require.Equal(t, 1, s.shelves[nil].order.Len(), "one of the same id takes its place")
	s.finish(first, responseEnd{body: []byte("first")})
	<-first.over
	got, ok := s.find(nil, "a", now)
	require.True(t, ok)
	require.Nil(t, got.body(), "the one that was replaced is not kept")
	s.finish(second, responseEnd{body: []byte("second")})
	got, _ = s.find(nil, "a", now)
	require.Equal(t, "second", string(got.body()))
	require.Equal(t, second.size(), s.shelves[nil].numBytes)
	s.remove(nil, "a")
	require.Zero(t, s.shelves[nil].numBytes)
	s.remove(&key{}, "a")
}
