package config

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// groupTitles are the groups of serve's flags: key to title.
var groupTitles = map[string]string{
	"metrics":   "Metrics and usage",
	"http":      "HTTP server",
	"logging":   "Logging",
	"chat":      "Chat and tools",
	"model":     "Model",
	"scheduler": "Scheduler and cache",
	"cluster":   "Cluster",
}

// groupOrder is the order in which help shows the groups.
var groupOrder = []string{"metrics", "http", "logging", "chat", "model", "scheduler", "cluster", ""}

// writeHelp writes help on a command: topic "" = its flags, "all" = those of
// vLLM that change nothing here too, else one group or one flag.
func writeHelp(w io.Writer, node *kong.Node, topic string) error {
	h := helpWriter{w: w, node: node}
	topic = strings.ReplaceAll(strings.TrimLeft(strings.ToLower(topic), "-"), "_", "-")
	switch {
	case topic == "":
		h.command()
		h.groups(groupOrder)
		h.footer()
	case topic == "all":
		h.command()
		h.groups(groupOrder)
		h.foreign()
	case groupTitles[topic] != "" && h.isServe():
		h.groups([]string{topic})
	default:
		return h.flag(topic)
	}
	return nil
}

type helpWriter struct {
	w    io.Writer
	node *kong.Node
}

func (h *helpWriter) isServe() bool {
	return isServe(h.node)
}

func (h *helpWriter) line(format string, args ...any) { fmt.Fprintf(h.w, format+"\n", args...) }

func (h *helpWriter) command() {
	usage := h.node.FullPath()
	if len(h.node.Children) > 0 {
		usage += " COMMAND"
	}
	for _, p := range h.node.Positional {
		usage += " [" + p.Name + "]"
	}
	if len(h.node.Flags) > 0 {
		usage += " [flags]"
	}
	h.line("Usage: %s\n\n%s", usage, h.node.Help)
	for _, p := range h.node.Positional {
		h.line("")
		h.entry(p.Name, p.Help)
	}
	if len(h.node.Children) > 0 {
		h.line("\nCommands:")
	}
	for _, c := range h.node.Children {
		h.line("  %-14s %s", c.Name, c.Help)
	}
}

func (h *helpWriter) groups(keys []string) {
	for _, key := range keys {
		flags := slices.DeleteFunc(slices.Clone(h.node.Flags), func(f *kong.Flag) bool { return groupKey(f) != key })
		if len(flags) == 0 {
			continue
		}
		title := cmp.Or(groupTitles[key], "Flags")
		if key != "" {
			title += " (--help=" + key + ")"
		}
		h.line("\n%s:", title)
		for _, f := range flags {
			h.entry(flagForm(f), flagHelp(f))
		}
	}
}

// entryWidth is the column of the explanations.
const entryWidth = 34

// entry writes what a flag is called and does, on two lines if it is called long.
func (h *helpWriter) entry(form, help string) {
	if len([]rune(form)) > entryWidth {
		h.line("  %s", form)
		form = ""
	}
	h.line("  %-*s %s", entryWidth, form, help)
}

func (h *helpWriter) footer() {
	switch {
	case h.isServe():
		h.line("\n--help=GROUP lists one group, --help=FLAG explains one flag, --help=all adds vLLM's flags that are ignored or refused.")
		h.line("Environment: VLLM_API_KEY, VLLM_LOGGING_LEVEL, VLLM_LOG_STATS_INTERVAL, VLLM_HTTP_TIMEOUT_KEEP_ALIVE, VLLM_MAX_N_SEQUENCES, VLLM_MAX_STOP_STRINGS, VLLM_ENABLE_RESPONSES_API_STORE.")
	case len(h.node.Children) > 0:
		h.line("\n%s COMMAND --help explains a command.", h.node.FullPath())
	case len(h.node.Flags) > 0:
		h.line("\n--help=FLAG explains one flag.")
	}
}

func (h *helpWriter) foreign() {
	if !h.isServe() {
		return
	}
	for _, part := range []struct {
		title  string
		refuse bool
	}{{"Accepted and ignored, with a warning", false}, {"Refused unless they ask for the default", true}} {
		h.line("\n%s:", part.title)
		for _, f := range foreignFlags {
			if f.refuse == part.refuse {
				h.entry("--"+f.name, f.note)
			}
		}
	}
}

// flag writes about one flag, whether ours or a foreign one.
func (h *helpWriter) flag(name string) error {
	for _, f := range h.node.Flags {
		if f.Name == name || f.Tag.Negatable != "" && "no-"+f.Name == name {
			h.line("%s\n    %s", flagForm(f), flagHelp(f))
			return nil
		}
	}
	if f, ok := findForeign(name); ok && h.isServe() {
		verb := "is accepted and ignored"
		if f.refuse {
			verb = "is refused unless it asks for the default"
		}
		h.line("--%s\n    %s: %s.", f.name, verb, f.note)
		return nil
	}
	return usagef("--help=%s: there is no such group or flag", name)
}

func groupKey(f *kong.Flag) string {
	if f.Group == nil {
		return ""
	}
	return f.Group.Key
}

// flagForm shows how a flag is written.
func flagForm(f *kong.Flag) string {
	switch {
	case f.IsBool() && f.Tag.Negatable != "":
		return "--[no-]" + f.Name
	case f.IsBool():
		return "--" + f.Name
	}
	form := "--" + f.Name + " " + valueForm(f)
	if f.IsSlice() && f.Tag.Sep == -1 {
		form += " …"
	}
	return form
}

func valueForm(f *kong.Flag) string {
	switch {
	case f.Enum != "":
		return strings.ReplaceAll(f.Enum, ",", "|")
	case f.PlaceHolder != "":
		return f.PlaceHolder
	case f.Target.Kind().String() == "string":
		return "TEXT"
	}
	return "N"
}

func flagHelp(f *kong.Flag) string {
	if !f.HasDefault || f.Default == "" {
		return f.Help
	}
	return fmt.Sprintf("%s (default %s)", f.Help, f.Default)
}
