package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

var frameworks = []string{"nethttp", "gin", "echo"}

const sky = "why is the sky blue" // 19 bytes and 5 words: estimated at 5, uses 15

// ask returns a request of ann. maxTokens is a number in JSON, or empty.
func ask(path, prompt, maxTokens string) *http.Request {
	body := fmt.Sprintf(`{"prompt":%q}`, prompt)
	if maxTokens != "" {
		body = fmt.Sprintf(`{"prompt":%q,"max_tokens":%s}`, prompt, maxTokens)
	}
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("X-API-Key", "key-of-ann")
	return r
}

func TestProxy(t *testing.T) {
	long := strings.Repeat("four", 30) // 120 bytes, one word: estimated at 30, uses 3
	type exchange struct {
		user, maxTokens, prompt string
		status                  int
		requests, tokens        int    // remaining, with the estimate
		retry, body             string // Retry-After, and a part of the body
	}
	for _, c := range []struct {
		name      string
		exchanges []exchange
	}{
		{"requests", []exchange{
			{"ann", "", sky, 200, 4, 595, "", "(15 tokens used)"},
			{"ann", "", sky, 200, 3, 580, "", ""},
			{"ann", "", sky, 200, 2, 565, "", ""},
			{"ann", "", sky, 200, 1, 550, "", ""},
			{"ann", "", sky, 200, 0, 535, "", ""},
			{"ann", "", sky, 429, 0, 925, "12", `"violated-policies":["requests"]`},
			{"bob", "", sky, 200, 4, 595, "", ""},
		}},
		{"tokens", []exchange{
			{"ann", "970", long, 200, 4, 0, "", "(3 tokens used)"},
			{"ann", "967", long, 200, 3, 0, "", "(3 tokens used)"},
			{"ann", "965", long, 429, 3, 994, "1", `"violated-policies":["tokens"]`},
		}},
		{"more than the estimate", []exchange{
			{"ann", "400", strings.Repeat("a ", 300), 200, 4, 450, "", "(700 tokens used)"},
			{"ann", "100", strings.Repeat("a ", 400), 200, 3, 0, "", "(500 tokens used)"},
			{"ann", "1", "a", 429, 3, 0, "13", ""}, // a debt of 200
		}},
		{"never", []exchange{
			{"ann", "", strings.Repeat("a", 4001), 413, 5, 1000, "", "more than the policy ever allows"},
			{"ann", "", strings.Repeat("a", 2<<20), 413, 3, 999, "", "Request Entity Too Large"}, // each body is charged as a request
		}},
		{"an estimate above the limit", []exchange{
			{"ann", "1000", "a", 200, 4, 0, "", "(3 tokens used)"},
			{"bob", "9223372036854775807", strings.Repeat("a", 4000), 200, 4, 0, "", "(3 tokens used)"},
		}},
		{"failure of the model", []exchange{
			{"ann", "", "", 502, 4, 600, "", "does not answer"},
			{"ann", "", "", 502, 3, 600, "", ""},
		}},
		{"invalid max_tokens", []exchange{
			{"ann", "-1000", "", 502, 4, 600, "", ""},
			{"ann", "9223372036854775808", "", 400, 3, 999, "", "not a JSON object with prompt and max_tokens"},
			{"ann", `"many"`, "", 400, 2, 998, "", ""},
			{"ann", "", sky, 200, 1, 593, "", "(15 tokens used)"},
		}},
		{"unknown key", []exchange{{"mallory", "", sky, 401, 0, 0, "", ""}}},
	} {
		for _, framework := range frameworks {
			t.Run(c.name+"/"+framework, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newHandler(framework, memstore.New())
					for i, e := range c.exchanges {
						r := ask("/chat", e.prompt, e.maxTokens)
						r.Header.Set("X-API-Key", "key-of-"+e.user)
						w := httptest.NewRecorder()
						h.ServeHTTP(w, r)
						var requests, tokens, ignored int
						_, _ = fmt.Sscanf(w.Header().Get("RateLimit"), `"requests";r=%d;t=%d, "tokens";r=%d`, &requests, &ignored, &tokens)
						retry := w.Header().Get("Retry-After")
						if w.Code != e.status || requests != e.requests || tokens != e.tokens || retry != e.retry {
							t.Errorf("request %d: got %d, %d and %d left, Retry-After %q, want %+v", i, w.Code, requests, tokens, retry, e)
						}
						if !strings.Contains(w.Body.String(), e.body) {
							t.Errorf("request %d: got the body %s, want %s", i, w.Body, e.body)
						}
					}
				})
			})
		}
	}
}

// A stream ends at the token that uses up the budget, and the rest of its last block is refunded.
func TestStream(t *testing.T) {
	for _, framework := range frameworks {
		t.Run(framework, func(t *testing.T) {
			h := newHandler(framework, memstore.New())
			for i, want := range []struct {
				maxTokens, tokens int
				end               string
			}{
				{2010, 2010, "(done)"},
				{2010, 2010, "(done)"},
				{2010, budgetPerDay - 2*2010 - 3*2, "(budget used up, retry after 8"}, // a prompt has two tokens
			} {
				r := ask("/stream", "tell me", fmt.Sprint(want.maxTokens))
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if n := strings.Count(w.Body.String(), "blah"); w.Code != 200 || n != want.tokens || !strings.Contains(w.Body.String(), want.end) {
					t.Errorf("stream %d: got %d and %d tokens, want %d: %.60q", i, w.Code, n, want.tokens, w.Body.String()[n*5:])
				}
			}
		})
	}
}

// During an outage of the store, no token is forwarded without a budget: neither of a new stream, nor after
// the block that a stream has. The client does not get the text of the error.
func TestStream_Outage(t *testing.T) {
	const secret = "redis-7.internal"
	down := fmt.Errorf("%w: dial %s", core.ErrUnavailable, secret)
	for _, framework := range frameworks {
		for calls, want := range map[int]struct {
			status, tokens int
			body           string
		}{
			0: {503, 0, "try again"},     // the gate asks first
			1: {503, 0, "try again"},     // before and after it reads the body
			3: {200, block, "try again"}, // and then the stream for each block
		} {
			t.Run(fmt.Sprint(framework, calls), func(t *testing.T) {
				fake := new(storetest.Fake)
				fake.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
					if fake.Calls() > calls {
						return down
					}
					return next(ctx, charges)
				})
				r := ask("/stream", "tell me", "400")
				w := httptest.NewRecorder()
				newHandler(framework, fake).ServeHTTP(w, r)
				body := w.Body.String()
				if n := strings.Count(body, "blah"); w.Code != want.status || n != want.tokens || !strings.Contains(body, want.body) || strings.Contains(body, secret) {
					t.Errorf("got %d, %d tokens and %.60q, want %d, %d and %q", w.Code, n, body[5*n:], want.status, want.tokens, want.body)
				}
			})
		}
	}
}

// The end of a stream has a wait only if there is one.
func TestUsedUp(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		90 * time.Second: "budget used up, retry after 90 s",
		core.Never:       "budget used up",
	} {
		if got := usedUp(core.Decision{RetryAfter: wait}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Streams of two processes that share a Redis forward the tokens of a budget, and not one more.
func TestStream_TwoProcesses(t *testing.T) {
	redis := redistest.NewServer(t)
	var processes []*demotest.Process
	for _, framework := range []string{"nethttp", "echo"} {
		processes = append(processes, demotest.Start(t, "REDIS_URL=redis://"+redis.Addr+"/0", "FRAMEWORK="+framework))
	}
	var forwarded atomic.Int64
	var streams sync.WaitGroup
	for i := range 5 { // requests a minute
		streams.Go(func() {
			a := processes[i%2].Post(t, "/stream", `{"max_tokens":1999}`, "X-API-Key: key-of-ann")
			forwarded.Add(int64(strings.Count(a.Body, "blah")))
		})
	}
	streams.Wait()
	// One stream may have refunded the rest of a block after the others had ended.
	left := processes[0].Post(t, "/stream", `{"max_tokens":1}`, "X-API-Key: key-of-ann").Remaining(t, "budget")
	if n := int(forwarded.Load()); n+left != budgetPerDay || left >= 5*block {
		t.Errorf("got %d tokens, and %d left, want the budget, %d", n, left, budgetPerDay)
	}
}

func TestHints(t *testing.T) {
	for _, framework := range frameworks {
		t.Run(framework, func(t *testing.T) {
			demotest.RunHints(t, demotest.Start(t, "FRAMEWORK="+framework),
				"(15 tokens used)", `["requests"]`, "HTTP/1.1 200 OK", `["tokens"]`, "Retry-After: ",
				"HTTP/1.1 413 ", "HTTP/1.1 502 ", "HTTP/1.1 400 ", "(budget used up, ")
		})
	}
}
