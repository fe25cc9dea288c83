package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// An api is the handler of the example.
type api struct{ http.Handler }

// send sends a request of a customer without a server, so that it works in a bubble.
func (h api) send(method, target, customer string) *demotest.Answer {
	r := httptest.NewRequest(method, target, nil)
	r.Header.Set("X-API-Key", "key-of-"+customer)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return &demotest.Answer{Request: method + " " + target, Status: w.Code, Header: w.Header(), Body: w.Body.String()}
}

// wantUsage fails the test unless the customer gets the text about the usage.
func (h api) wantUsage(t *testing.T, customer, text string) {
	t.Helper()
	a := h.send("GET", "/usage", customer)
	a.WantStatus(t, 200)
	if a.Body != text+"\n" {
		t.Errorf("%s: got %q, want %q", customer, a.Body, text)
	}
}

const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// wantDenied fails the test unless a is the denial of the quota until the time reset.
func wantDenied(t *testing.T, a *demotest.Answer, reset time.Time) {
	t.Helper()
	a.WantProblem(t, 429, quotaExceeded, "calls")
	a.WantField(t, "Retry-After", fmt.Sprint(int(time.Until(reset).Seconds())))
}

// A quota is renewed with the subscription: on the 31st, or the last day of a shorter month.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2000, time.January, 30, 15, 0, 0, 0, time.UTC)))
		h := api{newHandler(memstore.New())}
		resets := []time.Time{
			time.Date(2000, time.January, 31, 15, 0, 0, 0, time.UTC),
			time.Date(2000, time.February, 29, 15, 0, 0, 0, time.UTC),
			time.Date(2000, time.March, 31, 15, 0, 0, 0, time.UTC),
		}
		for i, reset := range resets {
			h.wantUsage(t, "ann", "used 0 of 1000, resets at "+reset.Format(time.RFC3339))
			h.send("POST", "/import?records=800", "ann").WantStatus(t, 200)
			for n := range 200 {
				a := h.send("GET", "/", "ann")
				a.WantStatus(t, 200)
				if left := a.Remaining(t, "calls"); left != 199-n {
					t.Fatalf("got %d calls left, want %d", left, 199-n)
				}
			}
			a := h.send("GET", "/", "ann")
			wantDenied(t, a, reset)
			if left := a.Remaining(t, "rate"); left != 600-1-200-1 { // the import, the calls, the usage
				t.Errorf("got %d requests left, want that the denied call is not charged", left)
			}
			h.wantUsage(t, "ann", "used 1000 of 1000, resets at "+reset.Format(time.RFC3339))
			if i > 0 {
				length := int(reset.Sub(resets[i-1]).Seconds())
				a.WantField(t, "RateLimit-Policy", fmt.Sprintf(`"rate";q=600;w=60, "calls";q=1000;w=%d`, length))
			}
			time.Sleep(time.Until(reset) - time.Second)
			wantDenied(t, h.send("GET", "/", "ann"), reset)
			time.Sleep(time.Second)
		}
	})
}

// Imports leave a fifth of the month. A request that has been denied costs nothing.
func TestImport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := api{newHandler(memstore.New())}
		month := time.Date(2000, time.January, 15, 9, 30, 0, 0, time.UTC)
		h.send("POST", "/import?records=800000", "bob").WantStatus(t, 200)
		wantDenied(t, h.send("POST", "/import?records=1", "bob"), month)
		h.send("GET", "/", "bob").WantStatus(t, 200)
		h.wantUsage(t, "bob", "used 800001 of 1000000, resets at 2000-01-15T09:30:00Z")

		a := h.send("POST", "/import?records=801", "ann") // never possible
		a.WantProblem(t, 429, quotaExceeded, "calls")
		a.WantField(t, "Retry-After", "")
		h.wantUsage(t, "ann", "used 0 of 1000, resets at 2000-01-31T15:00:00Z")
		for _, path := range []string{"/", "/usage"} {
			h.send("GET", path, "mallory").WantStatus(t, 401)
		}
	})
}

// Two processes share the calls of a customer, and a process that is started again continues.
func TestRedis(t *testing.T) {
	server := redistest.NewServer(t)
	start := func() *demotest.Process {
		return demotest.Start(t, "REDIS_URL=redis://"+server.Addr+"/0", "REDIS_TIMEOUT=10s")
	}
	one, two := start(), start()
	one.Do(t, "POST", "/import?records=500", "X-API-Key: key-of-ann").WantStatus(t, 200)
	two.Do(t, "GET", "/", "X-API-Key: key-of-ann").WantStatus(t, 200)
	for _, p := range []*demotest.Process{one, two, start()} {
		if a := p.Do(t, "GET", "/usage", "X-API-Key: key-of-ann"); !strings.HasPrefix(a.Body, "used 501 of 1000, resets at ") {
			t.Errorf("got %s", a.Body)
		}
	}
}

func TestHints(t *testing.T) {
	demotest.RunHints(t, demotest.Start(t),
		"HTTP/1.1 200 OK", "Retry-After: ", "used 701 of 1000, resets at ", " 299 200\n", " 1 429\n",
		`Policy \"calls\" allows 1000 requests per month. Retry `, "used 12000 of 1000000, resets at ")
}
