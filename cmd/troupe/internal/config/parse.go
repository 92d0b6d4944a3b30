package config

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/troupe-llm/troupe/chat/reasoning"
	"github.com/troupe-llm/troupe/chat/toolcall"
)

// CLI is the grammar of the whole command line.
type CLI struct {
	Serve   Serve   `cmd:"" help:"Serve a model with the OpenAI API."`
	Pull    Pull    `cmd:"" help:"Fetch a model of a hub, or what is missing of it."`
	Chat    Chat    `cmd:"" help:"Talk to a model in the terminal."`
	Top     Top     `cmd:"" help:"Show a server's requests in flight, and cancel them."`
	Bench   Bench   `cmd:"" help:"Measure a server, or an engine without one."`
	Doctor  Doctor  `cmd:"" help:"Say what this machine can run, and how fast."`
	Version Version `cmd:"" help:"Print the version."`
}

// Version is the settings of `troupe version`: none.
type Version struct{}

// Command names what the command line asks for.
type Command string

// The commands. CommandHelp: the text has been written already.
const (
	CommandServe       Command = "serve"
	CommandPull        Command = "pull"
	CommandChat        Command = "chat"
	CommandTop         Command = "top"
	CommandBenchServe  Command = "bench serve"
	CommandBenchEngine Command = "bench engine"
	CommandBenchModel  Command = "bench model"
	CommandDoctor      Command = "doctor"
	CommandVersion     Command = "version"
	CommandHelp        Command = "help"
)

// Options are what Parse works with besides the arguments.
type Options struct {
	Getenv func(string) string
	Help   io.Writer // where --help goes
}

// Parse reads the arguments, the program's name left out. Every error is a
// *UsageError; settings that contradict each other are left to Check.
func Parse(args []string, o Options) (*CLI, Command, error) {
	cli := &CLI{}
	parser, err := newParser(cli)
	if err != nil {
		return nil, "", err
	}
	asksHelp := len(args) > 0 && args[0] == string(CommandHelp)
	if asksHelp {
		args = args[1:]
	}
	node, path, rest := findCommand(parser.Model.Node, args)
	if asksHelp {
		if rest, err = helpArgs(node, rest); err != nil {
			return nil, "", asUsage(err)
		}
	}
	lex := &lexer{kinds: kindsOf(node)}
	if err := lex.run(rest); err != nil {
		return nil, "", asUsage(err)
	}
	if lex.help != nil {
		return cli, CommandHelp, asUsage(writeHelp(o.Help, node, *lex.help))
	}
	if lex.version {
		return cli, CommandVersion, nil
	}
	if err := checkCommand(node, rest, lex); err != nil {
		return nil, "", err
	}
	refused, err := cli.apply(parser, path, lex)
	if err != nil {
		return nil, "", asUsage(err)
	}
	cli.Serve.refused = refused
	if isServe(node) {
		if cli.Serve.Env, err = readEnv(o.Getenv); err != nil {
			return nil, "", asUsage(err)
		}
		cli.Serve.Warnings = append(cli.Serve.Warnings, cli.Serve.Env.warnings...)
	}
	return cli, Command(strings.Join(path, " ")), nil
}

// checkCommand refuses a line that names no command, or one there is not, with
// the list of those there are.
func checkCommand(node *kong.Node, rest []string, lex *lexer) error {
	var problem error
	switch {
	case len(node.Children) == 0:
		return nil
	case len(rest) > 0 && !strings.HasPrefix(rest[0], "-"):
		problem = fmt.Errorf("unknown command %q", strings.TrimPrefix(node.FullPath()+" "+rest[0], "troupe "))
	case len(lex.unknown) > 0:
		return nil // kong names the flag
	default:
		problem = errors.New("a command is missing")
	}
	var help strings.Builder
	if err := writeHelp(&help, node, ""); err != nil {
		return err
	}
	return &UsageError{Err: problem, Help: help.String()}
}

// helpArgs turns what follows `troupe help COMMAND` into --help or --help=TOPIC.
func helpArgs(node *kong.Node, rest []string) ([]string, error) {
	switch {
	case len(rest) == 0:
		return []string{"--help"}, nil
	case node.Type == kong.ApplicationNode && !strings.HasPrefix(rest[0], "-"):
		return nil, usagef("unknown command %q", rest[0])
	}
	return []string{"--help=" + rest[0]}, nil
}

func newParser(cli *CLI) (*kong.Kong, error) {
	return kong.New(cli, kong.Name("troupe"), kong.NoDefaultHelp(),
		kong.Description("Troupe serves language models."), kong.Groups(groupTitles),
		kong.Vars{"tool_call_parsers": strings.Join(toolcall.Formats(), ", "), "reasoning_parsers": strings.Join(reasoning.Names(), ", ")})
}

// findCommand follows the words at the head of args through the command tree.
func findCommand(node *kong.Node, args []string) (found *kong.Node, path, rest []string) {
	for len(args) > 0 {
		i := slices.IndexFunc(node.Children, func(c *kong.Node) bool { return c.Name == args[0] })
		if i < 0 {
			break
		}
		node, path, args = node.Children[i], append(path, args[0]), args[1:]
	}
	return node, path, args
}

// kindsOf tells the lexer about a command's flags; serve has vLLM's foreign ones too.
func kindsOf(node *kong.Node) map[string]flagKind {
	kinds := map[string]flagKind{}
	for _, f := range node.Flags {
		k := flagKind{arity: takesValue, json: f.Target.Type().Name() == "JSONObject"}
		switch {
		case f.IsBool():
			k = flagKind{arity: takesNothing, twoWay: true}
		case f.IsSlice():
			k.arity = takesList
		}
		kinds[f.Name] = k
	}
	if isServe(node) {
		for _, f := range foreignFlags {
			kinds[f.name] = flagKind{arity: f.arity, twoWay: f.arity == takesNothing, json: strings.HasSuffix(f.name, "-config")}
		}
	}
	return kinds
}

// isServe tells `troupe serve` from `troupe bench serve`.
func isServe(node *kong.Node) bool {
	return node.Name == string(CommandServe) && node.Parent.Type == kong.ApplicationNode
}

// apply hands the settings to kong. refused is the first foreign flag that asks
// for something we cannot do.
func (cli *CLI) apply(parser *kong.Kong, path []string, lex *lexer) (refused, err error) {
	settings := lex.settings
	var file []setting
	for _, s := range settings {
		if s.name == "config" {
			if file, err = readFile(s.values[0], lex.kinds); err != nil {
				return nil, err
			}
		}
	}
	if len(lex.words) > 0 { // MODEL, which is --model by another form
		file = slices.DeleteFunc(file, func(s setting) bool { return s.name == "model" })
	}
	settings = merge(file, settings)
	if settings, err = joinMembers(settings); err != nil {
		return nil, err
	}
	args := slices.Clone(path)
	var warnings []string
	for _, s := range settings {
		f, isForeign := findForeign(s.name)
		if !isForeign {
			args = append(args, s.kongArgs()...)
			continue
		}
		warning, err := f.judge(s)
		var usage *UsageError
		if errors.As(err, &usage) {
			return nil, usage
		}
		refused = errors.Join(refused, err)
		if s.name == flagMemoryShare {
			cli.Serve.memoryShare = s.values[0]
		}
		if warning != "" && !slices.Contains(warnings, warning) {
			warnings = append(warnings, warning)
		}
	}
	args = append(args, lex.unknown...)
	if len(lex.words) > 0 {
		args = append(append(args, "--"), lex.words...)
	}
	if _, err := parser.Parse(args); err != nil {
		return nil, explain(err)
	}
	if d, err := parseDevice(cli.Serve.Scheduler.Device); err == nil && d.Kind != DeviceCPU {
		warnings = slices.DeleteFunc(warnings, func(w string) bool { return strings.Contains(w, flagMemoryShare) })
	}
	cli.Serve.Warnings = warnings
	return refused, nil
}

// kongArgs writes the setting in the one form that is never ambiguous.
func (s setting) kongArgs() []string {
	if s.values == nil {
		if s.off {
			return []string{"--no-" + s.name}
		}
		return []string{"--" + s.name}
	}
	args := make([]string, len(s.values))
	for i, v := range s.values {
		args[i] = fmt.Sprintf("--%s=%s", s.name, v)
	}
	return args
}

// explain makes one line of kong's error.
func explain(err error) error {
	return &UsageError{Err: errors.New(plainWords(strings.Join(strings.Fields(err.Error()), " ")))}
}
