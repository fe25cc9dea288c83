package gate_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// A proxy in an exempt network exempts its clients if the address is that of the peer, which is logged once.
func TestExempt_Proxy(t *testing.T) {
	const text = "gate.Exempt exempts all clients of a proxy"
	remote, forwarded := keyfunc.RemoteIP(), keyfunc.XForwardedFor(keyfunc.Proxies("10.0.0.5", "2001:db8::5"))
	for name, c := range map[string]struct {
		resolver keyfunc.Func
		peer     string
		field    string
		warning  string
	}{
		"a proxy":                     {remote, "10.0.0.5:1", "X-Forwarded-For: 203.0.113.9", "10.0.0.5"},
		"a proxy with Forwarded":      {remote, "10.0.0.5:1", "Forwarded: for=203.0.113.9", "10.0.0.5"},
		"a proxy with X-Real-IP":      {remote, "10.0.0.5:1", "X-Real-Ip: 203.0.113.9", "10.0.0.5"},
		"a proxy in IPv6":             {remote, "[2001:db8::5]:1", "X-Forwarded-For: 203.0.113.9", "2001:db8::5"},
		"a mapped proxy":              {remote, "[::ffff:10.0.0.5]:1", "X-Forwarded-For: 203.0.113.9", "10.0.0.5"},
		"another proxy":               {forwarded, "10.0.0.6:1", "X-Forwarded-For: 203.0.113.9", "10.0.0.6"},
		"an exempt client":            {forwarded, "10.0.0.5:1", "X-Forwarded-For: 10.0.0.9", ""},
		"an exempt client in IPv6":    {forwarded, "[2001:db8::5]:1", "X-Forwarded-For: 10.0.0.9", ""},
		"a client that is not exempt": {forwarded, "10.0.0.5:1", "X-Forwarded-For: 203.0.113.9", ""},
		"a client without a proxy":    {remote, "10.0.0.9:1", "Accept: */*", ""},
		"a health check of a proxy":   {forwarded, "10.0.0.5:1", "Accept: */*", ""},
		"a public peer":               {remote, "203.0.113.9:1", "X-Forwarded-For: 10.0.0.9", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := nethttplimit.Limit(memstore.New(), core.SlidingLog("r", core.PerDay(1)), remote, gate.Exempt(c.resolver, "10.0.0.0/8", "2001:db8::/32"))(http.NotFoundHandler())
			log := logged(t, func() {
				for range 3 {
					r := httptest.NewRequest("GET", "/", nil)
					r.RemoteAddr = c.peer
					field, value, _ := strings.Cut(c.field, ": ")
					r.Header.Set(field, value)
					h.ServeHTTP(httptest.NewRecorder(), r)
				}
			})
			want := 0
			if c.warning != "" {
				want = 1
			}
			if n := strings.Count(log, text); n != want || !strings.Contains(log, c.warning) || strings.Contains(log, "203.0.113.9") {
				t.Errorf("got %d warnings, want %d: %s", n, want, log)
			}
		})
	}
}
