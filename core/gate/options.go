package gate

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/argument"
	"github.com/weir-go/weir/keyfunc"
)

// An Option configures a middleware. Functions of this package and OnDenied of each adapter return
// Options. If an option is given twice, the later one is used, but every [And] adds a key.
type Option interface{ argument.Option[options] }

// Options returns an Option with the effects of opts in their order, such as the choices that all gates of a
// program share:
//
//	house := gate.Options(gate.Headers(gate.XRateLimit), gate.OnDecision(count), gate.DeniedStatus(status))
//	mux.Handle("GET /search", nethttplimit.New(search, user, house)(h))
//	mux.Handle("POST /login", nethttplimit.New(login, ip, house, gate.FailClosed())(h))
//
// A later option replaces an earlier one, in the list or before and after it. opts may contain other Options. A
// function that takes some options only, such as [And] or Check of an adapter, takes an Options of these. Options
// panics if an option is nil.
func Options(opts ...Option) Option {
	all := slices.Clone(opts)
	argument.Apply("gate: Options", new(options), all)
	return option(func(o *options) { argument.Apply("gate: Options", o, all) })
}

type option = argument.OptionFunc[options]

// options holds the values of the options of a gate. Each has the name of its option. The function of
// an absent option is nil.
type options struct {
	adapter string // the name of the adapter

	and            []ask
	cost           func(context.Context, *http.Request) int
	costOfBody     *bodyCost // nil if there is a cost
	plan           keyfunc.Func
	skip           func(context.Context, *http.Request) bool
	exempt         func(context.Context, *http.Request) bool
	routes         Policy
	refundIf       func(status int) bool
	maxDelay       time.Duration
	headers        *versions // nil: those of the gate around, or IETFDraft
	xRateLimitRule string
	exposeHeaders  bool
	failClosed     bool
	onError        func(r *http.Request, err error, status int) int
	onDecision     func(context.Context, Event)
	deniedStatus   func(core.Decision) int
	onDenied       any // a function of the type that the adapter takes
	onRejected     any // likewise
}
