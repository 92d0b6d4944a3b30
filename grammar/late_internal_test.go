package grammar

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
)

// TestLateMasksWaitForALane: steps keep cores, however many masks are late.
func TestLateMasksWaitForALane(t *testing.T) {
	v := NewVocabulary([][]byte{[]byte("a"), []byte("b"), nil}, VocabularyOptions{EOS: []int32{2}})
	require.Positive(t, cap(v.lanes))
	for range cap(v.lanes) {
		v.lanes <- struct{}{}
	}
	g, err := CompileRegex("ab", Options{})
	require.NoError(t, err)
	m, mask := g.NewMatcher(v), make([]uint64, v.MaskWords())
	told := make(chan struct{}, 1)
	next := func() bool {
		ok, err := m.Next([]int32{0}, mask, &infer.MaskBudget{Late: func() { told <- struct{}{} }})
		require.NoError(t, err)
		return ok
	}
	require.False(t, next())
	require.False(t, next(), "no lane is free")
	require.Empty(t, told)
	<-v.lanes
	<-told
	require.True(t, next())
	require.Equal(t, uint64(1<<1), mask[0])
	require.Len(t, v.lanes, cap(v.lanes)-1, "it has given its lane back")
}
