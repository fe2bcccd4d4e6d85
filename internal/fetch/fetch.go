// Package fetch installs known data sets: it downloads the owner's archive, verifies it and extracts the files that
// a set needs. It never prints or prompts: callers receive events, and errors say what to do next. A set is installed
// completely or not at all.
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

// Options configures Get.
type Options struct {
	Dir          string    // Required. The data folder.
	From         string    // URL or path of the zip file; empty means the owner's URL
	Force        bool      // fetch the set even if it is installed, and replace its files
	OnEvent      func(any) // receives Started, Progress and Retrying; may be nil
	RetryCommand string    // the command that hints suggest; empty means tacit data fetch NAME
}

// Started precedes the first byte. Have is the number of bytes kept from an interrupted download.
type Started struct {
	From string
	Have int64
}

// Progress follows every received block. Total is 0 if unknown.
type Progress struct{ Done, Total int64 }

// Retrying reports an interrupted transfer that resumes after Wait.
type Retrying struct {
	Err  error
	Done int64
	Wait time.Duration
}

// Result describes an installed set.
type Result struct {
	Dataset      string   `json:"dataset"`
	AlreadyThere bool     `json:"already_there"`
	Folder       string   `json:"folder"`
	Files        []string `json:"files"`
	From         string   `json:"from,omitempty"`
	Bytes        int64    `json:"bytes"`
	Resumed      int64    `json:"resumed_bytes"` // of Bytes, those kept from an interrupted download
	SHA256       string   `json:"sha256,omitempty"`
	// Pinned is set if the owner publishes no checksum: this one is recorded, and later archives must match it.
	Pinned      bool   `json:"pinned"`
	Users       int    `json:"users"`
	Items       int    `json:"items"`
	Rows        int    `json:"interactions"`
	AsPublished bool   `json:"as_published"` // users, items and rows match the published files
	Licence     string `json:"licence"`
	Home        string `json:"home"`
}

// Error says why a set was not fetched and what to do. Input is set if the request was invalid, and not the network
// or this machine at fault.
type Error struct {
	Dataset string
	Err     error
	Hint    string
	Input   bool
}

func (e *Error) Error() string { return e.Dataset + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// sumFile has the checksum of the archive of a folder's files, in the format of sha256sum.
const sumFile = "archive.sha256"

// fetcher is one call of Get. Limits and times are fields so that tests can change them.
type fetcher struct {
	data.KnownSet
	Options
	client     *http.Client
	pause      time.Duration // before the first retry; it doubles
	stall      time.Duration // a transfer that receives no byte for this time is interrupted
	maxArchive int64         // bytes
	maxFiles   int64         // bytes of all files together
	resumed    int64
}

// Get fetches a set unless it is installed. If the context ends, Get keeps the downloaded bytes, and the next call
// resumes.
func Get(ctx context.Context, k data.KnownSet, opt Options) (*Result, error) {
	if opt.OnEvent == nil {
		opt.OnEvent = func(any) {}
	}
	if opt.RetryCommand == "" {
		opt.RetryCommand = "tacit data fetch " + k.Name
	}
	return (&fetcher{
		KnownSet: k, Options: opt, client: newClient(),
		pause: time.Second, stall: 30 * time.Second, maxArchive: 1 << 30, maxFiles: 2 << 30,
	}).get(ctx)
}

func (g *fetcher) get(ctx context.Context) (*Result, error) {
	out := &Result{Dataset: g.Name, Folder: filepath.Join(g.Dir, g.Folder), Licence: g.Licence, Home: g.Home}
	if file := g.Find(os.DirFS(g.Dir)); file != "" && !g.Force {
		out.AlreadyThere, out.Files = true, []string{filepath.Join(g.Dir, file)}
		return out, nil
	}
	if g.From == "" && g.Archive.URL == "" {
		return nil, g.input(fmt.Errorf("the owner offers it only on a web page, without a direct download: %s",
			g.Home),
			"its terms: "+g.Licence+" Put "+g.Needs()+" into "+out.Folder+", or pass its zip file: "+g.RetryCommand+
				" --from FILE.zip")
	}
	if err := os.MkdirAll(g.Dir, 0o755); err != nil {
		return nil, g.input(err, "choose another folder with --data-dir")
	}
	archive, ours, err := g.obtain(ctx, out)
	if err != nil {
		return nil, err
	}
	err = g.install(ctx, archive, out)
	if ours && ctx.Err() == nil && !isDisk(err) {
		// Installed or invalid: in both cases the archive is no longer needed.
		os.Remove(archive)
		os.Remove(archive + infoExt)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// obtain returns the path of the archive on this machine, and whether Get may remove it.
func (g *fetcher) obtain(ctx context.Context, out *Result) (archive string, ours bool, err error) {
	out.From = g.address()
	if !strings.Contains(out.From, "://") {
		g.OnEvent(Started{From: out.From})
		return out.From, false, nil
	}
	if err := g.checkAddress(out.From); err != nil {
		return "", false, g.input(err, g.manualHint())
	}
	archive, err = g.download(ctx, out.From)
	out.Resumed = g.resumed
	return archive, true, err
}

func (g *fetcher) address() string {
	if g.From != "" {
		return g.From
	}
	return g.Archive.URL
}

// isDisk reports whether a local file operation failed.
func isDisk(err error) bool {
	var file *fs.PathError
	var move *os.LinkError
	return errors.As(err, &file) || errors.As(err, &move)
}

// checkAddress rejects addresses whose content could be modified in transit without being noticed.
func (g *fetcher) checkAddress(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return err
	case u.Scheme == "https":
		return nil
	case u.Scheme != "http":
		return fmt.Errorf("%s: must be an https address or a zip file", address)
	case g.From != "" && (isLocalhost(u.Hostname()) || g.Archive.SHA256 != ""):
		return nil
	}
	return fmt.Errorf("%s: must be https, because plain http can be modified in transit and the checksum of this "+
		"archive is unknown",
		address)
}

func isLocalhost(host string) bool {
	return host == "localhost" || host == "127.0.0.1" || host == "::1"
}

// install verifies an archive and installs its files.
func (g *fetcher) install(ctx context.Context, archive string, out *Result) error {
	f, err := os.Open(archive)
	if err != nil {
		return g.input(err, "pass the zip file or its URL with --from")
	}
	defer f.Close()
	if err := g.checkSum(ctx, f, out); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(g.Dir, "."+g.Folder+"-*")
	if err != nil {
		return g.fail(err, "choose another folder with --data-dir")
	}
	defer os.RemoveAll(dir)
	if err := unpack(ctx, f, out.Bytes, dir, g.wanted(), g.maxFiles); err != nil {
		return g.interruptedOr(ctx, fmt.Errorf("%s: %w", archive, err), g.manualHint())
	}
	set, err := data.Open(os.DirFS(dir), g.Name, data.Options{})
	if errors.Is(err, fs.ErrNotExist) {
		return g.input(fmt.Errorf("%s does not contain %s", archive, g.Needs()), g.manualHint())
	} else if err != nil {
		return g.fail(err, g.manualHint())
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

// wanted returns the files of all sets in the folder.
func (g *fetcher) wanted() []string {
	var out []string
	for _, k := range data.KnownSets() {
		if k.Folder == g.Folder {
			out = append(out, k.Files()...)
		}
	}
	return out
}

// checkSum compares the archive's checksum with the owner's, or if that is unknown with the one recorded when the
// set was first fetched.
func (g *fetcher) checkSum(ctx context.Context, f *os.File, out *Result) error {
	sum := sha256.New()
	n, err := io.Copy(sum, &contextReader{ctx, f})
	if err != nil {
		return g.interruptedOr(ctx, err, "pass a zip file with --from")
	}
	out.Bytes, out.SHA256 = n, hex.EncodeToString(sum.Sum(nil))
	expected := g.Archive.SHA256
	hint := "the download is corrupt, or the archive has changed; try again, or see " + g.Home
	if out.Pinned = expected == ""; out.Pinned && g.Archive.URL != "" {
		file := filepath.Join(out.Folder, sumFile)
		if b, err := os.ReadFile(file); err == nil && len(b) >= 64 {
			expected = string(b[:64])
			hint = "the archive differs from the one first fetched; if the owner changed it, remove " + file +
				" and try again"
		}
	}
	if expected != "" && expected != out.SHA256 {
		return g.fail(fmt.Errorf("%s: SHA-256 is %s, expected %s", f.Name(), out.SHA256, expected), hint)
	}
	return nil
}

// manualHint says how to install the set without a network.
func (g *fetcher) manualHint() string {
	dir := filepath.Join(g.Dir, g.Folder)
	if g.Archive.URL == "" {
		return "get the files from " + g.Home + " and put " + g.Needs() + " into " + dir
	}
	return "without a network, download " + g.Archive.URL + " on another machine, copy it here, and run: " +
		g.RetryCommand + " --from FILE.zip; or put " + g.Needs() + " into " + dir
}

// resumeCommand is the command that resumes the download.
func (g *fetcher) resumeCommand() string {
	if g.From != "" {
		return g.RetryCommand + " --from " + g.From
	}
	return g.RetryCommand
}

func (g *fetcher) fail(err error, hint string) error { return &Error{g.Name, err, hint, false} }

func (g *fetcher) input(err error, hint string) error { return &Error{g.Name, err, hint, true} }

// interruptedOr reports the context's error if it has ended, otherwise err.
func (g *fetcher) interruptedOr(ctx context.Context, err error, hint string) error {
	if stop := ctx.Err(); stop != nil {
		return g.fail(stop, "no file was changed; resume with: "+g.resumeCommand())
	}
	return g.fail(err, hint)
}

// contextReader fails when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (s *contextReader) Read(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(b)
}
