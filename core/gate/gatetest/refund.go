package gatetest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
)

// A judge is a function for RefundIf that remembers what it was asked.
type judge struct {
	mu       sync.Mutex
	statuses []int
	no       bool // its answer is no
}

func (j *judge) option() gate.Option {
	return gate.RefundIf(func(status int) bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.statuses = append(j.statuses, status)
		return !j.no
	})
}

// asked is a text, so that it can be compared, in order of size.
func (j *judge) asked() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return fmt.Sprint(slices.Sorted(slices.Values(j.statuses)))
}

// hundred admits a hundred requests an hour.
func hundred(store core.Store) *core.Limiter {
	return core.Must(core.New(store, core.SlidingLog("hundred", core.PerHour(100))))
}

// taken is how many events of its first rule l has counted for key.
func taken(t *testing.T, l *core.Limiter, key string) int {
	t.Helper()
	d, err := l.Peek(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	s := d.State(0)
	return s.Rule.Capacity() - s.Remaining
}

// fails answers like a handler that found something wrong.
func fails(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
	}
}

func (s *suite) testRefund(t *testing.T) {
	t.Run("statuses", s.testStatuses)
	t.Run("panics", s.testRefundPanics)
	t.Run("no", func(t *testing.T) {
		l, j := hundred(memstore.New()), &judge{no: true}
		exchange(t, s.build(l, constant("k"), []gate.Option{j.option()}, fails(404)), request("GET", "/"))
		if j.asked() != "[404]" || taken(t, l, "k") != 1 {
			t.Errorf("asked about %s, and %d are taken; want [404] and 1", j.asked(), taken(t, l, "k"))
		}
	})
	t.Run("two identities", func(t *testing.T) {
		l, j := hundred(memstore.New()), new(judge)
		opts := []gate.Option{j.option(), costs(3), gate.And(l, constant("b"))}
		exchange(t, s.build(l, constant("a"), opts, new(probe).ServeHTTP), request("GET", "/"))
		if a, b := taken(t, l, "a"), taken(t, l, "b"); a+b > 0 || j.asked() != "[200]" {
			t.Errorf("%d and %d are taken, asked about %s; want all back by one question", a, b, j.asked())
		}
	})
	t.Run("failures only", s.testFailuresOnly)
	t.Run("two gates", s.testRefundTwice)
	t.Run("after a refill", s.testRefundLate)
	t.Run("ended", s.testRefundEnded)
	t.Run("not admitted", s.testRefundNothing)
	t.Run("store fails", s.testRefundFails)
}

// testRefundTwice has two gates on one request, with one limiter: each gives back
// its own.
func (s *suite) testRefundTwice(t *testing.T) {
	l := hundred(memstore.New())
	if _, err := l.AllowN(t.Context(), "k", 7); err != nil {
		t.Fatal(err)
	}
	outer, inner := new(judge), new(judge)
	during := 0
	h := s.build(l, constant("k"), []gate.Option{inner.option()}, func(http.ResponseWriter, *http.Request) { during = taken(t, l, "k") })
	h = s.build(l, constant("k"), []gate.Option{outer.option()}, h.ServeHTTP)
	exchange(t, h, request("GET", "/"))
	if after := taken(t, l, "k"); during != 9 || after != 7 {
		t.Errorf("of 7, there were %d during the request and %d after it; want 9 and 7", during, after)
	}
	if outer.asked() != "[200]" || inner.asked() != "[200]" {
		t.Errorf("asked about %s and %s", outer.asked(), inner.asked())
	}
}

// testRefundLate has a handler that takes so long that what was taken has refilled,
// while others use the limit.
func (s *suite) testRefundLate(t *testing.T) {
	for _, c := range []struct {
		rule core.Rule
		want int // taken in the end
	}{
		{core.TokenBucket("r", core.PerSecond(1).WithBurst(3)), 3},
		{core.SlidingLog("r", core.Per(3, 3*time.Second)), 3},
		{core.FixedWindow("r", core.Per(3, 3*time.Second)), 3},
		{core.SlidingWindow("r", core.Per(3, 3*time.Second)), 3},
	} {
		t.Run(c.rule.Algorithm().String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, j := core.Must(core.New(memstore.New(), c.rule)), new(judge)
				h := s.build(l, constant("k"), []gate.Option{j.option()}, func(http.ResponseWriter, *http.Request) {
					time.Sleep(10 * time.Second)
					if d, err := l.AllowN(t.Context(), "k", 3); err != nil || !d.Allowed {
						t.Errorf("others were denied: %+v, %v", d, err)
					}
				})
				record(t, h, request("GET", "/"))
				if got := taken(t, l, "k"); got != c.want || j.asked() != "[200]" {
					t.Errorf("%d are taken, want %d: what has come back by itself does not come back twice", got, c.want)
				}
			})
		})
	}
}

// testRefundEnded has requests that end before their handlers do.
func (s *suite) testRefundEnded(t *testing.T) {
	check := func(t *testing.T, l *core.Limiter, j *judge) {
		t.Helper()
		if j.asked() != "[]" || taken(t, l, "k") != 1 {
			t.Errorf("asked about %s, and %d are taken; want nothing and 1: hanging up would be a way past the limit",
				j.asked(), taken(t, l, "k"))
		}
	}
	for name, end := range map[string]func(){"returns": func() {}, "panics": func() { panic("late") }} {
		t.Run("the handler "+name, func(t *testing.T) {
			l, j := hundred(memstore.New()), new(judge)
			ctx, cancel := context.WithCancel(t.Context())
			h := s.build(l, constant("k"), []gate.Option{j.option()}, func(w http.ResponseWriter, r *http.Request) {
				fails(204)(w, r)
				cancel()
				end()
			})
			caught(func() { h.ServeHTTP(httptest.NewRecorder(), request("GET", "/").WithContext(ctx)) })
			check(t, l, j)
		})
	}
	t.Run("out of time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, j := hundred(memstore.New()), new(judge)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			h := s.build(l, constant("k"), []gate.Option{j.option()}, func(http.ResponseWriter, *http.Request) {
				time.Sleep(2 * time.Second)
			})
			record(t, h, request("GET", "/").WithContext(ctx))
			check(t, l, j)
		})
	})
	for _, c := range hangUps {
		t.Run("hangs up, "+c.name, func(t *testing.T) { s.testRefundHangUp(t, c) })
	}
}

// A hangUp is a request whose client closes the connection while its handler runs.
type hangUp struct {
	name    string
	request string // as it is sent
	more    string // what follows while the handler runs
	reads   bool   // the handler reads the body
	noticed bool   // net/http ends the context of the request
}

// net/http looks at the connection of an HTTP/1.1 request only while it reads the
// body, and from the end of the body on until the client sends something.
var hangUps = []hangUp{
	{"GET", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "", false, true},
	{"GET, the next request behind it", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET", false, false},
	{"POST without a body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "", false, true},
	{"POST, body read", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody", "", true, true},
	{"POST, chunked body read", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", "", true, true},
	{"POST, part of a body read", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nbody", "", true, true},
	{"POST, body unread", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody", "", false, false},
	{"POST, chunked body unread", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", "", false, false},
	{"POST, part of a body unread", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nbody", "", false, false},
}

// testRefundHangUp pins down what [gate.RefundIf] says about clients that hang up: one
// that is noticed keeps nothing, and any other is treated as if it had stayed.
func (s *suite) testRefundHangUp(t *testing.T, c hangUp) {
	l, j := hundred(memstore.New()), new(judge)
	entered, gone, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	h := s.build(l, constant("k"), []gate.Option{j.option()}, func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		if c.reads {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		<-gone
		if c.noticed {
			select {
			case <-r.Context().Done():
			case <-time.After(10 * time.Second):
				t.Error("the context did not end within 10 s after the client hung up")
			}
		}
		fails(502)(w, r)
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		h.ServeHTTP(w, r)
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, c.request); err != nil {
		t.Fatal(err)
	}
	<-entered
	if _, err := io.WriteString(conn, c.more); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	close(gone)
	<-done
	asked, kept := "[502]", 0
	if c.noticed {
		asked, kept = "[]", 1
	}
	if j.asked() != asked || taken(t, l, "k") != kept {
		t.Errorf("asked about %s, and %d are taken; want %s and %d", j.asked(), taken(t, l, "k"), asked, kept)
	}
}

// testRefundNothing has requests of which nothing can come back.
func (s *suite) testRefundNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		store *script
		key   keyfunc.Func
		opts  []gate.Option
	}{
		{"denied", &script{states: states{"burst": denied(time.Second)}}, constant("k"), nil},
		{"skipped", &script{}, constant("k"), []gate.Option{gate.Skip(func(*http.Request) bool { return true })}},
		{"undecided", &script{err: errSecret}, constant("k"), []gate.Option{quiet}},
		{"undecided, closed", &script{err: errSecret}, constant("k"), []gate.Option{quiet, gate.FailClosed()}},
		{"no key", &script{}, noKey(keyfunc.ErrNoKey), nil},
		{"no key, let through", &script{}, noKey(keyfunc.ErrNoKey), []gate.Option{
			gate.OnError(func(*http.Request, error, int) int { return 0 }),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := new(judge)
			h := s.build(core.Must(core.New(c.store, burst)), c.key, append(c.opts, j.option()), new(probe).ServeHTTP)
			exchange(t, h, request("GET", "/"))
			for _, charge := range c.store.charges() {
				if !charge.Op.Asks() {
					t.Errorf("the Store was told op %v: nothing was taken", charge.Op)
				}
			}
			if j.asked() != "[]" {
				t.Errorf("asked about %s", j.asked())
			}
		})
	}
	t.Run("a cost of zero", func(t *testing.T) {
		store, j := &script{states: states{"burst": allowed(1, 0, 0)}}, new(judge)
		h := s.build(core.Must(core.New(store, burst)), constant("k"), []gate.Option{costs(0), j.option()}, new(probe).ServeHTTP)
		exchange(t, h, request("GET", "/"))
		if j.asked() != "[200]" || store.called() != 1 {
			t.Errorf("asked about %s, and the Store was called %d times; want [200] and once", j.asked(), store.called())
		}
	})
}

// testRefundFails checks that the answer does not depend on the refund.
func (s *suite) testRefundFails(t *testing.T) {
	for name, opts := range map[string][]gate.Option{
		"": nil, "with OnError": {gate.OnError(func(_ *http.Request, err error, status int) int {
			t.Errorf("OnError is told %v, %d: it is too late to choose", err, status)
			return status
		})}, "closed": {gate.FailClosed()},
	} {
		t.Run("logged "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := onUndo(func(context.Context) error { return errSecret })
				l, j := hundred(store), new(judge)
				h := s.build(l, constant("key-of-a-person"), append(opts, j.option()), new(probe).ServeHTTP)
				lines := logged(t, func() {
					for range 3 {
						for range 5 {
							if got := record(t, h, request("GET", "/?token=secret")); got.status != 200 || got.body != "ok\n" {
								t.Errorf("the answer is %d %q", got.status, got.body)
							}
						}
						time.Sleep(time.Second)
					}
				})
				checkLines(t, lines, 3, "weir: what a request took could not be given back")
				if n := taken(t, l, "key-of-a-person"); n != 15 {
					t.Errorf("%d are taken, want 15", n)
				}
			})
		})
	}
	t.Run("ends meanwhile", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		store := onUndo(func(refund context.Context) error { cancel(); return refund.Err() })
		l, j := hundred(store), new(judge)
		h := s.build(l, constant("k"), []gate.Option{j.option()}, new(probe).ServeHTTP)
		record(t, h, request("GET", "/").WithContext(ctx))
		if n := taken(t, l, "k"); n != 0 {
			t.Errorf("%d are taken: a client that has its answer and goes stops the refund", n)
		}
	})
}
