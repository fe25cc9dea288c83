package frameworks_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"
	echov4 "github.com/labstack/echo/v4"
	echov5 "github.com/labstack/echo/v5"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"golang.org/x/oauth2"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/echolimit"
	echolimitv5 "github.com/weir-go/weir/echolimit/v5"
	"github.com/weir-go/weir/ginlimit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
	"github.com/weir-go/weir/nethttplimit/client"
)

// A client of a server with each adapter gets all of its requests admitted, each at the latest at the first attempt
// after a pause. oauth2 and otelhttp may be inside or around the Transport.
func TestClient(t *testing.T) {
	servers := map[string]func(l *core.Limiter) http.Handler{
		"net/http": func(l *core.Limiter) http.Handler {
			return nethttplimit.New(l, keyfunc.Constant("all"))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { hello(w, r) }))
		},
		"Gin": func(l *core.Limiter) http.Handler {
			gin.SetMode(gin.TestMode)
			e := gin.New()
			e.GET("/", ginlimit.New(l, keyfunc.Constant("all")), gin.WrapF(hello))
			return e
		},
		"Echo v4": func(l *core.Limiter) http.Handler {
			e := echov4.New()
			e.GET("/", echov4.WrapHandler(http.HandlerFunc(hello)), echolimit.New(l, keyfunc.Constant("all")))
			return e
		},
		"Echo v5": func(l *core.Limiter) http.Handler {
			e := echov5.New()
			e.GET("/", echov5.WrapHandler(http.HandlerFunc(hello)), echolimitv5.New(l, keyfunc.Constant("all")))
			return e
		},
	}
	token := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "secret"})
	stacks := map[string]func(tr *client.Transport, base http.RoundTripper) http.RoundTripper{
		"plain": func(tr *client.Transport, base http.RoundTripper) http.RoundTripper {
			tr.Base = base
			return tr
		},
		"inside oauth2 and otelhttp": func(tr *client.Transport, base http.RoundTripper) http.RoundTripper {
			tr.Base = base
			return otelhttp.NewTransport(&oauth2.Transport{Source: token, Base: tr})
		},
		"around oauth2 and otelhttp": func(tr *client.Transport, base http.RoundTripper) http.RoundTripper {
			tr.Base = &oauth2.Transport{Source: token, Base: otelhttp.NewTransport(base)}
			return tr
		},
	}
	for server, handler := range servers {
		for name, stack := range stacks {
			t.Run(server+", "+name, func(t *testing.T) {
				t.Parallel()
				api := core.Must(core.New(memstore.New(), core.FixedWindow("api", core.PerSecond(2)).FromFirst()))
				s := httptest.NewServer(handler(api))
				defer s.Close()
				calls := &counting{}
				l := core.Must(core.New(memstore.New(), core.Pause("pause"), core.InFlight("calls", 1)))
				tr := client.New(l, client.ByHost)
				tr.Retries = 1
				c := http.Client{Transport: stack(tr, calls)}
				for range 4 {
					r, err := c.Get(s.URL)
					if err != nil {
						t.Fatal(err)
					}
					if text, err := io.ReadAll(r.Body); err != nil || r.StatusCode != 200 || string(text) != "hello" {
						t.Fatalf("got %d, %q, %v", r.StatusCode, text, err)
					}
				}
				if n := calls.limited.Load(); n != 1 {
					t.Errorf("%d responses were 429, want 1", n)
				}
			})
		}
	}
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

// counting counts responses with 429.
type counting struct{ limited atomic.Int64 }

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusTooManyRequests {
		c.limited.Add(1)
	}
	return response, err
}
