package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// The options of an application, for its gates in every framework.
func ExampleOption() {
	options := []gate.Option{
		gate.Skip(func(_ context.Context, r *http.Request) bool { return r.URL.Path == "/healthz" }),
		gate.Headers(gate.IETFDraft, gate.XRateLimit),
		gate.FailClosed(),
	}
	h := nethttplimit.Limit(memstore.New(), core.SlidingLog("api", core.PerMinute(10)), keyfunc.RemoteIP(), options...)(hello)

	for _, path := range []string{"/", "/healthz"} {
		fmt.Printf("%s %q\n", path, do(h, "GET", path).Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// / "9"
	// /healthz ""
}

// Headers without an argument sends no fields, so that a login does not tell how many attempts are
// left.
func ExampleHeaderVersion() {
	login := core.Must(core.New(memstore.New(), core.SlidingLog("login", core.PerHour(5))))
	for _, versions := range [][]gate.HeaderVersion{{gate.IETFDraft}, {gate.XRateLimit}, {}} {
		h := nethttplimit.New(login, keyfunc.RemoteIP(), gate.Headers(versions...))(hello)
		header := do(h, "POST", "/login").Header()
		fmt.Printf("%q %q\n", header.Get("RateLimit"), header.Get("X-RateLimit-Remaining"))
	}
	// Output:
	// "\"login\";r=4;t=3600" ""
	// "" "3"
	// "" ""
}

// An alert tells about requests that could not be decided.
func ExampleEvent() {
	api := core.Must(core.New(unavailable(), core.SlidingLog("api", core.PerMinute(10))))
	alert := gate.OnDecision(func(_ context.Context, e gate.Event) {
		if e.Err != nil {
			fmt.Println(e.Outcome, e.Status, errors.Is(e.Err, core.ErrUnavailable))
		}
	})
	do(nethttplimit.New(api, keyfunc.RemoteIP(), alert, quietly)(hello), "GET", "/")
	do(nethttplimit.New(api, keyfunc.RemoteIP(), alert, quietly, gate.FailClosed())(hello), "GET", "/")
	// Output:
	// let_through 0 true
	// refused 503 true
}

// The outcomes of requests, for a metric.
func ExampleOutcome() {
	counts := make(map[gate.Outcome]int) // a metric with the label Outcome.String
	h := nethttplimit.Limit(memstore.New(), core.SlidingLog("api", core.PerHour(2)), keyfunc.RemoteIP(),
		gate.Skip(func(_ context.Context, r *http.Request) bool { return r.URL.Path == "/healthz" }),
		gate.OnDecision(func(_ context.Context, e gate.Event) { counts[e.Outcome]++ }))(hello)

	for _, path := range []string{"/", "/", "/", "/healthz"} {
		do(h, "GET", path)
	}
	fmt.Println(counts)
	// Output: map[skipped:1 admitted:2 denied:1]
}

// byMethod is a Policy with another limiter for requests that write.
type byMethod struct{ write *core.Limiter }

func (p byMethod) ForRequest(r *http.Request) *core.Limiter {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return nil // the limiter of the gate
	}
	return p.write
}

// One gate has a limit for reads and another one for writes. Package rules has a Policy for the
// routes of a configuration.
func ExamplePolicy() {
	store := memstore.New()
	write := core.Must(core.New(store, core.SlidingLog("write", core.PerMinute(10))))
	h := nethttplimit.Limit(store, core.SlidingLog("read", core.PerMinute(100)), keyfunc.RemoteIP(), gate.Routes(byMethod{write}))(hello)

	for _, method := range []string{"GET", "POST"} {
		fmt.Println(method, do(h, method, "/orders").Header().Get("RateLimit"))
	}
	// Output:
	// GET "read";r=99;t=60
	// POST "write";r=9;t=60
}

// A client in Go decodes the document of a denial.
func ExampleProblem() {
	api := core.Must(core.New(memstore.New(), core.SlidingLog("api", core.PerMinute(1))))
	h := nethttplimit.New(api, keyfunc.RemoteIP())(hello)
	do(h, "GET", "/orders")

	w := do(h, "GET", "/orders")
	if w.Header().Get("Content-Type") == gate.ProblemMediaType {
		var p gate.Problem
		err := json.Unmarshal(w.Body.Bytes(), &p)
		fmt.Println(p.Status, p.Violated, p.Detail, err)
	}
	// Output: 429 [api] Policy "api" allows 1 request per 60 s. Retry in 60 s. <nil>
}

// A page for browsers in place of the problem document. The error tells why the handler does not run.
func ExampleRejection() {
	page := nethttplimit.OnRejected(func(w http.ResponseWriter, _ *http.Request, r *gate.Rejection) {
		w.WriteHeader(r.Problem.Status)
		switch {
		case errors.Is(r, core.ErrUnavailable):
			fmt.Fprint(w, "We are having problems. ", r.Problem.Detail)
		case errors.Is(r, keyfunc.ErrNoToken):
			fmt.Fprint(w, "Please sign in.")
		}
	})
	for _, key := range []keyfunc.Func{keyfunc.RemoteIP(), keyfunc.ContextSubject(userKey{})} {
		h := nethttplimit.Limit(unavailable(), core.SlidingLog("api", core.PerMinute(10)), key, page, gate.FailClosed(), quietly)(hello)
		w := do(h, "GET", "/")
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 503 We are having problems. Retry in 1 s.
	// 401 Please sign in.
}

// unavailable returns a Store that never decides.
func unavailable() core.Store {
	return new(storetest.Fake).Set(storetest.Fail(core.ErrUnavailable))
}

// quietly keeps the errors of an example out of the log.
var quietly = gate.OnError(func(_ *http.Request, _ error, status int) int { return status })

type userKey struct{}

// withUser stores name in ctx, like an authentication middleware.
func withUser(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, userKey{}, name)
}
