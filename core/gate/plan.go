package gate

import (
	"github.com/weir-go/weir/internal/argument"
	"github.com/weir-go/weir/keyfunc"
)

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
