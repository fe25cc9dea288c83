package gatetest

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
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/storetest"
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

func withToken(token string) *http.Request {
	r := request("GET", "/v1/orders")
	r.Header.Set("Token", token)
	return r
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
func (s *suite) addressFirst(address, user core.Rule, c setup) *composition {
	v := new(verifier)
	c.store, c.rules, c.key = memory(), []core.Rule{address}, keyfunc.RemoteIP()
	l := core.Must(core.New(c.store, user))
	c.opts = append(slices.Clone(c.opts), gate.And(l, v.key))
	return &composition{s.start(c), l, v}
}

func (s *suite) testRejected(t *testing.T) {
	t.Run("bad tokens", s.testBadTokens)
	t.Run("bad tokens of each algorithm", s.testBadTokensOfAlgorithms)
	t.Run("fields", s.testRejectedFields)
	t.Run("store fails", s.testRejectedStoreFails)
	t.Run("hangs up", s.testRejectedHangsUp)
	t.Run("at once", s.testRejectedAtOnce)
	t.Run("good tokens", s.testGoodTokens)
	t.Run("exhausted address", s.testExhaustedAddress)
	t.Run("one limiter twice", s.testDistinctAsks)
	t.Run("zero beside another cost", s.testZeroBesideCost)
}

// testBadTokens sends 200 bad tokens from one address, one after the other.
func (s *suite) testBadTokens(t *testing.T) {
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
		{name: "leaky bucket, which does not hold the answer", rule: leaky},
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
			g := setup{opts: c.opts}
			for _, ask := range strings.Fields(cmp.Or(c.asks, "address=ip user=token")) {
				limiter, key, _ := strings.Cut(ask, "=")
				if g.limiter == nil {
					g.limiter, g.key = limiters[limiter], keys[key]
				} else {
					g.opts = append(g.opts, gate.And(limiters[limiter], keys[key]))
				}
			}
			a, address := s.start(g), limiters["address"]
			got := statuses{}
			for range 200 {
				got[record(t, a, withToken("bad")).status]++
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

// testBadTokensOfAlgorithms sends a bad token per second for ten minutes: the limit bounds the
// number of verified tokens.
func (s *suite) testBadTokensOfAlgorithms(t *testing.T) {
	limit := core.PerMinute(20)
	for _, rule := range []core.Rule{
		core.TokenBucket("r", limit), core.FixedWindow("r", limit), core.SlidingLog("r", limit),
		core.SlidingWindow("r", limit), core.LeakyBucket("r", limit),
	} {
		t.Run(rule.Algorithm().String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := s.addressFirst(rule, many, setup{})
				admitted := int64(0)
				for range 600 {
					if record(t, c, withToken("bad")).status == http.StatusUnauthorized {
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

// testRejectedFields compares the fields and documents of rejections.
func (s *suite) testRejectedFields(t *testing.T) {
	noUser := noKey(keyfunc.ErrNoToken)
	s.table(t, []row{{
		name:   "charged: the fields of a 401 describe the charges of the known keys",
		and:    noUser,
		states: states{"burst": allowed(3, 12*time.Second, 0)},
		status: 401,
		header: map[string]string{"RateLimit-Policy": `"burst";q=100;w=60`, "RateLimit": `"burst";r=3;t=12`, "Retry-After": "", "WWW-Authenticate": "Bearer"},
		body:   problem(401, "Unauthorized", "Sign-in is required."),
	}, {
		name:   "denied: 429 if the known keys are denied",
		and:    noUser,
		status: 429,
		header: map[string]string{"RateLimit": `"burst";r=0;t=12`, "Retry-After": "12", "WWW-Authenticate": ""},
		body:   document(retry12, `"burst"`),
	}, {
		name:   "charged, no headers: Headers() sends no field",
		and:    noUser,
		opts:   []gate.Option{gate.Headers()},
		status: 401,
		header: noFields,
	}, {
		name:   "partial key: charged like a key",
		key:    keyfunc.Join(noUser, constant("home")),
		states: states{"burst join?-4:home": denied(12 * time.Second)},
		status: 429,
		header: map[string]string{"RateLimit": `"burst";r=0;t=12`, "Retry-After": "12"},
	}, {
		name:    "first key of two: the key functions after a missing key are not called",
		key:     noUser,
		and:     func(context.Context, *http.Request) (string, error) { panic("called") },
		status:  401,
		noStore: true,
		header:  noFields,
	}})
}

// testRejectedStoreFails checks that the response does not depend on a Store that fails.
func (s *suite) testRejectedStoreFails(t *testing.T) {
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
			a := s.start(setup{err: errSecret, opts: append(opts, onError), and: noKey(keyfunc.ErrNoToken)})
			if got := a.get(t); got.status != 401 || got.header.Get("RateLimit") != "" {
				t.Errorf("the answer is %d with RateLimit %q, want 401 without", got.status, got.header.Get("RateLimit"))
			}
			if told != 1 || a.store.Calls() != 1 {
				t.Errorf("OnError was called %d times and the Store %d times, want once", told, a.store.Calls())
			}
		})
		t.Run("exhausted keys "+name, func(t *testing.T) {
			a := s.start(setup{states: states{"hundred": denied(time.Second)}, opts: append(opts, quiet), and: new(verifier).key})
			record(t, a, withToken("bad"))
			a.store.Set(storetest.Fail(errSecret))
			before := a.store.Calls()
			undecided := 200
			if opts != nil {
				undecided = 503
			}
			for token, want := range map[string]int{"bad": 401, "good": undecided} {
				if got := record(t, a, withToken(token)); got.status != want {
					t.Errorf("a %s token is answered %d, want %d", token, got.status, want)
				}
			}
			if got := a.store.Calls() - before; got != 2 {
				t.Errorf("the Store was called %d times for two requests, want 2: a charge that may have been made is not repeated", got)
			}
		})
	}
	t.Run("log", func(t *testing.T) {
		a := s.start(setup{err: errSecret, key: constant("key-of-a-person"), and: noKey(keyfunc.ErrNoKey)})
		lines := logged(t, func() { record(t, a, request("GET", "/?token=secret")) })
		checkLines(t, lines, 1, "weir: the store could not charge a request without a key")
		if !strings.Contains(lines, `"answer":"400"`) {
			t.Errorf("the log is %s, want the answer 400", lines)
		}
	})
}

// Clients that have hung up when their tokens are verified are charged: otherwise a client could
// pass the limit by hanging up.
func (s *suite) testRejectedHangsUp(t *testing.T) {
	var v verifier
	var hangUp context.CancelFunc
	key := func(ctx context.Context, r *http.Request) (string, error) { hangUp(); return v.key(ctx, r) }
	a := s.start(setup{rules: []core.Rule{twenty}, and: key})
	bad := func() *http.Request {
		ctx, cancel := context.WithCancel(t.Context())
		hangUp = cancel
		return withToken("bad").WithContext(ctx)
	}
	for range 100 {
		record(t, a, bad())
	}
	if got := v.verified.Load(); got != 20 {
		t.Errorf("%d tokens are verified, want 20", got)
	}
	r := bad()
	hangUp() // before the gate
	if got := record(t, a, r); got.status != http.StatusServiceUnavailable || v.verified.Load() != 20 {
		t.Errorf("before the gate: %d, and %d tokens are verified; want 503 and 20", got.status, v.verified.Load())
	}
}

// crowd sends n requests from each of 64 goroutines, and counts the responses.
func crowd(t *testing.T, h http.Handler, token string, n int) map[int]int {
	var mu sync.Mutex
	statuses := map[int]int{}
	atOnce(64, func() {
		for range n {
			got := record(t, h, withToken(token)).status
			mu.Lock()
			statuses[got]++
			mu.Unlock()
		}
	})
	return statuses
}

// testRejectedAtOnce sends bad tokens from 64 goroutines. Until the key is known to be exhausted,
// requests in progress are verified beyond the limit; afterwards none is.
func (s *suite) testRejectedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := s.addressFirst(core.TokenBucket("address", core.PerMinute(20)), many, setup{})
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
func (s *suite) testGoodTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := s.addressFirst(core.TokenBucket("address", core.PerMinute(20)), many, setup{})
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
			verified, calls := c.verifier.verified.Load(), c.store.Calls()
			for range step.requests {
				if got := record(t, c, withToken("ann")); got.status != step.status {
					t.Errorf("a request of step %d has status %d, want %d", i, got.status, step.status)
				}
			}
			verified, calls = c.verifier.verified.Load()-verified, c.store.Calls()-calls
			if verified != step.verified || calls != step.calls {
				t.Errorf("%d requests of step %d made %d verifications and %d calls of the Store, want %d and %d",
					step.requests, i, verified, calls, step.verified, step.calls)
			}
		}
	})
}

// Requests with good tokens from an address that is in the list of exhausted keys.
func (s *suite) testExhaustedAddress(t *testing.T) {
	bucket := core.TokenBucket("address", core.PerMinute(20)) // one in 3 s
	five := core.TokenBucket("user", core.PerDay(5))
	queue := core.LeakyBucket("user", core.PerSecond(1).WithBurst(5))
	for _, c := range []struct {
		name     string
		user     core.Rule
		opts     []gate.Option
		settle   int    // the cost that the handler settles, unless negative
		token    string // the limit of ann is used up
		status   int
		calls    int // of the Store
		limit    string
		address  int // taken in the end, of 15 before
		user1    int // taken of the user in the end
		verified int64
	}{
		{"admitted", many, nil, -1, "bob", 200, 3, `"address";r=4;t=12, "user";r=999999;t=3600`, 16, 1, 1},
		{"denied", five, nil, -1, "ann", 429, 3, `"address";r=5;t=15, "user";r=0;t=17280`, 15, 5, 1},
		{"Cost", five, []gate.Option{costs(2)}, -1, "bob", 200, 3, `"address";r=3;t=9, "user";r=3;t=51840`, 17, 2, 1},
		{"Cost, denied", five, []gate.Option{costs(2)}, -1, "ann", 429, 3, `"address";r=5;t=15, "user";r=0;t=34560`, 15, 5, 1},
		{"Cost, denied early", five, []gate.Option{costs(6)}, -1, "bob", 429, 1, `"address";r=5;t=3`, 15, 0, 0},
		{"a cost of zero", five, []gate.Option{costs(0)}, -1, "bob", 200, 3, `"address";r=5;t=15, "user";r=5;t=86400`, 15, 0, 1},
		{"a cost of zero, settled", five, []gate.Option{costs(0)}, 3, "bob", 200, 4, `"address";r=5;t=15, "user";r=5;t=86400`, 18, 3, 1},
		{"a cost of zero, denied", five, []gate.Option{costs(0)}, -1, "ann", 429, 3, `"address";r=5;t=15, "user";r=0;t=17280`, 15, 5, 1},
		{"settled", five, nil, 4, "bob", 200, 4, `"address";r=4;t=12, "user";r=4;t=69120`, 19, 4, 1},
		{"settled to less", five, []gate.Option{costs(3)}, 1, "bob", 200, 4, `"address";r=2;t=6, "user";r=2;t=34560`, 16, 1, 1},
		{"RefundIf", five, []gate.Option{refundAll}, -1, "bob", 200, 4,
			`"address";r=4;t=12, "user";r=4;t=69120`, 15, 0, 1},
		{"leaky bucket, denied", queue, []gate.Option{gate.MaxDelay(time.Second)}, -1, "ann", 429, 3, `"address";r=5;t=15, "user";r=0;t=4`, 15, 5, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handler := says("ok\n")
				if c.settle >= 0 {
					handler = settles(t, c.settle)
				}
				g := s.addressFirst(bucket, c.user, setup{opts: c.opts, handler: handler})
				testkit.Admit(t, g.limiter, "192.0.2.1", 20)
				record(t, g, withToken("bad")) // adds the address to the exhausted keys
				time.Sleep(15 * time.Second)
				testkit.Admit(t, g.user, "user:ann", 5)
				calls, verified := g.store.Calls(), g.verifier.verified.Load()
				got := record(t, g, withToken(c.token))
				if got.status != c.status || got.header.Get("RateLimit") != c.limit {
					t.Errorf("the answer is %d, RateLimit %s\n\twant %d, %s", got.status, got.header.Get("RateLimit"), c.status, c.limit)
				}
				if d, ok := g.saw(); c.status == 200 && (!ok || d.Len() != 2 || d.State(0).Rule.Name() != "address" || d.State(1).Rule.Name() != "user") {
					t.Errorf("the handler sees %+v, %v; want the States of the address and of the user", d, ok)
				}
				if n := g.store.Calls() - calls; n != c.calls {
					t.Errorf("the Store is called %d times, want %d", n, c.calls)
				}
				if n := g.verifier.verified.Load() - verified; n != c.verified {
					t.Errorf("%d tokens are verified, want %d", n, c.verified)
				}
				g.checkTaken(t, "192.0.2.1", c.address)
				if u := taken(t, g.user, "user:"+c.token); u != c.user1 {
					t.Errorf("%d are taken of the user, want %d", u, c.user1)
				}
			})
		})
	}
	t.Run("two exhausted keys", s.testTwoExhaustedKeys)
	t.Run("refund fails", func(t *testing.T) {
		store := undoFails()
		user := core.Must(core.New(store, hundred))
		opts := []gate.Option{gate.And(user, constant("u")), quiet}
		a := s.start(setup{store: store, rules: []core.Rule{twenty}, key: constant("key-of-a-person"), opts: opts})
		testkit.Admit(t, a.limiter, "key-of-a-person", 20)
		testkit.Admit(t, user, "u", 100)
		a.gets(t, 429) // adds the address to the exhausted keys
		if _, err := a.limiter.Reset(t.Context(), "key-of-a-person"); err != nil {
			t.Fatal(err)
		}
		lines := logged(t, func() { a.gets(t, 429) })
		checkLines(t, lines, 1, "weir: the cost of a request could not be refunded")
		a.checkTaken(t, "key-of-a-person", 1)
	})
	t.Run("at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := s.addressFirst(bucket, five, setup{})
			crowd(t, g, "bad", 1)
			for range 10 {
				time.Sleep(9 * time.Second) // three tokens, and others that are refunded
				crowd(t, g, "ann", 2)
			}
			if a, u := taken(t, g.limiter, "192.0.2.1"), taken(t, g.user, "user:ann"); g.ran() != 5 || u != 5 || a > 5 {
				t.Errorf("%d are admitted, %d are taken of the user and %d of the address; want 5, 5 and no more than 5", g.ran(), u, a)
			}
		})
	})
	t.Run("denied for long", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := s.addressFirst(core.TokenBucket("second", core.PerSecond(1)), many, setup{opts: []gate.Option{costs(2)}})
			for range 20 {
				record(t, g, withToken("bad"))
				time.Sleep(5 * time.Second)
			}
			if got := g.verifier.verified.Load(); got != 1 {
				t.Errorf("%d tokens are verified, want 1: a denial keeps the key exhausted", got)
			}
		})
	})
	for name, address := range map[string]core.Rule{
		"shadow": core.SlidingLog("shadow", core.PerHour(20)).Shadow(), "forgotten": bucket,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := s.addressFirst(address, many, setup{})
				crowd(t, g, "bad", 1)
				if name == "forgotten" { // a shadow denies nothing at once
					time.Sleep(time.Minute + 2*time.Second)
				}
				calls := g.store.Calls()
				if got := record(t, g, withToken("bob")); got.status != 200 || g.store.Calls() != calls+1 {
					t.Errorf("status %d and %d calls of the Store, want 200 and one", got.status, g.store.Calls()-calls)
				}
			})
		})
	}
}

// If the second of two exhausted keys denies a request, the charge of the first is refunded.
func (s *suite) testTwoExhaustedKeys(t *testing.T) {
	store, v := memory(), new(verifier)
	b, u := core.Must(core.New(store, hundred)), core.Must(core.New(store, many))
	a := s.start(setup{
		store: store, rules: []core.Rule{twenty}, key: constant("a"), opts: []gate.Option{gate.And(b, constant("b")), gate.And(u, v.key)},
	})
	testkit.Admit(t, a.limiter, "a", 20)
	testkit.Admit(t, b, "b", 100)
	record(t, a, withToken("bad")) // adds the address to the exhausted keys
	if _, err := a.limiter.Reset(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	calls := store.Calls()
	got := record(t, a, withToken("bad"))
	if n := store.Calls() - calls; n != 3 {
		t.Errorf("the Store is called %d times, want 3", n)
	}
	if limit := got.header.Get("RateLimit"); got.status != 429 || limit != `"hundred";r=0;t=3600` {
		t.Errorf("%d, RateLimit %s; want 429, and the rule that denies", got.status, limit)
	}
	if n := v.verified.Load(); n != 1 {
		t.Errorf("%d tokens are verified, want only the first", n)
	}
	a.checkTaken(t, "a", 0)
}

// A key with a cost of zero is charged early while it is exhausted. Its refund must leave the other
// key of its limiter charged.
func (s *suite) testZeroBesideCost(t *testing.T) {
	store, v := memory(), new(verifier)
	l := core.Must(core.New(store, core.SlidingLog("api", core.PerHour(5))))
	for name, other := range map[string]*core.Limiter{"the limiter": l, "a view": l.Plan("pro")} {
		t.Run(name, func(t *testing.T) {
			a := s.start(setup{limiter: l, store: store, key: keyfunc.RemoteIP(), opts: []gate.Option{costs(0), gate.And(other, v.key, costs(2))}})
			for range 6 {
				record(t, a, withToken("bad"))
			}
			if _, err := l.Reset(t.Context(), "192.0.2.1"); err != nil {
				t.Fatal(err)
			}
			got := record(t, a, withToken(name))
			if n := taken(t, l, "user:"+name); got.status != 200 || n != 2 {
				t.Errorf("got %d with %d taken, want 200 with 2", got.status, n)
			}
		})
	}
}

// A key that is found twice for the same limiter is charged once.
func (s *suite) testDistinctAsks(t *testing.T) {
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
			a := s.start(setup{store: store, opts: append(c.opts, gate.And(other, constant("k"))), and: constant("k"), handler: handler})
			a.gets(t, 200)
			a.checkTaken(t, "k", c.want)
			if n := taken(t, other, "k"); n != c.want {
				t.Errorf("%d are taken of the other limiter, want %d", n, c.want)
			}
			if d, _ := a.saw(); d.Len() != 2 {
				t.Errorf("the decision has %d States, want 2: one for each rule", d.Len())
			}
		})
	}
}
