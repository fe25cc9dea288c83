package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// each runs test for every framework, at a time that stands still.
func each(t *testing.T, test func(t *testing.T, framework string)) {
	t.Helper()
	for _, framework := range []string{"nethttp", "gin", "echo"} {
		t.Run(framework, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, framework) })
		})
	}
}

// post sends h the question in body.
func post(h http.Handler, user, body string) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest("POST", "/chat", strings.NewReader(body)), httptest.NewRecorder()
	r.Header.Set("X-API-Key", "key-of-"+user)
	h.ServeHTTP(w, r)
	return w
}

// ask returns a question.
func ask(prompt string, maxTokens int, stream bool) string {
	return fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"stream":%v}`, prompt, maxTokens, stream)
}

// limits returns the limiters of user by the names of their rules, and the keys.
func limits(t *testing.T, store core.Store, user string) (all map[string]*core.Limiter, keys map[string]string) {
	t.Helper()
	r := httptest.NewRequest("POST", "/chat", nil)
	r.Header.Set("X-API-Key", "key-of-"+user)
	all, keys = make(map[string]*core.Limiter), make(map[string]string)
	for _, b := range newBudgets(store) {
		key, err := b.key(t.Context(), r)
		demotest.Must(t, err)
		for _, l := range []*core.Limiter{b.requests, b.tokens, b.money} {
			name := l.Rules()[0].Name()
			all[name], keys[name] = l, key
		}
	}
	return all, keys
}

// used returns the used units of user by rule, except for rules without any.
func used(t *testing.T, store core.Store, user string) map[string]int {
	t.Helper()
	found := make(map[string]int)
	all, keys := limits(t, store, user)
	for name, l := range all {
		d, err := l.Peek(t.Context(), keys[name])
		demotest.Must(t, err)
		if n := d.State(0).Used(); n > 0 {
			found[name] = n
		}
	}
	return found
}

// wantUsed fails the test unless user has used one request and u, in all budgets.
func wantUsed(t *testing.T, store core.Store, user string, u usage) {
	t.Helper()
	want := make(map[string]int)
	for _, level := range []string{"user", "team", "org"} {
		want[level+"-requests"] = 1
		if u != (usage{}) {
			want[level+"-tokens"], want[level+"-money"] = u.tokens(), u.money()
		}
	}
	if got := used(t, store, user); !maps.Equal(got, want) {
		t.Errorf("%s: got %v used, want %v", user, got, want)
	}
}

// A request that one of the nine limits denies is charged to none of the others.
func TestOneDecision(t *testing.T) {
	each(t, func(t *testing.T, framework string) {
		all, keys := limits(t, memstore.New(), "ann")
		for name := range all {
			store := memstore.New()
			all, _ := limits(t, store, "ann")
			full := all[name].Rules()[0].Capacity()
			demotest.Must(t, all[name].Debit(t.Context(), keys[name], full))
			w := post(newHandler(framework, store, blah), "ann", ask("why", 10, false))
			if w.Code != 429 || !strings.Contains(w.Body.String(), fmt.Sprintf(`"violated-policies":[%q]`, name)) || w.Header().Get("Retry-After") == "" {
				t.Errorf("%s: got %d, %s, want a denial with Retry-After", name, w.Code, w.Body)
			}
			if got, want := used(t, store, "ann"), map[string]int{name: full}; !maps.Equal(got, want) {
				t.Errorf("%s: got %v used, want %v", name, got, want)
			}
		}
	})
}

// The usage of all budgets after one request.
func TestSettle(t *testing.T) {
	down := errors.New("secret.internal is down")
	const prompt = "why is the sky blue" // estimated at 5 tokens
	for _, c := range []struct {
		name   string
		stream bool
		sends  int    // tokens of the answer, of 400
		names  *usage // by the model
		fails  error
		gone   bool // the client, after these tokens
		want   usage
		status int
		body   string
	}{
		{"lower", false, 10, &usage{6, 10}, nil, false, usage{6, 10}, 200, "(16 tokens, 168 millionths of a dollar)"},
		{"higher", false, 10, &usage{90, 500}, nil, false, usage{90, 500}, 200, "(590 tokens, "},
		{"no usage", false, 10, nil, nil, false, usage{5, 400}, 200, "(405 tokens, "},
		{"failure", false, 0, nil, down, false, usage{}, 502, "the model does not answer"},
		{"failure of a part", false, 10, nil, down, false, usage{5, 10}, 502, "the model does not answer"},
		{"gone", false, 0, nil, nil, true, usage{5, 0}, 502, ""},
		{"gone, part", false, 10, nil, nil, true, usage{5, 10}, 502, ""},
		{"stream, lower", true, 110, &usage{6, 110}, nil, false, usage{6, 110}, 200, "(done)"},
		{"stream, lower than its blocks", true, 110, &usage{6, 20}, nil, false, usage{6, 100}, 200, "(done)"}, // only the last one is refunded
		{"stream, higher", true, 110, &usage{90, 300}, nil, false, usage{90, 300}, 200, "(done)"},
		{"stream, no usage", true, 110, nil, nil, false, usage{5, 150}, 200, "(done)"}, // three blocks
		{"stream, no answer", true, 0, &usage{6, 0}, nil, false, usage{6, 0}, 200, "(done)"},
		{"stream, failure", true, 0, nil, down, false, usage{}, 502, "the model does not answer"},
		{"stream, failure of a part", true, 110, nil, down, false, usage{5, 110}, 200, "(the answer is not complete)"},
		{"stream, gone", true, 0, nil, nil, true, usage{5, 0}, 502, ""},
		{"stream, gone, part", true, 110, nil, nil, true, usage{5, 110}, 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, framework string) {
				ctx, hangUp := context.WithCancel(t.Context())
				store := memstore.New()
				h := newHandler(framework, store, func(ctx context.Context, _ question, send func(string) error) (*usage, error) {
					for range c.sends {
						if err := send("blah "); err != nil {
							return nil, err
						}
					}
					if c.gone {
						hangUp()
						return nil, fmt.Errorf("model: %w", ctx.Err())
					}
					return c.names, c.fails
				})
				w := post(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r.WithContext(ctx)) }),
					"ann", ask(prompt, 400, c.stream))
				if body := w.Body.String(); w.Code != c.status || !strings.Contains(body, c.body) || strings.Contains(body, "internal") {
					t.Errorf("got %d, %s, want %d, %s", w.Code, body, c.status, c.body)
				}
				wantUsed(t, store, "ann", c.want)
			})
		})
	}
}

// Bodies of clients that try to pass the limits.
func TestBody(t *testing.T) {
	for _, c := range []struct {
		name, body string
		status     int
		text       string
		tokens     int // that are charged at first
	}{
		{"missing", `{"prompt":"why"}`, 200, "(201 tokens", 401},
		{"zero", `{"prompt":"why","max_tokens":0}`, 200, "(201 tokens", 401},
		{"null", `{"prompt":"why","max_tokens":null}`, 200, "(201 tokens", 401},
		{"twice", `{"prompt":"why","max_tokens":1,"MAX_TOKENS":100}`, 200, "(51 tokens", 101},
		{"negative", `{"prompt":"why","max_tokens":-1000}`, 400, "with prompt, max_tokens and stream", 1},
		{"huge", `{"prompt":"why","max_tokens":9223372036854775807}`, 413, "more than the policy ever allows", 0},
		{"too large for an integer", `{"prompt":"why","max_tokens":9223372036854775808}`, 400, "", 1},
		{"fraction", `{"prompt":"why","max_tokens":0.5}`, 400, "", 1},
		{"text", `{"prompt":"why","max_tokens":"many"}`, 400, "", 1},
		{"stream that is no bool", `{"prompt":"why","stream":"no"}`, 400, "", 1},
		{"stream twice", `{"prompt":"why","stream":true,"stream":false}`, 200, "(201 tokens", 401},
		{"no JSON", `why is the sky blue`, 400, "", 1},
		{"nothing", ``, 400, "", 1},
		{"no prompt", `null`, 502, "the model does not answer", 400},
		{"prompt that never fits", ask(strings.Repeat("a", 20_000), 1, false), 413, "more than the policy ever allows", 0},
		{"too long", ask(strings.Repeat("a", maxBody), 1, false), 413, "Request Entity Too Large", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, framework string) {
				w := post(newHandler(framework, memstore.New(), blah), "ann", c.body)
				if w.Code != c.status || !strings.Contains(w.Body.String(), c.text) {
					t.Errorf("got %d, %s, want %d, %s", w.Code, w.Body, c.status, c.text)
				}
				var requests, tokens, ignored int
				_, _ = fmt.Sscanf(w.Header().Get("RateLimit"), `"user-requests";r=%d;t=%d, "user-tokens";r=%d`, &requests, &ignored, &tokens)
				if 4000-tokens != c.tokens {
					t.Errorf("got %d tokens charged, want %d", 4000-tokens, c.tokens)
				}
			})
		})
	}
}

// The team and the organization are those of the key, whatever a client sends.
func TestIdentity(t *testing.T) {
	each(t, func(t *testing.T, framework string) {
		store := memstore.New()
		h := newHandler(framework, store, func(context.Context, question, func(string) error) (*usage, error) { return &usage{1, 2}, nil })
		if w := post(h, "mallory", ask("why", 10, false)); w.Code != 401 {
			t.Errorf("got %d for an unknown key, want 401", w.Code)
		}
		post(h, "dave", `{"prompt":"why","user":"user:ann","team":"team:acme/red","org":"org:acme"}`)
		wantUsed(t, store, "dave", usage{1, 2})
		if got := used(t, store, "ann"); len(got) > 0 {
			t.Errorf("got %v used by ann, want nothing", got)
		}
	})
}

// Streams end at the token that uses up a budget: of a user, a team or an organization.
func TestStream(t *testing.T) {
	each(t, func(t *testing.T, framework string) {
		store := memstore.New()
		h := newHandler(framework, store, blah)
		const prompt = 9 // price of three tokens
		for _, c := range []struct{ user, level string }{{"ann", "user"}, {"bob", "team"}, {"carol", "org"}} {
			left := map[string]int{"user": 30_000, "team": 45_000, "org": 60_000}[c.level] - used(t, store, c.user)[c.level+"-money"]
			w := post(h, c.user, ask("tell me all", 5000, true))
			want, end := (left-prompt)/answerPrice, "("+c.level+"-money used up, retry after "
			if n := strings.Count(w.Body.String(), "blah"); w.Code != 200 || n != want || !strings.Contains(w.Body.String(), end) {
				t.Errorf("%s: got %d and %d tokens, want %d: %.60q", c.user, w.Code, n, want, w.Body.String()[n*5:])
			}
		}
		before := used(t, store, "carol")
		if got := before["org-money"]; got != 59_997 {
			t.Errorf("got %d of 60000 used, want 59997", got)
		}
		// The rest is the price of a prompt, but not of a token of the answer: the model is not called.
		w := post(h, "carol", ask("a", 5000, true))
		before["user-requests"]++
		before["team-requests"]++
		before["org-requests"]++
		if got := used(t, store, "carol"); w.Code != 429 || !maps.Equal(got, before) {
			t.Errorf("got %d and %v used, want 429 and %v", w.Code, got, before)
		}
	})
}

// During an outage of the store, no token is forwarded without a budget: neither of a new answer, nor after
// the block that a stream has. The client does not get the text of the error.
func TestOutage(t *testing.T) {
	const secret = "redis-7.internal"
	for _, c := range []struct {
		stream                bool
		calls, status, tokens int
		body                  string
	}{
		{false, 0, 503, 0, ""}, // the gate asks before and after it reads the body
		{false, 1, 503, 0, ""},
		{true, 1, 503, 0, ""},
		{true, 2, 503, 0, ""}, // the stream asks for each block
		{true, 3, 200, block, "(the budget cannot be checked, try again)"},
	} {
		each(t, func(t *testing.T, framework string) {
			fake := new(storetest.Fake)
			fake.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
				if fake.Calls() > c.calls {
					return fmt.Errorf("%w: dial %s", core.ErrUnavailable, secret)
				}
				return next(ctx, charges)
			})
			w := post(newHandler(framework, fake, blah), "ann", ask("tell me", 400, c.stream))
			body := w.Body.String()
			if n := strings.Count(body, "blah"); w.Code != c.status || n != c.tokens || !strings.Contains(body, c.body) || strings.Contains(body, secret) {
				t.Errorf("got %d, %d tokens and %.60q, want %+v", w.Code, n, body[5*n:], c)
			}
		})
	}
}

// Answers and streams of many users at the same time never spend more than the budget of their organization.
func TestConcurrent(t *testing.T) {
	for i := range 100 {
		name := fmt.Sprint("user", i)
		members["key-of-"+name] = member{"user:" + name, fmt.Sprint("team:acme/", i%20), "org:acme"}
		defer delete(members, "key-of-"+name)
	}
	each(t, func(t *testing.T, framework string) {
		store := memstore.New()
		var spent atomic.Int64 // millionths of a dollar
		h := newHandler(framework, store, func(ctx context.Context, q question, send func(string) error) (*usage, error) {
			u := usage{prompt: q.estimate().prompt}
			spent.Add(int64(u.money()))
			_, err := blah(ctx, q, func(token string) error {
				if err := send(token); err != nil {
					return err
				}
				u.answer++
				if spent.Add(answerPrice) > 60_000 {
					t.Error("more than the budget is spent")
				}
				return nil
			})
			return &u, err
		})
		var clients sync.WaitGroup
		for i := range 200 {
			clients.Go(func() { post(h, fmt.Sprint("user", i%100), ask("why", 200+i, i%2 == 0)) })
		}
		clients.Wait()
		if got := int64(used(t, store, "user0")["org-money"]); got != spent.Load() || got < 50_000 {
			t.Errorf("got %d used, want %d, near 60000", got, spent.Load())
		}
	})
}

// Streams of two processes that share a Redis spend the budget of a user, and not one token more.
func TestTwoProcesses(t *testing.T) {
	redis := redistest.NewServer(t)
	var processes []*demotest.Process
	for _, framework := range []string{"nethttp", "echo"} {
		processes = append(processes, demotest.Start(t, "REDIS_URL=redis://"+redis.Addr+"/0", "FRAMEWORK="+framework))
	}
	var spent atomic.Int64
	var streams sync.WaitGroup
	for i := range 5 { // requests a minute
		streams.Go(func() {
			a := processes[i%2].Post(t, "/chat", ask("why", 5000, true), "X-API-Key: key-of-ann")
			if a.Status == http.StatusOK {
				spent.Add(int64(usage{1, strings.Count(a.Body, "blah")}.money()))
			}
		})
	}
	streams.Wait()
	// One stream may have refunded the rest of a block after the others had ended.
	left := processes[0].Post(t, "/chat", ask("why", 1, true), "X-API-Key: key-of-ann").Remaining(t, "user-money")
	if n := int(spent.Load()); n+left != 30_000 || left >= 5*block*answerPrice {
		t.Errorf("got %d spent, and %d left, want 30000", n, left)
	}
}

// The end of a stream of a blocked user has no wait.
func TestStopError_Blocked(t *testing.T) {
	d, err := core.Must(core.New(memstore.New(), core.TokenBucket("money", core.Blocked))).Allow(t.Context(), "user:ann")
	if got := (&stopError{d}).Error(); err != nil || got != "money used up" {
		t.Errorf("got %q and %v", got, err)
	}
}

func TestHints(t *testing.T) {
	for _, framework := range []string{"nethttp", "gin", "echo"} {
		t.Run(framework, func(t *testing.T) {
			demotest.RunHints(t, demotest.Start(t, "FRAMEWORK="+framework),
				"(user-money used up, ", "(team-money used up, ", "(org-money used up, ", "(205 tokens, 3015 ", `["user-requests"]`,
				"(310 tokens, ", "HTTP/1.1 413 ", "HTTP/1.1 502 ", "HTTP/1.1 400 ")
		})
	}
}
