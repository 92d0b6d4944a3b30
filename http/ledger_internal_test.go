package http

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRecordsAreForgotten(t *testing.T) {
	l := newLedger(&Options{}, true)
	begin := time.Now()
	add := func(id string, at time.Time) {
		e := l.open(&exchange{start: at}, "/x")
		e.claim = l.claim(id)
		e.ID = e.claim
		e.Status = 200
		e.end()
		e.end() // counts once
	}
	add("old", begin.Add(-time.Hour))
	l.ended["old"].E2EMs = 0 // it ended as it began
	require.Nil(t, l.find("old"))
	add("a", begin)
	add("a", begin) // the id is free again
	require.Len(t, l.order, 2)
	require.NotNil(t, l.find("a"))
	for i := range maxRecords {
		add(fmt.Sprint(i), begin)
	}
	require.Nil(t, l.find("a"))
	require.NotNil(t, l.find("0"))
	require.Len(t, l.ended, maxRecords)
	require.Len(t, l.order, maxRecords)
	add("last", begin)
	require.Nil(t, l.find("0"))
	require.Len(t, l.ended, maxRecords)
	require.Empty(t, l.live)
}

func TestClaimsAreUnique(t *testing.T) {
	l := newLedger(&Options{}, false)
	require.Equal(t, "a", l.claim("a"))
	second := l.claim("a")
	require.Regexp(t, `^a-[0-9a-f]{8}$`, second)
	require.NotEqual(t, second, l.claim("a"))
	require.Empty(t, l.ended)
}

func TestStrangersAreNotKept(t *testing.T) {
	l := newLedger(&Options{}, true)
	l.open(&exchange{start: time.Now()}, "/x").refused(401, nil)
	require.Empty(t, l.ended)
}
