package gate_test

import (
	"bufio"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/internal/testkit"
)

func TestHostile(t *testing.T) {
	over := states{"hundred": denied(12 * time.Second)}
	a := start(setup{States: over, Opts: []gate.Option{gate.ExposeHeaders()}})
	long := strings.Repeat("a,", 450<<10)
	for _, field := range []string{"Accept", "X-Forwarded-For", "Access-Control-Request-Headers", "Authorization"} {
		t.Run("900 KB of "+field, func(t *testing.T) {
			if got := record(t, a, with(field, long)); got.Status != 429 || len(got.Body) > 1<<10 {
				t.Errorf("status is %d, the body has %d bytes; want 429 and less than 1 KiB", got.Status, len(got.Body))
			}
		})
	}
	t.Run("900 KB of key", func(t *testing.T) {
		a := start(setup{Rules: []core.Rule{core.SlidingLog("r", core.PerDay(1))}, Key: header("X-User")})
		for i, want := range []int{200, 429} {
			if got := record(t, a, with("X-User", long)); got.Status != want {
				t.Errorf("request %d has status %d, want %d, as with any key", i, got.Status, want)
			}
		}
	})
	t.Run("quotes on the wire", func(t *testing.T) {
		const text = `GET /v1/"<b>\n%22%00?q=%0d%0aX-A:+b HTTP/1.1` + "\r\nHost: x\r\n\r\n"
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		testkit.Must(t, err)
		got := record(t, a, r)
		if got.Status != 429 || strings.ContainsAny(got.Body, "<>") {
			t.Errorf("status is %d, body %s; want 429 and no markup", got.Status, got.Body)
		}
	})
	t.Run("bytes in the path", func(t *testing.T) {
		r := request("GET", "/")
		r.URL = &url.URL{Path: "/a\"b\\c\r\nX-A: b\x00\x7f\xff\u2028"}
		got := record(t, a, r)
		const want = `"instance":"/a%22b%5Cc%0D%0AX-A:%20b%00%7F%FF%E2%80%A8"`
		if got.Status != 429 || !strings.Contains(got.Body, want) {
			t.Errorf("status is %d, body %s\n\twant 429 with %s", got.Status, got.Body, want)
		}
	})
	a.CheckRan(t, 0)
}
