package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// send sends a request to h without a server, so that it works in a bubble.
func send(h http.Handler, method, target string) *demotest.Answer {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return &demotest.Answer{Request: method + " " + target, Status: w.Code, Header: w.Header(), Body: w.Body.String()}
}

const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// wantNoPlace fails the test unless a is the denial of a request for which no place is free.
func wantNoPlace(t *testing.T, a *demotest.Answer, places int) {
	t.Helper()
	a.WantProblem(t, 429, quotaExceeded, "concurrent")
	a.WantField(t, "Retry-After", "")
	text := fmt.Sprintf("allows %d requests at the same time.", places)
	if strings.Contains(a.Body, "Retry") || !strings.Contains(a.Body, text) {
		t.Errorf("%s: got %s, want the text %q and no time", a.Request, a.Body, text)
	}
}

// wantRemaining fails the test unless a says that want events of rule are left.
func wantRemaining(t *testing.T, a *demotest.Answer, rule string, want int) {
	t.Helper()
	if got := a.Remaining(t, rule); got != want {
		t.Errorf("%s: got %d left of %q, want %d", a.Request, got, rule, want)
	}
}

func TestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places = 100
		h := newHandler(memstore.New(), places)
		var archives sync.WaitGroup
		for range places {
			archives.Go(func() { send(h, "GET", "/archive").WantStatus(t, 200) })
		}
		synctest.Wait()
		for _, method := range []string{"GET", "POST"} {
			a := send(h, method, "/issues")
			wantNoPlace(t, a, places)
			wantRemaining(t, a, "points", 800) // 100 archives
		}
		archives.Wait()

		a := send(h, "POST", "/issues")
		a.WantStatus(t, 200)
		wantRemaining(t, a, "points", 795) // no denied request has cost a point
		wantRemaining(t, a, "content-minute", 79)
		wantRemaining(t, a, "content-hour", 499)
		if policy := a.Header.Get("RateLimit-Policy"); policy != `"concurrent";q=100;qu="concurrent-requests", "points";q=900;w=60, "content-minute";q=80;w=60, "content-hour";q=500;w=3600` {
			t.Errorf("got RateLimit-Policy %s", policy)
		}
		if field := a.Header.Get("RateLimit"); !strings.HasPrefix(field, `"concurrent";r=99, `) {
			t.Errorf("got RateLimit %s, want 99 free places", field)
		}
	})
}

func TestPoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(memstore.New(), 100)
		for n := range 180 {
			a := send(h, "PUT", "/star")
			a.WantStatus(t, 200)
			wantRemaining(t, a, "points", 900-5*(n+1))
		}
		for _, a := range []*demotest.Answer{send(h, "PUT", "/star"), send(h, "GET", "/issues")} {
			a.WantDenied(t, "points")
		}
		a := send(h, "POST", "/issues")
		a.WantDenied(t, "points")
		wantRemaining(t, a, "content-minute", 80) // not charged
		time.Sleep(time.Duration(a.RetryAfter(t)) * time.Second)
		send(h, "POST", "/issues").WantStatus(t, 200)
	})
}

func TestContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(memstore.New(), 100)
		created := 0
		for minute := range 7 {
			for range 80 {
				if a := send(h, "POST", "/issues"); a.Status == 200 {
					created++
				} else {
					a.WantDenied(t, "content-hour")
				}
			}
			if minute < 6 {
				send(h, "POST", "/issues").WantDenied(t, "content-minute")
			}
			time.Sleep(61 * time.Second)
		}
		if created != 500 {
			t.Errorf("got %d issues in an hour, want 500", created)
		}
		send(h, "PUT", "/star").WantStatus(t, 200)
	})
}

// Two processes share the places of a client. A denied request is one call of Redis.
func TestRedis(t *testing.T) {
	server := redistest.NewServer(t)
	start := func() *demotest.Process {
		return demotest.Start(t, "IN_FLIGHT=2", "REDIS_URL=redis://"+server.Addr+"/0", "REDIS_TIMEOUT=10s")
	}
	one, two := start(), start()
	rdb := server.Client()

	var archives sync.WaitGroup
	for _, p := range []*demotest.Process{one, two} {
		archives.Go(func() { p.Do(t, "GET", "/archive").WantStatus(t, 200) })
	}
	demotest.Until(t, "both places are taken", func() bool {
		keys, err := rdb.Keys(t.Context(), "*concurrent*").Result()
		demotest.Must(t, err)
		return len(keys) == 1 && rdb.ZCard(t.Context(), keys[0]).Val() == 3 // with their total
	})
	before := scripts(t, rdb)
	a := two.Do(t, "POST", "/issues")
	wantNoPlace(t, a, 2)
	if n := scripts(t, rdb) - before; n != 1 {
		t.Errorf("got %d scripts for a denied request, want 1", n)
	}
	wantRemaining(t, a, "points", 900-2)
	archives.Wait()

	demotest.Until(t, "the places are free", func() bool { return two.Do(t, "GET", "/issues").Status == 200 })
}

// scripts returns the number of scripts that the server has run.
func scripts(t *testing.T, rdb *redis.Client) (n int) {
	t.Helper()
	stats, err := rdb.Info(t.Context(), "commandstats").Result()
	demotest.Must(t, err)
	for line := range strings.Lines(stats) {
		var calls int
		for _, name := range []string{"eval", "evalsha"} {
			if k, _ := fmt.Sscanf(line, "cmdstat_"+name+":calls=%d,", &calls); k == 1 {
				n += calls
			}
		}
	}
	return n
}

func TestHints(t *testing.T) {
	p := demotest.Start(t, "IN_FLIGHT=3")
	demotest.RunHints(t, p,
		"HTTP/1.1 200 OK", "allows 3 requests at the same time.",
		strings.Repeat("200 ", 80)+"429 ", "Retry-After: ", "200 200 429 ", `Policy \"points\" allows 900 points per 60 s. Retry in `)
}
