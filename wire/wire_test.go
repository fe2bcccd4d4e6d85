package wire

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/secagg"
)

func must[T any](t testing.TB, x T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func testKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
}

func id(b byte) []byte { return bytes.Repeat([]byte{b}, IDBytes) }

func aPlan() *pb.Plan {
	return &pb.Plan{
		Method: "pfedrec", Params: []*pb.Setting{{Key: "dim", Value: "32"}}, Items: 3, Users: 943, Rounds: 100,
		Batch: 256, Negatives: 4,
		Seed: 1, Features: []string{"age"}, Policy: "none\nat all", Shape: []uint64{3, 32, 1, 33},
	}
}

func aCatalogue() *pb.Catalogue {
	return &pb.Catalogue{Version: 1, Items: []*pb.Item{
		{Id: "1", Title: "Amélie"},
		{Id: "2"},
		{Id: "3", Title: "三", Retired: true},
	}}
}

func aManifest() *pb.Manifest {
	return &pb.Manifest{
		Federation: id(1), Run: id(2), Version: 4, Round: 3, Plan: HashBlob([]byte("plan")),
		Catalogue: HashBlob([]byte("catalogue")),
		Slots:     []*pb.Blob{HashBlob(make([]byte, 4*3*32)), {}}, CreatedMs: 1_700_000_000_000,
	}
}

func TestRowsRoundTripWithoutPadding(t *testing.T) {
	values := []float32{1, 2, 3, 9, float32(math.Copysign(0, -1)), -5, math.MaxFloat32, 9}
	b := AppendRows(nil, values, 2, 3, 4)
	if len(b) != 24 || hex.EncodeToString(b[:8]) != "0000803f00000040" {
		t.Errorf("rows are %x", b)
	}
	dst := []float32{7, 7, 7, 7, 7, 7, 7, 7}
	if err := ReadRows(b, dst, 2, 3, 4); err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(values)
	want[3], want[7] = 7, 7
	if !slices.Equal(dst, want) || math.Signbit(float64(dst[4])) != true {
		t.Errorf("rows come back as %v, want %v", dst, want)
	}
	if ReadRows(b[1:], dst, 2, 3, 4) == nil || ReadRows(append(b, 0), dst, 2, 3, 4) == nil {
		t.Error("rows of another size are read")
	}
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		bad := slices.Clone(b)
		binary.LittleEndian.PutUint32(bad[20:], math.Float32bits(float32(x)))
		if ReadRows(bad, dst, 2, 3, 4) == nil || !slices.Equal(dst, want) {
			t.Errorf("%g is read", x)
		}
	}
}

func FuzzRows(f *testing.F) {
	f.Add(AppendRows(nil, []float32{1, 2, 3, 0}, 1, 3, 4), uint8(1), uint8(3))
	f.Add([]byte{0, 0, 0xc0, 0x7f}, uint8(1), uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, rows, dim uint8) {
		stride := int(dim) + 5
		dst := make([]float32, int(rows)*stride)
		if ReadRows(b, dst, int(rows), int(dim), stride) == nil &&
			!bytes.Equal(AppendRows(nil, dst, int(rows), int(dim), stride), b) {
			t.Fatalf("%x is not written as it was read", b)
		}
	})
}

func TestAssemblesABlobFromPieces(t *testing.T) {
	whole := []byte("the quick brown fox jumps over the lazy dog")
	a := must1(t)(Assemble(HashBlob(whole), 100))
	for at := 0; at < len(whole); at += 7 {
		piece := whole[at:min(at+7, len(whole))]
		if a.Add(uint64(at)+1, piece) == nil {
			t.Fatal("a gap is let through")
		}
		for range 2 {
			if err := a.Add(uint64(at), piece); err != nil {
				t.Fatal(err)
			}
		}
		if a.Add(0, []byte("The")) == nil {
			t.Fatal("a piece may change")
		}
	}
	if got, err := a.Bytes(); err != nil || string(got) != string(whole) || !a.Is(HashBlob(whole)) {
		t.Errorf("%q, %v", got, err)
	}
	if a.Add(uint64(len(whole)), []byte("x")) == nil {
		t.Error("a blob grows beyond its size")
	}
	other := HashBlob(whole)
	other.Hash[3]++
	b := must1(t)(Assemble(other, 100))
	if _, err := b.Bytes(); err == nil {
		t.Error("a blob is there before its bytes")
	}
	if err := b.Add(0, whole); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Bytes(); err == nil {
		t.Error("a blob with another hash is believed")
	}
	if _, err := Assemble(HashBlob(whole), 10); err == nil {
		t.Error("a blob over the limit is begun")
	}
	if got, err := must1(t)(Assemble(HashBlob(nil), 0)).Bytes(); err != nil || len(got) != 0 {
		t.Errorf("an empty blob: %v", err)
	}
}

func must1(t testing.TB) func(*Assembly, error) *Assembly {
	return func(a *Assembly, err error) *Assembly { return must(t, a, err) }
}

// An assembly allocates for received bytes, not for the declared size.
func TestAllocatesForReceivedPiecesOnly(t *testing.T) {
	a := must1(t)(Assemble(&pb.Blob{Hash: make([]byte, 32), Bytes: MaxBlobBytes}, MaxBlobBytes))
	if err := a.Add(0, make([]byte, 1000)); err != nil || cap(a.got) > 4000 {
		t.Errorf("%d bytes of memory for 1000 that came, %v", cap(a.got), err)
	}
}

func FuzzAssembly(f *testing.F) {
	f.Add([]byte("abcdef"), []byte{0, 3, 3, 3}, uint64(6))
	f.Add([]byte("abcdef"), []byte{0, 6, 2, 2, 9, 1}, uint64(1)<<62)
	f.Fuzz(func(t *testing.T, whole, cuts []byte, size uint64) {
		blob := HashBlob(whole)
		if size%2 == 0 {
			blob.Bytes = size
		}
		a, err := Assemble(blob, 1<<20)
		if err != nil {
			return
		}
		for i := 0; i+1 < len(cuts); i += 2 {
			from, n := int(cuts[i]), int(cuts[i+1])
			from = min(from, len(whole))
			_ = a.Add(uint64(cuts[i]), whole[from:min(from+n, len(whole))])
			_ = a.Add(size, whole)
		}
		if got, err := a.Bytes(); err == nil && sha256.Sum256(got) != sha256.Sum256(whole) {
			t.Fatalf("%q was put together from %q", got, whole)
		}
		if cap(a.got) > 4*len(whole)+64 {
			t.Fatalf("%d bytes of memory for %d", cap(a.got), len(whole))
		}
	})
}

func TestSignatureCoversTheWholeRequest(t *testing.T) {
	key, body := testKey(), []byte("body")
	const path = "/tacit.v1.Federation/Report"
	h := SignRequest(key, id(1), path, 1234, [NonceBytes]byte{5}, body)
	a, err := ParseAuth(h)
	if err != nil || a.TimeMs != 1234 || a.Nonce != [NonceBytes]byte{5} || a.BodyBytes != 4 || a.String() != h ||
		!bytes.Equal(a.Key[:], key.Public().(ed25519.PublicKey)) {
		t.Fatalf("%q is read as %+v, %v", h, a, err)
	}
	// The same message, written by hand.
	digest := sha256.Sum256(body)
	message := "tacit request 2\n" + string(id(1)) + path + "\n" + "\x00\x00\x00\x00\x00\x00\x04\xd2" +
		"\x00\x00\x00\x00\x00\x00\x00\x04" + "\x05" + strings.Repeat("\x00", 15) + string(digest[:])
	if !ed25519.Verify(key.Public().(ed25519.PublicKey), []byte(message), a.Signature[:]) ||
		!a.Verify(id(1), path) || !a.Covers(body) {
		t.Error("the signature does not hold")
	}
	if a.Verify(id(2), path) || a.Verify(id(1), path+"x") || a.Covers([]byte("Body")) || a.Covers(body[:3]) {
		t.Error("the signature holds for another request")
	}
	for what, change := range map[string]func(*Auth){
		"time": func(a *Auth) { a.TimeMs++ }, "nonce": func(a *Auth) { a.Nonce[1]++ },
		"length": func(a *Auth) { a.BodyBytes++ }, "digest": func(a *Auth) { a.Digest[7]++ },
		"key": func(a *Auth) { a.Key[0]++ },
	} {
		other := *a
		if change(&other); other.Verify(id(1), path) {
			t.Errorf("the signature holds for another %s", what)
		}
	}
	if _, err := ParseAuth("v1 a b c d"); err == nil || !strings.Contains(err.Error(), "update the device") {
		t.Errorf("a header of an older version: %v, want what to do", err)
	}
}

func FuzzAuth(f *testing.F) {
	f.Add(SignRequest(testKey(), id(1), "/p", 1, [NonceBytes]byte{}, nil))
	f.Add("v1 a b c d")
	f.Add("v2 a 1 c 2 d e")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAuth(s)
		if err != nil {
			return
		}
		again := a.String()
		if again != s {
			t.Fatalf("%q is read, and is written as %q", s, again)
		}
		a.Verify(id(1), "/p")
		a.Covers(nil)
	})
}

func TestBoundsAndMaskingRoundTrip(t *testing.T) {
	b := privacy.Bound{Clip: 0.5, Levels: 1 << 20, RowClip: 0.1, L1: true, Bit: true, BitAfterClip: true}
	if got, err := DecodeBound(EncodeBound(b, 3, 4, 5)); err != nil || got != b {
		t.Errorf("%+v comes back as %+v, %v", b, got, err)
	}
	plain := privacy.Bound{Clip: 1 << 20, Levels: 1 << 44}
	if _, err := DecodeBound(EncodeBound(plain, 0, 0, 1<<44+1)); err != nil {
		t.Errorf("the bound of sums without noise: %v", err)
	}
	p, err := secagg.Plan(10, 40, 1000, secagg.Risk{})
	if err != nil {
		t.Fatal(err)
	}
	r := secagg.Round{Params: p, Model: [32]byte{1}, Number: 7, Seed: [32]byte{2}}
	if got, i, err := DecodeMasking(EncodeMasking(&r, 9)); err != nil || i != 9 || got != r {
		t.Errorf("%+v comes back as %+v, %v", r, got, err)
	}
	if _, _, err := DecodeMasking(EncodeMasking(&r, 10)); err == nil {
		t.Error("a device that is not in the round")
	}
	task := &pb.Task{
		Kind: pb.Kind_TRAIN, Run: id(1), Round: 1, Bound: EncodeBound(b, 0, 0, 1000), ModelVersion: 1,
		Masking: EncodeMasking(&r, 1), Length: 40,
	}
	if err := CheckTask(task); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(*pb.Task){
		"kind": func(t *pb.Task) { t.Kind = 0 }, "run": func(t *pb.Task) { t.Run = t.Run[1:] },
		"round": func(t *pb.Task) { t.Round = maxRounds + 1 },
		"model": func(t *pb.Task) { t.ModelVersion = 0 }, "numbers": func(t *pb.Task) { t.Length = 41 },
		"no bound":                 func(t *pb.Task) { t.Bound = nil },
		"clip":                     func(t *pb.Task) { t.Bound.Clip = math.NaN() },
		"endless clip":             func(t *pb.Task) { t.Bound.Clip = math.Inf(1) },
		"clip 0":                   func(t *pb.Task) { t.Bound.Clip = 0 },
		"levels":                   func(t *pb.Task) { t.Bound.Levels = 1 << 53 },
		"levels nan":               func(t *pb.Task) { t.Bound.Levels = math.NaN() },
		"row":                      func(t *pb.Task) { t.Bound.Row = -1 },
		"row nan":                  func(t *pb.Task) { t.Bound.Row = math.NaN() },
		"noise":                    func(t *pb.Task) { t.Bound.Noise = -1 },
		"bit noise":                func(t *pb.Task) { t.Bound.BitNoise = -1 },
		"most":                     func(t *pb.Task) { t.Bound.Max = 0 },
		"more than the masks hold": func(t *pb.Task) { t.Bound.Max = 1001 },
		"threshold":                func(t *pb.Task) { t.Masking.Threshold = 0 },
		"seed":                     func(t *pb.Task) { t.Masking.Seed = nil },
		"length":                   func(t *pb.Task) { t.Masking.Length = 1 << 40 },
	} {
		bad := proto.Clone(task).(*pb.Task)
		if change(bad); CheckTask(bad) == nil {
			t.Errorf("%s: a task is let through: %v", what, bad)
		}
	}
}

func TestWaitsAreShort(t *testing.T) {
	if err := CheckWait(&pb.Wait{AfterMs: 60_000, Reason: "no round now"}); err != nil {
		t.Error(err)
	}
	if CheckWait(&pb.Wait{AfterMs: math.MaxUint32}) == nil || CheckWait(&pb.Wait{Reason: "\x1b]0;x\x07"}) == nil {
		t.Error("a wait of weeks, or with control characters, is let through")
	}
}

func FuzzTask(f *testing.F) {
	f.Add(must2(f)(proto.Marshal(&pb.Task{Kind: pb.Kind_TRAIN, Run: id(1), Bound: &pb.Bound{
		Clip: 1, Levels: 2,
		Max: 2,
	}, ModelVersion: 1, Length: 3})))
	f.Add(must2(f)(proto.Marshal(&pb.Task{Masking: &pb.Masking{Devices: 3, Length: 1 << 60}})))
	f.Fuzz(func(t *testing.T, b []byte) {
		task := &pb.Task{}
		if proto.Unmarshal(b, task) != nil || CheckTask(task) != nil {
			return
		}
		if task.Bound != nil {
			back, err := DecodeBound(task.Bound)
			if err != nil || !proto.Equal(EncodeBound(back, task.Bound.Noise, task.Bound.BitNoise, task.Bound.Max),
				task.Bound) {
				t.Fatalf("%v is not as it was, %v", task.Bound, err)
			}
		}
		if task.Masking != nil {
			r, i, err := DecodeMasking(task.Masking)
			if err != nil || !proto.Equal(EncodeMasking(&r, i), task.Masking) {
				t.Fatalf("%v is not as it was, %v", task.Masking, err)
			}
		}
	})
}

func must2(t testing.TB) func([]byte, error) []byte {
	return func(b []byte, err error) []byte { return must(t, b, err) }
}
