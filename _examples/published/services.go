// Package published has limits that services publish, as configuration files, and for each file the middleware that
// applies it. The README lists them.
package published

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// services are the middlewares for the files NAME.yaml. The handler is for the routes of the file.
var services = map[string]func(*rules.Set, http.Handler) http.Handler{
	"anthropic": Anthropic, "aws": AWS, "discord": Discord, "dockerhub": DockerHub, "github": GitHub,
	"letsencrypt": LetsEncrypt, "mastodon": Mastodon, "openai": OpenAI, "reddit": Reddit, "shopify": Shopify,
	"slack": Slack, "stripe": Stripe, "twilio": Twilio, "x": X, "youtube": YouTube,
}

// limiter returns the limiter of a policy of the file.
func limiter(s *rules.Set, policy string) *core.Limiter { return core.Must(s.Limiter(policy)) }

var (
	// account is the key function. It stands for the authentication of your application.
	account = keyfunc.BasicAuthUser()
	ip      = keyfunc.RemoteIP()
)

// plan chooses the plan of an account: gold for the account gold.ann. It stands for a claim of the token.
var plan = gate.Plan(func(_ context.Context, r *http.Request) (string, error) {
	name, _, _ := r.BasicAuth()
	plan, _, found := strings.Cut(name, ".")
	if !found {
		return "", nil
	}
	return plan, nil
})

// only returns key for requests for which f returns true. Its limiter ignores all others.
func only(f func(*http.Request) bool, key keyfunc.Func) keyfunc.Func {
	return func(ctx context.Context, r *http.Request) (string, error) {
		if !f(r) {
			return "", keyfunc.ErrNotLimited
		}
		return key(ctx, r)
	}
}

func isPost(r *http.Request) bool { return r.Method == http.MethodPost }

func isRead(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
}

// denied writes the response to an event that is denied, or that could not be decided because of err.
func denied(w http.ResponseWriter, r *http.Request, d core.Decision, err error) {
	if err != nil {
		log.Print(err)
	}
	nethttplimit.Deny(w, r, d)
}

// number returns a parameter of the query. A real service finds the number in the request or in its result.
func number(r *http.Request, name string) int {
	n, _ := strconv.Atoi(r.URL.Query().Get(name))
	return max(n, 0)
}

// settle sets the real cost of a request after its handler. Nothing was charged if the store has failed.
func settle(r *http.Request, l *core.Limiter, cost int) {
	if err := gate.SettleFor(r.Context(), l, cost); err != nil && !errors.Is(err, gate.ErrNotAdmitted) {
		log.Print(err)
	}
}

// GitHub has two gates: RefundIf refunds the primary limit after a 304, and the points stay. GitHub tells clients of
// the primary limit only, in X-RateLimit-*.
func GitHub(s *rules.Set, h http.Handler) http.Handler {
	points := gate.Cost(func(_ context.Context, r *http.Request) int {
		if isRead(r) {
			return 1
		}
		return 5
	})
	secondary := nethttplimit.New(limiter(s, "concurrent"), account, gate.Headers(),
		gate.And(limiter(s, "points"), account, points),
		gate.And(limiter(s, "content"), only(isPost, account)))
	primary := nethttplimit.New(limiter(s, "core"), account, gate.Routes(s), plan, gate.Headers(gate.XRateLimit),
		gate.RefundIf(func(status int) bool { return status == http.StatusNotModified }))
	return secondary(primary(h))
}

// Slack counts each method of a tier apart, so the key has the pattern of the method.
func Slack(s *rules.Set, h http.Handler) http.Handler {
	method := func(_ context.Context, r *http.Request) (string, error) { return "method:" + r.Pattern, nil }
	posts := func(r *http.Request) bool { return r.Pattern == "/api/chat.postMessage" }
	return nethttplimit.New(limiter(s, "tier3"), keyfunc.Join(account, method), gate.Routes(s), plan,
		gate.And(limiter(s, "channel"), only(posts, keyfunc.Join(account, keyfunc.JSONField("channel")))))(h)
}

// costOfBody makes f determine the cost of a request from its body, a JSON object of at most 1 MiB.
func costOfBody(f func(body []byte, q query) int) gate.Option {
	return gate.CostOfBody(1<<20, func(_ context.Context, _ *http.Request, body []byte) (int, error) {
		var q query
		if len(body) > 0 {
			if err := json.Unmarshal(body, &q); err != nil {
				return 0, err // status 400
			}
		}
		return f(body, q), nil
	})
}

// A query is the body of a request.
type query struct {
	Query     string // of GraphQL
	MaxTokens int    `json:"max_tokens"`
}

// tokensOf estimates the tokens of a prompt: one for four bytes.
func tokensOf(body []byte, _ query) int { return (len(body) + 3) / 4 }

// OpenAI charges an estimate, and settles it at the usage.
func OpenAI(s *rules.Set, h http.Handler) http.Handler {
	tokens := limiter(s, "tokens")
	estimate := costOfBody(func(body []byte, q query) int { return max(q.MaxTokens, tokensOf(body, q)) })
	return nethttplimit.New(limiter(s, "requests"), account, plan, gate.And(tokens, account, estimate))(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() { settle(r, tokens, number(r, "input")+number(r, "output")) }()
			h.ServeHTTP(w, r)
		}))
}

// Anthropic charges the output when it is known. A request is denied while an earlier output is a debt.
func Anthropic(s *rules.Set, h http.Handler) http.Handler {
	input, output := limiter(s, "input"), limiter(s, "output")
	none := func(context.Context, *http.Request) int { return 0 }
	return nethttplimit.New(limiter(s, "requests"), account, plan,
		gate.And(input, account, costOfBody(tokensOf)), gate.And(output, account, gate.Cost(none)))(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				settle(r, input, number(r, "input")-number(r, "cached"))
				settle(r, output, number(r, "output"))
			}()
			h.ServeHTTP(w, r)
		}))
}

// X has accounts such as ann@reader, for the user ann of the app reader, and app.reader for the app alone.
func X(s *rules.Set, h http.Handler) http.Handler {
	app := func(_ context.Context, r *http.Request) (string, error) {
		name, _, _ := r.BasicAuth()
		return "app:" + name[strings.LastIndexAny(name, "@.")+1:], nil
	}
	return nethttplimit.New(limiter(s, "lookup"), account, gate.Routes(s), plan, gate.Headers(gate.XRateLimit),
		gate.And(limiter(s, "posts-of-app"), only(isPost, app)))(h)
}

var first = regexp.MustCompile(`first: *(\d{1,4})`)

// pointsOf stands for the static analysis of a query: 2 points for the query, and 1 for each object.
func pointsOf(_ []byte, q query) int {
	if q.Query == "" {
		return 1 // REST
	}
	points := 2
	for _, m := range first.FindAllStringSubmatch(q.Query, -1) {
		n, _ := strconv.Atoi(m[1])
		points += n
	}
	return points
}

// Shopify charges the requested cost of a query, and settles it at the actual cost.
func Shopify(s *rules.Set, h http.Handler) http.Handler {
	graphql := limiter(s, "graphql")
	return nethttplimit.New(limiter(s, "rest"), account, gate.Routes(s), plan, costOfBody(pointsOf))(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			d, _ := gate.FromContext(r.Context())
			if st, ok := d.StateOf("rest.rest"); ok {
				w.Header().Set("X-Shopify-Shop-Api-Call-Limit", fmt.Sprintf("%d/%d", st.Used(), st.Limit().Burst))
			} else {
				defer func() { settle(r, graphql, number(r, "actual")) }()
			}
			h.ServeHTTP(w, r)
		}))
}

// Twilio answers at once, and sends the message after the delay of the decision.
func Twilio(s *rules.Set, h http.Handler) http.Handler {
	sender := limiter(s, "sender")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		plan, from := r.FormValue("kind"), r.FormValue("From") // a number of the account
		d, err := sender.Plan(plan).AllowN(r.Context(), from, max(number(r, "segments"), 1))
		if err != nil || !d.Allowed {
			denied(w, r, d, err)
			return
		}
		w.Header().Set("Send-After", d.Delay.String())
		h.ServeHTTP(w, r)
	})
}

// Reddit needs the file only.
func Reddit(s *rules.Set, h http.Handler) http.Handler {
	return nethttplimit.New(limiter(s, "api"), account, plan)(h)
}

// DockerHub limits users, and all others by address.
func DockerHub(s *rules.Set, h http.Handler) http.Handler {
	return nethttplimit.New(limiter(s, "free"), keyfunc.FirstOf(account, ip), gate.Routes(s), plan)(h)
}

// LetsEncrypt limits the requests new-account and new-order, and counts the ends of validations.
func LetsEncrypt(s *rules.Set, h http.Handler) http.Handler {
	orders, domain, set := limiter(s, "orders"), limiter(s, "domain"), limiter(s, "set")
	failures, consecutive := limiter(s, "failures"), limiter(s, "consecutive")

	newOrder := func(w http.ResponseWriter, r *http.Request) {
		user, names := order(r)
		asks := []core.Ask{{Limiter: orders, Key: user}, {Limiter: set, Key: strings.Join(names, " ")}}
		seen := map[string]bool{}
		for _, name := range names {
			key := user + " " + name
			asks = append(asks, core.Ask{Limiter: failures, Key: key, Peek: true}, core.Ask{Limiter: consecutive, Key: key, Peek: true})
			if d := registered(name); !seen[d] {
				seen[d] = true
				asks = append(asks, core.Ask{Limiter: domain, Key: d})
			}
		}
		if d, err := core.AllowTogether(r.Context(), asks...); err != nil || !d.Allowed {
			denied(w, r, d, err)
			return
		}
		h.ServeHTTP(w, r)
	}
	validated := func(w http.ResponseWriter, r *http.Request) {
		user, names := order(r)
		key := user + " " + names[0]
		var err error
		if r.URL.Query().Has("failed") {
			err = errors.Join(failures.Debit(r.Context(), key, 1), consecutive.Debit(r.Context(), key, 1))
		} else {
			_, err = consecutive.Reset(r.Context(), key)
		}
		if err != nil {
			log.Print(err)
		}
		h.ServeHTTP(w, r)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /new-account", nethttplimit.New(limiter(s, "accounts"), ip,
		gate.And(limiter(s, "accounts-range"), only(isIPv6, keyfunc.RemoteIP(keyfunc.IPv6Prefix(48)))))(h))
	mux.HandleFunc("POST /new-order", newOrder)
	mux.HandleFunc("POST /validated", validated)
	return mux
}

// order returns the account and the names of an order.
func order(r *http.Request) (user string, names []string) {
	user, _, _ = r.BasicAuth()
	return user, strings.Split(r.URL.Query().Get("names"), ",")
}

func isIPv6(r *http.Request) bool { return strings.HasPrefix(r.RemoteAddr, "[") }

// registered returns the last two labels of a name. A real service uses the Public Suffix List.
func registered(name string) string {
	labels := strings.Split(name, ".")
	return strings.Join(labels[max(len(labels)-2, 0):], ".")
}

// YouTube has a table of costs. Other methods cost 1 if they read, and 50 if they change data.
func YouTube(s *rules.Set, h http.Handler) http.Handler {
	costs := map[string]int{"GET /youtube/v3/search": 100, "POST /youtube/v3/videos": 1600, "POST /youtube/v3/captions": 400}
	cost := gate.Cost(func(_ context.Context, r *http.Request) int {
		switch n, ok := costs[r.Method+" "+r.URL.Path]; {
		case ok:
			return n
		case isRead(r):
			return 1
		}
		return 50
	})
	return nethttplimit.New(limiter(s, "project"), account, cost)(h)
}

// Stripe counts reads and writes of an account apart: in the basic limit, and in those of single routes.
func Stripe(s *rules.Set, h http.Handler) http.Handler {
	kind := func(_ context.Context, r *http.Request) (string, error) {
		if isRead(r) {
			return "kind:read", nil
		}
		return "kind:write", nil
	}
	return nethttplimit.New(limiter(s, "basic"), keyfunc.Join(account, kind), gate.Routes(s), plan)(h)
}

// Mastodon limits the account, its uploads and deletions, and the address in one decision.
func Mastodon(s *rules.Set, h http.Handler) http.Handler {
	signUp := func(r *http.Request) bool { return isPost(r) && r.URL.Path == "/api/v1/accounts" }
	return nethttplimit.New(limiter(s, "account"), account, gate.Routes(s), gate.Headers(gate.XRateLimit),
		gate.And(limiter(s, "address"), ip), gate.And(limiter(s, "sign-up"), only(signUp, ip)))(h)
}

// AWS limits the API key, in the plan and in methods, and all keys of the account together.
func AWS(s *rules.Set, h http.Handler) http.Handler {
	return nethttplimit.New(limiter(s, "plan"), account, gate.Routes(s), plan,
		gate.And(limiter(s, "account"), keyfunc.Constant("account")))(h)
}

// Discord has an outer gate for the address. It counts a response before it has a status, and refunds the others.
func Discord(s *rules.Set, h http.Handler) http.Handler {
	invalid := nethttplimit.New(limiter(s, "invalid"), ip, gate.Headers(), gate.RefundIf(func(status int) bool {
		return status != http.StatusUnauthorized && status != http.StatusForbidden && status != http.StatusTooManyRequests
	}))
	channel := func(_ context.Context, r *http.Request) (string, error) {
		return "channel:" + r.PathValue("channel"), nil
	}
	counted := func(r *http.Request) bool { return !strings.HasPrefix(r.URL.Path, "/interactions/") }
	return invalid(nethttplimit.New(limiter(s, "other"), keyfunc.Join(account, channel), gate.Routes(s), gate.Headers(gate.XRateLimit),
		gate.And(limiter(s, "global"), only(counted, account)))(h))
}
