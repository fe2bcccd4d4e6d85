package main

import (
	"bufio"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tacit-rec/tacit/device"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/report"
)

// stateCommand makes a command that works on an existing state file.
func (a *app) stateCommand(use, short, example string, check cobra.PositionalArgs,
	do func(d *device.Device, path string, words []string) error,
) *cobra.Command {
	var s stateFlags
	c := &cobra.Command{Use: use, Short: short, Example: example, Args: check}
	s.flags(c)
	a.describe(c, "", stateGroup)
	c.RunE = func(_ *cobra.Command, words []string) error {
		d, _, path, err := s.existing()
		if err != nil {
			return deviceHint(err)
		}
		return deviceHint(do(d, path, words))
	}
	return c
}

func (a *app) deviceLog() *cobra.Command {
	return a.stateCommand("log", "Show what the device sent and downloaded, and when",
		"  tacit device log --state my.state\n  tacit device log --format json", noArgs,
		func(d *device.Device, path string, _ []string) error {
			about, err := d.About()
			if err != nil {
				return err
			}
			return a.result(about, func(w io.Writer) error { return writeLog(w, about, path) })
		})
}

func (a *app) deviceStatus() *cobra.Command {
	return a.stateCommand("status", "Show the device, its coordinator and the privacy guarantee",
		"  tacit device status --state my.state\n  tacit device status --format json", noArgs,
		func(d *device.Device, path string, _ []string) error {
			about, err := d.About()
			if err != nil {
				return err
			}
			about.Log = nil
			return a.result(about, func(w io.Writer) error { return writeDeviceStatus(w, about, path) })
		})
}

// writeDeviceStatus prints what a device is and what its reports may reveal.
func writeDeviceStatus(w io.Writer, about *device.About, path string) error {
	lines := [][2]string{{"device", deviceName(about)}, {"state file", path}}
	add := func(name, format string, values ...any) {
		lines = append(lines, [2]string{name, fmt.Sprintf(format, values...)})
	}
	if about.Coordinator != "" {
		add("coordinator", "%s", stateText(about.Coordinator))
	}
	add("history", "%s", format.Plural(about.Events, "event"))
	if about.ModelVersion == 0 {
		add("model", "none yet; tacit device --once downloads one")
	} else {
		add("model", "version %d, created %s ago; %d bytes downloaded, %d for all versions", about.ModelVersion,
			time.Since(about.ModelCreatedAt).Round(time.Second), about.DownloadedBytes, about.DownloadedTotal)
		add("guarantee", "%s", about.Guarantee)
		add("since enrolment", "%s", tallyText(about))
	}
	for _, l := range lines {
		if _, err := fmt.Fprintf(w, "%-17s%s\n", l[0], l[1]); err != nil {
			return err
		}
	}
	return nil
}

// deviceName says which device of which federation it is.
func deviceName(about *device.About) string {
	name := "not enrolled"
	if about.Enrolled {
		name = fmt.Sprintf("device %d of %q at %s", about.DeviceID, about.Federation, about.Settings["server"])
	}
	if about.Deterministic {
		name += ", deterministic (for tests)"
	}
	if about.Paused {
		name += "; PAUSED (tacit device resume)"
	}
	return name
}

// tallyText says what the device itself counted since it enrolled.
func tallyText(about *device.About) string {
	y := about.Tally
	text := fmt.Sprintf("%s and %s in %s of %s", format.Plural(y.Reports, "report"),
		format.Plural(y.Evaluations, "evaluation"), format.Plural(y.Rounds, "released round"),
		format.Plural(y.Runs, "run"))
	if y.Epsilon > 0 {
		text += fmt.Sprintf("; epsilon %.3g at delta %.3g", y.Epsilon, y.Delta)
	}
	if y.Incomplete {
		text += ", perhaps more: the device has missed some"
	}
	if y.Resets > 0 {
		text += fmt.Sprintf(", with %s of the budget", format.Plural(y.Resets, "reset"))
	}
	if y.Epsilon > 0 && y.Unprotected > 0 {
		text += fmt.Sprintf("; %s had no differential privacy", format.Plural(y.Unprotected, "round"))
	}
	return text
}

// writeLog prints a device's log for its owner.
func writeLog(w io.Writer, about *device.About, path string) error {
	fmt.Fprintf(w, "%s\n%s in the history, model version %d\n", deviceName(about), format.Plural(about.Events, "event"),
		about.ModelVersion)
	if about.ModelVersion > 0 {
		fmt.Fprintf(w, "downloaded %d bytes for model version %d; %d bytes in total\n", about.DownloadedBytes,
			about.ModelVersion, about.DownloadedTotal)
		fmt.Fprintf(w, "guarantee: %s\nsince enrolment: %s\n", about.Guarantee, tallyText(about))
	}
	fmt.Fprintln(w)
	if len(about.Log) == 0 {
		_, err := fmt.Fprintln(w, "no reports sent")
		return err
	}
	t := report.Table{Header: []string{
		"when", "what", "round", "model", "numbers", "bytes", "masked", "noise", "result", "digest",
	}, Align: "llrrrrlrll"}
	bytes, sent := 0, 0
	var last device.LogEntry // the newest report
	for _, e := range about.Log {
		if e.IsReport() {
			bytes, sent, last = bytes+e.Bytes, sent+1, e
		}
		t.Rows = append(t.Rows, logRow(e))
	}
	t.Notes = []string{fmt.Sprintf("%s, %d bytes in total. State file: %s.", format.Plural(sent, "report"), bytes,
		path)}
	if sent > 0 {
		t.Notes = append(t.Notes, "Privacy guarantee of the newest report: "+last.Policy+". "+last.Guarantee+".")
	}
	if slices.ContainsFunc(about.Log, func(e device.LogEntry) bool { return e.Masked }) {
		t.Notes = append(t.Notes, "The bytes of a masked report include keys, shares, the masked numbers and the "+
			"unmasking message.")
	}
	if sent > 0 && !last.Masked && last.Policy == "none" {
		t.Notes = append(t.Notes, "Without secure aggregation or differential privacy, the coordinator can infer your "+
			"items from a report.")
	}
	return t.Text(w)
}

// logRow is the row of an entry: a report, or a task or plan that the device declined.
func logRow(e device.LogEntry) []any {
	result := e.State
	if result == "" {
		result = "no answer yet"
	}
	if e.Reason != "" {
		result += " (" + e.Reason + ")"
	}
	when := e.CreatedAt.Local().Format(time.DateTime)
	if !e.IsReport() {
		return []any{when, e.Kind, fmt.Sprint(e.Round + 1), "-", "-", "-", "-", "-", result, "-"}
	}
	masked, digest := "no", e.Digest
	if e.Masked {
		masked, digest = "yes", "-"
	}
	return []any{
		when, e.Kind, fmt.Sprint(e.Round + 1), fmt.Sprint(e.ModelVersion), fmt.Sprint(e.Length), fmt.Sprint(e.Bytes),
		masked, fmt.Sprint(e.Noise), result, digest[:min(16, len(digest))],
	}
}

func (a *app) devicePause(on bool) *cobra.Command {
	use, short, word := "pause", "Pause the device, even while it runs", "paused"
	if !on {
		use, short, word = "resume", "Resume a paused device", "resumed"
	}
	return a.stateCommand(use, short, "  tacit device "+use+" --state my.state", noArgs,
		func(d *device.Device, path string, _ []string) error {
			if err := d.Pause(on); err != nil {
				return err
			}
			return a.resultLine(map[string]any{"paused": on}, "%s the device %s", word, path)
		})
}

func (a *app) deviceAdd() *cobra.Command {
	var with string
	c := a.stateCommand("add ITEM...", "Add events to the history, by item ID",
		"  tacit device add 50 181 --state my.state", minArgs(1),
		func(d *device.Device, _ string, words []string) error {
			moment, err := readFeatures("with", with)
			if err != nil {
				return err
			}
			var events []device.Event
			for i, id := range words {
				events = append(events, device.Event{Item: id, Time: time.Now().UnixMilli() +
					int64(i)}.WithFeatures(moment))
			}
			if err := d.Add(events...); err != nil {
				return input(err, "")
			}
			about, err := d.About()
			if err != nil {
				return err
			}
			unknown, err := d.UnknownItems(words...)
			if err != nil { // a damaged model does not prevent adding events
				unknown = nil
			}
			return a.result(map[string]any{"added": len(words), "events": about.Events, "unknown": unknown},
				func(w io.Writer) error {
					fmt.Fprintf(w, "added %s; the history now has %d.\n", format.Plural(len(words), "event"),
						about.Events)
					for _, id := range unknown {
						fmt.Fprintf(w, "item %s is not in the catalogue; it counts as soon as the catalogue has it\n",
							id)
					}
					_, err := fmt.Fprintln(w, "The newest event is held out of training until a newer one arrives.")
					return err
				})
		})
	c.Flags().StringVar(&with, "with", "", "features of the event, such as daytime=evening,weather=sunny")
	a.describe(c, "", flagsUnder("Event", "with", ""), stateGroup)
	return c
}

func (a *app) deviceUndo() *cobra.Command {
	return a.stateCommand("undo", "Remove the last event from the history", "  tacit device undo --state my.state",
		noArgs,
		func(d *device.Device, _ string, _ []string) error {
			last, err := d.Undo()
			if err != nil {
				return input(err, "")
			}
			return a.resultLine(last, "removed item %s; a model that learnt from it does not change", last.Item)
		})
}

func (a *app) deviceForget() *cobra.Command {
	var s stateFlags
	var offline, yes bool
	c := &cobra.Command{
		Use: "forget", Short: "Leave the federation and delete all data of the device",
		Args: noArgs,
		Long: `It deletes the device's key, history, private state, log and model. Updates that are already in a sum
cannot be removed from it. The command asks for confirmation unless --yes is set.`,
		Example: "  tacit device forget --state my.state\n  tacit device forget --state my.state --yes",
	}
	s.flags(c)
	c.Flags().BoolVar(&offline, "offline", false, "do not inform the coordinator")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	a.describe(c, "", flagsUnder("Forget", "yes offline", ""), stateGroup)
	c.RunE = func(c *cobra.Command, _ []string) error {
		d, file, path, err := s.existing()
		if err != nil {
			return deviceHint(err)
		}
		if err := a.confirmForget(d, path, yes); err != nil {
			return err
		}
		release, err := file.Acquire()
		if err != nil {
			return deviceHint(err)
		}
		defer release()
		about, err := d.About()
		if err != nil {
			return err
		}
		if url := about.Settings["server"]; url != "" && !offline {
			d.SetDial(func(key ed25519.PrivateKey) (device.Conn, error) {
				return rpc.Dial(rpc.Options{
					URL: url, Pin: about.Settings["pin"], Key: key, Tries: 2,
					Insecure: about.Settings["insecure"] == "yes",
				})
			})
		}
		if err := d.Forget(c.Context()); err != nil {
			return err
		}
		return a.resultLine(map[string]any{"forgotten": path}, "deleted the device %s", path)
	}
	return c
}

// confirmForget asks whether to delete a device.
func (a *app) confirmForget(d *device.Device, path string, yes bool) error {
	if yes {
		return nil
	}
	about, err := d.About()
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%s: this deletes the key, the private state and %s for good", path,
		format.Plural(about.Events, "event"))
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return input(errors.New(what), "confirm with: tacit device forget --yes --state "+path)
	}
	fmt.Fprintf(a.err, "%s.\nContinue? [y/N] ", what)
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	if answer == "y" || answer == "yes" {
		return nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return input(errors.New("not confirmed: nothing was deleted"), "")
}
