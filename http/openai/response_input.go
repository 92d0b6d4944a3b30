package openai

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"

	"github.com/troupe-llm/troupe/infer"
)

// Forget drops what only a response that is kept needs.
func (r *Response) Forget() { r.dialogue, r.input = nil, nil }

// NumBytes is the memory of the conversation, about.
func (r *Response) NumBytes() int {
	n := len(r.instructions) + len(r.settings.json) + len(r.settings.templateTools)
	for _, list := range [][]json.RawMessage{r.dialogue, r.input} {
		for _, raw := range list {
			n += len(raw)
		}
	}
	return n
}

// keptFields are the members of items that have a meaning: others are not kept.
var keptFields = []string{"type", "role", "content", "status", "name", "arguments", "call_id", "output", "summary", "encrypted_content", "tool_calls", "tool_call_id", "server_label", "error", "tools"}

// TakeInput returns the items of the input, each with an id: its own or a new one.
// The response has them no more.
func (r *Response) TakeInput() []json.RawMessage {
	list := make([]json.RawMessage, len(r.input))
	for i, raw := range r.input {
		o := parseObject(raw, "")
		id := or(o.str("id"), "")
		if id == "" {
			id = "in_" + r.newID + strconv.Itoa(i)
		}
		dst := appendString([]byte(`{"id":`), id)
		if !o.has("type") { // a message may leave it out
			dst = append(dst, `,"type":"message"`...)
		}
		for name, value := range members(raw) {
			if slices.Contains(keptFields, name) {
				dst = append(append(appendString(append(dst, ','), name), ':'), value...)
			}
		}
		list[i] = append(dst, '}')
	}
	r.input = nil
	return list
}

// Page says which part of a list is wanted.
type Page struct {
	Limit     int
	After     string // id of the last one seen, "" = none
	Ascending bool
}

const (
	defaultPage = 20
	maxPage     = 100
)

// ParsePage reads limit, after and order of a query.
func ParsePage(query string) (Page, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return Page{}, infer.Errorf(infer.CodeMalformed, "", "The query is malformed")
	}
	p := Page{Limit: defaultPage, After: values.Get("after")}
	if s := values.Get("limit"); s != "" {
		if p.Limit, err = strconv.Atoi(s); err != nil || p.Limit < 1 || p.Limit > maxPage {
			return Page{}, infer.Errorf(infer.CodeInvalid, "limit", "limit: must be from 1 to %d, got %q", maxPage, excerpt(s))
		}
	}
	switch order := values.Get("order"); order {
	case "", "desc":
	case "asc":
		p.Ascending = true
	default:
		return Page{}, infer.Errorf(infer.CodeInvalid, "order", "order: must be asc or desc, got %q", excerpt(order))
	}
	return p, nil
}

// AppendInputItems appends a page of items that have ids.
func AppendInputItems(dst []byte, items []json.RawMessage, p Page) []byte {
	items = slices.Clone(items)
	if !p.Ascending {
		slices.Reverse(items)
	}
	if i := slices.IndexFunc(items, func(raw json.RawMessage) bool { return itemID(raw) == p.After }); i >= 0 {
		items = items[i+1:]
	}
	hasMore := len(items) > p.Limit
	items = items[:min(len(items), p.Limit)]
	dst = append(dst, `{"object":"list","data":[`...)
	for i, raw := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, raw...)
	}
	first, last := "", ""
	if len(items) > 0 {
		first, last = itemID(items[0]), itemID(items[len(items)-1])
	}
	dst = appendStringOrNull(append(dst, `],"first_id":`...), first)
	dst = appendStringOrNull(append(dst, `,"last_id":`...), last)
	return append(appendBool(append(dst, `,"has_more":`...), hasMore), '}')
}

func itemID(raw json.RawMessage) string { return or(parseObject(raw, "").str("id"), "") }
