package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/fetch"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/param"
)

func (a *app) dataFetch() *cobra.Command {
	var dir string
	var opt fetch.Options
	c := &cobra.Command{
		Use: "fetch NAME", Short: "Download a data set from its owner, check it and put it in place",
		Args: args(cobra.ExactArgs(1)),
		Long: `Downloads the owner's archive, checks its sha256, and leaves the files that the set
needs in the data folder. The owner's terms are shown first. A transfer that was cut,
also by Ctrl-C, goes on where it stopped. For sets that their owners do not offer to
programs it says where to get which files, and where to place them.`,
		Example: "  tacit data fetch ml-100k\n  tacit data fetch lastfm-2k --data-dir DIR\n  tacit data fetch ml-1m " +
			"--from ml-1m.zip      downloaded elsewhere",
		RunE: func(c *cobra.Command, words []string) error {
			k, err := knownSet(words[0])
			if err != nil {
				return err
			}
			dirs := experiment.DataDirs(dir)
			if len(dirs) == 0 {
				return input(errors.New("there is no data folder"), "give --data-dir DIR, or set TACIT_DATA")
			}
			opt.Dir, opt.Retry = dirs[0], "tacit data fetch "+k.Name
			if dir != "" {
				opt.Retry += " --data-dir " + dir
			}
			opt.Tell = a.transfer(k)
			r, err := fetch.Get(c.Context(), k, opt)
			if err != nil {
				return err
			}
			return a.result(r, func(w io.Writer) error { return fetched(w, r) })
		},
	}
	c.Flags().StringVar(&dir, "data-dir", "", "the folder of the data sets; else $TACIT_DATA, else the user's cache "+
		"folder")
	c.Flags().StringVar(&opt.From, "from", "", "take the archive from another address, or a zip file on this "+
		"machine; its sha256 is checked all the same")
	c.Flags().BoolVar(&opt.Force, "force", false, "fetch it also if it is there, and write over its files")
	return c
}

func knownSet(name string) (data.Known, error) {
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
	return data.Known{}, input(fmt.Errorf("no data set is called %q", name), hint)
}

func fetched(w io.Writer, r *fetch.Result) error {
	if r.Already {
		_, err := fmt.Fprintf(w, "%s is there: %s (--force fetches it again)\n", r.Set, r.Files[0])
		return err
	}
	checked := "the sha256 is the owner's"
	if r.Pinned {
		checked = "the owner's sha256 is not known: this one is written down beside the data, and the next archive " +
			"must have it"
	}
	sizes := "as published"
	if !r.AsPublished {
		sizes = "which is not what was published"
	}
	_, err := fmt.Fprintf(w, "%s is in %s: %d users, %d items, %d rows, %s\n  sha256 %s: %s\n  next: tacit data "+
		"describe %s; tacit run -d %s\n",
		r.Set, r.Folder, r.Users, r.Items, r.Rows, sizes, r.SHA256, checked, r.Set, r.Set)
	return err
}

// transfer tells of a download: the owner's terms, whatever --quiet says, then
// one live line on a terminal, or a line now and then elsewhere.
func (a *app) transfer(k data.Known) func(any) {
	l := &live{w: a.err}
	if f, ok := a.err.(*os.File); ok {
		l.tty = term.IsTerminal(int(f.Fd()))
	}
	from := int64(0)
	return func(event any) {
		switch e := event.(type) {
		case fetch.Started:
			fmt.Fprintf(a.err, "data      %s: %s\nowner     %s\nlicence   %s\nfrom      %s\n", k.Name, k.About, k.Home,
				k.Licence, e.From)
			if e.Have > 0 {
				fmt.Fprintf(a.err, "resuming  %s are here\n", size(float64(e.Have)))
			}
			from, l.begin, l.last = e.Have, time.Now(), time.Now()
		case fetch.Again:
			if !a.quiet {
				l.say(fmt.Sprintf("cut after %s (%v); going on in %v", size(float64(e.Done)), e.Err, e.Wait))
			}
		case fetch.Progress:
			if !a.quiet {
				l.bytesOf(e, from)
			}
		}
	}
}

// bytesOf shows how far a download is.
func (l *live) bytesOf(p fetch.Progress, from int64) {
	every := 10 * time.Second
	if l.tty {
		every = 80 * time.Millisecond
	}
	if whole := p.Done == p.Total; time.Since(l.last) < every && !whole {
		return
	}
	l.last = time.Now()
	took := time.Since(l.begin).Seconds()
	rate := float64(max(p.Done-from, 0)) / max(took, 1e-3)
	s := size(float64(p.Done))
	if p.Total > 0 {
		s = fmt.Sprintf("%s of %s  %d%%", s, size(float64(p.Total)), 100*p.Done/p.Total)
	}
	s += fmt.Sprintf("  %s/s", size(rate))
	if p.Total > 0 && rate > 0 {
		s += "  ETA " + clock(time.Duration(float64(p.Total-p.Done)/rate*float64(time.Second)))
	}
	if l.tty {
		fmt.Fprintf(l.w, "\r\x1b[K%s", s)
	} else {
		fmt.Fprintln(l.w, s)
	}
	if p.Done == p.Total {
		l.flush()
	}
}
