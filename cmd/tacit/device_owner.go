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
	"github.com/tacit-rec/tacit/internal/study/report"
)

// onState makes a command on a state file that is there.
func (a *app) onState(use, short, example string, check cobra.PositionalArgs,
	do func(d *device.Device, path string, words []string) error,
) *cobra.Command {
	var s stateFlags
	c := &cobra.Command{Use: use, Short: short, Example: example, Args: check}
	s.flags(c)
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
	return a.onState("log", "Show what the device has sent and fetched, and when",
		"  tacit device log --state my.state\n  tacit device log --format json", noArgs,
		func(d *device.Device, path string, _ []string) error {
			about, err := d.About()
			if err != nil {
				return err
			}
			return a.result(about, func(w io.Writer) error { return sayLog(w, about, path) })
		})
}

// sayLog prints a device's log for its owner.
func sayLog(w io.Writer, about *device.About, path string) error {
	where := "enrolled nowhere"
	if about.Enrolled {
		where = fmt.Sprintf("seat %d of %q at %s", about.DeviceID, about.Federation, about.Settings["server"])
	}
	if about.Deterministic {
		where += ", a rehearsal"
	}
	if about.Paused {
		where += "; PAUSED (tacit device resume)"
	}
	fmt.Fprintf(w, "%s\n%d events in the history, model %d\n", where, about.Events, about.ModelVersion)
	if about.ModelVersion > 0 {
		fmt.Fprintf(w, "fetched %d bytes for version %d of the model; %d bytes in all\n", about.DownloadedBytes,
			about.ModelVersion,
			about.DownloadedTotal)
	}
	fmt.Fprintln(w)
	t := report.Table{Header: []string{
		"when", "what", "round", "model", "numbers", "bytes", "masked", "noise", "fate",
		"digest",
	}, Align: "llrrrrlrll"}
	bytes := 0
	for _, e := range about.Log {
		fate := e.State
		if fate == "" {
			fate = "not known yet"
		}
		if e.Reason != "" {
			fate += " (" + e.Reason + ")"
		}
		masked, digest := "no", e.Digest
		if e.Masked {
			masked, digest = "yes", "-"
		}
		bytes += e.Bytes
		t.Rows = append(t.Rows, []any{
			e.CreatedAt.Local().Format(time.DateTime), e.Kind, fmt.Sprint(e.Round + 1),
			fmt.Sprint(e.ModelVersion), fmt.Sprint(e.Length), fmt.Sprint(e.Bytes), masked, fmt.Sprint(e.Noise), fate,
			digest[:min(16, len(digest))],
		})
	}
	if len(about.Log) == 0 {
		_, err := fmt.Fprintln(w, "nothing was sent")
		return err
	}
	last := about.Log[len(about.Log)-1]
	t.Notes = []string{
		fmt.Sprintf("%d reports of %d bytes in all. State file: %s.", len(about.Log), bytes, path),
		"The newest report's promise: " + last.Policy + ". " + strings.TrimSpace(last.Guarantee),
	}
	if slices.ContainsFunc(about.Log, func(e device.LogEntry) bool { return e.Masked }) {
		t.Notes = append(t.Notes, "The bytes of a masked report are those of all its messages: keys, shares, the "+
			"masked numbers, and what opens the sum.")
	}
	if !last.Masked && last.Policy == "none" {
		t.Notes = append(t.Notes, "Without masks and without a promise, the coordinator can work out from a report "+
			"which items you have.")
	}
	return t.Text(w)
}

func (a *app) devicePause(on bool) *cobra.Command {
	use, short, word := "pause", "Keep the device from taking part, also one that runs", "paused"
	if !on {
		use, short, word = "resume", "Let a paused device take part again", "resumed"
	}
	return a.onState(use, short, "  tacit device "+use+" --state my.state", noArgs,
		func(d *device.Device, path string, _ []string) error {
			if err := d.Pause(on); err != nil {
				return err
			}
			return a.result(map[string]any{"paused": on}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s: %s\n", word, path)
				return err
			})
		})
}

func (a *app) deviceAdd() *cobra.Command {
	var with string
	c := a.onState("add ITEM...", "Tell the device what its owner has just done, by the catalogue's ids",
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
			if err != nil { // a part of the model is damaged, which is not the event's fault
				unknown = nil
			}
			return a.result(map[string]any{"added": len(words), "events": about.Events, "unknown": unknown},
				func(w io.Writer) error {
					fmt.Fprintf(w, "%d added; the history has %d events.\n", len(words), about.Events)
					for _, id := range unknown {
						fmt.Fprintf(w, "%s is not in the catalogue: it counts when the catalogue has it\n", id)
					}
					_, err := fmt.Fprintln(w, "The newest that the catalogue has is held out of training until a "+
						"newer one "+
						"comes.")
					return err
				})
		})
	c.Flags().StringVar(&with, "with", "", "what the moment was like, for methods that learn from it, such as "+
		"daytime=evening,weather=sunny; what the model does not have is refused with the list")
	return c
}

func (a *app) deviceUndo() *cobra.Command {
	return a.onState("undo", "Take the last event back", "  tacit device undo --state my.state", noArgs,
		func(d *device.Device, _ string, _ []string) error {
			gone, err := d.Undo()
			if err != nil {
				return input(err, "")
			}
			return a.result(gone, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "item %s is taken back; a model that has learnt from it stays as it is\n",
					gone.Item)
				return err
			})
		})
}

func (a *app) deviceForget() *cobra.Command {
	var s stateFlags
	var offline, yes bool
	c := &cobra.Command{
		Use: "forget", Short: "Leave the federation, and wipe key, history, private state and log",
		Args: noArgs,
		Long: `Leave the federation, and wipe the device's key, history, private state, log and model.
What is in sums already cannot be taken out of them: a sum does not say who is in it.
It asks first; --yes answers, which a script must.`,
		Example: "  tacit device forget --state my.state\n  tacit device forget --state my.state --yes",
	}
	s.flags(c)
	c.Flags().BoolVar(&offline, "offline", false, "do not tell the coordinator")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.RunE = func(c *cobra.Command, _ []string) error {
		d, file, path, err := s.existing()
		if err != nil {
			return deviceHint(err)
		}
		if err := a.mayForget(d, path, yes); err != nil {
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
		return a.result(map[string]any{"forgotten": path}, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "forgotten: %s\n", path)
			return err
		})
	}
	return c
}

// mayForget asks whether a device is to be wiped.
func (a *app) mayForget(d *device.Device, path string, yes bool) error {
	if yes {
		return nil
	}
	about, err := d.About()
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%s: key, private state and %d events would be wiped, for good", path, about.Events)
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return input(errors.New(what), "tacit device forget --yes --state "+path+" does it")
	}
	fmt.Fprintf(a.err, "%s.\nforget it? [y/N] ", what)
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return input(errors.New("nothing was forgotten"), "")
}

func (a *app) recommendCmd() *cobra.Command {
	var s stateFlags
	var n int
	c := &cobra.Command{
		Use: "recommend", Short: "Recommend to a device's owner, offline", Args: noArgs,
		Long: `Recommend to a device's owner, from what the device has: no call is made, so it
works while the coordinator is gone, with the model that the device fetched last and says
the age of. What the owner has, and items that were retired, are left out.

A device that never reached its coordinator has no model yet: tacit device fetches one.`,
		Example: "  tacit recommend --state my.state\n  tacit recommend -n 20 --format json",
	}
	s.flags(c)
	c.Flags().IntVarP(&n, "number", "n", 10, "how many")
	c.RunE = func(*cobra.Command, []string) error {
		if n < 1 {
			return input(fmt.Errorf("-n %d: want at least 1", n), "")
		}
		d, _, path, err := s.existing()
		if err != nil {
			return deviceHint(err)
		}
		list, err := d.Recommend(n)
		if errors.Is(err, device.ErrNoModel) {
			return input(err, "tacit device --once --state "+path)
		}
		if err != nil {
			return deviceHint(err)
		}
		return a.result(list, func(w io.Writer) error { return sayList(w, list) })
	}
	return c
}

func sayList(w io.Writer, list *device.Recommendations) error {
	t := report.Table{Header: []string{"", "title", "id", "score"}, Align: "rllr"}
	for i, p := range list.Items {
		t.Rows = append(t.Rows, []any{fmt.Sprint(i + 1), p.Title, p.ID, fmt.Sprintf("%.3f", p.Score)})
	}
	t.Notes = []string{fmt.Sprintf("Model %d of %q, %d rounds, made %s ago; from %d items of yours that it knows.",
		list.ModelVersion, list.Federation, list.Round, time.Since(list.ModelCreatedAt).Round(time.Second),
		list.KnownItems)}
	if list.KnownItems == 0 {
		t.Notes = append(t.Notes, "None of your items is in its catalogue, so this says nothing about you: are the "+
			"ids those of the catalogue? tacit device add ID adds one.")
	}
	return t.Text(w)
}
