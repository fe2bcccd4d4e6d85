// Package fetch brings the known data sets to this machine: it downloads the
// owner's archive, checks it and puts the files that a set needs in place. It
// prints and asks nothing: the caller is told what happens, and errors say what
// to do next. A set is whole or it is not there.
package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tacit-rec/tacit/data"
)

// Options says where from and where to.
type Options struct {
	Dir   string    // Required. The data folder.
	From  string    // another address of the archive, or a zip file on this machine; empty is the owner's address
	Force bool      // fetch the set also if it is there, and write over its files
	Tell  func(any) // is told Started, Progress and Again; nil tells nobody
	Retry string    // the command to type again, for hints; empty is tacit data fetch NAME
}

// Started comes before the first byte. Have is what an earlier call left.
type Started struct {
	From string
	Have int64
}

// Progress comes with every piece. Total is 0 while it is not known.
type Progress struct{ Done, Total int64 }

// Again comes when a transfer was cut and is taken up after Wait.
type Again struct {
	Err  error
	Done int64
	Wait time.Duration
}

// Result is what was done.
type Result struct {
	Set     string   `json:"dataset"`
	Already bool     `json:"already_there"`
	Folder  string   `json:"folder"`
	Files   []string `json:"files"`
	From    string   `json:"from,omitempty"`
	Bytes   int64    `json:"bytes"`
	Resumed int64    `json:"resumed_bytes"` // of Bytes, those that an earlier call had left
	SHA256  string   `json:"sha256,omitempty"`
	// the owner's sum is not known: this one is written down, and the next archive must have it
	Pinned      bool   `json:"pinned"`
	Users       int    `json:"users"`
	Items       int    `json:"items"`
	Rows        int    `json:"interactions"`
	AsPublished bool   `json:"as_published"` // users, items and rows are those of the published files
	Licence     string `json:"licence"`
	Home        string `json:"home"`
}

// Failed says why a set was not fetched and what to do. Input is true when what
// was asked for is at fault, and not the network or this machine.
type Failed struct {
	Set   string
	Err   error
	Hint  string
	Input bool
}

func (e *Failed) Error() string { return "data: " + e.Set + ": " + e.Err.Error() }
func (e *Failed) Unwrap() error { return e.Err }

// sumFile holds the sum of the archive that a folder's files are from, as
// sha256sum writes it.
const sumFile = "archive.sha256"

// getter is one call of Get. What a test makes small or quick is a field.
type getter struct {
	data.KnownSet
	Options
	client      *http.Client
	pause       time.Duration // before the first retry; it doubles
	stall       time.Duration // a transfer without a byte for so long is cut
	mostArchive int64         // bytes
	mostFiles   int64         // bytes of all files together
	resumed     int64
}

// Get fetches a set, unless it is there. The context may end it at any time:
// what was downloaded is kept, and the next call goes on from there.
func Get(ctx context.Context, k data.KnownSet, opt Options) (*Result, error) {
	if opt.Tell == nil {
		opt.Tell = func(any) {}
	}
	if opt.Retry == "" {
		opt.Retry = "tacit data fetch " + k.Name
	}
	return (&getter{
		KnownSet: k, Options: opt, client: newClient(),
		pause: time.Second, stall: 30 * time.Second, mostArchive: 1 << 30, mostFiles: 2 << 30,
	}).get(ctx)
}

func (g *getter) get(ctx context.Context) (*Result, error) {
	out := &Result{Set: g.Name, Folder: filepath.Join(g.Dir, g.Folder), Licence: g.Licence, Home: g.Home}
	if file := g.Find(os.DirFS(g.Dir)); file != "" && !g.Force {
		out.Already, out.Files = true, []string{filepath.Join(g.Dir, file)}
		return out, nil
	}
	if g.From == "" && g.Archive.URL == "" {
		return nil, g.input(fmt.Errorf("the owner gives it out on a page and not at an address for programs: %s",
			g.Home),
			"its terms: "+g.Licence+" Place "+g.Needs()+" in "+out.Folder+", or give its zip file: "+g.Retry+
				" --from FILE.zip")
	}
	if err := os.MkdirAll(g.Dir, 0o755); err != nil {
		return nil, g.input(err, "give another folder with --data-dir")
	}
	archive, ours, err := g.bring(ctx, out)
	if err != nil {
		return nil, err
	}
	err = g.install(ctx, archive, out)
	if ours && ctx.Err() == nil && !isDisk(err) {
		// Put in place or found wrong: in neither case is it needed again.
		os.Remove(archive)
		os.Remove(archive + noteExt)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// bring has the archive on this machine, and says whether it is ours to remove.
func (g *getter) bring(ctx context.Context, out *Result) (archive string, ours bool, err error) {
	out.From = g.address()
	if !strings.Contains(out.From, "://") {
		g.Tell(Started{From: out.From})
		return out.From, false, nil
	}
	if err := g.mayUse(out.From); err != nil {
		return "", false, g.input(err, g.byHand())
	}
	archive, err = g.download(ctx, out.From)
	out.Resumed = g.resumed
	return archive, true, err
}

func (g *getter) address() string {
	if g.From != "" {
		return g.From
	}
	return g.Archive.URL
}

// isDisk reports whether files of this machine are at fault.
func isDisk(err error) bool {
	var file *fs.PathError
	var move *os.LinkError
	return errors.As(err, &file) || errors.As(err, &move)
}

// mayUse refuses addresses whose answer could be changed on the way unnoticed.
func (g *getter) mayUse(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return err
	case u.Scheme == "https":
		return nil
	case u.Scheme != "http":
		return fmt.Errorf("%s: want an address with https, or a zip file", address)
	case g.From != "" && (isHere(u.Hostname()) || g.Archive.SHA256 != ""):
		return nil
	}
	return fmt.Errorf("%s: plain http can be changed on the way, and the sum of this archive is not known; want https",
		address)
}

func isHere(host string) bool { return host == "localhost" || host == "127.0.0.1" || host == "::1" }

// install checks an archive, and has its files in place when it returns nil.
func (g *getter) install(ctx context.Context, archive string, out *Result) error {
	f, err := os.Open(archive)
	if err != nil {
		return g.input(err, "give the zip file, or its address, with --from")
	}
	defer f.Close()
	if err := g.checkSum(ctx, f, out); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(g.Dir, "."+g.Folder+"-*")
	if err != nil {
		return g.fail(err, "give another folder with --data-dir")
	}
	defer os.RemoveAll(dir)
	if err := unpack(ctx, f, out.Bytes, dir, g.wanted(), g.mostFiles); err != nil {
		return g.stopOr(ctx, fmt.Errorf("%s: %w", archive, err), g.byHand())
	}
	set, err := data.Open(os.DirFS(dir), g.Name, data.Options{})
	if errors.Is(err, fs.ErrNotExist) {
		return g.input(fmt.Errorf("%s holds no %s", archive, g.Needs()), g.byHand())
	} else if err != nil {
		return g.fail(err, g.byHand())
	}
	out.Users, out.Items, out.Rows = set.Users(), set.Items(), len(set.Item)
	out.AsPublished = out.Users == g.Users && out.Items == g.Items && out.Rows == g.Rows
	line := fmt.Sprintf("%s  %s\n", out.SHA256, filepath.Base(out.From))
	if err := os.WriteFile(filepath.Join(dir, sumFile), []byte(line), 0o644); err != nil {
		return g.fail(err, "")
	}
	if out.Files, err = place(dir, out.Folder, g.Force); err != nil {
		return g.fail(err, "")
	}
	return nil
}

// wanted are the files of all sets that are read from the folder.
func (g *getter) wanted() []string {
	var out []string
	for _, k := range data.KnownSets() {
		if k.Folder == g.Folder {
			out = append(out, k.Files()...)
		}
	}
	return out
}

// checkSum compares the archive with the sum that the owner's has, or else with
// the one that was written down when the set was first fetched.
func (g *getter) checkSum(ctx context.Context, f *os.File, out *Result) error {
	sum := sha256.New()
	n, err := io.Copy(sum, &stopper{ctx, f})
	if err != nil {
		return g.stopOr(ctx, err, "give the zip file itself with --from")
	}
	out.Bytes, out.SHA256 = n, hex.EncodeToString(sum.Sum(nil))
	want, hint := g.Archive.SHA256, "the download is damaged, or the archive is another one; try again, or look at "+
		g.Home
	if out.Pinned = want == ""; out.Pinned && g.Archive.URL != "" {
		file := filepath.Join(out.Folder, sumFile)
		if b, err := os.ReadFile(file); err == nil && len(b) >= 64 {
			want, hint = string(b[:64]), "the archive is not the one that this set was first fetched from; if its owner changed it, remove "+file+" and try again"
		}
	}
	if want != "" && want != out.SHA256 {
		return g.fail(fmt.Errorf("%s: the sha256 is %s, want %s", f.Name(), out.SHA256, want), hint)
	}
	return nil
}

// byHand is what to do without a network.
func (g *getter) byHand() string {
	dir := filepath.Join(g.Dir, g.Folder)
	if g.Archive.URL == "" {
		return "get the files from " + g.Home + " and place " + g.Needs() + " in " + dir
	}
	return "without a network: download " + g.Archive.URL + " elsewhere, bring it here, and type: " + g.Retry +
		" --from FILE.zip; or place " +
		g.Needs() + " in " + dir
}

// again is the command that goes on with what is kept.
func (g *getter) again() string {
	if g.From != "" {
		return g.Retry + " --from " + g.From
	}
	return g.Retry
}

func (g *getter) fail(err error, hint string) error { return &Failed{g.Name, err, hint, false} }

func (g *getter) input(err error, hint string) error { return &Failed{g.Name, err, hint, true} }

// stopOr is the context's error where it has one: then nothing is wrong with the input.
func (g *getter) stopOr(ctx context.Context, err error, hint string) error {
	if stop := ctx.Err(); stop != nil {
		return g.fail(stop, "nothing is half-written; go on with: "+g.again())
	}
	return g.fail(err, hint)
}

// stopper reads until its context ends.
type stopper struct {
	ctx context.Context
	r   io.Reader
}

func (s *stopper) Read(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(b)
}
