// Plans limits an API by customer. The plan of the customer determines the limit, and an operator
// changes limits while the program runs.
//
//	go run -C _examples ./plans
//
// It runs on net/http, or on the framework in the environment variable FRAMEWORK: gin or echo.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"sync"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/echolimit"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/ginlimit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// limits returns a rule with the limits of all plans, and the limit free without a plan. Limits of
// one period share a counter, so requests stay used when a customer changes plans.
func limits(free core.Limit) core.Rule {
	return core.SlidingWindow("api", free).
		Plan("pro", core.PerMinute(100)).
		Plan("staff", core.Unlimited).
		Plan("banned", core.Blocked)
}

// apiKeys and customer stand for the application's database.
var apiKeys = map[string]string{"key-of-ann": "ann", "key-of-bob": "bob", "key-of-sue": "sue", "key-of-eve": "eve"}

type customer struct {
	plan string        // "" is free
	own  *core.Limiter // limits that only this customer has, or nil
}

type application struct {
	limiter   *core.Limiter
	mu        sync.RWMutex
	customers map[string]customer // by key
}

func newHandler(framework string) http.Handler {
	a := &application{
		limiter: core.Must(core.New(memstore.New(), limits(core.PerMinute(10)))),
		customers: map[string]customer{
			keyfunc.UserKey("ann"): {}, keyfunc.UserKey("bob"): {},
			keyfunc.UserKey("sue"): {plan: "staff"}, keyfunc.UserKey("eve"): {plan: "banned"},
		},
	}
	mux := http.NewServeMux()
	mux.Handle("/", limited(framework, http.HandlerFunc(hello), a.limiter.Choose(a.own), customerKey, gate.Plan(a.plan)))
	// Routes for operators, without a limit. A real application must authenticate the operators.
	mux.HandleFunc("PUT /admin/customers/{name}", a.changeCustomer)
	mux.HandleFunc("PUT /admin/limit", a.changeLimit)
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

// customerKey is the key function. It returns the key of the customer that has the API key of the
// request.
func customerKey(_ context.Context, r *http.Request) (string, error) {
	if name, ok := apiKeys[r.Header.Get("X-API-Key")]; ok {
		return keyfunc.UserKey(name), nil
	}
	return "", keyfunc.ErrNoToken // status 401
}

// plan returns the plan of the customer from the database. The client cannot choose it.
func (a *application) plan(ctx context.Context, r *http.Request) (string, error) {
	key, err := customerKey(ctx, r)
	return a.customer(key).plan, err
}

// own returns the limits that only this customer has, or nil. It is called for every request.
func (a *application) own(_ context.Context, key string) (*core.Limiter, error) {
	return a.customer(key).own, nil
}

func (a *application) customer(key string) customer {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.customers[key]
}

// hello sends the decision as text. The header fields contain the same numbers.
func hello(w http.ResponseWriter, r *http.Request) {
	d, _ := gate.FromContext(r.Context())
	fmt.Fprintln(w, d)
}

// changeCustomer gives one customer a plan, or a limit that only this customer has.
func (a *application) changeCustomer(w http.ResponseWriter, r *http.Request) {
	key, changed := keyfunc.UserKey(r.PathValue("name")), customer{plan: r.FormValue("plan")}
	if text := r.FormValue("limit"); text != "" {
		limit, err := core.ParseLimit(text)
		if err == nil {
			changed.own, err = a.limiter.Variant(core.SlidingWindow("api", limit))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.customers[key]; !ok {
		http.NotFound(w, r)
		return
	}
	a.customers[key] = changed
}

// changeLimit replaces the rule, and so the limit of all customers without a plan.
func (a *application) changeLimit(w http.ResponseWriter, r *http.Request) {
	limit, err := core.ParseLimit(r.FormValue("limit"))
	if err == nil {
		err = a.limiter.Replace(limits(limit))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

const try = `
  # ann has no plan: 10 a minute
  for i in $(seq 11); do curl -s -o /dev/null -w '%{http_code} ' -H 'X-API-Key: key-of-ann' http://ADDR/; done; echo
  # with the plan pro she has 100 a minute at once, of which 10 are used
  curl -X PUT -d plan=pro http://ADDR/admin/customers/ann
  curl -i -H 'X-API-Key: key-of-ann' http://ADDR/
  # 250 a minute for her alone
  curl -X PUT -d plan=pro -d limit=250/m http://ADDR/admin/customers/ann
  curl -i -H 'X-API-Key: key-of-ann' http://ADDR/
  # 20 a minute for all customers without a plan, such as bob
  curl -X PUT -d limit=20/m http://ADDR/admin/limit
  curl -i -H 'X-API-Key: key-of-bob' http://ADDR/
  # sue has no limit and sees no fields; eve is blocked, without a Retry-After
  curl -i -H 'X-API-Key: key-of-sue' http://ADDR/
  curl -i -H 'X-API-Key: key-of-eve' http://ADDR/
`

func main() {
	if err := demo.Serve(newHandler(os.Getenv("FRAMEWORK")), try); err != nil {
		log.Fatal(err)
	}
}
