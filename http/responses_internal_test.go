package http

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func kept(k *key, id string, since time.Time, numBytes int) *keptResponse {
	return &keptResponse{id: id, owner: k, since: since, over: make(chan struct{}), input: []json.RawMessage{make([]byte, numBytes)}}
}

func (s *responseStore) has(k *key, id string, now time.Time) bool {
	_, ok := s.find(k, id, now)
	return ok
}

func TestResponseStoreIsBounded(t *testing.T) {
	var s responseStore
	mine, other := &key{}, &key{}
	now := time.Now()
	s.add(kept(other, "0", now, 1))
	for i := range maxKeptResponses + 1 {
		s.add(kept(mine, fmt.Sprint(i), now, 1))
	}
	require.False(t, s.has(mine, "0", now), "the oldest goes first")
	require.True(t, s.has(mine, "1", now))
	require.True(t, s.has(other, "0", now), "one key pushes out nothing of another's")
	require.False(t, s.has(nil, "1", now))

	s.add(kept(mine, "large", now, maxKeptBytes-maxKeptResponses))
	require.False(t, s.has(mine, fmt.Sprint(maxKeptResponses), now))
	require.True(t, s.has(mine, "large", now))
	s.add(kept(mine, "larger", now, maxKeptBytes+1))
	require.False(t, s.has(mine, "larger", now), "too large by itself")
	require.Zero(t, s.shelves[mine].numBytes)

	require.True(t, s.has(other, "0", now.Add(responseLife)))
	require.False(t, s.has(other, "0", now.Add(responseLife+1)))
	require.Zero(t, s.shelves[other].order.Len())
}

func TestResponseStoreAtTheEnd(t *testing.T) {
	var s responseStore
	now := time.Now()
	first, second := kept(nil, "a", now, 10), kept(nil, "a", now, 20)
	s.add(first)
	s.add(second)
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
