package web_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/device"
)

// built is the folder that `make web` builds. `make browser` passes it; other runs skip what needs it.
var built = flag.String("dist", "", "folder of the device page, built by make web")

func dist(t *testing.T) string {
	t.Helper()
	if *built == "" {
		t.Skip("NOT RUN: the device in a browser needs the built page: make browser")
	}
	return *built
}

// outcome is what testdata/node.mjs prints.
type outcome struct {
	About    device.About
	List     *device.Recommendations
	Found    []device.Item
	Steps    []device.StepResult
	Failure  *struct{ Code, Message string }
	Requests [][]any
	Left     int
	Models   int
	Forgot   string
}

// underNode runs the wasm device under node.
func underNode(t *testing.T, dir string, options map[string]any) outcome {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("NOT RUN: the wasm device runs under node, which is not installed (Debian: apt-get install nodejs)")
	}
	text, err := json.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	args := append(fastStart(node), "testdata/node.mjs", filepath.Join(dir, "device/wasm_exec.js"),
		filepath.Join(dir, "device/tacit.wasm"), string(text))
	c := exec.CommandContext(ctx, node, args...)
	c.Stderr = os.Stderr
	b, err := c.Output()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, b)
	}
	var out outcome
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatalf("node printed %.500s: %v", b, err)
	}
	return out
}

// fastStart returns the option by which node compiles once, fast, and not a second time for speed: most runs are short.
func fastStart(node string) []string {
	const option = "--liftoff-only"
	if exec.Command(node, option, "-e", "0").Run() != nil { // an engine without it
		return nil
	}
	return []string{option}
}

// long skips a test that `make test` leaves out.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long: run without -short, as make web-check does")
	}
}

// history is a history for both devices of TestSameBits.
var history = []string{"f3", "f17", "f20", "f5", "f41", "f42", "f8", "f30"}

// A wasm device and a native one, each the only device of a deterministic federation with the same seed, make the
// same update from the same history, bit by bit, and recommend the same items with the same scores.
func TestSameBitsAsANativeDevice(t *testing.T) {
	dir := dist(t)
	for _, method := range []string{"tacit", "fedmf", "pfedrec"} {
		t.Run(method, func(t *testing.T) {
			if method != "tacit" {
				long(t)
			}
			s := settings(method, 1, 1)
			s.Deterministic = true
			f := serve(t, s, "")
			d, err := device.Open(device.Options{
				Server: device.Server{URL: f.url, Insecure: true}, Token: f.token, Deterministic: true, HoldOut: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			for i, item := range history {
				if err := d.Add(device.Event{Item: item, Time: int64(i)}); err != nil {
					t.Fatal(err)
				}
			}
			native := train(t, d)
			g := serve(t, s, "")
			there := underNode(t, dir, map[string]any{
				"url": g.url, "token": g.token, "deterministic": true, "events": history, "steps": 200,
			})
			if there.Failure != nil || len(there.About.Log) != 1 {
				t.Fatalf("the wasm device failed: %+v, log %+v", there.Failure, there.About.Log)
			}
			got, want := there.About.Log[0], native.Log[0]
			if got.Digest != want.Digest || got.Digest == "" || got.Bytes != want.Bytes || got.State != "counted" {
				t.Errorf("the update differs: wasm %+v, native %+v", got, want)
			}
		})
	}
}

// train steps until the device's report is counted.
func train(t *testing.T, d *device.Device) *device.About {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		out, err := d.Step(t.Context())
		if err != nil || time.Now().After(end) {
			t.Fatalf("no report was counted: %+v, %v", out, err)
		}
		if out.State == "counted" {
			break
		}
		time.Sleep(min(out.After, 100*time.Millisecond))
	}
	a, err := d.About()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A wasm device takes part in a masked round with native ones, recommends, and leaves nothing behind.
func TestMaskedRoundUnderNode(t *testing.T) {
	dir := dist(t)
	s := settings("tacit", 14, 30)
	s.Masked = true
	f := serve(t, s, "")
	f.join(t, 13)
	out := underNode(t, dir, map[string]any{
		"url": f.url, "token": f.token, "events": history, "steps": 2000, "forget": true,
	})
	if out.Failure != nil || len(out.About.Log) == 0 {
		t.Fatalf("no report: %+v", out)
	}
	if e := out.About.Log[len(out.About.Log)-1]; !e.Masked || e.State != "counted" || e.Bytes == 0 || e.Digest != "" {
		t.Errorf("the report is not a masked one that was counted: %+v", e)
	}
	if out.List == nil || len(out.List.Items) != 5 || len(out.Found) != 5 || out.Found[5-1].Title == "" {
		t.Errorf("recommendations %+v, catalogue %+v", out.List, out.Found)
	}
	if out.Left != 0 || out.Models != 0 || out.Forgot != "" {
		t.Errorf("after forget: %d bytes of state, %d blobs, %q", out.Left, out.Models, out.Forgot)
	}
	sent := 0.0
	for _, r := range out.Requests {
		sent += r[1].(float64)
	}
	if sent < float64(out.About.Log[0].Bytes) {
		t.Errorf("requests of %g bytes, of which a report has %d", sent, out.About.Log[0].Bytes)
	}
}

// A wasm device tells the same errors as a native one.
func TestErrorsUnderNode(t *testing.T) {
	long(t)
	dir := dist(t)
	f := serve(t, settings("fedmf", 1, 1), "")
	for _, c := range []struct{ url, token, code string }{
		{f.url, "wrong", "bad_token"},
		{"http://192.0.2.1:1", f.token, "failed"}, // plain HTTP to another machine
		{"not an address", f.token, "failed"},
	} {
		out := underNode(t, dir, map[string]any{"url": c.url, "token": c.token})
		if out.Failure == nil || out.Failure.Code != c.code || out.Failure.Message == "" {
			t.Errorf("%s with token %q: %+v, want code %s", c.url, c.token, out.Failure, c.code)
		}
	}
}

// maxCompressed is the largest wasm program, with gzip, that a page may load.
const maxCompressed = 3_000_000

func TestTheProgramIsSmall(t *testing.T) {
	long(t)
	b, err := os.ReadFile(filepath.Join(dist(t), "device/tacit.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	var size countingWriter
	w, err := gzip.NewWriterLevel(&size, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, %d with gzip", len(b), size)
	if size > maxCompressed {
		t.Errorf("tacit.wasm has %d bytes with gzip, the limit is %d: which import is new? go list -deps ./web/wasm",
			size, maxCompressed)
	}
}

type countingWriter int

func (c *countingWriter) Write(p []byte) (int, error) {
	*c += countingWriter(len(p))
	return len(p), nil
}
