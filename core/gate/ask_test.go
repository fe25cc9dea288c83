package gate_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

// A verifier is a key function that counts the tokens that it verifies. The token is in the
// header field Token; "bad" is none.
type verifier struct {
	verified atomic.Int64
	err      error // of bad tokens; keyfunc.ErrNoToken if nil
}

func (v *verifier) key(_ context.Context, r *http.Request) (string, error) {
	v.verified.Add(1)
	if token := r.Header.Get("Token"); token != "bad" {
		return "user:" + token, nil
	}
	return "", cmp.Or(v.err, keyfunc.ErrNoToken)
}

// A composition is an application whose gate has the address of a client as its first key, and the
// user as its second.
type composition struct {
	*application // its limiter is that of the address
	user         *core.Limiter
	verifier     *verifier
}

var (
	twenty = core.SlidingLog("address", core.PerHour(20))
	many   = core.TokenBucket("user", core.PerHour(1_000_000))
)

// addressFirst returns a composition with a rule for the address and one for the user.
func addressFirst(address, user core.Rule, c setup) *composition {
	v := new(verifier)
	c.Store, c.Rules, c.Key = memory(), []core.Rule{address}, keyfunc.RemoteIP()
	l := core.Must(core.New(c.Store, user))
	c.Opts = append(slices.Clone(c.Opts), gate.And(l, v.key))
	return &composition{start(c), l, v}
}

// TestAnd_BadTokens sends 200 bad tokens from one address, one after the other.
func TestAnd_BadTokens(t *testing.T) {
	type statuses = map[int]int
	type effect struct {
		statuses statuses
		verified int64
		calls    int // of the Store
		address  int // taken, of the limit by address
	}
	leaky := core.LeakyBucket("queue", core.PerHour(20)) // 3 minutes apart
	for _, c := range []struct {
		name string
		asks string    // limiter=key of each; "address=ip user=token" if empty
		rule core.Rule // of the address; twenty if it has no name
		opts []gate.Option
		err  error  // of the key function that verifies tokens
		want effect // if zero: 20 of 401, and all other requests denied without a verification
	}{
		{name: "address first"},
		// Keys after a missing key are not charged.
		{name: "token first", asks: "user=token address=ip", want: effect{statuses{401: 200}, 200, 0, 0}},
		{name: "address, token, all", asks: "address=ip user=token ten=all"},
		// The second key has a limit of 10 and is exhausted first.
		{name: "address, all, token", asks: "address=ip ten=all user=token", want: effect{statuses{401: 10, 429: 190}, 10, 200, 10}},
		{name: "joined", asks: "address=token+ip", want: effect{statuses{401: 20, 429: 180}, 200, 200, 0}},
		{name: "address, joined", asks: "address=ip user=token+ip", want: effect{statuses{401: 20, 429: 180}, 20, 200, 20}},
		// If a partial key is denied, the address stays charged.
		{name: "address, joined with a lower limit", asks: "address=ip ten=token+ip", want: effect{statuses{401: 10, 429: 190}, 20, 210, 20}},
		{name: "first of", asks: "address=token|ip", want: effect{statuses{200: 20, 429: 180}, 200, 200, 20}},
		{name: "fault in the key function", opts: []gate.Option{quiet}, err: errSecret, want: effect{statuses{500: 20, 429: 180}, 20, 200, 20}},
		{name: "let through by OnError", opts: []gate.Option{letThrough}, want: effect{statuses{200: 20, 429: 180}, 20, 200, 20}},
		{name: "FailClosed", opts: []gate.Option{gate.FailClosed()}},
		{name: "RefundIf, which does not apply to a rejection", opts: []gate.Option{refundAll}},
		{name: "Cost", opts: []gate.Option{costs(6)}, want: effect{statuses{401: 3, 429: 197}, 3, 200, 18}},
		{name: "a cost of zero, which is 1 for a request without a user", opts: []gate.Option{costs(0)}},
		{name: "a cost that is never admitted", opts: []gate.Option{costs(21)}, want: effect{statuses{429: 200}, 1, 200, 0}},
		{name: "leaky bucket, which does not hold the answer", rule: leaky, opts: []gate.Option{gate.MaxDelay(time.Hour)}},
		// Four requests are within the delay, and one more is verified until the key is exhausted.
		{name: "MaxDelay", rule: leaky, opts: []gate.Option{gate.MaxDelay(10 * time.Minute)}, want: effect{statuses{401: 4, 429: 196}, 5, 200, 4}},
		{name: "soft", rule: core.SlidingLog("soft", core.PerHour(20)).Soft(10), want: effect{statuses{401: 22, 429: 178}, 22, 200, 20}},
		{name: "shadow", rule: core.SlidingLog("shadow", core.PerHour(20)).Shadow(), want: effect{statuses{401: 200}, 200, 200, 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.rule.Name() == "" {
				c.rule = twenty
			}
			if c.want.statuses == nil {
				c.want = effect{statuses{401: 20, 429: 180}, 20, 200, 20}
			}
			store, v, ip := memory(), &verifier{err: c.err}, keyfunc.RemoteIP()
			limiters := map[string]*core.Limiter{}
			for name, rule := range map[string]core.Rule{"address": c.rule, "user": many, "ten": core.SlidingLog("ten", core.PerHour(10))} {
				limiters[name] = core.Must(core.New(store, rule))
			}
			keys := map[string]keyfunc.Func{
				"ip": ip, "all": constant("all"), "token": v.key, "token+ip": keyfunc.Join(v.key, ip), "token|ip": keyfunc.FirstOf(v.key, ip),
			}
			g := setup{Opts: c.opts}
			for _, ask := range strings.Fields(cmp.Or(c.asks, "address=ip user=token")) {
				limiter, key, _ := strings.Cut(ask, "=")
				if g.Limiter == nil {
					g.Limiter, g.Key = limiters[limiter], keys[key]
				} else {
					g.Opts = append(g.Opts, gate.And(limiters[limiter], keys[key]))
				}
			}
			a, address := start(g), limiters["address"]
			got := statuses{}
			for range 200 {
				got[record(t, a, with("Token", "bad")).Status]++
			}
			if !maps.Equal(got, c.want.statuses) {
				t.Errorf("the answers are %v, want %v", got, c.want.statuses)
			}
			if got := v.verified.Load(); got != c.want.verified {
				t.Errorf("%d tokens are verified, want %d", got, c.want.verified)
			}
			if got := store.Calls(); got != c.want.calls {
				t.Errorf("the Store is called %d times, want %d", got, c.want.calls)
			}
			d, err := address.Peek(t.Context(), "192.0.2.1")
			if got := d.State(0).Rule.Limit().Events - d.State(0).Remaining; err != nil || got != c.want.address {
				t.Errorf("the address is charged %d, want %d (%v)", got, c.want.address, err)
			}
		})
	}
}

// TestAnd_BadTokensOfAlgorithms sends a bad token per second for ten minutes: the limit bounds the
// number of verified tokens.
func TestAnd_BadTokensOfAlgorithms(t *testing.T) {
	limit := core.PerMinute(20)
	for _, a := range testkit.Algorithms {
		t.Run(a.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := addressFirst(a.Rule("r", limit), many, setup{Opts: []gate.Option{gate.MaxDelay(time.Minute)}})
				admitted := int64(0)
				for range 600 {
					if record(t, c, with("Token", "bad")).Status == http.StatusUnauthorized {
						admitted++
					}
					time.Sleep(time.Second)
				}
				if got := c.verifier.verified.Load(); got != admitted || admitted < 150 || admitted > 20*11 {
					t.Errorf("%d tokens are verified and %d are within the limit; want the same, about 200", got, admitted)
				}
			})
		})
	}
}

// TestAnd_RejectedFields compares the fields and documents of rejections.
func TestAnd_RejectedFields(t *testing.T) {
	noUser := noKey(keyfunc.ErrNoToken)
	table(t, []row{{
		name: "charged: the fields of a 401 describe the charges of the known keys",
		and:  noUser, states: states{"burst": allowed(3, 12*time.Second, 0)}, status: 401,
		header: map[string]string{"RateLimit-Policy": `"burst";q=100;w=60`, "RateLimit": `"burst";r=3;t=12`, "Retry-After": "", "WWW-Authenticate": "Bearer"},
		body:   problem(401, "Unauthorized", "Sign-in is required."),
	}, {
		name: "denied: 429 if the known keys are denied",
		and:  noUser, status: 429, header: map[string]string{"RateLimit": `"burst";r=0;t=12`, "Retry-After": "12", "WWW-Authenticate": ""},
		body: document(retry12, `"burst"`),
	}, {
		name: "charged, no headers: Headers() sends no field", and: noUser, opts: []gate.Option{gate.Headers()}, status: 401, header: noFields,
	}, {
		name: "partial key: charged like a key",
		key:  keyfunc.Join(noUser, constant("home")), states: states{"burst join?-4:home": denied(12 * time.Second)}, status: 429,
		header: map[string]string{"RateLimit": `"burst";r=0;t=12`, "Retry-After": "12"},
	}, {
		name: "first key of two: the key functions after a missing key are not called",
		key:  noUser, and: func(context.Context, *http.Request) (string, error) { panic("called") }, status: 401, noStore: true, header: noFields,
	}})
}

// TestAnd_RejectedStoreFails checks that the response does not depend on a Store that fails.
func TestAnd_RejectedStoreFails(t *testing.T) {
	for name, opts := range map[string][]gate.Option{"": nil, "FailClosed": {gate.FailClosed()}} {
		t.Run("known keys "+name, func(t *testing.T) {
			told := 0
			onError := gate.OnError(func(_ *http.Request, err error, status int) int {
				told++
				if !errors.Is(err, keyfunc.ErrNoToken) || status != 401 {
					t.Errorf("OnError got %v, %d; want the error of the key function, 401", err, status)
				}
				return status
			})
			a := start(setup{Err: errSecret, Opts: append(opts, onError), And: noKey(keyfunc.ErrNoToken)})
			if got := a.Get(t); got.Status != 401 || got.Header.Get("RateLimit") != "" {
				t.Errorf("the answer is %d with RateLimit %q, want 401 without", got.Status, got.Header.Get("RateLimit"))
			}
			if told != 1 || a.Store.Calls() != 1 {
				t.Errorf("OnError was called %d times and the Store %d times, want once", told, a.Store.Calls())
			}
		})
		t.Run("exhausted keys "+name, func(t *testing.T) {
			a := start(setup{States: states{"hundred": denied(time.Second)}, Opts: append(opts, quiet), And: new(verifier).key})
			record(t, a, with("Token", "bad"))
			a.Store.Set(storetest.Fail(errSecret))
			before := a.Store.Calls()
			undecided := 200
			if opts != nil {
				undecided = 503
			}
			for token, want := range map[string]int{"bad": 401, "good": undecided} {
				if got := record(t, a, with("Token", token)); got.Status != want {
					t.Errorf("a %s token is answered %d, want %d", token, got.Status, want)
				}
			}
			if got := a.Store.Calls() - before; got != 2 {
				t.Errorf("the Store was called %d times for two requests, want 2: a charge that may have been made is not repeated", got)
			}
		})
	}
	t.Run("log", func(t *testing.T) {
		a := start(setup{Err: errSecret, Key: constant("key-of-a-person"), And: noKey(keyfunc.ErrNoKey)})
		lines := logged(t, func() { record(t, a, request("GET", "/?token=secret")) })
		checkLines(t, lines, 1, "weir: the store could not charge a request without a key")
		if !strings.Contains(lines, `"answer":"400"`) {
			t.Errorf("the log is %s, want the answer 400", lines)
		}
	})
}

// Clients that have hung up when their tokens are verified are charged: otherwise a client could
// pass the limit by hanging up.
func TestAnd_RejectedHangsUp(t *testing.T) {
	var v verifier
	var hangUp context.CancelFunc
	key := func(ctx context.Context, r *http.Request) (string, error) { hangUp(); return v.key(ctx, r) }
	a := start(setup{Rules: []core.Rule{twenty}, And: key})
	bad := func() *http.Request {
		ctx, cancel := context.WithCancel(t.Context())
		hangUp = cancel
		return with("Token", "bad").WithContext(ctx)
	}
	for range 100 {
		record(t, a, bad())
	}
	if got := v.verified.Load(); got != 20 {
		t.Errorf("%d tokens are verified, want 20", got)
	}
	r := bad()
	hangUp() // before the gate
	if got := record(t, a, r); got.Status != http.StatusServiceUnavailable || v.verified.Load() != 20 {
		t.Errorf("before the gate: %d, and %d tokens are verified; want 503 and 20", got.Status, v.verified.Load())
	}
}

// crowd sends n requests from each of 64 goroutines, and counts the responses.
func crowd(t *testing.T, h http.Handler, token string, n int) map[int]int {
	var mu sync.Mutex
	statuses := map[int]int{}
	atOnce(64, func() {
		for range n {
			got := record(t, h, with("Token", token)).Status
			mu.Lock()
			statuses[got]++
			mu.Unlock()
		}
	})
	return statuses
}

// TestAnd_RejectedAtOnce sends bad tokens from 64 goroutines. Until the key is known to be exhausted,
// requests in progress are verified beyond the limit; afterwards none is.
func TestAnd_RejectedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := addressFirst(core.TokenBucket("address", core.PerMinute(20)), many, setup{})
		statuses := crowd(t, c, "bad", 20)
		if !maps.Equal(statuses, map[int]int{401: 20, 429: 64*20 - 20}) {
			t.Errorf("the answers are %v, want 20 of 401 and the others 429", statuses)
		}
		if got := c.verifier.verified.Load(); got < 20 || got > 20+63 {
			t.Errorf("%d tokens are verified, want 20, and at most 63 more that were in progress", got)
		}
		for range 20 {
			time.Sleep(6 * time.Second) // two tokens
			before := c.verifier.verified.Load()
			statuses := crowd(t, c, "bad", 2)
			if got := c.verifier.verified.Load() - before; got != 2 || statuses[401] != 2 {
				t.Errorf("%d tokens are verified, and the answers are %v; want exactly 2", got, statuses)
			}
		}
	})
}

// A request with all keys takes one call of the Store, also after the limit was used up. The token
// of the first denied request is verified, those of the next ones are not.
func TestAnd_GoodTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := addressFirst(core.TokenBucket("address", core.PerMinute(20)), many, setup{})
		for i, step := range []struct {
			wait     time.Duration
			requests int
			status   int
			verified int64
			calls    int
		}{
			{0, 20, 200, 20, 20}, {3 * time.Second, 1, 200, 1, 1}, {0, 1, 429, 1, 1}, {0, 100, 429, 0, 100},
			{3 * time.Second, 1, 200, 1, 3}, {62 * time.Second, 20, 200, 20, 20},
		} {
			time.Sleep(step.wait)
			verified, calls := c.verifier.verified.Load(), c.Store.Calls()
			for range step.requests {
				if got := record(t, c, with("Token", "ann")); got.Status != step.status {
					t.Errorf("a request of step %d has status %d, want %d", i, got.Status, step.status)
				}
			}
			verified, calls = c.verifier.verified.Load()-verified, c.Store.Calls()-calls
			if verified != step.verified || calls != step.calls {
				t.Errorf("%d requests of step %d made %d verifications and %d calls of the Store, want %d and %d",
					step.requests, i, verified, calls, step.verified, step.calls)
			}
		}
	})
}

// A key that is found twice for the same limiter is charged once.
func TestAnd_DistinctAsks(t *testing.T) {
	for _, c := range []struct {
		name   string
		opts   []gate.Option
		settle int // unless negative
		want   int // taken
	}{
		{"plain", nil, -1, 1},
		{"Cost", []gate.Option{costs(7)}, -1, 7},
		{"MaxDelay", []gate.Option{gate.MaxDelay(time.Second)}, -1, 1},
		{"settled", nil, 9, 9},
		{"Cost, settled", []gate.Option{costs(7)}, 3, 3},
		{"RefundIf", []gate.Option{refundAll}, -1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			handler := says("ok\n")
			if c.settle >= 0 {
				handler = settles(t, c.settle)
			}
			store := memory()
			other := core.Must(core.New(store, daily))
			a := start(setup{Store: store, Opts: append(c.opts, gate.And(other, constant("k"))), And: constant("k"), Handler: handler})
			a.Gets(t, 200)
			a.CheckTaken(t, "k", c.want)
			if n := taken(t, other, "k"); n != c.want {
				t.Errorf("%d are taken of the other limiter, want %d", n, c.want)
			}
			if d, _ := a.Saw(); d.Len() != 2 {
				t.Errorf("the decision has %d States, want 2: one for each rule", d.Len())
			}
		})
	}
}

// An address and a user are both charged, or neither.
func TestAnd_TwoIdentities(t *testing.T) {
	store := memory()
	perUser := core.Must(core.New(store, core.SlidingLog("user", core.PerDay(1))))
	a := start(setup{
		Store: store, Rules: []core.Rule{core.SlidingLog("ip", core.PerDay(3))}, Key: keyfunc.RemoteIP(),
		Opts: []gate.Option{gate.And(perUser, header("X-User"))},
	})
	for i, step := range []struct {
		user, limit string
		status      int
	}{
		{"ann", `"ip";r=2;t=86400, "user";r=0;t=86400`, 200},
		{"ann", `"ip";r=2;t=86400, "user";r=0;t=86400`, 429},
		{"ann", `"ip";r=2;t=86400, "user";r=0;t=86400`, 429},
		{"bob", `"ip";r=1;t=86400, "user";r=0;t=86400`, 200},
		{"cid", `"ip";r=0;t=86400, "user";r=0;t=86400`, 200},
		{"dan", `"ip";r=0;t=86400, "user";r=1;t=86400`, 429},
		{"eve", `"ip";r=0;t=86400`, 429}, // an exhausted address is charged before the user is found
	} {
		got := record(t, a, with("X-User", step.user))
		if got.Status != step.status || got.Header.Get("RateLimit") != step.limit {
			t.Errorf("request %d of %s: %d, RateLimit %s\n\twant %d, %s", i, step.user,
				got.Status, got.Header.Get("RateLimit"), step.status, step.limit)
		}
	}
	if n := taken(t, perUser, "dan"); n != 0 {
		t.Errorf("dan, denied for the address, was charged %d", n)
	}
	a.CheckRan(t, 3)
}
