// Llm is a proxy to a language model. It limits the requests and the tokens of each user, in one
// decision. The number of tokens of a chat is estimated from its body (max_tokens) and settled after it. Those
// of a stream are taken in blocks while it is forwarded, so that it ends at the token that uses up the
// budget of the user, whatever other processes do. During an outage of Redis, chats are not limited, and
// there are no streams.
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

const (
	tokensPerMinute = 1000
	budgetPerDay    = 5000 // tokens of the streams of a user
	block           = 50   // tokens of a stream that are taken at once
	maxBody         = 64 << 10
)

func newHandler(framework string, store core.Store) http.Handler {
	requests := core.Must(core.New(store, core.TokenBucket("requests", core.PerMinute(5))))
	tokens := core.Must(core.New(store, core.TokenBucket("tokens", core.PerMinute(tokensPerMinute))))
	budget := core.Must(core.New(store, core.SlidingWindow("budget", core.PerDay(budgetPerDay))))

	// The client of a request that never fits into the limit, or has a longer body, should not retry.
	neverFits := gate.Options(
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
	mux := http.NewServeMux()
	mux.Handle("POST /chat", limited(framework, chat(tokens), requests, user,
		// A request counts as one request, and as the estimated number of tokens. If either limit
		// denies it, neither is charged.
		gate.And(tokens, user, gate.CostOfBody(maxBody, estimate)), neverFits,
	))
	mux.Handle("POST /stream", limited(framework, stream(budget), requests, user,
		gate.And(budget, user, gate.CostOfBody(maxBody, promptTokens)), neverFits,
	))
	return mux
}

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

// user is the key function. It stands for the authentication of your application.
func user(_ context.Context, r *http.Request) (string, error) {
	if name, ok := map[string]string{"key-of-ann": "ann", "key-of-bob": "bob", "key-of-carol": "carol"}[r.Header.Get("X-API-Key")]; ok {
		return keyfunc.UserKey(name), nil
	}
	return "", keyfunc.ErrNoToken // status 401
}

// A question is the body of a request.
type question struct {
	Prompt    string `json:"prompt"`
	MaxTokens int    `json:"max_tokens"` // that the answer may have
}

// read returns the question in a body. The gate sends the text of the error to the client.
func read(body []byte) (q question, err error) {
	if err := json.Unmarshal(body, &q); err != nil {
		return q, &keyfunc.NoKeyError{Detail: "the body is not a JSON object with prompt and max_tokens"}
	}
	if q.MaxTokens < 1 {
		q.MaxTokens = 400
	}
	return q, nil
}

// promptTokens returns the number of tokens of the prompt, one for four bytes.
func promptTokens(_ context.Context, _ *http.Request, body []byte) (int, error) {
	q, err := read(body)
	return (len(q.Prompt) + 3) / 4, err
}

// estimate returns the number of tokens that a chat is charged at first: those of the prompt, and
// max_tokens for the answer. A cost above the limit would be denied for ever, so the answer is estimated at
// no more than the limit has room for. If it becomes longer, the rest is a debt.
func estimate(ctx context.Context, r *http.Request, body []byte) (int, error) {
	prompt, err := promptTokens(ctx, r, body)
	q, _ := read(body)
	answer := min(q.MaxTokens, tokensPerMinute) // which a client has chosen: without this, the sum may overflow
	return max(prompt, min(prompt+answer, tokensPerMinute)), err
}

// asked returns the question of r. In an outage, the gate has not read it.
func asked(w http.ResponseWriter, r *http.Request) (q question, ok bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		q, err = read(body)
	}
	if err != nil {
		http.Error(w, "the question cannot be read", http.StatusBadRequest)
	}
	return q, err == nil
}

// chat passes the prompt to the model. The handler is the same in every framework.
func chat(tokens *core.Limiter) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		used := 0 // if the model does not answer, only the request counts
		// Most answers are shorter than max_tokens, and the difference is refunded. If the model
		// has used more than the estimate, the difference is debited, into debt if necessary.
		defer func() {
			if err := gate.SettleFor(r.Context(), tokens, used); err != nil {
				log.Print(err)
			}
		}()
		q, ok := asked(w, r)
		if !ok {
			return
		}
		answer, usage, err := complete(q.Prompt, q.MaxTokens)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		used = usage
		fmt.Fprintf(w, "%s(%d tokens used)\n", answer, used)
	}
}

// stream forwards the tokens of the model while they fit into the budget. It takes them in blocks, so that
// the store is asked once for 50 tokens, and refunds the rest of the last block.
func stream(budget *core.Limiter) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key, ok := gate.Key(r.Context(), budget)
		if !ok { // an outage: the gate has let the request through, but a stream needs its budget
			http.Error(w, "the budget cannot be checked, try again", http.StatusServiceUnavailable)
			return
		}
		q, ok := asked(w, r)
		if !ok {
			return
		}
		var taken *core.Reservation
		left := 0 // of the block
		defer func() {
			if left == 0 {
				return
			}
			lasting := context.WithoutCancel(r.Context()) // also if the client has gone
			if err := taken.Settle(lasting, taken.Cost()-left); err != nil {
				log.Print(err)
			}
		}()
		for range q.MaxTokens { // the tokens of the model
			if left == 0 {
				var err error
				if taken, err = budget.ReserveAtMost(r.Context(), key, block); err != nil {
					log.Print(err)
					fmt.Fprint(w, "\n(the budget cannot be checked, try again)\n")
					return
				}
				if left = taken.Cost(); left == 0 {
					fmt.Fprintf(w, "\n(%s)\n", usedUp(taken.Decision()))
					return
				}
			}
			if _, err := fmt.Fprint(w, "blah "); err != nil {
				return
			}
			left--
			_ = http.NewResponseController(w).Flush()
		}
		fmt.Fprint(w, "\n(done)\n")
	}
}

// usedUp describes a denial to the user. RetryAfter of a Decision is core.Never for a user who is blocked.
func usedUp(d core.Decision) string {
	if seconds, ok := gate.RetryAfter(d); ok {
		return fmt.Sprintf("budget used up, retry after %d s", seconds)
	}
	return "budget used up"
}

// complete stands for the language model. Each word is a token, and the answer has twice as many
// words as the prompt, but at most maxTokens.
func complete(prompt string, maxTokens int) (answer string, usage int, err error) {
	words := len(strings.Fields(prompt))
	if words == 0 {
		return "", 0, errors.New("the model does not answer")
	}
	n := min(2*words, maxTokens)
	return strings.Repeat("blah ", n), words + n, nil
}

const try = `
  # five requests a minute: each is estimated at 405 tokens and settled at 15, so five fit into 1000
  for i in $(seq 6); do curl -s -H 'X-API-Key: key-of-ann' -d '{"prompt": "why is the sky blue"}' http://ADDR/chat; done
  # 300 words are estimated at 673 tokens and use 700: the limit of tokens denies the next such request
  for i in 1 2; do curl -si -H 'X-API-Key: key-of-bob' -d "{\"prompt\": \"$(seq -s ' ' 300)\"}" http://ADDR/chat | grep -i -e http -e rate -e retry; done
  # a prompt of more tokens than the limit ever allows: 413 without Retry-After
  curl -i -H 'X-API-Key: key-of-bob' -d "{\"prompt\": \"$(seq -s ' ' 2000)\"}" http://ADDR/chat
  # the model fails: the tokens are refunded, the request counts
  curl -i -H 'X-API-Key: key-of-bob' -d '{"max_tokens": 100}' http://ADDR/chat
  # the body has no cost: 400, and the request counts
  curl -i -H 'X-API-Key: key-of-bob' -d 'why is the sky blue' http://ADDR/chat
  # a stream ends at the token that uses up the budget of 5000
  curl -s -H 'X-API-Key: key-of-carol' -d '{"prompt": "tell me all", "max_tokens": 6000}' http://ADDR/stream | tail -c 60
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
	if err := demo.Serve(newHandler(os.Getenv("FRAMEWORK"), store), try); err != nil {
		log.Fatal(err)
	}
}
