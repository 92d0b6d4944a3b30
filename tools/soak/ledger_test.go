package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBalance(t *testing.T) {
	seen := &traffic{sent: map[string]sent{"soak-1-": {whole, 7}, "soak-2-": {left, 0}, "soak-3-": {refused, 0}}}
	records := []record{
		{ID: "cmpl-soak-1-", FinishReason: "stop", OutputTokens: 7},
		{ID: "chatcmpl-soak-2-", FinishReason: "abort", OutputTokens: 3},
		{ID: "req-0123", FinishReason: "refused"},
	}
	m := samples{
		receivedTotal + `{key=""}`:                           3,
		finishedTotal + `{finished_reason="stop",key=""}`:    1,
		finishedTotal + `{finished_reason="abort",key=""}`:   1,
		finishedTotal + `{finished_reason="refused",key=""}`: 1,
		generationTotal + `{engine="0"}`:                     4,
		generationTotal + `{engine="1"}`:                     6,
	}
	var out bytes.Buffer
	require.NoError(t, balance(&out, seen, m, records))
	require.Contains(t, out.String(), "The books balance.")

	for name, cook := range map[string]func(){
		"a token without an owner":   func() { m[generationTotal+`{engine="1"}`]++ },
		"a request without outcome":  func() { m[receivedTotal+`{key=""}`]++ },
		"a block that was not freed": func() { m[blocksNow+`{engine="0"}`] = 0.01 },
		"a wrong answer":             func() { seen.wrong = []string{"soak-1-"} },
		"a failure without poison":   func() { seen.sent["soak-3-"] = sent{failed, 0} },
		"a goroutine that stays":     func() { m[goroutinesNow] = spareGoroutines + 1 },
		"a file that stays open":     func() { m[filesNow] = spareFiles + 1 },
	} {
		was := samples{}
		for k, v := range m {
			was[k] = v
		}
		cook()
		require.ErrorContains(t, balance(&out, seen, m, records), "do not balance", name)
		m, seen.wrong = was, nil
		seen.sent["soak-3-"] = sent{refused, 0}
	}
	require.Error(t, balance(&out, seen, m, records[:2]), "a line that the log lacks")
}
