package chatui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/client"
)

// Options say whom to talk to and where.
type Options struct {
	Client *client.Client
	Model  string
	System string // "" = none

	In       io.Reader
	Out      io.Writer
	Err      io.Writer // errors of answers, unless Out is a terminal that shows them
	Terminal bool      // In and Out are a terminal: prompts, colours, timings
	Metrics  bool      // the line of timings after each answer; with Terminal only

	// Interrupts delivers a terminal's Ctrl-C: it stops an answer, never the program.
	Interrupts <-chan os.Signal

	MaxTokens   int // 0 = the server's default
	Temperature *float64
	Seed        *int64
}

// maxLineBytes bounds what a user may say in one line.
const maxLineBytes = 1 << 20

const help = `/reset forgets the conversation, /exit leaves (as does Ctrl-D), Ctrl-C stops an answer.`

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// session is one conversation.
type session struct {
	o       Options
	history []message
	failed  error // of an answer in a pipe, the latest
}

var errInterrupted = errors.New("interrupted")

// Run talks until the input ends, /exit, or ctx ends. A terminal shows errors and
// goes on; in a pipe they go to Err, but for the last, which is Run's own. Run's error
// may also be that ctx ended.
func Run(ctx context.Context, o Options) error {
	s := &session{o: o}
	s.reset()
	if o.Terminal {
		s.printf("%s", dim("Talking to "+visible(o.Model)+". "+help)+"\n")
	}
	lines := readLines(ctx, o.In)
	for ctx.Err() == nil {
		s.prompt()
		line, ok := s.next(ctx, lines)
		if !ok {
			break
		}
		if line.err != nil {
			return line.err
		}
		if done := s.handle(ctx, strings.TrimSpace(line.text)); done {
			return nil
		}
	}
	if o.Terminal {
		s.printf("\n")
		return nil
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	return s.failed
}

func (s *session) prompt() {
	if s.o.Terminal {
		s.printf("> ")
	}
}

// next waits for a line; ok is false at the end.
func (s *session) next(ctx context.Context, lines <-chan inputLine) (line inputLine, ok bool) {
	for {
		select {
		case line, ok = <-lines:
			return line, ok
		case <-s.o.Interrupts:
			s.printf("\n%s\n", dim(help))
			s.prompt()
		case <-ctx.Done():
			return inputLine{}, false
		}
	}
}

// handle answers a line or obeys a command.
func (s *session) handle(ctx context.Context, line string) (done bool) {
	switch {
	case line == "":
	case line == "/exit" || line == "/quit":
		return true
	case line == "/reset":
		s.reset()
		if s.o.Terminal {
			s.printf("%s\n", dim("The conversation is forgotten."))
		}
	case line == "/help" && s.o.Terminal:
		s.printf("%s\n", dim(help))
	default:
		s.answer(ctx, line)
	}
	return false
}

func (s *session) reset() {
	s.history = nil
	if s.o.System != "" {
		s.history = []message{{"system", s.o.System}}
	}
}

// answer sends the conversation and shows what comes. A failed answer leaves
// the conversation as it was; a stopped one keeps what was said.
func (s *session) answer(program context.Context, line string) {
	ctx, cancel := context.WithCancel(program)
	defer cancel()
	stopped := s.stopOnInterrupt(ctx, cancel)
	s.history = append(s.history, message{"user", line})
	w := newStopwatch(time.Now())
	var text strings.Builder
	err := s.o.Client.Stream(ctx, client.PathChat, s.request(), func(c *client.Chunk) {
		w.chunk(c, time.Now())
		text.WriteString(c.Text)
		s.printf("%s", s.visible(c.Text))
	})
	cancel()
	interrupted := <-stopped
	if s.o.Terminal || err == nil || text.Len() > 0 {
		s.printf("\n")
	}
	if program.Err() != nil {
		return
	}
	if err != nil && !interrupted {
		s.history = s.history[:len(s.history)-1]
		s.fail(err)
		return
	}
	s.history = append(s.history, message{"assistant", text.String()})
	if s.o.Terminal && s.o.Metrics {
		s.printf("%s\n", dim(w.line(interrupted)))
	}
}

// stopOnInterrupt cancels the answer on Ctrl-C. The channel tells, once ctx has
// ended, whether that happened.
func (s *session) stopOnInterrupt(ctx context.Context, cancel context.CancelFunc) <-chan bool {
	stopped := make(chan bool, 1)
	go func() {
		select {
		case <-s.o.Interrupts:
			cancel()
			stopped <- true
		case <-ctx.Done():
			stopped <- false
		}
	}()
	return stopped
}

// fail tells of an answer that failed.
func (s *session) fail(err error) {
	if s.o.Terminal {
		s.printf("%s\n", s.errorText(err))
		return
	}
	if s.failed != nil {
		_, _ = fmt.Fprintln(s.o.Err, s.errorText(s.failed))
	}
	s.failed = err
}

func (s *session) errorText(err error) string {
	text := "Error: " + err.Error()
	var status *client.StatusError
	if errors.As(err, &status) && status.Status == 400 && len(s.history) > 1 {
		text += " (/reset begins anew)"
	}
	return text
}

func (s *session) request() map[string]any {
	body := map[string]any{
		"model": s.o.Model, "messages": s.history, "stream": true,
		"stream_options": map[string]any{"include_usage": true},
	}
	if s.o.MaxTokens > 0 {
		body["max_tokens"] = s.o.MaxTokens
	}
	if s.o.Temperature != nil {
		body["temperature"] = *s.o.Temperature
	}
	if s.o.Seed != nil {
		body["seed"] = *s.o.Seed
	}
	return body
}

// printf writes to the output. A terminal that is gone ends the program by its
// own signal; there is nobody to tell.
func (s *session) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.o.Out, format, args...) }

// visible keeps a model from sending commands to the terminal; a pipe gets the
// text as it is.
func (s *session) visible(text string) string {
	if !s.o.Terminal {
		return text
	}
	return visible(text)
}

// visible drops control characters but line ends and tabs.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if (r < ' ' && r != '\n' && r != '\t') || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, text)
}

func dim(text string) string { return "\x1b[2m" + text + "\x1b[0m" }

type inputLine struct {
	text string
	err  error // the input failed or the line is too long; nothing follows
}

// readLines reads in a goroutine of its own, which ends with the input: a read
// from a terminal cannot be called off.
func readLines(ctx context.Context, r io.Reader) <-chan inputLine {
	lines := make(chan inputLine)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(r)
		scanner.Buffer(nil, maxLineBytes)
		for scanner.Scan() {
			select {
			case lines <- inputLine{text: strings.ToValidUTF8(scanner.Text(), "\uFFFD")}:
			case <-ctx.Done():
				return
			}
		}
		if err := scanner.Err(); err != nil {
			select {
			case lines <- inputLine{err: fmt.Errorf("input: %w", err)}:
			case <-ctx.Done():
			}
		}
	}()
	return lines
}
