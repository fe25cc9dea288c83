package core_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

// defaultHold is the hold of a place of an InFlight without another one.
const defaultHold = 30 * time.Second

// New reports the field of a Spec that is invalid, and why.
func TestNewRule_Invalid(t *testing.T) {
	of := func(a core.Algorithm, change func(*core.Spec)) core.Rule {
		s := core.Spec{Name: "r", Algorithm: a, Limit: core.PerMinute(10)}
		switch a {
		case core.AlgorithmInFlight:
			s.Limit = core.Limit{Events: 5}
		case core.AlgorithmQuota:
			s.Limit = core.Daily(5)
		}
		change(&s)
		return core.NewRule(s)
	}
	bucket := func(change func(*core.Spec)) core.Rule { return of(core.AlgorithmTokenBucket, change) }
	plans := func(plans ...core.Plan) core.Rule { return bucket(func(s *core.Spec) { s.Plans = plans }) }
	for want, r := range map[string]core.Rule{
		`algorithm is none`:                           core.NewRule(core.Spec{Name: "r", Limit: core.PerMinute(10)}),
		`algorithm is none: make rules`:               core.NewRule(core.Spec{}),
		`algorithm is none: make rules with`:          {},
		`algorithm is none `:                          of(99, func(*core.Spec) {}),
		`name is empty`:                               bucket(func(s *core.Spec) { s.Name = "" }),
		`limit is zero`:                               bucket(func(s *core.Spec) { s.Limit = core.Limit{} }),
		`per is a period of the calendar`:             bucket(func(s *core.Spec) { s.Limit = core.Daily(5) }),
		`per is no period of the calendar`:            of(core.AlgorithmQuota, func(s *core.Spec) { s.Limit = core.PerDay(5) }),
		`per is no period of the calendar: use`:       of(core.AlgorithmQuota, func(s *core.Spec) { s.Limit.Per = time.Hour }),
		`per is no period of the calendar: use a`:     of(core.AlgorithmQuota, func(s *core.Spec) { s.Limit.Calendar = core.Month + 1 }),
		`per has no meaning for in_flight`:            of(core.AlgorithmInFlight, func(s *core.Spec) { s.Limit = core.Daily(5) }),
		`limit has no number of events`:               bucket(func(s *core.Spec) { s.Limit = core.Unlimited.WithBurst(3) }),
		`soft is NaN percent`:                         bucket(func(s *core.Spec) { s.Soft = math.NaN() }),
		`sub-windows are 121`:                         of(core.AlgorithmSlidingWindow, func(s *core.Spec) { s.SubWindows = 121 }),
		`sub-windows has no meaning for token_bucket`: bucket(func(s *core.Spec) { s.SubWindows = 60 }),
		`by cost has no meaning for token_bucket`:     bucket(func(s *core.Spec) { s.ByCost = true }),
		`by cost has no meaning for quota`:            of(core.AlgorithmQuota, func(s *core.Spec) { s.ByCost = true }),
		`limit has more than a million places`:        of(core.AlgorithmInFlight, func(s *core.Spec) { s.Limit.Events, s.ByCost = 1_000_001, true }),
		`limit has more than a million place`:         of(core.AlgorithmInFlight, func(s *core.Spec) { s.Limit.Events, s.ByCost, s.Soft = 1_000_000, true, 1 }),
		`limit has more than 1000 places`:             of(core.AlgorithmInFlight, func(s *core.Spec) { s.Limit.Events = 1001 }),
		`plan "a": limit has more than a million`: of(core.AlgorithmInFlight, func(s *core.Spec) {
			s.ByCost, s.Plans = true, []core.Plan{{Name: "a", Limit: core.Limit{Events: 1_000_001}}}
		}),
		`limit is zero `:                               of(core.AlgorithmInFlight, func(s *core.Spec) { s.Limit, s.ByCost = core.Limit{}, true }),
		`hold has no meaning for token_bucket`:         bucket(func(s *core.Spec) { s.Hold = time.Minute }),
		`hold is 1ms`:                                  of(core.AlgorithmInFlight, func(s *core.Spec) { s.Hold = time.Millisecond }),
		`max hold is -1ns, negative`:                   of(core.AlgorithmInFlight, func(s *core.Spec) { s.MaxHold = -1 }),
		`max hold has no meaning for token_bucket`:     bucket(func(s *core.Spec) { s.MaxHold = time.Hour }),
		`rollover has no meaning for fixed_window`:     of(core.AlgorithmFixedWindow, func(s *core.Spec) { s.Rollover = 1 }),
		`rollover is 0, outside 1 to 2^48-1`:           of(core.AlgorithmQuota, func(s *core.Spec) { s.Rollover = -1 }),
		`location has no meaning for token_bucket`:     bucket(func(s *core.Spec) { s.Location = time.UTC }),
		`anchor has no meaning for token_bucket`:       bucket(func(s *core.Spec) { s.Anchor = func(context.Context, string) time.Time { return time.Time{} } }),
		`label is not printable ASCII`:                 bucket(func(s *core.Spec) { s.Label = "é" }),
		`unit is 33 bytes long`:                        bucket(func(s *core.Spec) { s.Unit = strings.Repeat("x", 33) }),
		`elastic has no signal`:                        bucket(func(s *core.Spec) { s.UpTo = 2 }),
		`elastic is up to 0, outside 1 to 1000`:        bucket(func(s *core.Spec) { s.Spare = idle }),
		`elastic is up to 2, not above 0 and up to 1`:  of(core.AlgorithmInFlight, func(s *core.Spec) { s.Spare, s.UpTo = idle, 2 }),
		`plan has no name`:                             plans(core.Plan{Limit: core.PerHour(5)}),
		`plan cannot be called "unknown"`:              plans(core.Plan{Name: "unknown", Limit: core.PerHour(5)}),
		`plan "a" is given twice`:                      plans(core.Plan{Name: "a", Limit: core.PerHour(5)}, core.Plan{Name: "b", Limit: core.Blocked}, core.Plan{Name: "a", Limit: core.PerHour(6)}),
		`plan "a": limit is zero`:                      plans(core.Plan{Name: "a"}),
		`plan "a": headroom is 100 percent`:            plans(core.Plan{Name: "a", Limit: core.PerHour(5), Headroom: 100}),
		`plan "a": headroom is -1 percent`:             plans(core.Plan{Name: "a", Limit: core.Unlimited, Headroom: -1}),
		`plan "a": per is a period of the calendar`:    plans(core.Plan{Name: "a", Limit: core.Weekly(5)}),
		`plan "é" is not a name of at most 64 charact`: plans(core.Plan{Name: "é", Limit: core.Blocked}),
	} {
		t.Run(want, func(t *testing.T) {
			_, err := core.New(memstore.New(), r)
			var rule *core.RuleError
			if !errors.As(err, &rule) || !errors.Is(err, core.ErrInvalidRule) || !strings.HasPrefix(rule.Field+" "+rule.Reason, strings.TrimSpace(want)) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

// A field that is zero stands for its default.
func TestNewRule_Defaults(t *testing.T) {
	for _, c := range []struct {
		spec core.Spec
		want core.Rule
	}{
		{core.Spec{Name: "r", Algorithm: core.AlgorithmTokenBucket, Limit: core.PerMinute(5)}, core.TokenBucket("r", core.PerMinute(5))},
		{core.Spec{Name: "r", Algorithm: core.AlgorithmSlidingWindow, Limit: core.PerMinute(5)}, core.SlidingWindow("r", core.PerMinute(5)).SubWindows(60)},
		{core.Spec{Name: "r", Algorithm: core.AlgorithmInFlight, Limit: core.Limit{Events: 5}}, core.InFlight("r", 5).Hold(defaultHold)},
		{core.Spec{Name: "r", Algorithm: core.AlgorithmInFlight, Limit: core.Limit{Events: 5000}, ByCost: true}, core.InFlight("r", 5000).ByCost().Hold(defaultHold)},
		{core.Spec{Name: "r", Algorithm: core.AlgorithmQuota, Limit: core.Monthly(5)}, core.Quota("r", core.Monthly(5)).In(nil)},
	} {
		rule := core.NewRule(c.spec)
		s := memstore.New()
		for _, r := range []core.Rule{rule, c.want} { // on one store, another definition would be a conflict
			if _, err := core.New(s, r); err != nil || r.String() != c.want.String() {
				t.Errorf("%v: %v", r, err)
			}
		}
		if got, want := rule.Spec(), c.want.Spec(); got.SubWindows != want.SubWindows || got.Hold != want.Hold {
			t.Errorf("%v: got %+v, want %+v", rule, got, want)
		}
	}
}

// TestSpec_Modifiers names the properties that no modifier sets, and the places of a new one.
func TestSpec_Modifiers(t *testing.T) {
	l := core.PerSecond(10)
	window, places, quota := core.SlidingWindow("r", l), core.InFlight("r", 5), core.Quota("r", core.Daily(5))
	missing := map[string]bool{}
	for field := range reflect.TypeFor[core.Spec]().Fields() {
		missing[field.Name] = true
	}
	for _, field := range []string{"Name", "Algorithm", "Limit", "Label"} { // arguments of constructors, and one without a modifier
		delete(missing, field)
	}
	for _, c := range []struct {
		field           string
		plain, modified core.Rule
	}{
		{"Plans", window, window.Plan("gold", l)},
		{"Soft", window, window.Soft(10)},
		{"FromFirst", core.FixedWindow("r", l), core.FixedWindow("r", l).FromFirst()},
		{"BlockFor", window, window.BlockFor(time.Minute)},
		{"SubWindows", window, window.SubWindows(10)},
		{"ByCost", places, places.ByCost()},
		{"Hold", places, places.Hold(time.Minute)},
		{"MaxHold", places, places.MaxHold(time.Hour)},
		{"Rollover", quota, quota.Rollover(5)},
		{"Location", quota, quota.In(time.FixedZone("here", 3600))},
		{"Anchor", quota, quota.Anchor(func(context.Context, string) time.Time { return time.Time{} })},
		{"Shadow", window, window.Shadow()},
		{"Unit", window, window.Unit("tokens")},
		{"Spare", window, window.Elastic(idle, 2)},
		{"UpTo", window, window.Elastic(idle, 2)},
	} {
		value := func(r core.Rule) any { return reflect.ValueOf(r.Spec()).FieldByName(c.field).Interface() }
		if reflect.DeepEqual(value(c.plain), value(c.modified)) {
			t.Errorf("%s: the modifier changes nothing", c.field)
		}
		delete(missing, c.field)
	}
	for field := range missing {
		t.Errorf("Spec.%s has no case here: see \"a property of a rule\" in CONTRIBUTING.md", field)
	}
}
