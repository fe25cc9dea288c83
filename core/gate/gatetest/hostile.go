package gatetest

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
)

func (s *suite) testHostile(t *testing.T) {
	over := states{"hundred": denied(12 * time.Second)}
	a := s.start(setup{states: over, opts: []gate.Option{gate.ExposeHeaders()}})
	server := httptest.NewServer(a)
	defer server.Close()

	long := strings.Repeat("a,", 450<<10)
	for _, field := range []string{"Accept", "X-Forwarded-For", "Access-Control-Request-Headers", "Authorization"} {
		t.Run("900 KB of "+field, func(t *testing.T) {
			r := request("GET", "/v1/orders")
			r.Header.Set(field, long)
			if got := send(t, server, r); got.status != 429 || len(got.body) > 1<<10 {
				t.Errorf("status is %d, the body has %d bytes; want 429 and less than 1 KiB", got.status, len(got.body))
			}
		})
	}
	t.Run("900 KB of key", func(t *testing.T) {
		a := s.start(setup{rules: []core.Rule{core.SlidingLog("r", core.PerDay(1))}, key: header("X-User")})
		for i, want := range []int{200, 429} {
			r := request("GET", "/")
			r.Header.Set("X-User", long)
			if got := record(t, a, r); got.status != want {
				t.Errorf("request %d has status %d, want %d, as with any key", i, got.status, want)
			}
		}
	})
	t.Run("quotes on the wire", func(t *testing.T) {
		got := raw(t, server, `GET /v1/"<b>\n%22%00?q=%0d%0aX-A:+b HTTP/1.1`)
		if got.status != 429 || strings.ContainsAny(got.body, "<>") {
			t.Errorf("status is %d, body %s; want 429 and no markup", got.status, got.body)
		}
	})
	t.Run("bytes in the path", func(t *testing.T) {
		r := request("GET", "/")
		r.URL = &url.URL{Path: "/a\"b\\c\r\nX-A: b\x00\x7f\xff\u2028"}
		got := record(t, a, r)
		const want = `"instance":"/a%22b%5Cc%0D%0AX-A:%20b%00%7F%FF%E2%80%A8"`
		if got.status != 429 || !strings.Contains(got.body, want) {
			t.Errorf("status is %d, body %s\n\twant 429 with %s", got.status, got.body, want)
		}
	})
	a.checkRan(t, 0)
}

// raw sends a request line unchanged.
func raw(t *testing.T, server *httptest.Server, line string) reply {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "%s\r\nHost: x\r\nConnection: close\r\n\r\n", line)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return readReply(t, resp)
}
