// Command tacit is federated recommendation in one program.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/internal/fetch"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/internal/study/tune"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
)

// version and commit are set by the Makefile.
var (
	version = "dev"
	commit  = ""
)

// Exit codes. They are documented in `tacit help exit-codes`.
const (
	exitOK      = 0
	exitFailed  = 1
	exitInput   = 2
	exitStopped = 130
)

// app is one invocation.
type app struct {
	out, err io.Writer
	format   string
	quiet    bool
	said     bool // what is to be said of cohort and sums before a run
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, out, errw io.Writer) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		<-signals
		fmt.Fprintln(errw, "\nstopping at the next safe point; again to quit at once")
		cancel()
		<-signals
		os.Exit(exitStopped)
	}()
	a := &app{out: out, err: errw}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errw)
	if err := root.ExecuteContext(ctx); err != nil {
		if wantsJSON(args) {
			a.format = "json" // a flag may be wrong before --format is read
		}
		return a.fail(err)
	}
	return exitOK
}

func wantsJSON(args []string) bool {
	for i, w := range args {
		if w == "--format=json" || w == "--format" && i+1 < len(args) && args[i+1] == "json" {
			return true
		}
	}
	return false
}

func (a *app) root() *cobra.Command {
	c := &cobra.Command{
		Use:   "tacit",
		Short: "Federated recommendation: learnt without any user's history leaving the user's device",
		Long: `Tacit runs published methods of federated recommendation on any data, under the
paper's protocol and under an honest one, with the published number beside ours.

  tacit play                                  a first result in seconds, offline
  tacit run -d ml-100k                        one experiment, with Tacit's own method and settings
  tacit run -m pfedrec -d ml-100k --protocol paper --seeds 5
  tacit methods tacit                         what it shares, keeps and sends`,
		SilenceUsage: true, SilenceErrors: true, Version: version + " " + revision(),
	}
	c.PersistentFlags().StringVar(&a.format, "format", "text", "text, or json: one envelope on standard output")
	c.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "no card and no progress")
	c.PersistentPreRunE = func(*cobra.Command, []string) error {
		if a.format != "text" && a.format != "json" {
			bad := a.format
			a.format = "text"
			return input(fmt.Errorf("--format %s: want text or json", bad), "")
		}
		return nil
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return input(err, flagHint(c, err))
	})
	return group(c, a.playCmd(), a.runCmd(), a.reproduceCmd(), a.tuneCmd(), a.methodsCmd(), a.dataCmd(), a.reportCmd(),
		a.compareCmd(), a.privacyCmd(), a.serveCmd(), a.adminCmd(), a.deviceCmd(), a.recommendCmd(), a.fleetCmd(),
		a.benchCmd(), a.docsCmd(), a.doctorCmd(), a.versionCmd(), exitCodes())
}

func input(err error, hint string) error { return &experiment.Input{Err: err, Hint: hint} }

// envelope is what --format json prints.
type envelope struct {
	Schema int      `json:"schema_version"`
	Status string   `json:"status"`
	Exit   int      `json:"exit_code"`
	Data   any      `json:"data,omitempty"`
	Error  *failure `json:"error,omitempty"`
}

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// result prints data as JSON, or calls text.
func (a *app) result(data any, text func(io.Writer) error) error {
	if a.format == "json" {
		return a.print(envelope{Schema: report.Schema, Status: "ok", Data: data})
	}
	return text(a.out)
}

func (a *app) print(e envelope) error {
	b, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "%s\n", b)
	return err
}

// flagHint is what to type instead of a flag that is not there. A method's settings are
// words.
func flagHint(c *cobra.Command, err error) string {
	name, isUnknown := strings.CutPrefix(err.Error(), "unknown flag: --")
	takes := strings.Contains(c.Use, "key=value")
	for _, e := range methods.Default().Entries() {
		if isUnknown && takes && slices.Contains(param.Keys(e.Build()), name) {
			return fmt.Sprintf("settings of a method are words: %s=VALUE; %s --help lists the flags", name,
				c.CommandPath())
		}
	}
	return c.CommandPath() + " --help lists the flags"
}

// fail tells an error and returns the exit code.
func (a *app) fail(err error) int {
	f, code := failure{"failed", err.Error(), ""}, exitFailed
	var in *experiment.Input
	var stopped *experiment.Stopped
	var fetched *fetch.Failed
	var search *tune.Stopped
	var away *gone
	switch {
	case errors.As(err, &fetched):
		f.Hint = fetched.Hint
		if fetched.Input {
			f.Code, code = "bad_input", exitInput
		} else if errors.Is(err, context.Canceled) {
			f.Code, f.Message, code = "stopped", "stopped", exitStopped
		}
	case errors.As(err, &search):
		f.Code, f.Hint, code = "stopped", "go on with: tacit tune --resume "+search.Dir, exitStopped
	case errors.As(err, &stopped):
		f.Code, code = "stopped", exitStopped
		f.Hint = "give -o DIR to be able to go on after Ctrl-C"
		if stopped.Dir != "" {
			f.Hint = "go on with: tacit run --resume " + stopped.Dir
		}
		if stopped.Hint != "" {
			f.Hint = stopped.Hint
		}
	case errors.As(err, &in):
		f.Code, f.Message, f.Hint, code = "bad_input", packages.ReplaceAllString(f.Message, ""), in.Hint, exitInput
	case errors.As(err, &away):
		f.Hint = goneHint
	case errors.Is(err, errTrial):
		return exitFailed
	case errors.Is(err, context.Canceled):
		f.Code, f.Message, code = "stopped", "stopped", exitStopped
	}
	if a.format == "json" {
		_ = a.print(envelope{Schema: report.Schema, Status: "error", Exit: code, Error: &f})
		return code
	}
	fmt.Fprintf(a.err, "tacit: %s\n", f.Message)
	if f.Hint != "" {
		fmt.Fprintf(a.err, "       %s\n", f.Hint)
	}
	return code
}

// group makes a command that only holds others: alone it shows its help, and an
// unknown word is bad input.
func group(c *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	c.AddCommand(subs...)
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, words []string) error {
		if len(words) == 0 {
			return c.Help()
		}
		var names []string
		for _, s := range c.Commands() {
			names = append(names, s.Name())
		}
		hint := c.CommandPath() + " --help lists the commands"
		if near := param.Nearest(words[0], names); near != "" {
			hint = "did you mean: " + c.CommandPath() + " " + near
		}
		return input(fmt.Errorf("unknown command %q", strings.Join(append([]string{c.CommandPath()}, words[0]), " ")),
			hint)
	}
	return c
}

// args wraps cobra's checks of arguments so that they exit as bad input.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, words []string) error {
		if err := check(c, words); err != nil {
			return input(err, c.CommandPath()+" --help shows how it is used")
		}
		return nil
	}
}

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": version, "commit": revision(), "go": goVersion()}
			return a.result(v, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "tacit %s %s %s\n", v["version"], v["commit"], v["go"])
				return err
			})
		},
	}
}

// revision is the commit this program was built from.
func revision() string {
	if commit != "" {
		return commit
	}
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return s.Value[:12]
			}
		}
	}
	return "unknown"
}

func goVersion() string {
	if b, ok := debug.ReadBuildInfo(); ok {
		return b.GoVersion
	}
	return "unknown"
}

func exitCodes() *cobra.Command {
	return &cobra.Command{
		Use: "exit-codes", Short: "What the exit codes mean",
		Long: `  0    the command did what it was asked to
  1    it could not, for a reason that is not in the input
  2    the input is wrong: a flag, a key, a file; the message says where and what to type
  130  stopped by Ctrl-C or SIGTERM; a run or a search with -o DIR is saved and can be resumed,
       and what was downloaded is kept

With --format json the same code stands in the envelope as exit_code.`,
	}
}
