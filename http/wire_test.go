package http_test

import (
	"bufio"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readHead reads a response's status line and headers.
func readHead(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	var head strings.Builder
	for {
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		if line == "\r\n" {
			return head.String()
		}
		head.WriteString(line)
	}
}

// readChunk reads one HTTP chunk; "" is the last one.
func readChunk(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	size, err := strconv.ParseInt(strings.TrimSpace(line), 16, 64)
	require.NoError(t, err)
	chunk := make([]byte, size+2)
	_, err = io.ReadFull(r, chunk)
	require.NoError(t, err)
	return string(chunk[:size])
}

// readChunks reads a chunked body to its end.
func readChunks(t *testing.T, r *bufio.Reader) []string {
	t.Helper()
	var chunks []string
	for {
		chunk := readChunk(t, r)
		if chunk == "" {
			return chunks
		}
		chunks = append(chunks, chunk)
	}
}
