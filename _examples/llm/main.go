// Llm is a proxy to a language model with a budget. It limits the requests, the tokens and the money of
// each user, team and organization, in one decision: a request is charged to all nine limits or to none.
//
// An answer is charged before the model is called, at an estimate of the prompt and max_tokens. Afterwards it
// is settled at the usage that the model names. If the model names none, the estimate stays charged. A stream
// takes its tokens and their price in blocks, and ends at the token that uses up a budget, whatever other
// processes do. During an outage of Redis, nothing is spent.
//
//	go run -C _examples ./llm
//
// It runs on net/http, or on the framework in the environment variable FRAMEWORK: gin or echo. If
// REDIS_URL is set, all processes share the limits.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/echolimit"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/ginlimit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// A model calls send with each token of its answer, until send returns an error. The usage is nil if the model
// does not name it.
type model func(ctx context.Context, q question, send func(token string) error) (*usage, error)

const maxBody = 64 << 10

type proxy struct {
	model   model
	budgets budgets
}

func newHandler(framework string, store core.Store, m model) http.Handler {
	p := &proxy{m, newBudgets(store)}
	opts := []gate.Option{gate.FailClosed(), neverFits}
	for _, b := range p.budgets {
		opts = append(opts,
			gate.And(b.requests, b.key), // the gate below has that of the user, too, and charges it once
			gate.And(b.tokens, b.key, gate.CostOfBody(maxBody, estimated(usage.tokens))),
			gate.And(b.money, b.key, gate.CostOfBody(maxBody, estimated(usage.money))))
	}
	mux := http.NewServeMux()
	user := p.budgets[0]
	mux.Handle("POST /chat", limited(framework, http.HandlerFunc(p.chat), user.requests, user.key, opts...))
	return mux
}

// newBudgets returns small limits, which the commands below use up.
func newBudgets(store core.Store) budgets {
	return budgets{
		newBudget(store, "user", by(func(m member) string { return m.user }), 5, 4000, 30_000),
		newBudget(store, "team", by(func(m member) string { return m.team }), 15, 20_000, 45_000),
		newBudget(store, "org", by(func(m member) string { return m.org }), 60, 80_000, 60_000),
	}
}

// neverFits is for a request that never fits into a limit, or has a longer body: its client should not retry.
var neverFits = gate.Options(
	gate.DeniedStatus(func(d core.Decision) int {
		if d.RetryAfter == core.Never {
			return http.StatusRequestEntityTooLarge
		}
		return http.StatusTooManyRequests
	}),
	gate.OnError(func(_ *http.Request, err error, status int) int {
		if tooLong := new(http.MaxBytesError); errors.As(err, &tooLong) {
			return http.StatusRequestEntityTooLarge
		}
		return status
	}),
)

// limited puts h behind a limiter. The limiter, the key function and the options are the same in
// every framework.
func limited(framework string, h http.Handler, l *core.Limiter, key keyfunc.Func, opts ...gate.Option) http.Handler {
	switch framework {
	case "gin":
		gin.SetMode(gin.ReleaseMode) // no list of routes at start
		router := gin.New()
		router.Any("/*path", ginlimit.New(l, key, opts...), gin.WrapH(h))
		return router
	case "echo":
		e := echo.New()
		e.Any("/*", echo.WrapHandler(h), echolimit.New(l, key, opts...))
		return e
	}
	return nethttplimit.New(l, key, opts...)(h)
}

// A member has the keys of a user, and of its team and organization. Those of two teams differ, even if both
// teams are called red.
type member struct{ user, team, org string }

// members stands for the authentication of your application. A client chooses neither its team nor its
// organization.
var members = map[string]member{
	"key-of-ann":   {"user:ann", "team:acme/red", "org:acme"},
	"key-of-bob":   {"user:bob", "team:acme/red", "org:acme"},
	"key-of-carol": {"user:carol", "team:acme/blue", "org:acme"},
	"key-of-dave":  {"user:dave", "team:globex/red", "org:globex"},
	"key-of-erin":  {"user:erin", "team:globex/red", "org:globex"},
}

// by returns a key function.
func by(key func(member) string) keyfunc.Func {
	return func(_ context.Context, r *http.Request) (string, error) {
		if m, ok := members[r.Header.Get("X-API-Key")]; ok {
			return key(m), nil
		}
		return "", keyfunc.ErrNoToken // status 401
	}
}

// A question is the body of a request.
type question struct {
	Prompt    string `json:"prompt"`
	MaxTokens int    `json:"max_tokens"` // that the answer may have
	Stream    bool   `json:"stream"`
}

// read returns the question in a body. The gate sends the text of the error to the client.
func read(body []byte) (q question, err error) {
	if err := json.Unmarshal(body, &q); err != nil || q.MaxTokens < 0 {
		return q, &keyfunc.NoKeyError{Detail: "the body is not a JSON object with prompt, max_tokens and stream"}
	}
	if q.MaxTokens == 0 {
		q.MaxTokens = 400
	}
	q.MaxTokens = min(q.MaxTokens, longest) // which a client has chosen: without this, a sum or a price may overflow
	return q, nil
}

// estimate returns the tokens that are charged before the model is called: one for four bytes of the prompt,
// and max_tokens, except for a stream.
func (q question) estimate() usage {
	u := usage{prompt: (len(q.Prompt) + 3) / 4}
	if !q.Stream {
		u.answer = q.MaxTokens
	}
	return u
}

// estimated returns a function for [gate.CostOfBody].
func estimated(cost func(usage) int) func(context.Context, *http.Request, []byte) (int, error) {
	return func(_ context.Context, _ *http.Request, body []byte) (int, error) {
		q, err := read(body)
		return cost(q.estimate()), err
	}
}

// chat passes the question to the model, and settles the charges of the gate. The handler is the same in every
// framework.
func (p *proxy) chat(w http.ResponseWriter, r *http.Request) {
	settleFor := func(l *core.Limiter, cost int) error { return gate.SettleFor(r.Context(), l, cost) }
	body, _ := io.ReadAll(r.Body) // no errors: the gate has read the same
	q, _ := read(body)
	if q.Stream {
		p.budgets.settle(settleFor, usage{prompt: p.stream(w, r, q)})
		return
	}
	var answer strings.Builder
	sent := 0
	named, err := p.model(r.Context(), q, func(token string) error {
		sent++
		answer.WriteString(token)
		return nil
	})
	u := final(q.estimate(), named, sent, err)
	p.budgets.settle(settleFor, u)
	if err != nil {
		log.Print(err)
		http.Error(w, "the model does not answer", http.StatusBadGateway)
		return
	}
	fmt.Fprintf(w, "%s(%d tokens, %d millionths of a dollar)\n", answer.String(), u.tokens(), u.money())
}

// stream forwards the tokens of the model while they fit into all budgets, and returns those of the prompt. The
// first block is taken before the model is called. The rest of the last one is refunded.
func (p *proxy) stream(w http.ResponseWriter, r *http.Request, q question) (prompt int) {
	var last *core.Reservation
	taken, sent := 0, 0
	take := func() (err error) {
		if last, err = p.budgets.take(r.Context()); err == nil {
			taken += last.Cost()
		}
		return err
	}
	var named *usage
	err := take()
	if err == nil {
		named, err = p.model(r.Context(), q, func(token string) error {
			if sent == taken {
				if err := take(); err != nil {
					return err
				}
			}
			sent++
			_, err := io.WriteString(w, token)
			_ = http.NewResponseController(w).Flush()
			return err
		})
	}
	u := final(usage{q.estimate().prompt, taken}, named, sent, err)
	if rest := taken - u.answer; rest != 0 && last != nil {
		lasting := context.WithoutCancel(r.Context()) // also if the client has gone
		p.budgets.settle(func(l *core.Limiter, cost int) error { return last.SettleFor(lasting, l, cost) },
			usage{answer: max(0, last.Cost()-rest)})
	}
	switch stop := (*stopError)(nil); {
	case err == nil:
		fmt.Fprint(w, "\n(done)\n")
	case errors.As(err, &stop) && sent == 0:
		nethttplimit.Deny(w, r, stop.Decision)
	case errors.As(err, &stop):
		fmt.Fprintf(w, "\n(%v)\n", stop)
	case sent == 0:
		log.Print(err)
		http.Error(w, "the model does not answer", http.StatusBadGateway)
	default:
		log.Print(err)
		fmt.Fprint(w, "\n(the answer is not complete)\n")
	}
	return u.prompt
}

// blah stands for the language model. Each word is a token, and the answer has half of the tokens that it may
// have. As many models do, it does not name the usage of a stream.
func blah(ctx context.Context, q question, send func(token string) error) (*usage, error) {
	words := len(strings.Fields(q.Prompt))
	if words == 0 {
		return nil, errors.New("there is no prompt")
	}
	n := (q.MaxTokens + 1) / 2
	for range n {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := send("blah "); err != nil {
			return nil, err
		}
	}
	if q.Stream {
		return nil, nil
	}
	return &usage{words, n}, nil
}

const try = `
  # three streams end at a budget: that of the user ann, of the team of ann and bob, and of the organization of all three
  for user in ann bob carol; do curl -s -H "X-API-Key: key-of-$user" -d '{"prompt": "tell me all", "max_tokens": 5000, "stream": true}' http://ADDR/chat | tail -c 60; done
  # five requests a minute: each is estimated at 405 tokens, and settled at 205
  for i in $(seq 6); do curl -s -H 'X-API-Key: key-of-dave' -d '{"prompt": "why is the sky blue"}' http://ADDR/chat | tail -c 200; done
  # 300 words are estimated at 293 tokens and use 310
  curl -s -H 'X-API-Key: key-of-erin' -d "{\"max_tokens\": 20, \"prompt\": \"$(seq -s ' ' 300)\"}" http://ADDR/chat
  # an answer that can cost more than the budget of a month: 413 without Retry-After
  curl -i -H 'X-API-Key: key-of-erin' -d '{"prompt": "tell me all", "max_tokens": 3000}' http://ADDR/chat
  # the model fails: tokens and money are refunded, the request counts
  curl -i -H 'X-API-Key: key-of-erin' -d '{"max_tokens": 100}' http://ADDR/chat
  # the body has no cost: 400, and the request counts
  curl -i -H 'X-API-Key: key-of-erin' -d 'why is the sky blue' http://ADDR/chat
`

func main() {
	var store core.Store = memstore.New()
	if url := os.Getenv("REDIS_URL"); url != "" {
		options, err := redis.ParseURL(url)
		if err != nil {
			log.Fatal(err)
		}
		store = redisstore.New(redis.NewClient(options), "llm")
	}
	if err := demo.Serve(newHandler(os.Getenv("FRAMEWORK"), store, blah), try); err != nil {
		log.Fatal(err)
	}
}
