package gate

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testkit"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
)

func TestNewPolicy_Member(t *testing.T) {
	for _, c := range []struct {
		rule core.Rule
		want string
	}{
		{core.SlidingLog("a", core.PerSecond(1)), `"a";q=1;w=1`},
		{core.SlidingLog("a", core.Per(1, time.Second-time.Microsecond)), `"a";q=1`},
		{core.SlidingLog("a", core.Per(1, time.Second+time.Microsecond)), `"a";q=1;w=2`},
		{core.SlidingLog("a", core.Per(1, time.Millisecond)), `"a";q=1`},
		{core.SlidingLog("a", core.Per(math.MaxInt32, time.Minute)), `"a";q=2147483647;w=60`},
		{core.TokenBucket("a", core.PerSecond(10)), `"a";q=10;w=1`},
		{core.TokenBucket("a", core.PerSecond(10).WithBurst(20)), `"a";q=20;w=2`},
		{core.TokenBucket("a", core.PerSecond(10).WithBurst(21)), `"a";q=21;w=3`},
		{core.TokenBucket("a", core.PerSecond(10).WithBurst(9)), `"a";q=9`},
		{core.TokenBucket("a", core.Per(1, 365*24*time.Hour)), `"a";q=1;w=31536000`},
		{core.TokenBucket(`"\`, core.PerSecond(1)), `"\"\\";q=1;w=1`},
		{core.SlidingLog("a", core.PerMinute(9)).Unit("bytes"), `"a";q=9;qu="content-bytes";w=60`},
		{core.SlidingLog("a", core.PerMinute(9)).Unit("content-bytes"), `"a";q=9;qu="content-bytes";w=60`},
		{core.SlidingLog("a", core.PerMinute(9)).Unit("concurrent-requests"), `"a";q=9;qu="concurrent-requests";w=60`},
		{core.SlidingLog("a", core.PerMinute(9)).Unit("requests"), `"a";q=9;w=60`},
		{core.SlidingLog("a", core.PerMinute(9)).Unit(`"tokens"`), `"a";q=9;w=60`},
		{core.SlidingLog("a", core.Blocked).Unit("bytes"), `"a";q=0;qu="content-bytes"`},
	} {
		if _, err := core.New(memstore.New(), c.rule); err != nil {
			t.Fatal(err)
		}
		if got := newPolicy(c.rule).member; got != c.want {
			t.Errorf("%v is %s, want %s", &c.rule, got, c.want)
		}
	}
}

// TestFillTime compares with the same calculation in big integers: capacity x period / events,
// rounded up.
func TestFillTime(t *testing.T) {
	testkit.WithoutRace(t)
	r := rand.New(rand.NewPCG(1, 2))
	checked := 0
	for range 20_000 {
		l := core.Per(1+int(r.Int64N(1<<r.UintN(40))), time.Duration(1+r.Int64N(1<<r.UintN(36)))*time.Microsecond)
		l = l.WithBurst(1 + int(r.Int64N(1<<r.UintN(40))))
		rule := core.TokenBucket("r", l)
		if _, err := core.New(memstore.New(memstore.MaxMemory(1)), rule); err != nil {
			continue // cannot be run
		}
		checked++
		want := new(big.Int).Mul(big.NewInt(int64(l.Burst)), big.NewInt(int64(l.Per)))
		want.Add(want, big.NewInt(int64(l.Events-1)))
		want.Div(want, big.NewInt(int64(l.Events)))
		if got := fillTime(rule); !want.IsInt64() || int64(got) != want.Int64() {
			t.Fatalf("%v fills in %d ns, want %v", l, got, want)
		}
	}
	if checked < 5_000 {
		t.Errorf("only %d limits could be run", checked)
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Second - 1: 1, time.Second: 1, time.Second + 1: 2,
		core.Never: 9223372037, -1: 0, -time.Hour: -3600,
	} {
		if got := seconds(d); got != want {
			t.Errorf("seconds(%v) is %d, want %d", d, got, want)
		}
	}
}

func TestInteger(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 7: "7", -1: "0", math.MinInt64: "0", math.MaxInt64: "999999999999999",
		999_999_999_999_999: "999999999999999", 999_999_999_999_998: "999999999999998", 1_000_000_000_000_000: "999999999999999",
	} {
		if got := integer(n); got != want {
			t.Errorf("integer(%d) is %s, want %s", n, got, want)
		}
	}
}

// A line that is added to one field does not overwrite the other. Both values are in one array.
func TestWriteFields_AddToField(t *testing.T) {
	g := newGate("test", core.Must(core.New(memstore.New(), core.TokenBucket("r", core.PerSecond(5)))), anyKey, nil)
	h, r := header(), get("/")
	if _, _, rejection := g.Admit(r.Context(), h, r, ""); rejection != nil {
		t.Fatal(rejection)
	}
	h.Add("RateLimit-Policy", "more")
	h.Add("RateLimit", "more")
	if h["Ratelimit"][0] != `"r";r=4;t=1` || h["Ratelimit-Policy"][0] != `"r";q=5;w=1` || len(h["Ratelimit"]) != 2 {
		t.Errorf("the fields are %v", h)
	}
}

// More rules than the initial buffers can hold, in one gate and behind another gate.
func TestWriteFields_ManyRules(t *testing.T) {
	var rules []core.Rule
	var want []string
	for i := range 16 {
		name := "a rule with a rather long name " + string(rune('A'+i))
		rules = append(rules, core.SlidingLog(name, core.PerHour(1_000_000)))
		want = append(want, string(appendString(nil, name))+";r=999999;t=3600")
	}
	many := newGate("test", core.Must(core.New(memstore.New(), rules...)), anyKey, nil)
	h, r := header(), get("/")
	many.Admit(r.Context(), h, r, "")
	if got := h.Get("RateLimit"); got != strings.Join(want, ", ") {
		t.Errorf("one gate: %s", got)
	}
	outer := newGate("test", once(), anyKey, nil)
	admitted, _, _ := outer.Admit(r.Context(), h, r, "")
	if _, err := many.asks[0].limiter.Reset(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	many.Admit(admitted.Context(), h, admitted, "")
	if got := h.Get("RateLimit"); got != `"once";r=0;t=86400, `+strings.Join(want, ", ") {
		t.Errorf("behind another gate: %s", got)
	}
}

// substitute returns a Store that decides by rules in place of the rules of the limiter, like a
// store that applies other limits.
func substitute(rules ...core.Rule) core.Store {
	return new(storetest.Fake).Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		for i := range charges {
			charges[i].Rule = testkit.Compiled(rules[i])
		}
		return next(ctx, charges)
	})
}

// The fields describe the limits of the states, even if these differ from the limits of the gate.
func TestWriteFields_RulesInForce(t *testing.T) {
	a, b := core.SlidingLog("a", core.PerMinute(10)), core.SlidingLog("b", core.PerMinute(20))
	for _, c := range []struct {
		name   string
		rules  []core.Rule // in force
		policy string
		limit  string
	}{
		{"the same", []core.Rule{a, b}, `"a";q=10;w=60, "b";q=20;w=60`, `"a";r=9;t=60, "b";r=19;t=60`},
		{
			"another limit", []core.Rule{a, core.SlidingLog("b", core.PerMinute(30))},
			`"a";q=10;w=60, "b";q=30;w=60`, `"a";r=9;t=60, "b";r=29;t=60`,
		},
		{
			"another time", []core.Rule{core.SlidingLog("a", core.PerHour(10)), b},
			`"a";q=10;w=3600, "b";q=20;w=60`, `"a";r=9;t=3600, "b";r=19;t=60`,
		},
		{"soft now", []core.Rule{a.Soft(10), b}, `"a";q=10;w=60, "b";q=20;w=60`, `"a";r=9;t=60, "b";r=19;t=60`},
	} {
		g := newGate("test", core.Must(core.New(substitute(c.rules...), a, b)), anyKey, nil)
		h, r := header(), get("/")
		g.Admit(r.Context(), h, r, "")
		if h.Get("RateLimit-Policy") != c.policy || h.Get("RateLimit") != c.limit {
			t.Errorf("%s: %s and %s\n\twant %s and %s", c.name, h.Get("RateLimit-Policy"), h.Get("RateLimit"), c.policy, c.limit)
		}
	}
}

// A decision may have more states than the gate has rules.
func TestPolicies_Of_MoreStatesThanRules(t *testing.T) {
	rule := core.SlidingLog("new", core.PerMinute(3))
	g := newGate("test", once(), anyKey, nil)
	if p := g.policies.of(7, rule); p.member != `"new";q=3;w=60` || p.rule != rule {
		t.Errorf("the policy is %+v", p)
	}
}

// A gate writes every version that Headers accepts, and ExposeHeaders lists its names.
func TestHeaders_EveryVersion(t *testing.T) {
	versions := 0
	for v := HeaderVersion(1); known(v); v++ {
		versions++
		l := core.Must(core.New(memstore.New(), core.SlidingLog("r", core.PerDay(2))))
		g := newGate("test", l, anyKey, []Option{Headers(v), ExposeHeaders()})
		h, r := header(), get("/")
		g.Admit(r.Context(), h, r, "")
		exposed := h.Get("Access-Control-Expose-Headers")
		h.Del("Access-Control-Expose-Headers")
		if len(h) == 0 {
			t.Errorf("version %d: no fields are written", v)
		}
		for name := range h {
			if !listed(exposed, name) {
				t.Errorf("version %d: %s is written, but not in Access-Control-Expose-Headers: %s", v, name, exposed)
			}
		}
	}
	if versions < 2 {
		t.Errorf("Headers accepts %d versions, want 2 or more", versions)
	}
}

// known reports whether Headers accepts v.
func known(v HeaderVersion) (ok bool) {
	defer func() { ok = recover() == nil }()
	Headers(v)
	return true
}
