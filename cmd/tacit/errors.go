package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/internal/fetch"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/internal/study/tune"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
)

// input marks an error as invalid input, which exits with code 2, and says what to do next.
func input(err error, hint string) error { return &experiment.InputError{Err: err, Hint: hint} }

// failed marks an error that better input would not prevent, which exits with code 1, and says what to do next.
func failed(err error, hint string) error { return &failedError{err, hint} }

type failedError struct {
	error
	hint string
}

func (e *failedError) Unwrap() error { return e.error }

// fail prints an error and returns the exit code.
func (a *app) fail(err error) int {
	if errors.Is(err, errChaosFailed) {
		return exitFailed // the result was printed
	}
	f, code := explainError(err)
	if a.format == "json" {
		_ = a.print(envelope{Schema: result.Schema, Status: "error", Exit: code, Error: &f})
		return code
	}
	if l := a.records.Load(); l != nil {
		if code != exitStopped {
			fields := []any{"exit_code", code}
			if f.Hint != "" {
				fields = append(fields, "hint", f.Hint)
			}
			l.Error(f.Message, fields...)
		}
		return code
	}
	fmt.Fprintf(a.err, "tacit: %s\n", f.Message)
	if f.Hint != "" {
		fmt.Fprintf(a.err, "       %s\n", f.Hint)
	}
	return code
}

// explainError returns the message of an error for users, and the exit code.
func explainError(err error) (failure, int) {
	message := plainText(err)
	stopped := func(hint string) (failure, int) { return failure{"stopped", message, hint}, exitStopped }
	if e := new(fetch.Error); errors.As(err, &e) {
		switch {
		case e.Input:
			return failure{"bad_input", message, e.Hint}, exitInput
		case errors.Is(err, context.Canceled):
			return failure{"stopped", "interrupted", e.Hint}, exitStopped
		}
		return failure{"failed", message, e.Hint}, exitFailed
	}
	if e := new(tune.Stopped); errors.As(err, &e) {
		return stopped("resume with: tacit tune --resume " + e.Dir)
	}
	if e := new(experiment.Stopped); errors.As(err, &e) {
		switch {
		case e.Hint != "":
			return stopped(e.Hint)
		case e.Dir != "":
			return stopped("resume with: tacit run --resume " + e.Dir)
		}
		return stopped("add -o DIR to be able to resume after Ctrl-C")
	}
	if e := new(experiment.InputError); errors.As(err, &e) {
		return failure{"bad_input", message, e.Hint}, exitInput
	}
	if e := new(store.FormatError); errors.As(err, &e) {
		return failure{"bad_input", message, e.Hint()}, exitInput
	}
	if errors.Is(err, coordinator.ErrIncomplete) {
		return failure{"bad_input", message, ""}, exitInput
	}
	if e := new(failedError); errors.As(err, &e) {
		return failure{"failed", message, e.hint}, exitFailed
	}
	if e := new(unreachableError); errors.As(err, &e) {
		return failure{"failed", message, unreachableHint}, exitFailed
	}
	if errors.Is(err, context.Canceled) {
		return failure{"stopped", "interrupted", ""}, exitStopped
	}
	return failure{"failed", message, ""}, exitFailed
}

// packageNames matches the package names that our errors begin with, which help programmers only.
var packageNames = regexp.MustCompile(`(^|: )((account|aggregate|coordinator|data|device|experiment|fetch|fleet|` +
	`learn|method|methods|param|privacy|report|round|rows|rpc|secagg|sim|statefile|store|tune|wire|agent|agg|coord): )+`)

// dialTCP matches the system calls of a failed connection, before its reason.
var dialTCP = regexp.MustCompile(`dial tcp:? (?:lookup )?(\S+?)(?: on \S+)?: (?:connect: )?`)

// plainText is an error as a user reads it: without transport codes, package names and system call names.
func plainText(err error) string {
	text := err.Error()
	if ce := new(connect.Error); errors.As(err, &ce) {
		text = strings.Replace(text, ce.Error(), ce.Message(), 1)
	}
	if pe := new(fs.PathError); errors.As(err, &pe) {
		verb := pe.Op
		switch verb {
		case "mkdir":
			verb = "create"
		case "stat", "lstat":
			verb = "find"
		case "open", "read", "write":
		default:
			verb = "use"
		}
		text = strings.Replace(text, pe.Error(), fmt.Sprintf("cannot %s %s: %v", verb, pe.Path, pe.Err), 1)
	}
	text = dialTCP.ReplaceAllString(text, "$1: ")
	return settingText(packageNames.ReplaceAllString(text, "$1"))
}

// settingText shortens the source of an invalid setting to what the user typed: --rounds x or rounds=x.
func settingText(text string) string {
	text = strings.TrimPrefix(text, "command line: ")
	subject, rest, _ := strings.Cut(text, " = ")
	quoted, rule, _ := strings.Cut(rest, ": ")
	value, err := strconv.Unquote(quoted)
	if err != nil || strings.Contains(subject, "\n") {
		return text
	}
	if source, key, found := strings.Cut(subject, ": "); found && source == "flag --"+key {
		return fmt.Sprintf("--%s %s: %s", key, value, rule)
	}
	return fmt.Sprintf("%s=%s: %s", subject, value, rule)
}

// networkError adds what to do next to an error of a call to a coordinator.
func networkError(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, rpc.ErrPin) {
		return input(errors.New(plainText(rpc.ErrPin)),
			"check --coordinator and --pin; tacit serve prints both")
	}
	var unknown x509.UnknownAuthorityError
	var other x509.HostnameError
	if errors.As(err, &unknown) || errors.As(err, &other) || strings.Contains(err.Error(), "certificate") {
		return input(errors.New("the coordinator's certificate is not trusted"),
			"add --pin PIN with the pin that tacit serve printed")
	}
	switch rpc.Code(err) {
	case connect.CodeUnavailable.String():
		return failed(fmt.Errorf("the coordinator does not answer: %s", plainText(err)),
			"check that tacit serve is running and that the address is right")
	case rpc.Quota:
		return input(errors.New(plainText(err)), "tacit admin token creates another token")
	case rpc.BadToken:
		return input(errors.New("the operator's token is wrong"),
			"tacit admin add-operator, on the coordinator's machine, creates one")
	}
	switch connect.CodeOf(err) {
	case connect.CodeUnauthenticated, connect.CodePermissionDenied, connect.CodeFailedPrecondition,
		connect.CodeInvalidArgument, connect.CodeNotFound:
		return input(errors.New(plainText(err)), "")
	}
	return err
}

// flagTypes say what a flag of a type accepts.
var flagTypes = map[string]string{
	"int": "an integer", "int64": "an integer", "uint32": "an integer of 0 or more",
	"uint64": "an integer of 0 or more", "float64": "a number", "bool": "true or false",
	"duration": "a time such as 30s or 5m", "float64Slice": "numbers with commas between them",
}

// flagRule says what the value of a flag must be.
type flagRule struct {
	valid bool
	flag  string
	value any
	must  string
}

// checkFlags rejects the first flag whose value is invalid.
func checkFlags(rules ...flagRule) error {
	for _, r := range rules {
		if !r.valid {
			return input(fmt.Errorf("--%s %v: must be %s", r.flag, r.value, r.must), "")
		}
	}
	return nil
}

// flagError explains an error of the flag parser.
func flagError(c *cobra.Command, err error) error {
	hint := c.CommandPath() + " --help --all lists the flags"
	if e := new(pflag.NotExistError); errors.As(err, &e) {
		name := e.GetSpecifiedName()
		if words := c.Flags().Args(); len(words) > 0 && strings.HasSuffix(c.Use, " COMMAND") {
			return unknownCommand(c, words[0])
		}
		if e.GetSpecifiedShortnames() != "" {
			return input(fmt.Errorf("unknown flag: -%s", name), hint)
		}
		if strings.Contains(c.Use, "key=value") && isParameter(name) {
			return input(fmt.Errorf("unknown flag: --%s", name),
				fmt.Sprintf("parameters of a method are written without dashes: %s=VALUE", name))
		}
		if near := param.Nearest(name, flagNames(c)); near != "" {
			hint = fmt.Sprintf("did you mean --%s? %s", near, hint)
		}
		return input(fmt.Errorf("unknown flag: --%s", name), hint)
	}
	if e := new(pflag.ValueRequiredError); errors.As(err, &e) {
		return input(fmt.Errorf("--%s needs a value", e.GetFlag().Name), "usage: "+
			strings.TrimSpace(flagName(e.GetFlag())))
	}
	if e := new(pflag.InvalidValueError); errors.As(err, &e) {
		return input(fmt.Errorf("--%s %s: must be %s", e.GetFlag().Name, e.GetValue(),
			flagTypes[e.GetFlag().Value.Type()]), hint)
	}
	return input(err, hint)
}

// isParameter reports whether a method has a parameter of this name.
func isParameter(name string) bool {
	for _, e := range methods.Default().Entries() {
		if slices.Contains(param.Keys(e.Build()), name) {
			return true
		}
	}
	return false
}

// flagNames are the flags that a command shows.
func flagNames(c *cobra.Command) []string {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// group makes a command that only holds others: alone it shows its help, and an unknown
// subcommand is invalid input.
func group(c *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	c.AddCommand(subs...)
	c.DisableFlagsInUseLine = true
	c.Use += " COMMAND"
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, words []string) error {
		if len(words) == 0 {
			return c.Help()
		}
		return unknownCommand(c, words[0])
	}
	return c
}

// unknownCommand is the error for a subcommand that does not exist.
func unknownCommand(c *cobra.Command, word string) error {
	var names []string
	for _, s := range c.Commands() {
		names = append(names, s.Name())
	}
	hint := c.CommandPath() + " --help lists the commands"
	if near := param.Nearest(word, names); near != "" {
		hint = "did you mean: " + c.CommandPath() + " " + near
		if found, _, err := c.Find([]string{near}); err == nil && isTopic(found) {
			hint = "did you mean: " + c.CommandPath() + " help " + near
		}
	}
	return input(fmt.Errorf("unknown command %q", c.CommandPath()+" "+word), hint)
}

// checkNumber checks that the only argument is a number.
func checkNumber(hint string) cobra.PositionalArgs {
	return func(c *cobra.Command, words []string) error {
		if err := countArgs(c, words, 1, 1); err != nil {
			return err
		}
		if _, err := strconv.ParseUint(words[0], 10, 32); err != nil {
			_, name, _ := strings.Cut(c.Use, " ")
			return input(fmt.Errorf("%s %q: must be a number", strings.ToLower(name), words[0]), hint)
		}
		return nil
	}
}

// The checks of positional arguments return errors that name what is expected.

func noArgs(c *cobra.Command, words []string) error { return countArgs(c, words, 0, 0) }

func exactArgs(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, words []string) error { return countArgs(c, words, n, n) }
}

func minArgs(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, words []string) error { return countArgs(c, words, n, 1<<30) }
}

func maxArgs(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, words []string) error { return countArgs(c, words, 0, n) }
}

func countArgs(c *cobra.Command, words []string, least, most int) error {
	_, expected, _ := strings.Cut(c.Use, " ")
	hint := c.CommandPath() + " --help shows examples"
	switch {
	case len(words) > most && most == 0 && c.HasSubCommands():
		return unknownCommand(c, words[0])
	case len(words) > most && most == 0:
		return input(fmt.Errorf("unexpected argument %q: %s takes no arguments", words[0], c.CommandPath()), hint)
	case len(words) > most:
		return input(fmt.Errorf("unexpected argument %q: expected %s %s", words[most], c.CommandPath(), expected), hint)
	case len(words) < least:
		return input(fmt.Errorf("missing argument: expected %s %s", c.CommandPath(), expected), hint)
	}
	return nil
}
