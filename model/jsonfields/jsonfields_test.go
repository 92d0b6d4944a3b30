package jsonfields_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/model/jsonfields"
)

func TestListsAndNestedObjects(t *testing.T) {
	f := jsonfields.Parse("a.json", []byte("\xef\xbb\xbf"+`{"ints":[1,2],"floats":[0.5,2],"none":null,"inner":{"deep":{"x":7}}}`))
	require.Equal(t, []int{1, 2}, f.Ints("ints", jsonfields.IntRange{Min: 1, Max: 2}, 2))
	require.Nil(t, f.Ints("none", jsonfields.IntRange{}, 2))
	require.Equal(t, []float64{0.5, 2}, f.Floats("floats", jsonfields.FloatRange{Max: 2}, 2))
	require.Equal(t, 7, f.Object("inner").Object("deep").Int("x", jsonfields.IntRange{Max: 9}, 0))
	require.Nil(t, f.Object("none"))
	require.NoError(t, f.Err())
}

func TestTheFirstFaultIsKept(t *testing.T) {
	for text, want := range map[string]string{
		`{"v":[1,3]}`:   "a.json: v holds 3; it must be a list of integers from 1 to 2",
		`{"v":[1,2,1]}`: "a.json: v has 3 elements; there may be at most 2",
		`{"v":[null]}`:  "a.json: v holds null; it must be a list of integers from 1 to 2",
		`{"v":"x"}`:     `a.json: v is "x"; it must be a list`,
	} {
		f := jsonfields.Parse("a.json", []byte(text))
		f.Ints("v", jsonfields.IntRange{Min: 1, Max: 2}, 2)
		require.ErrorContains(t, f.Err(), want)
		f.RequiredInt("other", jsonfields.IntRange{})
		require.ErrorContains(t, f.Err(), want)
	}
	f := jsonfields.Parse("a.json", []byte(`{"o":{"x":[1,null]}}`))
	require.Nil(t, f.Object("o").Floats("x", jsonfields.FloatRange{Max: 2}, 2))
	require.ErrorContains(t, f.Err(), "a.json: o.x holds null; it must be a list of numbers in [0, 2]", "faults of an object are the file's")
	f = jsonfields.Parse("a.json", []byte(`{"n":-5}`))
	require.Equal(t, 1, f.Int("n", jsonfields.IntRange{Min: 1, Max: 9}, 4), "what has a fault stays in its range")
}
