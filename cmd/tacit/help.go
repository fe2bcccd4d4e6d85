package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tacit-rec/tacit/internal/study/format"
)

// helpWidth is the number of columns that help pages use.
const helpWidth = 100

// helpPage is what the help of a command shows besides cobra's own fields.
type helpPage struct {
	groups  []flagGroup
	details string // shown by --help --all only
}

// flagGroup is a heading of a help page with its flags.
type flagGroup struct {
	title  string
	common []string
	rare   []string // shown by --help --all only
}

// flagsUnder makes a group from two lists of flag names, separated by spaces.
func flagsUnder(title, common, rare string) flagGroup {
	return flagGroup{title, strings.Fields(common), strings.Fields(rare)}
}

// describe sets the help page of a command.
func (a *app) describe(c *cobra.Command, details string, groups ...flagGroup) {
	if a.pages == nil {
		a.pages = map[*cobra.Command]helpPage{}
	}
	a.pages[c] = helpPage{groups, details}
}

// help prints the help page of a command.
func (a *app) help(c *cobra.Command, _ []string) {
	var b strings.Builder
	page := a.pages[c]
	fmt.Fprintf(&b, "%s.\n", strings.TrimSuffix(c.Short, "."))
	if c.Long != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.Trim(c.Long, "\n"))
	}
	if a.all && page.details != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.Trim(page.details, "\n"))
	}
	if isTopic(c) {
		fmt.Fprint(c.OutOrStdout(), b.String())
		return
	}
	fmt.Fprintf(&b, "\nUsage: %s\n", c.UseLine())
	if c.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.TrimRight(c.Example, "\n"))
	}
	writeCommands(&b, c)
	hidden := writeFlags(&b, c, page, a.all)
	if c.HasSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help explains a command.", c.CommandPath())
		if !c.HasParent() {
			fmt.Fprint(&b, " Topics: tacit help exit-codes, protocols or settings.")
		}
	} else {
		fmt.Fprint(&b, "\nEvery command takes --format json, --quiet and --help.")
	}
	if hidden || page.details != "" && !a.all {
		fmt.Fprintf(&b, " More: %s --help --all", c.CommandPath())
	}
	fmt.Fprint(c.OutOrStdout(), b.String()+"\n")
}

// isTopic reports whether a command is a page of help and nothing else.
func isTopic(c *cobra.Command) bool { return !c.Runnable() && !c.HasSubCommands() }

// writeCommands lists the subcommands of a command, by group if there are groups.
func writeCommands(w io.Writer, c *cobra.Command) {
	width := 11
	for _, s := range c.Commands() {
		width = max(width, len(s.Name()))
	}
	list := func(group string) {
		for _, s := range c.Commands() {
			if s.GroupID == group && s.IsAvailableCommand() && s.Name() != "help" {
				fmt.Fprintf(w, "  %-*s %s\n", width, s.Name(), s.Short)
			}
		}
	}
	if !c.HasAvailableSubCommands() {
		return
	}
	if len(c.Groups()) == 0 {
		fmt.Fprint(w, "\nCommands:\n")
		list("")
		return
	}
	for _, g := range c.Groups() {
		fmt.Fprintf(w, "\n%s\n", g.Title)
		list(g.ID)
	}
}

// writeFlags lists the flags of a command by group, and reports whether it left some out.
func writeFlags(w io.Writer, c *cobra.Command, page helpPage, all bool) (hidden bool) {
	groups := page.groups
	if len(groups) == 0 {
		groups = []flagGroup{{title: "Flags"}}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if c.Root().PersistentFlags().Lookup(f.Name) == nil && f.Name != "help" && f.Name != "version" {
				groups[0].common = append(groups[0].common, f.Name)
			}
		})
	}
	width := 0
	var shown [][]*pflag.Flag
	for _, g := range groups {
		names := g.common
		if all {
			names = slices.Concat(g.common, g.rare)
		}
		hidden = hidden || len(names) < len(g.common)+len(g.rare)
		var list []*pflag.Flag
		for _, name := range names {
			if f := c.Flags().Lookup(name); f != nil && !f.Hidden {
				list = append(list, f)
				width = max(width, len(flagName(f)))
			}
		}
		shown = append(shown, list)
	}
	if width > 0 {
		fmt.Fprintln(w)
	}
	for i, g := range groups {
		if len(shown[i]) == 0 {
			continue
		}
		fmt.Fprintf(w, "%s:\n", g.title)
		for _, f := range shown[i] {
			lines := strings.Split(format.Wrap(flagText(f), helpWidth-width-4, ""), "\n")
			fmt.Fprintf(w, "  %-*s  %s\n", width, flagName(f), strings.Join(lines, "\n"+strings.Repeat(" ", width+4)))
		}
	}
	return hidden
}

// valueNames are what the help calls the values of some flags.
var valueNames = map[string]string{
	"method": "NAME", "data": "NAME", "protocol": "NAME", "user": "NAME", "name": "NAME",
	"out": "PATH", "from": "PATH", "state": "PATH", "offline": "PATH",
	"resume": "DIR", "data-dir": "DIR", "runs": "DIR", "cells": "DIR", "figures": "DIR", "run": "DIR",
	"rows": "FILE", "picture": "FILE", "catalogue": "FILE", "history": "FILE", "cert": "FILE", "cert-key": "FILE",
	"passphrase-file": "FILE", "config": "FILE", "token-file": "FILE",
	"coordinator": "URL", "listen": "HOST:PORT", "metrics": "HOST:PORT", "log-format": "FORMAT", "log-level": "LEVEL",
}

// flagName is a flag as it is typed, with the kind of its value.
func flagName(f *pflag.Flag) string {
	s := "    --" + f.Name
	if f.Shorthand != "" {
		s = "-" + f.Shorthand + ", --" + f.Name
	}
	kind, _ := pflag.UnquoteUsage(f)
	// --runs is a folder, or a number; --offline is one, or a switch
	if name := valueNames[f.Name]; name != "" && kind != "int" && kind != "" {
		kind = name
	}
	switch kind {
	case "":
		return s
	case "string", "stringArray":
		kind = "TEXT"
	case "strings":
		kind = "A,B"
	case "int", "uint", "uint32":
		kind = "N"
	case "float":
		kind = "X"
	case "float64Slice":
		kind = "X,X"
	case "duration":
		kind = "TIME"
	}
	return s + " " + kind
}

// flagText is what a flag does, and its default.
func flagText(f *pflag.Flag) string {
	_, text := pflag.UnquoteUsage(f)
	switch d := f.DefValue; {
	case d == "" || d == "0" || d == "false" || d == "none" || d == "[]" || d == "0s" || d == "-1" ||
		strings.HasPrefix(d, "/"):
	case f.Value.Type() == "stringSlice":
		text += " (default " + strings.Trim(d, "[]") + ")"
	default:
		text += " (default " + d + ")"
	}
	return text
}

// helpCmd is tacit help COMMAND.
func (a *app) helpCmd() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Explain a command or a topic", Hidden: true,
		ValidArgsFunction: completeHelp,
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil }, // --all is allowed here
		RunE: func(c *cobra.Command, words []string) error {
			found, rest, err := c.Root().Find(words)
			if err != nil || len(rest) > 0 {
				return unknownCommand(c.Root(), strings.Join(words, " "))
			}
			a.help(found, nil)
			return nil
		},
	}
}

// topics are pages of help that belong to no command.
func (a *app) topics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodesText},
		{Use: "protocols", Short: "How an experiment is evaluated: the values of --protocol", Long: protocolsText()},
		{Use: "settings", Short: "Where the settings of a run come from", Long: settingsText},
	}
}
