package gate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

// TestCost checks the charge of each ask.
func TestCost(t *testing.T) {
	for _, c := range []struct {
		name string
		opts []gate.Option
		op   driver.Op
		cost int
	}{
		{"default", nil, driver.Spend, 1},
		{"five", []gate.Option{costs(5)}, driver.Spend, 5},
		{"zero", []gate.Option{costs(0)}, driver.Peek, 1},
		{"the later of two", []gate.Option{costs(5), costs(6)}, driver.Spend, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []driver.Charge
			record(t, start(setup{Store: memory().Set(recording(&asked)), Opts: c.opts, And: constant("b")}), request("POST", "/"))
			if len(asked) != 2 {
				t.Fatalf("the Store was charged %d times, want 2", len(asked))
			}
			for i, key := range []string{"k", "b"} {
				if got := asked[i]; got.Op != c.op || got.Cost != c.cost || got.Key != key {
					t.Errorf("charge %d is op %v cost %d key %q, want op %v cost %d key %q", i, got.Op, got.Cost, got.Key, c.op, c.cost, key)
				}
			}
		})
	}
}

func TestCost_Negative(t *testing.T) {
	table(t, []row{{
		name: "negative cost: 500, and no charge",
		opts: []gate.Option{costs(-1)}, status: 500, noStore: true, header: noFields, body: problem(500, "Internal Server Error", ""),
	}})
}

// number returns the number that the body is.
func number(_ context.Context, _ *http.Request, body []byte) (int, error) {
	return strconv.Atoi(string(body))
}

// posts returns a request with this body, whose length is not known.
func posts(body string) *http.Request {
	r := request("POST", "/v1/orders")
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), -1
	return r
}

// The Store is asked once about a request without a body, and twice about one with a body. A key that was denied
// lately is charged first, refunded, and charged with the cost.
func TestCostOfBody_Calls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := []gate.Option{gate.CostOfBody(9, func(ctx context.Context, r *http.Request, body []byte) (int, error) {
			if len(body) == 0 {
				return 2, nil
			}
			return number(ctx, r, body)
		})}
		a := start(setup{Rules: []core.Rule{core.SlidingLog("ten", core.PerMinute(10))}, Opts: opts})
		for _, c := range []struct {
			name                 string
			body                 string
			wait                 time.Duration
			status, calls, taken int
		}{
			{"no body", "", 0, 200, 1, 2},
			{"body", "3", 0, 200, 2, 5},
			{"zero", "0", 0, 200, 2, 5},
			{"more than is left: denied after the body", "6", 0, 429, 2, 5},
			{"lately denied: charged first", "4", 0, 200, 3, 9},
			{"lately denied, without a body", "", 0, 429, 3, 9},
			{"lately denied, a bad body: charged once", "x", 0, 400, 1, 10},
			{"exhausted", "1", 0, 429, 1, 10},
			{"exhausted, zero", "0", 0, 429, 1, 10},
			{"a minute later: charged first", "7", time.Minute, 200, 3, 7},
			{"forgotten", "1", time.Hour, 200, 2, 1},
		} {
			time.Sleep(c.wait)
			r := posts(c.body)
			if c.body == "" {
				r.Body = http.NoBody
			}
			calls := a.Store.Calls()
			got := record(t, a, r)
			if n := a.Store.Calls() - calls; got.Status != c.status || n != c.calls {
				t.Errorf("%s: got %d after %d calls of the Store, want %d after %d", c.name, got.Status, n, c.status, c.calls)
			}
			a.CheckTaken(t, "k", c.taken)
		}
	})
}

// Costs of one key for one limiter count once, the largest of them.
func TestCostOfBody_SameKey(t *testing.T) {
	a := start(setup{And: constant("k"), Opts: []gate.Option{gate.CostOfBody(9, number)}})
	record(t, a, posts("5"))
	a.CheckTaken(t, "k", 5)
	for i, opts := range [][2]gate.Option{{costs(7), gate.CostOfBody(9, number)}, {gate.CostOfBody(9, number), costs(7)}} {
		for body, want := range map[string]int{"3": 7, "9": 9, "0": 7} {
			b := start(setup{Limiter: a.Limiter, Store: a.Store, Key: constant(body + strconv.Itoa(i)), Opts: []gate.Option{
				gate.And(a.Limiter, constant("same"), opts[0]), gate.And(a.Limiter, constant("same"), opts[1]),
			}})
			reset(t, a.Limiter, "same")
			if got := record(t, b, posts(body)); got.Status != 200 {
				t.Errorf("got %d", got.Status)
			}
			b.CheckTaken(t, "same", want)
		}
	}
}

func TestCostOfBody_Limits(t *testing.T) {
	table(t, []row{{
		name: "no bound in practice", opts: []gate.Option{gate.CostOfBody(math.MaxInt64, number)}, req: func() *http.Request { return posts("3") },
	}, {
		name: "MiB", opts: []gate.Option{gate.CostOfBody(2<<20, number)}, req: func() *http.Request { return posts(strings.Repeat("1", 2<<20+1)) },
		status: 400, body: problem(400, "Bad Request", "The cost of the request is not known: the body is longer than 2 MiB."),
	}, {
		name: "KiB, of which the length says so", opts: []gate.Option{gate.CostOfBody(3<<10, number)}, req: func() *http.Request {
			r := posts("1")
			r.ContentLength = 1 << 60
			return r
		},
		status: 400, body: problem(400, "Bad Request", "The cost of the request is not known: the body is longer than 3 KiB."),
	}, {
		name: "a length that is too small", opts: []gate.Option{gate.CostOfBody(3, number)}, req: func() *http.Request {
			r := posts("1234")
			r.ContentLength = 1
			return r
		},
		status: 400, body: problem(400, "Bad Request", "The cost of the request is not known: the body is longer than 3 bytes."),
	}, {
		name: "read before", opts: []gate.Option{gate.CostOfBody(3, number)}, req: func() *http.Request {
			r := posts("")
			r.ContentLength = 3
			return r
		},
		status: 400, body: problem(400, "Bad Request", "The cost of the request is not known: the body was read before."),
	}, {
		name: "an encoding", opts: []gate.Option{gate.CostOfBody(3, number)}, req: func() *http.Request {
			r := posts("1")
			r.Header["Content-Encoding"] = []string{"identity", "br"}
			return r
		},
		status: 400, body: problem(400, "Bad Request", "The cost of the request is not known: the body has a Content-Encoding."),
	}, {
		name: "an invalid token is no 401", opts: []gate.Option{gate.CostOfBody(9, func(context.Context, *http.Request, []byte) (int, error) { return 1, keyfunc.ErrNoToken })},
		req: func() *http.Request { return posts("1") }, status: 400, body: problem(400, "Bad Request", "The cost of the request is not known."),
	}, {
		name: "not limited is no free request", opts: []gate.Option{gate.CostOfBody(9, func(context.Context, *http.Request, []byte) (int, error) { return 1, keyfunc.ErrNotLimited })},
		req: func() *http.Request { return posts("1") }, status: 400, body: problem(400, "Bad Request", "The cost of the request is not known."),
	}, {
		name: "an error with a negative cost", opts: []gate.Option{gate.CostOfBody(9, func(context.Context, *http.Request, []byte) (int, error) { return -1, errSecret })},
		req: func() *http.Request { return posts("1") }, status: 400,
	}, {
		name: "no key is limited", key: noKey(keyfunc.ErrNotLimited), opts: []gate.Option{gate.CostOfBody(9, number)}, req: func() *http.Request { return posts("x") }, noStore: true,
	}})
}

// A limit holds for a body that was read up to a larger one.
func TestCostOfBody_SmallerLimit(t *testing.T) {
	store := memory()
	second := core.Must(core.New(store, core.SlidingLog("second", core.PerHour(9))))
	a := start(setup{Store: store, Opts: []gate.Option{gate.CostOfBody(9, number), gate.And(second, constant("k"), gate.CostOfBody(2, number))}})
	for body, want := range map[string]int{"9": 200, "007": 400} {
		reset(t, second, "k")
		if got := record(t, a, posts(body)); got.Status != want {
			t.Errorf("%s: got %d, want %d", body, got.Status, want)
		}
	}
}

// OnError gets the cause, and can let a request through whose keys are charged.
func TestCostOfBody_OnError(t *testing.T) {
	for name, c := range map[string]struct {
		body   io.Reader
		is     func(error) bool
		status int
	}{
		"too long":   {strings.NewReader("1234"), func(err error) bool { return errors.As(err, new(*http.MaxBytesError)) }, 413},
		"unreadable": {iotest.ErrReader(errSecret), func(err error) bool { return errors.Is(err, errSecret) }, 408},
		"no number":  {strings.NewReader("x"), func(err error) bool { return errors.Is(err, strconv.ErrSyntax) }, 0},
	} {
		a := start(setup{Opts: []gate.Option{gate.CostOfBody(3, number), gate.OnError(func(_ *http.Request, err error, status int) int {
			if status != 400 || !c.is(err) || errors.Is(err, keyfunc.ErrNoKey) {
				t.Errorf("%s: OnError gets %v and the status %d", name, err, status)
			}
			return c.status
		})}})
		r := posts("")
		r.Body = io.NopCloser(c.body)
		if got := record(t, a, r); got.Status != max(c.status, 200) {
			t.Errorf("%s: got %d, want %d", name, got.Status, c.status)
		}
		a.CheckTaken(t, "k", 1)
	}
}

// A client that sends bad bodies uses up its limits, and the bodies of a client over the limit are not read, from
// many connections at once.
func TestCostOfBody_BadBodies(t *testing.T) {
	for _, err := range []error{errSecret, fmt.Errorf("%w: of the client", core.ErrNegativeCost), &keyfunc.NoKeyError{Detail: "no number"}} {
		t.Run(err.Error(), func(t *testing.T) { badBodies(t, err) })
	}
}

func badBodies(t *testing.T, bad error) {
	var reads atomic.Int64
	a := start(setup{Rules: []core.Rule{core.SlidingLog("ten", core.PerHour(10))}, Opts: []gate.Option{quiet, gate.CostOfBody(9, func(context.Context, *http.Request, []byte) (int, error) {
		reads.Add(1)
		return 0, bad
	})}})
	for range 30 {
		record(t, a, posts("x"))
	}
	if n := reads.Load(); n != 10 {
		t.Errorf("%d bodies were read in turns, want 10", n)
	}
	atOnce(64, func() { a.ServeHTTP(httptest.NewRecorder(), posts("x")) })
	if n := reads.Load(); n != 10 {
		t.Errorf("%d bodies were read at once, want none after the 10", n)
	}
	a.CheckTaken(t, "k", 10)
}

// Requests of one key that come when its bucket has one token do not all have their bodies read, wherever the key
// is in the gate.
func TestCostOfBody_Refilled(t *testing.T) {
	for _, last := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var reads atomic.Int64
			store := memory()
			bucket := core.Must(core.New(store, core.TokenBucket("bucket", core.PerMinute(1))))
			opt := gate.CostOfBody(9, func(context.Context, *http.Request, []byte) (int, error) {
				reads.Add(1)
				time.Sleep(time.Second)
				return 1, nil
			})
			a := start(setup{Limiter: bucket, Store: store, Opts: []gate.Option{opt}})
			if last {
				a = start(setup{Store: store, Opts: []gate.Option{opt, gate.And(bucket, constant("k"))}})
			}
			for range 2 {
				record(t, a, posts("1")) // the second is denied
			}
			time.Sleep(time.Minute)
			reads.Store(0)
			atOnce(64, func() { a.ServeHTTP(httptest.NewRecorder(), posts("1")) })
			if reads.Load() != 1 || a.Ran() != 2 {
				t.Errorf("last %t: %d bodies were read and %d requests admitted, want 1 and 2", last, reads.Load(), a.Ran())
			}
		})
	}
}

// A client that hangs up while it sends its body is charged.
func TestCostOfBody_HangsUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a := start(setup{Opts: []gate.Option{gate.CostOfBody(9, number)}})
	r := posts("").WithContext(ctx)
	r.Body = io.NopCloser(readerFunc(func([]byte) (int, error) { cancel(); return 0, io.ErrUnexpectedEOF }))
	if got := record(t, a, r); got.Status != 400 {
		t.Errorf("got %d, want 400", got.Status)
	}
	a.CheckTaken(t, "k", 1)
	a.CheckRan(t, 0)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A panic of the function passes, takes nothing, and leaves no place taken.
func TestCostOfBody_Panics(t *testing.T) {
	store := memstore.New() // in which places are free at once
	places := core.Must(core.New(store, core.InFlight("places", 1)))
	a := start(setup{Limiter: core.Must(core.New(store, hundred)), Opts: []gate.Option{gate.And(places, constant("k"), gate.CostOfBody(9, func(context.Context, *http.Request, []byte) (int, error) { panic("cost") }))}})
	use := testkit.Reserve(t, places, "k", 1)
	record(t, a, posts("1")) // the places are known to be exhausted
	testkit.Must(t, use.Release(t.Context()))
	for range 2 {
		if got := caught(func() { record(t, a, posts("1")) }); got != "cost" {
			t.Errorf("panicked with %v", got)
		}
	}
	if n := taken(t, places, "k"); n != 0 {
		t.Errorf("%d places are taken", n)
	}
}

// The handler has one place, and each place is free at the end, also after an early charge.
func TestCostOfBody_InFlight(t *testing.T) {
	store := memstore.New() // in which places are free at once
	places := core.Must(core.New(store, core.InFlight("places", 2)))
	a := start(setup{Limiter: core.Must(core.New(store, hundred)), Opts: []gate.Option{gate.And(places, constant("k"), gate.CostOfBody(9, number))}, Handler: func(http.ResponseWriter, *http.Request) {
		if n := taken(t, places, "k"); n != 1 {
			t.Errorf("%d places are taken in the handler, want 1", n)
		}
	}})
	var uses []*core.Reservation
	for range 2 {
		use := testkit.Reserve(t, places, "k", 1)
		uses = append(uses, use)
	}
	if got := record(t, a, posts("1")); got.Status != 429 {
		t.Errorf("got %d, want 429", got.Status)
	}
	for _, use := range uses {
		testkit.Must(t, use.Release(t.Context()))
	}
	for _, body := range []string{"1", "7", "x"} {
		record(t, a, posts(body))
		if n := taken(t, places, "k"); n != 0 {
			t.Errorf("%d places are taken after %s", n, body)
		}
	}
	a.CheckRan(t, 2)
}
