package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/troupe-llm/troupe/infer"
)

const (
	maxResultBytes = 128 << 10 // of a result, as the model reads it
	maxErrorBytes  = 512       // of what a server says of a failure
)

// textOf is a result as a model reads it. What is no text is named.
func textOf(r *sdk.CallToolResult) infer.ToolResult {
	if r.NeedsInput() {
		return failed("The tool asks for more input, and nobody is there to give it.")
	}
	var parts []string
	for _, c := range r.Content {
		parts = append(parts, partOf(c))
	}
	text := strings.Join(parts, "\n")
	if len(parts) == 0 && r.StructuredContent != nil {
		raw, err := json.Marshal(r.StructuredContent)
		if err != nil {
			return failed("The result cannot be read.")
		}
		text = string(raw)
	}
	if len(text) > maxResultBytes {
		return failed("The result is too large: it has %d bytes, the limit is %d.", len(text), maxResultBytes)
	}
	return infer.ToolResult{Text: strings.ToValidUTF8(text, "\uFFFD"), IsFailed: r.IsError}
}

func partOf(c sdk.Content) string {
	switch c := c.(type) {
	case *sdk.TextContent:
		return c.Text
	case *sdk.ImageContent:
		return fmt.Sprintf("[image: %s, %d bytes]", c.MIMEType, len(c.Data))
	case *sdk.AudioContent:
		return fmt.Sprintf("[audio: %s, %d bytes]", c.MIMEType, len(c.Data))
	case *sdk.ResourceLink:
		return fmt.Sprintf("[resource: %s %s]", c.Name, c.URI)
	case *sdk.EmbeddedResource:
		if c.Resource != nil && c.Resource.Text != "" {
			return c.Resource.Text
		}
		return "[resource]"
	}
	return "[content of an unknown type]"
}

// bounded cuts a text between characters.
func bounded(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "..."
}
