package argument_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/load"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
	"github.com/weir-go/weir/nethttplimit/client"
)

var (
	store     = memstore.New()
	none      *memstore.Store
	once      = core.SlidingLog("once", core.PerDay(1))
	l         = core.Must(core.New(store, once))
	secretOf  = func(*jwt.Token) (any, error) { return []byte("secret"), nil }
	proxies   = keyfunc.Proxies("10.0.0.0/8")
	constant  = keyfunc.Constant("k")
	signal    = func() float64 { return 1 }
	costOf    = func(context.Context, *http.Request) int { return 1 }
	costOfAll = func(context.Context, *http.Request, []byte) (int, error) { return 1, nil }
	hs256     = []string{"HS256"}
)

// invalid holds the calls of this module whose arguments are invalid, and the text with which each of them panics.
var invalid = []struct {
	want string
	call func()
}{
	{"core: Choose: pick is nil", func() { l.Choose(nil) }},
	{"core: Must: weir: no usable store: it is nil", func() { core.Must(core.New(nil)) }},

	{"memstore: New: option 1 is nil", func() { memstore.New(memstore.MaxMemory(1), nil) }},
	{"memstore: MaxMemory: n is less than 1", func() { memstore.MaxMemory(0) }},

	{"denycache: New: next is nil", func() { denycache.New(nil) }},
	{"denycache: New: next is nil", func() { denycache.New(none) }},
	{"denycache: New: option 0 is nil", func() { denycache.New(store, nil) }},
	{"denycache: MaxKeys: n is less than 1", func() { denycache.MaxKeys(0) }},
	{"denycache: MaxAge: not positive", func() { denycache.MaxAge(0) }},

	{"lease: New: next is nil", func() { lease.New(nil) }},
	{"lease: New: next is nil", func() { lease.New(none) }},
	{"lease: New: option 0 is nil", func() { lease.New(store, nil) }},

	{"failover: New: primary is nil", func() { failover.New(nil, store) }},
	{"failover: New: primary is nil", func() { failover.New(none, store) }},
	{"failover: New: backup is nil", func() { failover.New(store, nil) }},
	{"failover: New: backup is nil", func() { failover.New(store, none) }},
	{"failover: New: option 0 is nil", func() { failover.New(store, store, nil) }},
	{"failover: Processes: function is nil", func() { failover.Processes(nil) }},
	{"failover: OnChange: function is nil", func() { failover.OnChange(nil) }},
	{"failover: Instances: n is less than 1", func() { failover.Instances(0) }},
	{"failover: Deadline: it is not positive", func() { failover.Deadline(0) }},

	{"observe: New: next is nil", func() { observe.New(nil) }},
	{"observe: New: option 0 is nil", func() { observe.New(store, nil) }},
	{"observe: Logger: log is nil", func() { observe.Logger(nil) }},
	{"observe: OnCall: function is nil", func() { observe.New(store).OnCall(nil) }},
	{"observe: TopKeys: n is not in 1 to 100", func() { observe.TopKeys(0) }},
	{"observe: KeySecret: shorter than 16 bytes", func() { observe.KeySecret(make([]byte, 15)) }},
	{"observe: Add: part is nil", func() { observe.New(store).Add(nil) }},

	{"load: Min: no signals", func() { load.Min() }},
	{"load: Min: a signal is nil", func() { load.Min(signal, nil) }},
	{"load: Smooth: signal is nil", func() { load.Smooth(nil, time.Second) }},
	{"load: Smooth: halfLife is not positive", func() { load.Smooth(signal, 0) }},
	{"load: Smooth: halfLife is not positive", func() { load.Smooth(signal, -time.Second) }},

	{"gate: And: limiter is nil", func() { gate.And(nil, constant) }},
	{"gate: And: key function is nil", func() { gate.And(l, nil) }},
	{"gate: And: option 0 is nil", func() { gate.And(l, constant, nil) }},
	{onlyOfOne, func() { gate.And(l, constant, gate.Headers()) }},
	{onlyOfOne, func() { gate.And(l, constant, gate.Headers(gate.XRateLimit)) }},
	{onlyOfOne, func() { gate.And(l, constant, gate.FailClosed()) }},
	{onlyOfOne, func() { gate.And(l, constant, gate.MaxDelay(time.Second)) }},
	{onlyOfOne, func() { gate.And(l, constant, gate.Routes(noRoutes{})) }},
	{onlyOfOne, func() { gate.And(l, constant, gate.And(l, constant)) }},
	{onlyOfOne, func() { gate.And(l, constant, gate.Exempt(constant, "::1")) }},
	{onlyOfOne, func() { gate.And(l, constant, gate.XRateLimitRule("once")) }},
	{onlyOfOne, func() { gate.And(l, constant, gate.Jitter(time.Second)) }},
	{onlyOfOne, func() { gate.And(l, constant, gate.Options(gate.Cost(costOf), gate.FailClosed())) }},
	{"gate: Plan: function is nil", func() { gate.Plan(nil) }},
	{"gate: Cost: function is nil", func() { gate.Cost(nil) }},
	{"gate: CostOfBody: function is nil", func() { gate.CostOfBody(1, nil) }},
	{"gate: CostOfBody: the number of bytes is not positive", func() { gate.CostOfBody(0, costOfAll) }},
	{"gate: CostOfBody: the number of bytes is not positive", func() { gate.CostOfBody(-1, costOfAll) }},
	{"gate: Options: option 1 is nil", func() { gate.Options(gate.FailClosed(), nil) }},
	{"gate: XRateLimitRule: the name is empty", func() { gate.XRateLimitRule("") }},
	{"gate: Skip: function is nil", func() { gate.Skip(nil) }},
	{"gate: Exempt: resolver is nil", func() { gate.Exempt(nil, "10.0.0.0/8") }},
	{"gate: Exempt: no CIDR is given", func() { gate.Exempt(constant) }},
	{`gate: Exempt: keyfunc: ParseProxies: "10.0.0/8" is not a CIDR prefix such as 10.0.0.0/8`, func() { gate.Exempt(constant, "10.0.0.0/8", "10.0.0/8") }},
	{"gate: Caller: function is nil", func() { gate.Caller(nil) }},
	{"gate: DeniedStatus: function is nil", func() { gate.DeniedStatus(nil) }},
	{noJitter, func() { gate.Jitter(0) }},
	{noJitter, func() { gate.Jitter(-time.Second) }},
	{noJitter, func() { gate.Jitter(999 * time.Millisecond) }},
	{noJitter, func() { gate.Jitter(24*time.Hour + 1) }},
	{"gate: RefundIf: function is nil", func() { gate.RefundIf(nil) }},
	{"gate: MaxDelay: duration is not positive", func() { gate.MaxDelay(0) }},
	{"gate: MaxDelay: duration is not positive", func() { gate.MaxDelay(-time.Second) }},
	{"gate: OnError: function is nil", func() { gate.OnError(nil) }},
	{"gate: Headers: unknown version 0", func() { gate.Headers(0) }},
	{"gate: Headers: unknown version 9", func() { gate.Headers(gate.XRateLimit, 9) }},

	{"nethttplimit: New: handler is nil", func() { nethttplimit.New(l, constant)(nil) }},
	{"nethttplimit: OnDenied: function is nil", func() { nethttplimit.OnDenied(nil) }},
	{"nethttplimit: OnRejected: function is nil", func() { nethttplimit.OnRejected(nil) }},
	{"nethttplimit: PerIP: option 0 is nil", func() { nethttplimit.PerIP(core.PerMinute(10), nil) }},
	{`nethttplimit: PerIP: weir: rule "ip": limit is zero`, func() { nethttplimit.PerIP(core.Limit{}) }},
	{`nethttplimit: PerIP: weir: rule "ip": burst has no meaning for sliding_window`, func() { nethttplimit.PerIP(core.PerMinute(10).WithBurst(5)) }},
	{
		"nethttplimit: PerIP: gate.And needs limiters on one store: give that of And to nethttplimit.Limit",
		func() { nethttplimit.PerIP(core.PerMinute(10), gate.And(l, constant)) },
	},
	{"nethttplimit: Limit: weir: no usable store: it is nil", func() { nethttplimit.Limit(nil, once, constant) }},
	{"nethttplimit: Limit: weir: no usable store: it is nil", func() { nethttplimit.Limit(none, once, constant) }},
	{`nethttplimit: Limit: weir: rule "ip": limit is zero`, func() { nethttplimit.Limit(store, core.SlidingLog("ip", core.Limit{}), constant) }},
	{"nethttplimit: Limit: option 0 is nil", func() { nethttplimit.Limit(store, once, constant, nil) }},
	{"nethttplimit: New: key function is nil", func() { nethttplimit.Limit(store, once, nil) }},
	{
		"nethttplimit: Limit: gate.And needs limiters on one store: give that of And to nethttplimit.Limit",
		func() { nethttplimit.Limit(memstore.New(), once, constant, gate.And(l, constant)) },
	},
	{"client: New: weir: the Transport is invalid: it has no Limiter", func() { client.New(nil, client.ByHost) }},
	{"client: New: weir: the Transport is invalid: it has no Key", func() { client.New(core.Must(core.New(store, core.Pause("pause"))), nil) }},
	{"client: New: weir: the Transport is invalid: its Limiter has no Pause", func() { client.New(l, client.ByHost) }},

	{"keyfunc: Constant: the name is empty", func() { keyfunc.Constant("") }},
	{"keyfunc: ContextSubject: a key of type <nil> cannot be looked up", func() { keyfunc.ContextSubject(nil) }},
	{"keyfunc: ContextSubject: a key of type []string cannot be looked up", func() { keyfunc.ContextSubject([]string{"sub"}) }},
	{"keyfunc: ContextSubject: a key of type map[string]int cannot be looked up", func() { keyfunc.ContextSubject(map[string]int{}) }},
	{"keyfunc: ContextSubject: a key of type struct { k interface {} } cannot be looked up", func() { keyfunc.ContextSubject(struct{ k any }{[]int{1}}) }},
	{"keyfunc: FirstOf: no key function given", func() { keyfunc.FirstOf() }},
	{"keyfunc: FirstOf: key function 1 is nil", func() { keyfunc.FirstOf(constant, nil) }},
	{"keyfunc: Join: no key function given", func() { keyfunc.Join() }},
	{"keyfunc: Join: key function 0 is nil", func() { keyfunc.Join(nil, constant) }},
	{"keyfunc: Fold: the key function is nil", func() { keyfunc.Fold(nil) }},
	{`keyfunc: Header: "" is not the name of a header field`, func() { keyfunc.Header("") }},
	{`keyfunc: Header: "X Key" is not the name of a header field`, func() { keyfunc.Header("X Key") }},
	{`keyfunc: Header: "X-Key:" is not the name of a header field`, func() { keyfunc.Header("X-Key:") }},
	{"keyfunc: Header: Host is not in the header of a request: write a Func that uses r.Host", func() { keyfunc.Header("host") }},
	{`keyfunc: Cookie: "" is not the name of a cookie`, func() { keyfunc.Cookie("") }},
	{`keyfunc: Cookie: "a=b" is not the name of a cookie`, func() { keyfunc.Cookie("a=b") }},
	{"keyfunc: PathValue: the name is empty", func() { keyfunc.PathValue("") }},
	{"keyfunc: FormValue: the name is empty", func() { keyfunc.FormValue("") }},
	{"keyfunc: JSONField: the name is empty", func() { keyfunc.JSONField("") }},
	{`keyfunc: JSONField: "\xff" is not valid text`, func() { keyfunc.JSONField("\xff") }},
	{"keyfunc: JSONField: \"\uFFFD\" is not valid text", func() { keyfunc.JSONField("\uFFFD") }},
	{`keyfunc: JSONField: no field of a struct can be called "a,b" in JSON`, func() { keyfunc.JSONField("a,b") }},
	{`keyfunc: JSONField: no field of a struct can be called "a\"b" in JSON`, func() { keyfunc.JSONField(`a"b`) }},

	{"keyfunc: RemoteIP: option 0 is nil", func() { keyfunc.RemoteIP(nil) }},
	{"keyfunc: CanonicalIP: option 0 is nil", func() { _, _ = keyfunc.CanonicalIP("", nil) }},
	{"keyfunc: XForwardedFor: option 0 is nil", func() { keyfunc.XForwardedFor(proxies, nil) }},
	{"keyfunc: Forwarded: option 0 is nil", func() { keyfunc.Forwarded(proxies, nil) }},
	{`keyfunc: HeaderFrom: "" is not the name of a header field`, func() { keyfunc.HeaderFrom("", proxies) }},
	{"keyfunc: HeaderFrom: Host is not in the header of a request: write a Func that uses r.Host", func() { keyfunc.HeaderFrom("host", proxies) }},
	{"keyfunc: HeaderFrom: the set of gateways is empty", func() { keyfunc.HeaderFrom("X-Org-ID", keyfunc.ProxySet{}) }},
	{"keyfunc: HeaderFrom: the set of gateways is empty", func() { keyfunc.HeaderFrom("X-Org-ID", keyfunc.Proxies()) }},
	{"keyfunc: HeaderIP: option 0 is nil", func() { keyfunc.HeaderIP("X-Real-IP", proxies, nil) }},
	{`keyfunc: HeaderIP: "" is not the name of a header`, func() { keyfunc.HeaderIP("", proxies) }},
	{`keyfunc: HeaderIP: " " is not the name of a header`, func() { keyfunc.HeaderIP(" ", proxies) }},
	{`keyfunc: HeaderIP: "X Real IP" is not the name of a header`, func() { keyfunc.HeaderIP("X Real IP", proxies) }},
	{`keyfunc: HeaderIP: "X-Real-IP:" is not the name of a header`, func() { keyfunc.HeaderIP("X-Real-IP:", proxies) }},
	{`keyfunc: HeaderIP: "X-Réal-IP" is not the name of a header`, func() { keyfunc.HeaderIP("X-Réal-IP", proxies) }},
	{`keyfunc: HeaderIP: "X-Real-IP\n" is not the name of a header`, func() { keyfunc.HeaderIP("X-Real-IP\n", proxies) }},
	{`keyfunc: HeaderIP: "a,b" is not the name of a header`, func() { keyfunc.HeaderIP("a,b", proxies) }},
	{"keyfunc: HeaderIP: X-Forwarded-For is a list: use XForwardedFor", func() { keyfunc.HeaderIP("X-Forwarded-For", proxies) }},
	{"keyfunc: HeaderIP: X-Forwarded-For is a list: use XForwardedFor", func() { keyfunc.HeaderIP("x-FORWARDED-for", proxies) }},
	{"keyfunc: HeaderIP: Forwarded has a syntax of its own: use Forwarded", func() { keyfunc.HeaderIP("forwarded", proxies) }},
	{"keyfunc: IPv6Prefix: -1 bits is outside 32 to 128", func() { keyfunc.IPv6Prefix(-1) }},
	{"keyfunc: IPv6Prefix: 31 bits is outside 32 to 128", func() { keyfunc.IPv6Prefix(31) }},
	{"keyfunc: IPv6Prefix: 129 bits is outside 32 to 128", func() { keyfunc.IPv6Prefix(129) }},
	{"keyfunc: IPv4Prefix: 0 bits is outside 8 to 32", func() { keyfunc.IPv4Prefix(0) }},
	{"keyfunc: IPv4Prefix: 7 bits is outside 8 to 32", func() { keyfunc.IPv4Prefix(7) }},
	{"keyfunc: IPv4Prefix: 33 bits is outside 8 to 32", func() { keyfunc.IPv4Prefix(33) }},
	{"keyfunc: LastHops: 0 is outside 1 to 32", func() { keyfunc.LastHops(0) }},
	{"keyfunc: LastHops: 33 is outside 1 to 32", func() { keyfunc.LastHops(33) }},

	{"keyfunc: JWTSubject: the Keyfunc is nil", func() { keyfunc.JWTSubject(nil, hs256) }},
	{"keyfunc: JWTSubject: option 1 is nil", func() { keyfunc.JWTSubject(secretOf, hs256, keyfunc.Cache(1), nil) }},
	{`keyfunc: JWTSubject: name the algorithms of the tokens, for instance []string{"RS256"}`, func() { keyfunc.JWTSubject(secretOf, nil) }},
	{`keyfunc: JWTSubject: name the algorithms of the tokens, for instance []string{"RS256"}`, func() { keyfunc.JWTSubject(secretOf, []string{}) }},
	{`keyfunc: JWTSubject: "none" is no signature`, func() { keyfunc.JWTSubject(secretOf, []string{"none"}) }},
	{`keyfunc: JWTSubject: "none" is no signature`, func() { keyfunc.JWTSubject(secretOf, []string{"RS256", "NONE"}) }},
	{`keyfunc: JWTSubject: "none" is no signature`, func() { keyfunc.JWTSubject(secretOf, []string{"None"}) }},
	{`keyfunc: JWTSubject: unknown algorithm ""`, func() { keyfunc.JWTSubject(secretOf, []string{""}) }},
	{`keyfunc: JWTSubject: unknown algorithm "HS257"`, func() { keyfunc.JWTSubject(secretOf, []string{"HS257"}) }},
	{`keyfunc: JWTSubject: unknown algorithm "rs256"`, func() { keyfunc.JWTSubject(secretOf, []string{"rs256"}) }},
	{`keyfunc: JWTSubject: unknown algorithm "ES999"`, func() { keyfunc.JWTSubject(secretOf, []string{"RS256", "ES999"}) }},
	{"keyfunc: Claim: the name is empty", func() { keyfunc.NewJWT(secretOf, hs256).Claim("") }},
	{"keyfunc: JWTClaim: the name is empty", func() { keyfunc.JWTClaim("", secretOf, hs256) }},
	{"keyfunc: JWTClaim: the Keyfunc is nil", func() { keyfunc.JWTClaim("plan", nil, hs256) }},
	{"keyfunc: NewJWT: the Keyfunc is nil", func() { keyfunc.NewJWT(nil, hs256) }},
	{"keyfunc: NewJWT: option 0 is nil", func() { keyfunc.NewJWT(secretOf, hs256, nil) }},
	{"keyfunc: Issuer: the issuer is empty", func() { keyfunc.Issuer("") }},
	{"keyfunc: Audience: an audience is empty or none is given", func() { keyfunc.Audience() }},
	{"keyfunc: Audience: an audience is empty or none is given", func() { keyfunc.Audience("api", "") }},
	{"keyfunc: Leeway: -1s is negative", func() { keyfunc.Leeway(-time.Second) }},
	{"keyfunc: TokenFrom: the function is nil", func() { keyfunc.TokenFrom(nil) }},
	{"keyfunc: Cache: 0 entries are less than one", func() { keyfunc.Cache(0) }},
	{"keyfunc: Cache: -1 entries are less than one", func() { keyfunc.Cache(-1) }},
}

// noRoutes has no route.
type noRoutes struct{}

func (noRoutes) ForRequest(*http.Request) *core.Limiter { return nil }

const (
	onlyOfOne = "gate: And: only Cost, CostOfBody and Plan can be given for one limiter"
	noJitter  = "gate: Jitter: the duration is not from 1 s to 24 h"
)

// Each function panics if an argument is invalid, also a nil in an interface, and names the argument.
func TestInvalid(t *testing.T) {
	for _, c := range invalid {
		testkit.Panics(t, c.want, c.call)
	}
}
