// Command tacit is federated recommendation in one program: experiments, a coordinator and devices. It parses
// flags and prints results; it never computes a result itself.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// version and commit are set by the Makefile.
var (
	version = "dev"
	commit  = ""
)

// Exit codes. tacit help exit-codes documents them.
const (
	exitOK      = 0
	exitFailed  = 1
	exitInput   = 2
	exitStopped = 130
)

const exitCodesText = `  0    success
  1    failure that better input would not prevent, such as a full disk
  2    invalid input: a flag, a setting or a file; the message names it and what to type instead
  130  interrupted by Ctrl-C or SIGTERM; runs and searches with -o DIR, and downloads, can be resumed.
       tacit serve exits with 0 after SIGTERM, and tacit play after either: that is how they end

With --format json, the field exit_code of the output holds the same number.`

// app is one invocation of the program.
type app struct {
	out, err io.Writer
	format   string
	json     bool
	quiet    bool
	all      bool // --help shows every flag
	atEOF    bool // stop when standard input ends
	signals  chan os.Signal
	noted    bool // the notes on cohort and sums were printed
	pages    map[*cobra.Command]helpPage

	log        *slog.Logger                // of serve
	records    atomic.Pointer[slog.Logger] // the same, if it is not for people
	terminated atomic.Bool                 // SIGTERM arrived
	cleanups   cleanups
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
	a := &app{out: &safeWriter{w: out}, err: &safeWriter{w: errw}, signals: signals}
	go func() {
		first := <-signals
		a.terminated.Store(first == syscall.SIGTERM)
		a.sayStopping(first)
		cancel()
		<-signals
		a.cleanups.run()
		os.Exit(exitStopped)
	}()
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.err)
	if err := root.ExecuteContext(ctx); err != nil {
		if asksForJSON(args) {
			a.format = "json" // parsing may have failed before it reached --format
		}
		return a.fail(err)
	}
	return exitOK
}

func asksForJSON(args []string) bool {
	for i, w := range args {
		if w == "--json" || w == "--format=json" || w == "--format" && i+1 < len(args) && args[i+1] == "json" {
			return true
		}
	}
	return false
}

const rootLong = `
Tacit trains recommenders without collecting histories: each device learns from its own, and only
changes to shared parameters leave it. Run published methods on your data, or a real federation.`

const rootExample = `  tacit play                       # watch a federation learn: no network, no data, no settings
  tacit run -d ml-100k             # one experiment with Tacit's own method
  tacit methods pfedrec            # what a method shares, keeps and sends`

func (a *app) root() *cobra.Command {
	c := &cobra.Command{
		Use: "tacit", Short: "Federated recommendation in one program", Long: rootLong, Example: rootExample,
		SilenceUsage: true, SilenceErrors: true, Version: version + " " + revision(),
		DisableFlagsInUseLine: true,
	}
	fl := c.PersistentFlags()
	fl.StringVar(&a.format, "format", "text", "`text` or json: one JSON object on standard output")
	fl.BoolVar(&a.json, "json", false, "the same as --format json")
	fl.BoolVarP(&a.quiet, "quiet", "q", false, "print no progress")
	fl.BoolVar(&a.all, "all", false, "with --help: show every flag")
	fl.BoolVar(&a.atEOF, "stop-at-eof", false, "stop when standard input ends, as after Ctrl-C")
	_ = fl.MarkHidden("all")
	_ = fl.MarkHidden("stop-at-eof")
	c.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		if a.atEOF { // a caller that was killed closes it too
			signal.Ignore(syscall.SIGPIPE) // and standard error: the run is still saved
			go func() {
				_, _ = io.Copy(io.Discard, os.Stdin)
				a.signals <- os.Interrupt
			}()
		}
		return a.checkGlobalFlags(c)
	}
	c.SetFlagErrorFunc(flagError)
	c.SetHelpFunc(a.help)
	c.SetHelpCommand(a.helpCmd())
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"start", "Start:", []*cobra.Command{a.playCmd(), a.runCmd(), a.methodsCmd(), a.dataCmd()}},
		{"study", "Study:", []*cobra.Command{
			a.tuneCmd(), a.evaluateCmd(), a.compareCmd(), a.reportCmd(), a.recommendCmd(), a.exportCmd(),
			a.reproduceCmd(), a.privacyCmd(),
		}},
		{"deploy", "Run a federation:", []*cobra.Command{
			a.serveCmd(), a.adminCmd(), a.deviceCmd(), a.fleetCmd(),
		}},
		{"maintain", "Maintain:", []*cobra.Command{
			a.doctorCmd(), a.healthCmd(), a.benchCmd(), a.docsCmd(), a.completionCmd(), a.versionCmd(),
		}},
	} {
		c.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, sub := range g.commands {
			sub.GroupID = g.id
		}
		c.AddCommand(g.commands...)
	}
	cobra.EnableCommandSorting = false
	c.AddCommand(a.topics()...)
	root := group(c)
	completions(root)
	_ = root.RegisterFlagCompletionFunc("format", oneOf(named("text", "json"), noFiles))
	return root
}

// checkGlobalFlags checks the flags that every command takes.
func (a *app) checkGlobalFlags(c *cobra.Command) error {
	if a.all {
		return input(fmt.Errorf("--all works only with --help"), c.CommandPath()+" --help --all")
	}
	if a.json {
		a.format = "json"
	}
	if bad := a.format; bad != "text" && bad != "json" {
		a.format = "text"
		return input(fmt.Errorf("--format %s: must be text or json", bad), "")
	}
	return nil
}

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
		return a.print(envelope{Schema: result.Schema, Status: "ok", Data: data})
	}
	return text(a.out)
}

// resultLine prints data as JSON, or one line of text.
func (a *app) resultLine(data any, format string, values ...any) error {
	return a.result(data, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, format+"\n", values...)
		return err
	})
}

func (a *app) print(e envelope) error {
	b, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "%s\n", b)
	return err
}

// progress prints a line on standard error unless --quiet is set.
func (a *app) progress(format string, values ...any) {
	if !a.quiet {
		fmt.Fprintf(a.err, format+"\n", values...)
	}
}

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": version, "commit": revision(), "go": goVersion()}
			return a.resultLine(v, "tacit %s %s %s", v["version"], v["commit"], v["go"])
		},
	}
}

// revision is the commit that this program was built from.
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
