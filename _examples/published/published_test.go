package published

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
)

// A step is n requests, of which want are admitted. In user, request and addr, %d is the number of the request divided
// by each, and %p a prompt.
type step struct {
	wait    time.Duration // before the first request
	every   time.Duration // between the requests; 0 sends them at one moment
	user    string        // without one, the request has the address addr
	addr    string
	request string // method, target and body
	n, each int
	atOnce  bool // in goroutines
	want    int
	field   string // "Name: value" of the last response
}

// steps are the documented behaviour of each service. The clock begins on 2000-01-01 at midnight UTC, a Saturday.
var steps = map[string][]step{
	"github": {
		// 5000 an hour from the first request, and no more than 900 points a minute.
		{wait: 50 * time.Minute, user: "ann", request: "GET /user", n: 901, want: 900, field: "Retry-After: 61"},
		{wait: 61 * time.Second, user: "ann", request: "GET /user", n: 900, want: 900},
		{wait: 61 * time.Second, user: "ann", request: "GET /user", n: 900, want: 900},
		{wait: 61 * time.Second, user: "ann", request: "GET /user", n: 900, want: 900},
		{wait: 61 * time.Second, user: "ann", request: "GET /user", n: 900, want: 900},
		{wait: 61 * time.Second, user: "ann", request: "GET /user", n: 501, want: 500, field: "X-RateLimit-Reset: " + unix(110*time.Minute)},
		{user: "ann", request: "GET /search/code", n: 31, want: 30}, // another resource
		{wait: 55*time.Minute - 6*time.Second, user: "ann", request: "GET /user", n: 1, want: 0, field: "Retry-After: 1"},
		{wait: time.Second, user: "ann", request: "GET /user", n: 1, want: 1, field: "X-RateLimit-Remaining: 4999"},
		{user: "bob", request: "GET /user?status=304", n: 800, want: 800},
		{user: "bob", request: "GET /user", n: 1, want: 1, field: "X-RateLimit-Remaining: 4999"},
		{user: "bob", request: "GET /user", n: 200, want: 99}, // a 304 costs its point
		{user: "cid", request: "PUT /user/starred/o/r", n: 300, want: 180},
		{user: "dan", request: "POST /repos/o/r/issues", n: 81, want: 80},
		{user: "dee", request: "POST /repos/o/r/issues", n: 501, every: time.Second, want: 500},
		{user: "eve", request: "GET /user?takes=1s", n: 101, atOnce: true, want: 100},
		{user: "eve", request: "GET /user", n: 1, want: 1},
		{user: "enterprise.fay", request: "GET /user", n: 1, want: 1, field: "X-RateLimit-Limit: 15000"},
	},
	"slack": {
		{user: "ann", request: "GET /api/apps.connections.open", n: 2, want: 1, field: "Retry-After: 60"},
		{user: "ann", request: "GET /api/users.list", n: 21, want: 20},
		{user: "ann", request: "GET /api/conversations.list", n: 21, want: 20}, // the same tier, counted apart
		{user: "ann", request: "GET /api/chat.update", n: 51, want: 50},
		{user: "ann", request: "GET /api/users.info", n: 101, want: 100},
		{user: "ann", request: `POST /api/chat.postMessage {"channel":"C1"}`, n: 2, want: 1, field: "Retry-After: 1"},
		{user: "ann", request: `POST /api/chat.postMessage {"channel":"C2"}`, n: 2, want: 1},
		{wait: time.Second, user: "ann", request: `POST /api/chat.postMessage {"channel":"C1"}`, n: 2, want: 1},
		{user: "ann", request: "GET /api/conversations.history", n: 51, want: 50},
		{user: "unlisted.bob", request: "GET /api/conversations.history", n: 2, want: 1},
	},
	"openai": {
		{user: "ann", request: `POST /v1 {"max_tokens":100}`, n: 501, want: 500},
		{user: "bob", request: `POST /v1?input=100&output=100 {"max_tokens":5000}`, n: 60, want: 60}, // 300 000 estimated, 12 000 used
		{user: "cid", request: `POST /v1?output=300010 {"max_tokens":10}`, n: 2, want: 1, field: "Retry-After: 31"},
		{user: "dan", request: `POST /v1 {"max_tokens":200001}`, n: 1, want: 0, field: "Retry-After: "},
		{user: "tier2.eve", request: `POST /v1 {"max_tokens":2000000}`, n: 1, want: 1},
		{user: "tier2.eve", request: `POST /v1 {"max_tokens":2000001}`, n: 1, want: 0, field: "Retry-After: "},
		{user: "fay", request: `POST /v1 {"max_tokens":10}`, n: 10300, every: 125 * time.Millisecond, want: 10149}, // 10 000 a day, and the refill
	},
	"anthropic": {
		{user: "ann", request: `POST /v1/messages {"max_tokens":64000}`, n: 51, want: 50, field: "Retry-After: 2"},
		{user: "bob", request: `POST /v1/messages?input=10000 {"prompt":"%p"}`, n: 4, want: 3, field: "Retry-After: 1"}, // the bucket is empty, so the body is not read
		{user: "bea", request: `POST /v1/messages {"prompt":"%p%p%p%p"}`, n: 1, want: 0, field: "Retry-After: "},
		{user: "cid", request: `POST /v1/messages?input=10000&cached=9990 {"prompt":"%p"}`, n: 40, want: 40}, // cached input is free
		{user: "dan", request: `POST /v1/messages?output=9000 {"max_tokens":64000}`, n: 2, want: 1, field: "Retry-After: 8"},
		{wait: 8 * time.Second, user: "dan", request: `POST /v1/messages?output=1 {}`, n: 1, want: 1},
		{user: "tier2.eve", request: `POST /v1/messages?input=10000 {"prompt":"%p"}`, n: 46, want: 45},
	},
	"x": {
		{wait: 14*time.Minute + 50*time.Second, user: "ann@reader", request: "GET /2/tweets/1", n: 901, want: 900, field: "X-RateLimit-Reset: " + unix(29*time.Minute+50*time.Second)},
		{wait: 20 * time.Second, user: "ann@reader", request: "GET /2/tweets/1", n: 1, want: 0, field: "Retry-After: 880"}, // after 0:15
		{wait: 880 * time.Second, user: "ann@reader", request: "GET /2/tweets/1", n: 901, want: 900},
		{user: "ann@reader", request: "GET /2/tweets/search/recent", n: 301, want: 300},
		{user: "app.reader", request: "GET /2/tweets/1", n: 451, want: 450},
		{user: "app.reader", request: "GET /2/tweets/search/recent", n: 451, want: 450},
		{user: "ann@reader", request: "POST /2/tweets", n: 101, want: 100},
		{user: "u%d@reader", request: "POST /2/tweets", n: 10050, each: 100, want: 9900}, // 10 000 of the app
		{user: "u0@writer", request: "POST /2/tweets", n: 1, want: 1},
	},
	"shopify": {
		{user: "ann", request: "GET /admin/api/2026-01/orders.json", n: 40, want: 40, field: "X-Shopify-Shop-Api-Call-Limit: 40/40"},
		{user: "ann", request: "GET /admin/api/2026-01/orders.json", n: 1, want: 0},
		{wait: 5 * time.Second, user: "ann", request: "GET /admin/api/2026-01/orders.json", n: 20, want: 10},
		{user: "plus.bob", request: "GET /admin/api/2026-01/orders.json", n: 401, want: 400},
		{user: "cid", request: `POST /admin/api/2026-01/graphql.json?actual=120 {"query":"{ products(first: 998) { id } }"}`, n: 1, want: 1},
		{user: "cid", request: `POST /admin/api/2026-01/graphql.json {"query":"{ products(first: 1879) { id } }"}`, n: 1, want: 0},
		{user: "cid", request: `POST /admin/api/2026-01/graphql.json?actual=1880 {"query":"{ products(first: 1878) { id } }"}`, n: 1, want: 1}, // 1880 were left
		{wait: time.Second, user: "cid", request: `POST /admin/api/2026-01/graphql.json?actual=2 {"query":"{ shop { name } }"}`, n: 100, want: 50},
	},
	"twilio": {
		{request: "POST /Messages.json?From=15550100", n: 14400, want: 14400, field: "Send-After: 3h59m59s"},
		{request: "POST /Messages.json?From=15550100", n: 1, want: 0, field: "Retry-After: 1"},
		{wait: 10 * time.Second, request: "POST /Messages.json?From=15550100&segments=3", n: 4, want: 3},
		{request: "POST /Messages.json?From=15550101", n: 1, want: 1, field: "Send-After: 0s"},
		{request: "POST /Messages.json?From=12345&kind=short-code", n: 101, want: 101, field: "Send-After: 1s"},
	},
	"reddit": {
		{wait: time.Minute, user: "ann", request: "GET /r/golang/new", n: 1001, want: 1000, field: "Retry-After: 540"},
		{wait: 9 * time.Minute, user: "ann", request: "GET /r/golang/new", n: 1, want: 1},
		{user: "no-oauth.bob", request: "GET /r/golang/new", n: 101, want: 100},
	},
	"dockerhub": {
		{addr: "[2001:db8:1:2::%d]:1", request: "GET /v2/library/alpine/manifests/latest", n: 101, want: 100}, // a /64
		{addr: "[2001:db8:1:2::1]:1", request: "HEAD /v2/library/alpine/manifests/latest", n: 1000, want: 1000},
		{addr: "192.0.2.%d:1", request: "GET /v2/library/alpine/manifests/latest", n: 101, want: 101},
		{user: "personal.ann", request: "GET /v2/library/alpine/manifests/latest", n: 201, want: 200, field: `RateLimit-Policy: "pulls";q=200;w=21600`},
		{user: "pro.bob", request: "GET /v2/library/alpine/manifests/latest", n: 1000, want: 1000},
	},
	"letsencrypt": {
		{user: "ann", request: "POST /new-order?names=d%d.example", n: 301, want: 300, field: "Retry-After: 36"},
		{user: "b%d", request: "POST /new-order?names=h%d.example.com", n: 51, want: 50, field: "Retry-After: 12096"}, // 201.6 min
		{user: "cid", request: "POST /new-order?names=example.org,www.example.org", n: 6, want: 5, field: "Retry-After: 120960"},
		{user: "dan", request: "POST /validated?names=a.example.net&failed", n: 5, want: 5},
		{user: "dan", request: "POST /new-order?names=b.example.net", n: 1, want: 1},
		{user: "dan", request: "POST /new-order?names=a.example.net", n: 1, want: 0, field: "Retry-After: 720"},
		{user: "ann", request: "POST /new-order?names=a.example.edu", n: 1, want: 0},                                   // her orders are used up
		{user: "eve", request: "POST /new-order?names=a.example.edu", n: 6, want: 5},                                   // the set was not charged
		{user: "eve", request: "POST /validated?names=e.example&failed", n: 1160, every: 12 * time.Minute, want: 1160}, // in 9.7 days
		{user: "eve", request: "POST /new-order?names=e.example", n: 1, want: 1},
		{wait: 12 * time.Minute, user: "eve", request: "POST /validated?names=e.example&failed", n: 1, want: 1},
		{user: "eve", request: "POST /new-order?names=e.example", n: 1, want: 0}, // 1152, and one a day
		{user: "eve", request: "POST /validated?names=e.example", n: 1, want: 1}, // a success
		{user: "eve", request: "POST /new-order?names=e.example", n: 1, want: 1},
		{addr: "192.0.2.1:1", request: "POST /new-account", n: 11, want: 10, field: "Retry-After: 1080"},
		{addr: "[2001:db8:1:%d::1]:1", request: "POST /new-account", n: 600, each: 10, want: 500},
	},
	"youtube": {
		{user: "ann", request: "GET /youtube/v3/search", n: 101, want: 100, field: "Retry-After: 28800"},
		{wait: 8*time.Hour - time.Second, user: "ann", request: "GET /youtube/v3/videos", n: 1, want: 0},
		{wait: time.Second, user: "ann", request: "GET /youtube/v3/videos?status=400", n: 1, want: 1}, // midnight of California
		{user: "bob", request: "POST /youtube/v3/videos", n: 7, want: 6},
		{user: "bob", request: "PUT /youtube/v3/videos", n: 9, want: 8}, // 400 units were left
	},
	"stripe": {
		{user: "ann", request: "GET /v1/customers", n: 101, want: 100, field: "Retry-After: 1"},
		{user: "ann", request: "POST /v1/customers", n: 101, want: 100},
		{wait: time.Second, user: "ann", request: "POST /v1/files", n: 21, want: 20},
		{user: "ann", request: "POST /v1/customers", n: 81, want: 80}, // files count, too
		{user: "ann", request: "GET /v1/files/f_1", n: 21, want: 20},
		{user: "ann", request: "GET /v1/customers/search", n: 21, want: 20},
		{user: "ann", request: "GET /v1/customers", n: 61, want: 60},
		{user: "test.ann", request: "GET /v1/customers", n: 26, want: 25},
	},
	"mastodon": {
		{user: "ann", request: "POST /api/v1/media", n: 31, want: 30, field: "X-RateLimit-Limit: 30"},
		{user: "ann", request: "GET /api/v1/timelines/home", n: 271, want: 270, field: "X-RateLimit-Limit: 300"},
		{wait: 5 * time.Minute, user: "ann", request: "GET /api/v1/timelines/home", n: 1, want: 1},
		{user: "ann", request: "POST /api/v2/media", n: 1, want: 0, field: "Retry-After: 1500"},
		{user: "ann", request: "DELETE /api/v1/statuses/1", n: 15, want: 15},
		{user: "ann", request: "POST /api/v1/statuses/1/unreblog", n: 16, want: 15},
		{wait: 5 * time.Minute, user: "u%d", request: "GET /api/v1/timelines/home", n: 7600, each: 300, want: 7500}, // of an address
		{wait: 5 * time.Minute, user: "app", request: "POST /api/v1/accounts", n: 6, want: 5, field: "Retry-After: 900"},
	},
	"aws": {
		{user: "ann", request: "GET /", n: 100, want: 20, field: "Retry-After: 1"},
		{wait: 100 * time.Millisecond, user: "ann", request: "GET /", n: 981, every: 100 * time.Millisecond, want: 980, field: "Retry-After: 2678302"}, // the month
		{user: "gold.bob", request: "GET /", n: 201, want: 200},
		{user: "cid", request: "GET /search", n: 6, want: 5},
		{user: "cid", request: "GET /", n: 16, want: 15}, // searches count, too
		{wait: time.Second, user: "k%d", request: "GET /", n: 5100, each: 20, want: 5000},
	},
	"discord": {
		{wait: 2 * time.Second, user: "bot", request: "POST /channels/%d/messages", n: 60, each: 5, want: 50}, // 12 channels
		{wait: 5 * time.Second, user: "bot", request: "POST /channels/0/messages", n: 6, want: 5, field: "Retry-After: 5"},
		{user: "bot", request: "POST /interactions/1/token/callback", n: 100, want: 100},
		{user: "bot", request: "GET /users/@me", n: 46, want: 45},
		{wait: 11 * time.Minute, user: "b%d", request: "GET /users/@me?status=403", n: 9990, each: 50, want: 9990},
		{user: "b0", request: "GET /users/@me", n: 10, want: 0}, // over the 50 a second
		{user: "new", request: "GET /users/@me", n: 1, want: 0}, // 10 000 of the address
	},
}

// prompt makes {"prompt":"%p"} a body of 40 000 bytes, which are 10 000 tokens.
var prompt = strings.Repeat("p", 40000-len(`{"prompt":""}`))

func unix(d time.Duration) string {
	return strconv.FormatInt(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d).Unix(), 10)
}

func TestServices(t *testing.T) {
	for name, service := range services {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(name + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				config, err := rules.Parse(name+".yaml", data)
				if err != nil {
					t.Fatal(err)
				}
				set, err := rules.New(memstore.New(), config)
				if err != nil {
					t.Fatal(err)
				}
				h := service(set, http.HandlerFunc(answer))
				mux := http.NewServeMux()
				for pattern := range config.Routes {
					mux.Handle(pattern, h)
				}
				if config.Routes["/"] == "" {
					mux.Handle("/", h)
				}
				for i, s := range steps[name] {
					s.run(t, fmt.Sprintf("step %d: %s %s", i, s.user+s.addr, s.request), mux)
				}
			})
		})
	}
}

// answer has the status and takes the time that the request asks for.
func answer(w http.ResponseWriter, r *http.Request) {
	takes, _ := time.ParseDuration(r.FormValue("takes"))
	time.Sleep(takes)
	status, _ := strconv.Atoi(r.FormValue("status"))
	w.WriteHeader(max(status, 200))
}

func (s step) run(t *testing.T, name string, h http.Handler) {
	time.Sleep(s.wait)
	got := make([]*httptest.ResponseRecorder, s.n)
	var running sync.WaitGroup
	for i := range got {
		if i > 0 {
			time.Sleep(s.every)
		}
		fill := strings.NewReplacer("%d", strconv.Itoa(i/max(s.each, 1)), "%p", prompt).Replace
		parts := strings.SplitN(fill(s.request)+"  ", " ", 3)
		r := httptest.NewRequest(parts[0], parts[1], strings.NewReader(strings.TrimSpace(parts[2])))
		if s.addr != "" {
			r.RemoteAddr = fill(s.addr)
		} else if s.user != "" {
			r.SetBasicAuth(fill(s.user), "")
		}
		got[i] = httptest.NewRecorder()
		if s.atOnce {
			running.Go(func() { h.ServeHTTP(got[i], r) })
		} else {
			h.ServeHTTP(got[i], r)
		}
	}
	running.Wait()
	admitted := 0
	for _, w := range got {
		switch {
		case w.Code == http.StatusTooManyRequests:
		case w.Code == http.StatusUnauthorized || w.Code == http.StatusNotFound || w.Code >= 500:
			t.Fatalf("%s: got status %d: %s", name, w.Code, w.Body)
		default:
			admitted++
		}
	}
	if admitted != s.want {
		t.Errorf("%s: got %d of %d admitted, want %d", name, admitted, s.n, s.want)
	}
	if key, value, ok := strings.Cut(s.field, ": "); ok && got[s.n-1].Header().Get(key) != value {
		t.Errorf("%s: got %s %q, want %q", name, key, got[s.n-1].Header().Get(key), value)
	}
}

// weir check accepts the files, and each has a middleware, a test and a row in the README.
func TestFiles(t *testing.T) {
	files, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", slices.Concat([]string{"tool", "weir", "check"}, files)...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".yaml")
		if services[name] == nil || len(steps[name]) == 0 || !strings.Contains(string(readme), "]("+file+")") {
			t.Errorf("%s has no middleware, no steps or no row in the README", file)
		}
	}
	if len(files) != len(services) {
		t.Errorf("got %d files and %d services", len(files), len(services))
	}
}
