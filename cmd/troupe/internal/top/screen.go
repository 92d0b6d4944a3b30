package top

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/client"
)

// screen is what is shown: the latest list, the selected request, and what
// happened last. It does no I/O.
type screen struct {
	title    string
	requests []client.Request
	rates    map[string]float64 // tokens per second since the list before, by id
	selected string             // id, "" = none
	message  string
	nodes    []client.Node // shown above the requests; nil = are not
}

// show takes a new list. The selection stays with its request; if that is over,
// it moves to what took its place.
func (s *screen) show(requests []client.Request) {
	rates := make(map[string]float64, len(requests))
	for i := range requests {
		r := &requests[i]
		if j := s.find(r.ID); j >= 0 {
			before := &s.requests[j]
			if ms := r.AgeMs - before.AgeMs; ms > 0 {
				rates[r.ID] = 1000 * float64(r.NumOutputTokens-before.NumOutputTokens) / ms
			}
		}
	}
	at := s.find(s.selected)
	s.requests, s.rates = requests, rates
	if s.find(s.selected) < 0 {
		s.pick(at)
	}
}

func (s *screen) find(id string) int {
	return slices.IndexFunc(s.requests, func(r client.Request) bool { return r.ID == id })
}

// pick selects the request at a place, or the nearest one.
func (s *screen) pick(i int) {
	s.selected = ""
	if n := len(s.requests); n > 0 {
		s.selected = s.requests[min(max(i, 0), n-1)].ID
	}
}

// move moves the selection.
func (s *screen) move(by int) { s.pick(s.find(s.selected) + by) }

// columns of the table; widths of all but the first, which gets the rest.
var columns = []struct {
	title string
	width int
}{
	{"ID", 0}, {"KEY", 12}, {"PHASE", 18}, {"AGE", 8}, {"PROMPT", 7}, {"CACHED", 7}, {"OUTPUT", 7}, {"TOK/S", 7}, {"QUEUE", 6}, {"RECOVERED", 9},
}

const minIDWidth = 16

// lines renders a screen of a size; a height of 0 or less shows everything.
func (s *screen) lines(width, height int) []string {
	idWidth := width
	for _, c := range columns[1:] {
		idWidth -= c.width + 1
	}
	idWidth = max(idWidth, minIDWidth)
	out := []string{s.summary()}
	if height > 0 {
		out = append(out, "↑ ↓ select   x cancel   q quit   "+s.message)
	}
	if s.nodes != nil {
		out = append(append(out, nodeLines(s.nodes)...), "")
	}
	header := make([]string, len(columns))
	for i, c := range columns {
		header[i] = c.title
	}
	out = append(out, row(header, idWidth))
	first, last := 0, len(s.requests)
	if room := height - len(out); height > 0 && len(s.requests) > room {
		room = max(room, 1)
		first = min(max(s.find(s.selected)-room/2, 0), len(s.requests)-room)
		last = first + room
	}
	for i := first; i < last; i++ {
		out = append(out, row(s.cells(&s.requests[i]), idWidth))
	}
	for i := range out {
		out[i] = cut(out[i], width)
	}
	if at := s.find(s.selected); height > 0 && at >= first && at < last {
		marked := &out[len(out)-(last-at)]
		*marked = "\x1b[7m" + *marked + "\x1b[0m"
	}
	return out
}

func (s *screen) summary() string {
	counts := map[string]int{}
	var phases []string
	for _, r := range s.requests {
		if counts[r.Phase]++; counts[r.Phase] == 1 {
			phases = append(phases, r.Phase)
		}
	}
	slices.Sort(phases)
	text := fmt.Sprintf("%s   %d in flight", s.title, len(s.requests))
	for i, p := range phases {
		text += fmt.Sprintf("%s%d %s", map[bool]string{true: ": ", false: ", "}[i == 0], counts[p], p)
	}
	return text
}

func (s *screen) cells(r *client.Request) []string {
	queue, rate := "", ""
	if r.QueuePosition > 0 {
		queue = fmt.Sprint(r.QueuePosition)
	}
	if v, ok := s.rates[r.ID]; ok {
		rate = fmt.Sprintf("%.1f", v)
	}
	id := r.ID
	if r.NumSequences > 1 {
		id += fmt.Sprintf(" ×%d", r.NumSequences)
	}
	return []string{
		id, r.Key, r.Phase, age(r.AgeMs), fmt.Sprint(r.NumPromptTokens), fmt.Sprint(r.NumCachedTokens), fmt.Sprint(r.NumOutputTokens),
		rate, queue, fmt.Sprint(r.NumRecoveries),
	}
}

// age writes 1.2s, 12s or 3m12s.
func age(ms float64) string {
	d := time.Duration(ms * float64(time.Millisecond))
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// row aligns cells: words to the left, numbers to the right.
func row(cells []string, idWidth int) string {
	const words = 3
	var b strings.Builder
	for i, cell := range cells {
		width := columns[i].width
		if i == 0 {
			width = idWidth
		} else {
			b.WriteByte(' ')
		}
		cell = cut(cell, width)
		pad := strings.Repeat(" ", width-utf8.RuneCountInString(cell))
		if i < words {
			b.WriteString(cell + pad)
		} else {
			b.WriteString(pad + cell)
		}
	}
	return b.String()
}

// cut shortens s to width characters.
func cut(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	return string(runes[:max(width-1, 0)]) + "…"
}
