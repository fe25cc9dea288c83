// Llm is a proxy to a language model. It limits the requests and the tokens of each user, in one
// decision. The number of tokens of a chat is estimated before the request and settled after it. Those
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
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
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
)

func newHandler(framework string, store core.Store) http.Handler {
	requests := core.Must(core.New(store, core.TokenBucket("requests", core.PerMinute(5))))
	tokens := core.Must(core.New(store, core.TokenBucket("tokens", core.PerMinute(tokensPerMinute))))
	budget := core.Must(core.New(store, core.SlidingWindow("budget", core.PerDay(budgetPerDay))))

	// The client of a request that never fits into the limit should not retry.
	neverFits := gate.DeniedStatus(func(d core.Decision) int {
		if d.RetryAfter == core.Never {
			return http.StatusRequestEntityTooLarge
		}
		return http.StatusTooManyRequests
	})
	mux := http.NewServeMux()
	mux.Handle("POST /chat", limited(framework, chat(tokens), requests, user,
		// A request counts as one request, and as the estimated number of tokens. If either limit
		// denies it, neither is charged.
		gate.And(tokens, user, gate.Cost(estimate)), neverFits,
	))
	mux.Handle("POST /stream", limited(framework, stream(budget), requests, user,
		gate.And(budget, user, gate.Cost(promptTokens)), neverFits,
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
	if name, ok := map[string]string{"key-of-ann": "ann", "key-of-bob": "bob"}[r.Header.Get("X-API-Key")]; ok {
		return keyfunc.UserKey(name), nil
	}
	return "", keyfunc.ErrNoToken // status 401
}

// promptTokens returns the number of tokens of the prompt, one for four bytes. It runs before the request
// is admitted and must not read the body.
func promptTokens(_ context.Context, r *http.Request) int {
	if r.ContentLength < 0 || r.ContentLength > mostTokens {
		return mostTokens // the length is unknown, or too large for any limit
	}
	return int(r.ContentLength+3) / 4
}

// mostTokens is above every limit of tokens, so a prompt of so many is always denied.
const mostTokens = 1 << 20

// estimate returns the number of tokens that a chat is charged at first: those of the prompt, and
// maxTokens for the answer. A cost above the limit would be denied for ever, so the answer is estimated at
// no more than the limit has room for. If it becomes longer, the rest is a debt.
func estimate(ctx context.Context, r *http.Request) int {
	prompt := promptTokens(ctx, r)
	return max(prompt, min(prompt+maxTokens(r), tokensPerMinute))
}

// maxTokens returns the most tokens that the answer may have. It is in the query, because the body has
// not been read.
func maxTokens(r *http.Request) int {
	n, err := strconv.Atoi(r.URL.Query().Get("max_tokens"))
	if err != nil || n < 1 {
		return 400
	}
	return min(n, mostTokens)
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
		prompt, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "the prompt cannot be read", http.StatusBadRequest)
			return
		}
		answer, usage, err := complete(string(prompt), maxTokens(r))
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
		for range maxTokens(r) { // the tokens of the model
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
  for i in $(seq 6); do curl -s -H 'X-API-Key: key-of-ann' -d 'why is the sky blue' http://ADDR/chat; done
  # 300 words are estimated at 673 tokens and use 700: the limit of tokens denies the next such request
  seq 300 | curl -si -H 'X-API-Key: key-of-bob' --data-binary @- http://ADDR/chat | grep -i -e http -e rate
  seq 300 | curl -si -H 'X-API-Key: key-of-bob' --data-binary @- http://ADDR/chat | grep -i -e http -e rate -e retry
  # a prompt of more tokens than the limit ever allows: 413 without Retry-After
  head -c 5000 /dev/zero | curl -i -H 'X-API-Key: key-of-bob' --data-binary @- http://ADDR/chat
  # the model fails: the tokens are refunded, the request counts
  curl -i -H 'X-API-Key: key-of-bob' -X POST "http://ADDR/chat?max_tokens=100"
  # a stream ends at the token that uses up the budget of 5000
  curl -s -H 'X-API-Key: key-of-bob' -d 'tell me all' "http://ADDR/stream?max_tokens=6000" | tail -c 60
`

func main() {
	var store core.Store = memstore.New()
	if url := os.Getenv("REDIS_URL"); url != "" {
		options, err := redis.ParseURL(url)
		if err != nil {
			log.Fatal(err)
		}
		store = redisstore.New(redis.NewClient(options))
	}
	if err := demo.Serve(newHandler(os.Getenv("FRAMEWORK"), store), try); err != nil {
		log.Fatal(err)
	}
}
