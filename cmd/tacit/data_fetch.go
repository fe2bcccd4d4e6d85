package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/fetch"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/param"
)

const fetchLong = `
It shows the owner's licence, downloads the archive, checks its SHA-256, and puts the files in the
data folder. An interrupted download resumes. If an owner offers no direct download, the command
says which files to get where, and where to put them.`

func (a *app) dataFetchCmd() *cobra.Command {
	var dir string
	var opt fetch.Options
	c := &cobra.Command{
		Use: "fetch NAME", Short: "Download a data set from its owner and check it", Args: exactArgs(1),
		Long: fetchLong,
		Example: "  tacit data fetch ml-100k\n  tacit data fetch lastfm-2k --data-dir ~/data\n" +
			"  tacit data fetch ml-1m --from ml-1m.zip      # an archive that you downloaded",
		RunE: func(c *cobra.Command, words []string) error {
			k, err := knownSet(words[0])
			if err != nil {
				return err
			}
			dirs := experiment.DataDirs(dir)
			if len(dirs) == 0 {
				return input(errors.New("no data folder"), "add --data-dir DIR, or set TACIT_DATA")
			}
			opt.Dir, opt.RetryCommand = dirs[0], "tacit data fetch "+k.Name
			if dir != "" {
				opt.RetryCommand += " --data-dir " + dir
			}
			opt.OnEvent = a.fetchProgress(k)
			r, err := fetch.Get(c.Context(), k, opt)
			if err != nil {
				return err
			}
			return a.result(r, func(w io.Writer) error { return writeFetched(w, r) })
		},
	}
	dataDirFlag(c.Flags(), &dir)
	c.Flags().StringVar(&opt.From, "from", "", "address or local zip file of the archive; its SHA-256 is checked as "+
		"well")
	c.Flags().BoolVar(&opt.Force, "force", false, "download again and overwrite the files")
	return c
}

func knownSet(name string) (data.KnownSet, error) {
	var names []string
	for _, k := range data.KnownSets() {
		if k.Name == name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	hint := "tacit data list shows the names"
	if near := param.Nearest(name, names); near != "" {
		hint = fmt.Sprintf("did you mean %s? %s", near, hint)
	}
	return data.KnownSet{}, input(fmt.Errorf("unknown data set %q", name), hint)
}

func writeFetched(w io.Writer, r *fetch.Result) error {
	if r.AlreadyThere {
		_, err := fmt.Fprintf(w, "%s is already in %s; --force downloads it again\n", r.Dataset, r.Files[0])
		return err
	}
	checked := "matches the owner's"
	if r.Pinned {
		checked = "recorded beside the data, because the owner publishes none; the next download must match it"
	}
	sizes := "as published"
	if !r.AsPublished {
		sizes = "which differs from the published size"
	}
	_, err := fmt.Fprintf(w, "%s is in %s: %d users, %d items, %d interactions, %s\n  SHA-256 %s: %s\n"+
		"  next: tacit data describe %s; tacit run -d %s\n",
		r.Dataset, r.Folder, r.Users, r.Items, r.Rows, sizes, r.SHA256, checked, r.Dataset, r.Dataset)
	return err
}

// fetchProgress returns a function that prints the events of a download: the owner's licence, also
// with --quiet, then its progress.
func (a *app) fetchProgress(k data.KnownSet) func(any) {
	l := a.progressLine(0)
	from := int64(0)
	return func(event any) {
		switch e := event.(type) {
		case fetch.Started:
			fmt.Fprintf(a.err, "data      %s: %s\nowner     %s\nlicence   %s\nfrom      %s\n", k.Name, k.About, k.Home,
				k.Licence, e.From)
			if e.Have > 0 {
				fmt.Fprintf(a.err, "resuming  after %s\n", size(float64(e.Have)))
			}
			from, l.begin, l.last = e.Have, time.Now(), time.Now()
		case fetch.Retrying:
			if !a.quiet {
				l.println(fmt.Sprintf("interrupted after %s (%v); retrying in %v", size(float64(e.Done)), e.Err,
					e.Wait))
			}
		case fetch.Progress:
			if !a.quiet {
				l.download(e, from)
			}
		}
	}
}
