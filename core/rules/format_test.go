package rules

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

func TestConfig_Format(t *testing.T) {
	got, err := exampleConfig.Format()
	want := `policies:
  api:
    rules:
      - {name: second, algorithm: token_bucket, limit: 10/s burst 20, plans: {gold: 100/s, staff: unlimited, banned: blocked}}
      - {name: hour, algorithm: sliding_log, limit: 500/h, soft: 10, mode: shadow, candidate: {algorithm: sliding_window, limit: 400/h, sub_windows: 30}}
    keys:
      user:241531: {plan: gold}
      user:7: {blocked: true, until: '2027-01-01T00:00:00Z'}
      user:99: {limits: {second: 5/s}, until: '2027-01-01T00:00:00Z'}
  calls:
    rules:
      - {name: month, algorithm: quota, limit: 100000/month, plans: {pro: 5000000/month}, headroom: {batch: 20}, timezone: Europe/Berlin}
  export:
    disabled: true
    rules:
      - {name: export, algorithm: fixed_window, limit: 3/d, unit: files}
  login:
    enforce: 25
    rules:
      - {name: login, algorithm: sliding_window, limit: 5/15m}
  report:
    rules:
      - {name: running, algorithm: in_flight, limit: 2, plans: {gold: 10}, hold: 30s, max_hold: 1h}
routes:
  /v1/: api
  POST /login: login
all_routes: calls
`
	if err != nil || string(got) != want {
		t.Errorf("got (%v):\n%s\nexpected:\n%s", err, got, want)
	}
}

// Parse returns an equal Config for the result of Format.
func TestConfig_FormatRoundTrip(t *testing.T) {
	rule := Rule{Spec: core.Spec{Name: "r", Algorithm: driver.TokenBucket, Limit: core.PerSecond(1)}}
	with := func(change func(*Rule)) *Config {
		r := rule
		change(&r)
		return &Config{Policies: map[string]Policy{"api": {Enforce: 100, Rules: []Rule{r}}}}
	}
	keys := make(map[string]Override)
	for _, key := range []string{
		"a", "1", "1.5", "null", "~", "true", "yes", "off", "<<", "=", "2026-01-01", "0x1f", "!a", "&a", "*a", "- a", "? a", "a: b", "a #b", "[", "{a}", " a ",
		"a\nb", "\n", "\t", "\r\n", "\x00", "\x7f", "\u0085", "\u2028", "\ufeff", "\ufffd", "é", "😀", `"'`, "%", "@", "`", "|", ">", "---", "...", "a\n---\nb", strings.Repeat("a b ", 300),
	} {
		keys[key] = Override{Limits: map[string]core.Limit{"null": core.Blocked}}
	}
	for name, c := range map[string]*Config{
		"example": exampleConfig,
		"off":     {Disabled: true, Policies: map[string]Policy{"off": {Disabled: true, Rules: []Rule{rule}}}},
		"keys":    {Policies: map[string]Policy{"1": {Enforce: 0.07, Rules: []Rule{{Spec: core.Spec{Name: "null", Algorithm: driver.SlidingLog, Limit: core.PerDay(7)}}}, Keys: keys}}},
		"limits": with(func(r *Rule) {
			r.Limit = core.Per(1, 90*time.Microsecond).WithBurst(1)
			r.Plans = []core.Plan{{Name: "z", Limit: core.Per(7, 36*time.Hour+time.Minute)}, {Name: "1 ", Limit: core.Per(5, 48*time.Hour)}}
			r.Unit = `a "unit": #1 \ ~`
			r.Soft, r.Candidate = 0.5, &Rule{Spec: core.Spec{Algorithm: driver.LeakyBucket, Limit: core.Unlimited}}
		}),
		"in flight": with(func(r *Rule) {
			r.Algorithm, r.Limit, r.Hold, r.MaxHold = driver.InFlight, core.Limit{Events: 5}, 90*time.Second, 36*time.Hour
			r.Plans = []core.Plan{{Name: "gold", Limit: core.Limit{Events: 1000}}, {Name: "staff", Limit: core.Unlimited}}
			r.Candidate = &Rule{Spec: core.Spec{Algorithm: driver.InFlight, Limit: core.Blocked, Hold: 1500 * time.Microsecond * 1001}}
		}),
		"by cost": with(func(r *Rule) {
			r.Algorithm, r.Limit, r.ByCost = driver.InFlight, core.Limit{Events: 1_000_000}, true
			r.Plans = []core.Plan{{Name: "batch", Limit: core.Limit{Events: 90_000}}, {Name: "staff", Limit: core.Unlimited}}
			r.Candidate = &Rule{Spec: core.Spec{Algorithm: driver.InFlight, Limit: core.Limit{Events: 1001}, ByCost: true}}
		}),
		"quota": with(func(r *Rule) {
			r.Algorithm, r.Limit, r.Timezone = driver.Quota, core.Weekly(5), "America/Argentina/Buenos_Aires"
			r.Plans, r.Headroom = []core.Plan{{Name: "gold", Limit: core.Daily(1000)}, {Name: "staff", Limit: core.Unlimited}}, map[string]float64{"gold": 0.5, "null": 99, "1 ": 0}
			r.Candidate = &Rule{Spec: core.Spec{Algorithm: driver.Quota, Limit: core.Blocked, Rollover: 1}, Timezone: "Etc/GMT+3"}
			r.Rollover = 1<<31 - 1
		}),
		"block for": with(func(r *Rule) { r.BlockFor = 36 * time.Hour }),
		"pause": with(func(r *Rule) {
			*r = Rule{Spec: core.Spec{Name: "p", Algorithm: driver.Pause, Shadow: true, Unit: "calls"}}
		}),
		"time": {Policies: map[string]Policy{"api": {Rules: []Rule{rule}, Keys: map[string]Override{
			"a": {Limits: map[string]core.Limit{"r": core.PerSecond(1)}, Until: time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC)},
		}}}},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := c.Format()
			testkit.Must(t, err)
			if got, err := Parse(c.Name, data); err != nil || !reflect.DeepEqual(got, c) {
				t.Errorf("got %+v (%v) from:\n%s\nexpected %+v", got, err, data, c)
			}
		})
	}
}

func TestConfig_FormatInvalid(t *testing.T) {
	rules := []Rule{{Spec: core.Spec{Name: "r", Algorithm: driver.SlidingLog, Limit: core.PerSecond(1)}}}
	for name, test := range map[string]struct {
		c    Config
		want string
	}{
		"zero":         {Config{}, "config:1:1: the file has no policies"},
		"zero rule":    {Config{Policies: map[string]Policy{"a": {Rules: []Rule{{Spec: core.Spec{Name: "r"}}}}}}, `"none" is no algorithm`},
		"timezone":     {Config{Policies: map[string]Policy{"a": {Rules: []Rule{{Spec: core.Spec{Name: "r", Algorithm: driver.Quota, Limit: core.Daily(1)}, Timezone: "Local"}}}}}, `"Local" differs`},
		"limit":        {Config{Policies: map[string]Policy{"a": {Rules: []Rule{{Spec: core.Spec{Name: "p", Algorithm: driver.Pause, Limit: core.Unlimited}}}}}}, "limit has no meaning for pause"},
		"invalid key":  {Config{Policies: map[string]Policy{"a": {Rules: rules, Keys: map[string]Override{"\xff": {Limits: map[string]core.Limit{"r": core.PerSecond(1)}}}}}}, "a key must be a text"},
		"unknown rule": {Config{Policies: map[string]Policy{"a": {Rules: rules, Keys: map[string]Override{"k": {Limits: map[string]core.Limit{"s": core.PerSecond(1)}}}}}}, `no rule "s"`},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := test.c.Format(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %q and %v, expected an error with %q", got, err, test.want)
			}
		})
	}
}

// A time in a zone that RFC 3339 cannot express is written in UTC.
func TestConfig_FormatZone(t *testing.T) {
	until := time.Date(1890, 1, 1, 0, 0, 0, 0, time.FixedZone("LMT", 1172))
	c := Config{Policies: map[string]Policy{"a": {
		Rules: []Rule{{Spec: core.Spec{Name: "r", Algorithm: driver.SlidingLog, Limit: core.PerSecond(1)}}},
		Keys:  map[string]Override{"k": {Limits: map[string]core.Limit{"r": core.PerSecond(2)}, Until: until}},
	}}}
	data, err := c.Format()
	testkit.Must(t, err)
	if got, err := Parse("f", data); err != nil || !got.Policies["a"].Keys["k"].Until.Equal(until) {
		t.Errorf("got %v (%v), expected %v", got, err, until)
	}
}
