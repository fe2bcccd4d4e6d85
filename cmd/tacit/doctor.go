package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/study/experiment"
)

// finding is one line of tacit doctor.
type finding struct {
	What  string `json:"what"`
	OK    bool   `json:"ok"`
	Found string `json:"found"`
	Hint  string `json:"hint,omitempty"`
}

func (a *app) doctorCmd() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check this machine: cores, cache, data sets, reproducible results", Args: noArgs,
		Example: "  tacit doctor",
		Long:    "It runs a small experiment and checks that the result has the same bits as on other machines.",
		RunE: func(c *cobra.Command, _ []string) error {
			list := examineMachine(c.Context())
			err := a.result(list, func(w io.Writer) error {
				for _, f := range list {
					state := "ok"
					if !f.OK {
						state = "note"
					}
					fmt.Fprintf(w, "%-4s  %-17s %s\n", state, f.What, f.Found)
					if f.Hint != "" {
						fmt.Fprintf(w, "%6s%-17s %s\n", "", "", f.Hint)
					}
				}
				return nil
			})
			return err
		},
	}
}

func examineMachine(ctx context.Context) []finding {
	out := []finding{
		{What: "program", OK: true, Found: fmt.Sprintf("tacit %s %s, %s", version, revision(), goVersion())},
		{What: "machine", OK: true, Found: fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH,
			runtime.NumCPU(), experiment.CPU())},
		cacheFinding(),
	}
	for _, k := range data.KnownSets() {
		at := findSet(k, "")
		f := finding{What: k.Name, OK: at != "", Found: at}
		if !f.OK {
			f.Found, f.Hint = "not found", fmt.Sprintf("put %s in %s; get it from %s", k.Needs(),
				filepath.Join(dataDir(), k.Folder), k.Home)
			if k.Archive.URL != "" {
				f.Hint = getHint(k)
			}
		}
		out = append(out, f)
	}
	digest, err := experiment.SelfTest(ctx)
	bits := finding{
		What: "bits", OK: err == nil && digest == experiment.SelfTestDigest,
		Found: "a small run gives the same bits as on other machines",
	}
	if !bits.OK {
		bits.Found = fmt.Sprintf("a small run gives the digest %.16s, expected %.16s (%v)", digest,
			experiment.SelfTestDigest, err)
		bits.Hint = "results on this machine may differ in the last digits; please report it"
	}
	return append(out, bits)
}

func dataDir() string {
	d := experiment.DataDirs("")
	if len(d) == 0 {
		return "DATA-FOLDER"
	}
	return d[0]
}

func cacheFinding() finding {
	dir, err := os.UserCacheDir()
	if err == nil {
		dir = filepath.Join(dir, "tacit")
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp(dir, "doctor-*"); err == nil {
			f.Close()
			err = os.Remove(f.Name())
		}
	}
	if err != nil {
		return finding{What: "cache", Found: err.Error(), Hint: "every run measures its reference rows again; " +
			"set XDG_CACHE_HOME to a writable folder"}
	}
	return finding{What: "cache", OK: true, Found: dir}
}
