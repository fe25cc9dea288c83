package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

const flood = `"flood";q=50;w=1`

// A client has the Authorization of a user, or "" if it has no token.
type client struct {
	t    *testing.T
	p    *demotest.Process
	auth string
}

func signIn(t *testing.T, p *demotest.Process, user string) client {
	t.Helper()
	a := p.Do(t, "POST", "/token?user="+user)
	a.WantStatus(t, 200)
	return client{t, p, "Bearer " + strings.TrimSpace(a.Body)}
}

func (c client) at(addr, method, path string) *demotest.Answer {
	c.t.Helper()
	fields := []string{"X-Forwarded-For: " + addr}
	if c.auth != "" {
		fields = append(fields, "Authorization: "+c.auth)
	}
	return c.p.Do(c.t, method, path, fields...)
}

const (
	home = "203.0.113.1"
	work = "2001:db8::1"
)

func TestUserAndAddressTogether(t *testing.T) {
	p := demotest.Start(t)
	alice, bob, carol := signIn(t, p, "alice"), signIn(t, p, "bob"), signIn(t, p, "carol")

	n := 0
	denied := demotest.Exhaust(t, core.PerMinute(5), func() *demotest.Answer {
		n++
		return alice.at(fmt.Sprintf("198.51.100.%d", n), "GET", "/orders")
	})
	denied.WantDenied(t, "user")
	denied.WantField(t, "RateLimit-Policy", flood+`, "address";q=8;w=60, "user";q=5;w=60`)
	if r := denied.Remaining(t, "address"); r != 8 {
		t.Errorf("the address, after a request that the limit of the user denied: got Remaining %d, want 8", r)
	}

	for range 5 {
		bob.at(home, "GET", "/orders").WantStatus(t, 200)
	}
	for range 3 {
		carol.at(home, "GET", "/orders").WantStatus(t, 200)
	}
	carol.at(home, "GET", "/orders").WantDenied(t, "address")
	a := carol.at(work, "GET", "/orders")
	a.WantStatus(t, 200)
	if r := a.Remaining(t, "user"); r != 1 {
		t.Errorf("carol, after 4 requests and a denial: got Remaining %d, want 1", r)
	}
	bob.at(home, "GET", "/orders").WantDenied(t, "address") // the decision does not include the user
}

func TestNoValidToken(t *testing.T) {
	p := demotest.Start(t)
	other := demotest.Start(t) // with another secret
	forged := signIn(t, other, "alice")
	forged.p = p
	for name, c := range map[string]client{
		"none": {t, p, ""}, "garbage": {t, p, "Bearer garbage"}, "another secret": forged,
	} {
		t.Run(name, func(t *testing.T) {
			c.t = t
			a := c.at(home, "GET", "/orders")
			a.WantProblem(t, 401, "about:blank")
			a.WantField(t, "WWW-Authenticate", "Bearer")
			a.WantField(t, "RateLimit-Policy", flood+`, "address";q=8;w=60`)
		})
	}
	for range 8 - 3 {
		forged.at(home, "GET", "/orders").WantStatus(t, 401)
	}
	forged.at(home, "GET", "/orders").WantDenied(t, "address")
	p.Do(t, "POST", "/token").WantStatus(t, 400)
}

func TestFirstOf(t *testing.T) {
	p := demotest.Start(t)
	alice, nobody, forger := signIn(t, p, "alice"), client{t, p, ""}, client{t, p, "Bearer forged"}
	search := func(c client, addr string) *demotest.Answer { return c.at(addr, "GET", "/search") }

	search(forger, home).WantStatus(t, 200) // an invalid token counts for the address
	search(nobody, home).WantStatus(t, 200)
	search(forger, home).WantStatus(t, 200)
	search(nobody, home).WantDenied(t, "client")
	search(nobody, work).WantStatus(t, 200)

	demotest.Exhaust(t, core.PerMinute(3), func() *demotest.Answer { return search(alice, home) }).WantDenied(t, "client")
	search(alice, work).WantDenied(t, "client")
}

func TestJoin(t *testing.T) {
	p := demotest.Start(t)
	alice, bob := signIn(t, p, "alice"), signIn(t, p, "bob")
	save := func(c client, addr string) *demotest.Answer { return c.at(addr, "PUT", "/draft") }

	demotest.Exhaust(t, core.PerMinute(2), func() *demotest.Answer { return save(alice, home) }).WantDenied(t, "device")
	save(alice, work).WantStatus(t, 200)
	save(bob, home).WantStatus(t, 200)
}

func TestHints(t *testing.T) {
	demotest.RunHints(t, demotest.Start(t), "200 200 200 200 429", "HTTP/1.1 401 ", "your orders", "200 200 200 429", "found", "200 200 429", "saved")
}
