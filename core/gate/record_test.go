package gate

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strconv"
	"testing"
	"unsafe"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

// A record is the largest allocation of a request. The allocator rounds its size, together
// with a header of 8 bytes, up to 640 bytes on 64-bit systems, or to 704 if it grows: 15 to 30 ns.
func TestRecord_Size(t *testing.T) {
	if size := unsafe.Sizeof(record{}); size+8 > 640 {
		t.Errorf("got %d bytes, want at most %d", size, 640-8)
	}
}

// A request without header fields costs as many allocations and bytes as before.
func TestGate_Admit_Allocations(t *testing.T) {
	testkit.WithoutRace(t)
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for keys, want := range map[int]struct{ objects, bytes, bytes32 uint64 }{1: {1, 640, 384}, 2: {2, 1280, 832}, 3: {6, 2560, 1808}} {
		if strconv.IntSize == 32 {
			want.bytes = want.bytes32
		}
		store, plenty := memstore.New(), core.PerSecond(1_000_000_000).WithBurst(1_000_000_000)
		opts := []Option{Headers()}
		for i := range keys - 1 {
			opts = append(opts, And(core.Must(core.New(store, core.TokenBucket(strconv.Itoa(i), plenty))), keyfunc.Constant(strconv.Itoa(i))))
		}
		g := newGate("gate", core.Must(core.New(store, core.TokenBucket("r", plenty))), keyfunc.RemoteIP(), opts)
		r := httptest.NewRequest("GET", "/", nil)
		h := http.Header{}
		admit := func() {
			if _, _, rejection := g.Admit(r.Context(), h, r, ""); rejection != nil {
				t.Fatal(rejection)
			}
		}
		if objects, bytes := testkit.AllocatedPerCall(1000, admit); objects != want.objects || bytes != want.bytes {
			t.Errorf("%d keys: got %d objects with %d bytes, want %d with %d", keys, objects, bytes, want.objects, want.bytes)
		}
	}
}

// A gate frees the places of rules that its limiter did not have first: after a Replace, of a route, and of a plan.
func TestRecord_Placeless(t *testing.T) {
	store := memstore.New()
	limiter := func(rule core.Rule) *core.Limiter { return core.Must(core.New(store, rule)) }
	replaced := limiter(core.TokenBucket("replaced", core.PerSecond(9)))
	bucket := limiter(core.TokenBucket("bucket", core.PerSecond(9)))
	places := limiter(core.InFlight("places", 1))
	planned := limiter(core.InFlight("planned", 1).Plan("two", core.Limit{Events: 2}))
	two := Plan(func(context.Context, *http.Request) (string, error) { return "two", nil })
	for name, c := range map[string]struct {
		g     *gate
		taken *core.Limiter // nil if there are no places
	}{
		"a bucket":   {newGate("test", bucket, anyKey, nil), nil},
		"replaced":   {newGate("test", replaced, anyKey, nil), replaced},
		"first":      {newGate("test", places, anyKey, nil), places},
		"second":     {newGate("test", bucket, anyKey, []Option{And(places, anyKey)}), places},
		"of a route": {newGate("test", bucket, anyKey, []Option{Routes(policyFunc(func(*http.Request) *core.Limiter { return places }))}), places},
		"of a plan":  {newGate("test", planned, anyKey, []Option{two}), planned},
	} {
		if name == "replaced" {
			testkit.Must(t, replaced.Replace(core.InFlight("replaced", 1)))
		}
		r := get("/")
		_, served, rejection := c.g.Admit(r.Context(), header(), r, "")
		if rejection != nil || (served.End != nil) != (c.taken != nil) {
			t.Errorf("%s: got %v, and places: %v", name, rejection, served.End != nil)
			continue
		}
		if c.taken == nil {
			continue
		}
		if n := testkit.Used(t, c.taken, "k")[0]; n != 1 {
			t.Errorf("%s: got %d places, want 1", name, n)
		}
		served.End()
		if n := testkit.Used(t, c.taken, "k")[0]; n != 0 {
			t.Errorf("%s: got %d places at the end, want 0", name, n)
		}
	}
}
