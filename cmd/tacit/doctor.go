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

type finding struct {
	What  string `json:"what"`
	OK    bool   `json:"ok"`
	Found string `json:"found"`
	Hint  string `json:"hint,omitempty"`
}

func (a *app) doctorCmd() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Look at this machine: cores, data sets, cache, and whether results have the bits " +
			"they have elsewhere",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			list := examine(c.Context())
			err := a.result(list, func(w io.Writer) error {
				for _, f := range list {
					mark := "ok  "
					if !f.OK {
						mark = "note"
					}
					fmt.Fprintf(w, "%s  %-14s %s\n", mark, f.What, f.Found)
					if f.Hint != "" {
						fmt.Fprintf(w, "      %-14s %s\n", "", f.Hint)
					}
				}
				return nil
			})
			return err
		},
	}
}

func examine(ctx context.Context) []finding {
	out := []finding{
		{What: "program", OK: true, Found: fmt.Sprintf("tacit %s %s, %s", version, revision(), goVersion())},
		{What: "machine", OK: true, Found: fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH,
			runtime.NumCPU(), experiment.CPU())},
		cacheFinding(),
	}
	for _, k := range data.KnownSets() {
		at := found(k, "")
		f := finding{What: k.Name, OK: at != "", Found: at}
		if !f.OK {
			f.Found, f.Hint = "not found", fmt.Sprintf("place %s in %s; its page is %s", k.Needs(),
				filepath.Join(lastDir(), k.Folder), k.Home)
			if k.Archive.URL != "" {
				f.Hint = howToGet(k)
			}
		}
		out = append(out, f)
	}
	digest, err := experiment.SelfTest(ctx)
	bits := finding{
		What: "bits", OK: err == nil && digest == experiment.SelfTestDigest,
		Found: "a small run gives the bits it gives everywhere",
	}
	if !bits.OK {
		bits.Found = fmt.Sprintf("a small run gives the digest %.16s, want %.16s (%v)", digest,
			experiment.SelfTestDigest, err)
		bits.Hint = "results on this machine differ from others in the last digits; please report it"
	}
	return append(out, bits)
}

func lastDir() string {
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
		return finding{What: "cache", Found: err.Error(), Hint: "reference rows are measured anew for every run; " +
			"set XDG_CACHE_HOME to a folder that can be written"}
	}
	return finding{What: "cache", OK: true, Found: dir}
}
