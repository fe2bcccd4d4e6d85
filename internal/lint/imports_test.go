package lint

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// row lists which of our packages a package may import.
type row struct {
	pure bool     // no network, files, clock or platform; builds for js/wasm
	may  []string // our packages; nil means all except those in not
	not  []string
	out  []string // external packages that a pure one may import; docs/adr gives the reasons
}

// table is the architecture: imports point one way. A package without a row fails the test.
// No package imports cmd, not even in tests; apart from that, tests may import anything.
var table = map[string]row{
	"internal/base/rng":  {pure: true, may: none},
	"vec":                {pure: true, may: none, out: list("golang.org/x/sys/cpu")},
	"param":              {pure: true, may: none},
	"internal/base/rows": {pure: true, may: list("vec")},
	"method":             {pure: true, may: list("internal/base/rng internal/base/rows vec param")},
	"learn":              {pure: true, may: list("method internal/base/rows vec internal/base/rng")},
	"methods": {pure: true, may: list("method learn methods/internal/blend methods/internal/closed " +
		"methods/internal/factorisation methods/internal/features methods/internal/neural " +
		"methods/internal/plugins methods/internal/private methods/internal/sequence")},
	"methods/internal/blend": {
		pure: true,
		may:  list("method learn vec internal/base/rng methods/internal/closed methods/internal/sequence"),
	},
	"methods/internal/closed":        {pure: true, may: list("method learn vec internal/base/rng")},
	"methods/internal/factorisation": {pure: true, may: list("method learn vec internal/base/rng")},
	"methods/internal/features":      {pure: true, may: list("method learn vec internal/base/rng")},
	"methods/internal/neural":        {pure: true, may: list("method learn vec internal/base/rng")},
	"methods/internal/plugins":       {pure: true, may: list("method learn vec internal/base/rng")},
	"methods/internal/private":       {pure: true, may: list("method learn vec internal/base/rng")},
	"methods/internal/sequence":      {pure: true, may: list("method learn vec internal/base/rng")},
	"methods/internal/testworld":     {may: list("method learn param data sim internal/base/metrics")}, // for tests
	"internal/engine/aggregate":      {pure: true, may: list("internal/base/rows vec internal/base/rng")},
	"internal/base/metrics":          {pure: true, may: list("internal/base/rows vec internal/base/rng")},
	"internal/study/figure":          {pure: true, may: list("internal/base/rng learn")},
	"data":                           {pure: true, may: list("internal/base/rows internal/base/rng param")},
	"privacy/account":                {pure: true, may: none, out: list("gonum.org/v1/gonum/dsp/fourier")},
	"privacy/secagg":                 {pure: true, may: none},
	"privacy":                        {pure: true, may: list("privacy/account param privacy/secagg")},
	"internal/engine/local": {
		pure: true,
		may:  list("method internal/base/rows vec internal/base/rng privacy"),
	},

	"internal/engine/round": {may: list("privacy/account internal/engine/aggregate internal/engine/local method " +
		"privacy " +
		"internal/base/rows vec internal/base/rng internal/atomicfile internal/chainlog")},
	"sim": {may: list("privacy/account privacy privacy/secagg internal/engine/round " +
		"internal/engine/local data internal/base/metrics internal/engine/aggregate method internal/base/rows vec " +
		"internal/base/rng")},
	"internal/study/reference": {may: list("sim data internal/base/metrics internal/engine/local method methods " +
		"param internal/base/rows vec internal/base/rng")},

	"wire": {
		pure: true, may: list("internal/base/rows privacy/secagg privacy internal/pb"),
		out: list("google.golang.org/protobuf/proto google.golang.org/protobuf/encoding/protowire"),
	},
	"internal/pb": {pure: true, may: none, out: list("google.golang.org/protobuf/reflect/protoreflect " +
		"google.golang.org/protobuf/runtime/protoimpl")},
	"internal/pb/pbconnect": {may: list("internal/pb")},
	"internal/rpc":          {may: list("wire internal/atomicfile internal/pb internal/pb/pbconnect")},
	"internal/pb/gen":       {may: none},

	"device": {may: list("internal/engine/local internal/engine/round privacy/account wire internal/pb " +
		"internal/rpc internal/statefile methods method " +
		"param " +
		"internal/base/rows privacy privacy/secagg internal/base/metrics internal/base/rng vec")},
	"internal/statefile":             {may: list("wire internal/atomicfile")},
	"mobile":                         {may: list("device")},
	"web":                            {may: none},
	"web/wasm":                       {may: list("device internal/rpc")}, // the program for browsers
	"internal/store":                 {may: list("internal/atomicfile")},
	"coordinator/internal/batch":     {may: none},
	"coordinator/internal/schedule":  {may: none},
	"coordinator/internal/budget":    {may: list("internal/engine/round internal/store privacy/account")},
	"coordinator/internal/catalogue": {may: list("internal/base/rows internal/pb internal/store wire")},
	"coordinator/internal/collection": {may: list("coordinator/internal/batch coordinator/internal/masked " +
		"internal/base/rows internal/pb internal/store wire")},
	"coordinator/internal/evaluation": {may: list("internal/base/metrics internal/store privacy")},
	"coordinator/internal/masked": {may: list("internal/base/rng internal/pb internal/store privacy " +
		"privacy/secagg wire")},
	"coordinator/internal/noise": {may: list("privacy")},
	"coordinator/internal/models": {may: list("internal/atomicfile internal/base/rows internal/engine/aggregate " +
		"internal/pb internal/store method vec wire")},
	"coordinator/internal/enrolment":   {may: list("coordinator/internal/batch internal/store wire")},
	"internal/openmetrics":             {may: none},
	"internal/openmetrics/metricstest": {may: none}, // for tests
	"internal/browsertest":             {may: none}, // for tests
	"internal/store/disktest":          {may: none}, // for tests
	"coordinator/internal/audit":       {may: list("internal/chainlog")},
	"coordinator/internal/operators":   {may: list("internal/store")},
	"coordinator/internal/dashboard":   {may: list("internal/study/figure")}, // the projection of the item map
	"coordinator": {may: list("coordinator/internal/audit coordinator/internal/dashboard " +
		"coordinator/internal/operators internal/openmetrics " +
		"coordinator/internal/budget coordinator/internal/catalogue " +
		"coordinator/internal/collection " +
		"coordinator/internal/enrolment coordinator/internal/evaluation coordinator/internal/masked " +
		"coordinator/internal/models coordinator/internal/noise coordinator/internal/schedule internal/store " +
		"internal/atomicfile " +
		"internal/base/rng internal/engine/round " +
		"privacy/account internal/engine/aggregate internal/engine/local method methods param privacy " +
		"internal/base/metrics internal/base/rows privacy/secagg vec wire internal/pb internal/pb/pbconnect " +
		"internal/rpc")},
	"internal/fleet": {may: list("device data internal/engine/local internal/base/rng internal/engine/round " +
		"internal/base/rows wire internal/pb internal/rpc sim coordinator privacy/account")},

	"docs":          {may: none}, // the pages, embedded
	"internal/site": {may: none},
	"internal/play": {may: list("coordinator data internal/fleet internal/pb internal/rpc internal/study/format web")},

	"internal/fetch":   {may: list("data")},
	"internal/parquet": {may: none},

	"internal/study/format":            {may: none},
	"internal/study/chart":             {may: list("internal/study/format")},
	"internal/study/result":            {may: list("internal/base/metrics internal/study/format")},
	"internal/study/result/resulttest": {may: list("internal/base/metrics internal/study/result")},
	"internal/study/report": {may: list("internal/base/metrics internal/study/result internal/study/chart " +
		"internal/study/format")},
	"conform": {not: list("internal/study/experiment internal/study/report internal/fetch")},
	"internal/study/experiment": {not: list("internal/study/tune internal/study/leaderboard " +
		"internal/study/reproduce internal/study/privacycost internal/study/methoddoc internal/study/bench")},
	"internal/study/methoddoc": {may: list("internal/study/experiment internal/engine/local learn method methods " +
		"param")},
	"internal/study/reproduce": {may: list("internal/study/experiment internal/study/sweep internal/study/report " +
		"internal/study/result " +
		"internal/study/reference data internal/base/metrics param")},
	"internal/study/privacycost": {may: list("internal/study/experiment internal/study/sweep " +
		"internal/study/report internal/study/result internal/study/format internal/study/reference data " +
		"internal/base/metrics internal/engine/round privacy " +
		"privacy/account sim")},
	"internal/study/tune": {may: list("internal/study/experiment sim data internal/base/metrics method " +
		"methods param internal/study/report internal/study/sweep internal/base/rng internal/atomicfile")},
	"internal/study/leaderboard": {may: list("internal/study/experiment sim data internal/base/metrics " +
		"internal/study/reference internal/study/sweep method methods param internal/study/report " +
		"internal/study/result")},
	"internal/study/sweep": {may: list("internal/atomicfile")},
	"internal/study/bench": {may: list("sim data methods method param internal/study/report vec " +
		"internal/base/rng internal/naive")},

	// the library's front door
	".": {may: list("data internal/base/metrics internal/parquet internal/study/experiment internal/study/result " +
		"method methods param sim vec")},

	"cmd/tacit":           {},
	"examples/device":     {may: list("mobile")},
	"internal/lint":       {},
	"internal/naive":      {may: list("data")},
	"internal/atomicfile": {may: none},
	"internal/chainlog":   {may: list("internal/atomicfile")},
	"vec/gen":             {may: none}, // a module of its own, that writes vec's assembly
	"vec/gen/neon":        {may: none},
}

var none = []string{}

func list(names string) []string { return strings.Fields(names) }

func (r row) allows(ours string) bool {
	if r.may != nil {
		return slices.Contains(r.may, ours)
	}
	return !slices.Contains(r.not, ours)
}

// impure are the imports that would tie a pure package to a platform.
var impure = []string{"net", "os", "time", "syscall", "unsafe", "C", "log", "runtime/cgo", "plugin"}

func TestImportsPointOneWay(t *testing.T) {
	for _, s := range every(t, goFile) {
		r, known := table[s.pkg()]
		if !known {
			if !s.isTest() {
				t.Errorf("%s: package %s has no row in the import table; add one to internal/lint/imports_test.go "+
					"that says which of our packages it may import", s.name, s.pkg())
			}
			continue
		}
		for _, spec := range s.ast.Imports {
			to, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			checkImport(t, s, r, to)
		}
	}
}

func checkImport(t *testing.T, s *source, r row, to string) {
	t.Helper()
	ours, isOurs := strings.CutPrefix(to, module+"/")
	switch {
	case isOurs && within(ours, "cmd"):
		t.Errorf("%s imports %s: nothing imports cmd; move what you need to a package that both may import", s.name, to)
	case s.isTest():
	case isOurs && ours != s.pkg() && !r.allows(ours):
		t.Errorf("%s imports %s, and the row of %s in internal/lint/imports_test.go does not allow it; move the "+
			"code, or change the row and say why in docs/adr", s.name, ours, s.pkg())
	case r.pure && slices.ContainsFunc(impure, func(p string) bool { return within(to, p) }):
		t.Errorf("%s imports %s: %s is pure and has no network, files, clock or platform; let the caller pass in "+
			"what you need (an fs.FS, an io.Reader, a number)", s.name, to, s.pkg())
	case r.pure && !isOurs && strings.Contains(strings.Split(to, "/")[0], ".") && !slices.Contains(r.out, to):
		t.Errorf("%s imports %s: a pure package uses the standard library and ours, so that it stays small in a "+
			"browser; write what you need, or give the reason in docs/adr and add it to the row of %s in "+
			"internal/lint/imports_test.go", s.name, to, s.pkg())
	}
}

func TestTheTableNamesNoPackageThatIsGone(t *testing.T) {
	there := map[string]bool{}
	for _, s := range every(t, goFile) {
		there[s.pkg()] = true
	}
	for name, r := range table {
		for _, p := range append(append([]string{name}, r.may...), r.not...) {
			if !there[p] {
				t.Errorf("the import table names package %s, which does not exist; take it out of "+
					"internal/lint/imports_test.go", p)
			}
		}
	}
}

// pure lists the pure packages, sorted.
func pure() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if table[name].pure {
			out = append(out, name)
		}
	}
	return out
}

func TestPurePackagesBuildForTheBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("builds for js/wasm: run without -short")
	}
	args := []string{"build", "-trimpath"}                       // checkouts share what is compiled without their paths
	for _, p := range append(pure(), "device", "internal/rpc") { // both have other files there
		args = append(args, "./"+p)
	}
	build := exec.Command("go", args...)
	build.Dir = root
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("the pure packages do not build for js/wasm; keep what a browser lacks behind a build tag or out "+
			"of them:\n%s", out)
	}
}

// The Makefile builds the pure packages too; it must build the same ones.
func TestTheMakefileNamesThePurePackages(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^PURE\s*:=\s*(.*)$`).FindSubmatch(b)
	if m == nil {
		t.Fatal("the Makefile has no line `PURE := ...` with the pure packages; add it")
	}
	got := strings.Fields(string(m[1]))
	slices.Sort(got)
	if want := pure(); !slices.Equal(got, want) {
		t.Errorf("PURE in the Makefile is %v, the import table says %v; make them the same", got, want)
	}
}
