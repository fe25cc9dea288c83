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
	jitter         int32 // in seconds
	onError        func(r *http.Request, err error, status int) int
	onDecision     func(context.Context, Event)
	deniedStatus   func(core.Decision) int
	onDenied       any // a function of the type that the adapter takes
	onRejected     any // likewise
}

// Skip makes the gate let a request through if f returns true for it. A skipped request needs no
// key, is charged nothing and gets no header fields. Use Skip for health checks and CORS preflight.
// f must not trust header fields that clients can set. ctx is the context that key functions get
// ([keyfunc.Func]): in Gin and Echo, it has the values that earlier middleware has set. Skip panics
// if f is nil.
func Skip(f func(ctx context.Context, r *http.Request) bool) Option {
	argument.NotNil("gate: Skip", "function", f)
	return option(func(o *options) { o.skip = f })
}

// Plan makes f determine the plan of the caller, whose limits apply to the request: see
// [core.Rule.Plan]. f is a key function whose result is the name of a plan, such as a claim of the
// token that identifies the caller:
//
//	tokens := keyfunc.NewJWT(keys, []string{"RS256"})
//	nethttplimit.New(api, tokens.Subject(), gate.Plan(tokens.Claim("plan")))
//
// If an authentication middleware has stored the plan in the context, f returns it as it is. Do not
// use keyfunc.ContextSubject, whose keys begin with "user:":
//
//	planOf := func(ctx context.Context, _ *http.Request) (string, error) {
//		plan, _ := ctx.Value("plan").(string)
//		return plan, nil
//	}
//
// If f returns "" or [keyfunc.ErrNoKey], such as for a token without that claim, the limits without
// a plan apply. They also apply to a plan that no rule of a limiter has, with a warning: see
// [core.Limiter.Plan]. Other errors of f are treated like those of key functions: that limiter is
// charged nothing. f must not trust a header field, because a client would choose its limits. Plan
// panics if f is nil.
//
// f runs for each limiter whose rules have plans, or that [core.Limiter.Choose] has made, after the
// key function of that limiter and even if the key is exhausted. If f verifies tokens, the limiter
// of the address should have no plans and come first, so that the address bounds the number of bad
// tokens:
//
//	nethttplimit.New(perIP, ip, gate.And(perUser, tokens.Subject()), gate.Plan(tokens.Claim("plan")))
func Plan(f keyfunc.Func) Option {
	argument.NotNil("gate: Plan", "function", f)
	return option(func(o *options) { o.plan = f })
}
