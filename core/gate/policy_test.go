package gate

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
)

// TestPolicy_Denial compares the texts, remembered or not, with those that are made for each denial.
func TestPolicy_Denial(t *testing.T) {
	for _, rule := range []core.Rule{
		core.TokenBucket(`a "b"`, core.PerMinute(10).WithBurst(3)), core.SlidingLog("log", core.PerHour(1)), core.FixedWindow("no", core.Blocked),
		core.FixedWindow("tokens", core.Blocked).Unit("tokens"),
	} {
		p := newPolicy(rule)
		for i, retry := range []int64{1, 65, 1, 1, 0, 64, 0, 3600, 16, 3600, 9_223_372_037, 61, 9_223_372_037, 61, 61, 61} {
			end := int64(i / 2) // in Unix seconds, or zero
			state := core.State{Window: min(time.Duration(retry), 9_223_372_036) * time.Second}
			if retry > 9_223_372_036 {
				state.Window = core.Never
			}
			got, detail, limits := p.denial(retry, end, false), p.describe(retry, end, false), string(appendMember(nil, p, &state))
			if got.detail != detail || got.retryAfter != strconv.FormatInt(retry, 10) || retry > 0 && got.limits != limits {
				t.Errorf("%v, %d s: %+v, want %q and %q", rule, retry, *got, detail, limits)
			}
		}
	}
}

func TestDescribe(t *testing.T) {
	local := time.Local
	t.Cleanup(func() { time.Local = local })
	time.Local = time.FixedZone("here", 3600) // clients get UTC
	end := time.Date(2026, 11, 23, 14, 5, 0, 0, time.UTC).Unix()
	for name, c := range map[string]struct {
		rule       core.Rule
		retry, end int64
		want       string
	}{
		"above a day":             {core.Quota("a", core.Monthly(100)), 2678339, 1798761600, `Policy "a" allows 100 requests per month. Retry after 2027-01-01T00:00:00Z.`},
		"requests":                {core.SlidingLog("a", core.PerMinute(100)), 12, 0, `Policy "a" allows 100 requests per 60 s. Retry in 12 s.`},
		"one request":             {core.SlidingLog("a", core.PerMinute(1)), 12, 0, `Policy "a" allows 1 request per 60 s. Retry in 12 s.`},
		"one request, by name":    {core.SlidingLog("a", core.PerMinute(1)).Unit("requests"), 12, 0, `Policy "a" allows 1 request per 60 s. Retry in 12 s.`},
		"tokens":                  {core.SlidingLog("a", core.PerMinute(1000)).Unit("tokens"), 12, 0, `Policy "a" allows 1000 tokens per 60 s. Retry in 12 s.`},
		"tokens, never":           {core.SlidingLog("a", core.PerMinute(1000)).Unit("tokens"), 0, 0, `Policy "a" allows 1000 tokens per 60 s. This request costs more than the policy ever allows.`},
		"one token":               {core.SlidingLog("a", core.PerMinute(1)).Unit("tokens"), 12, 0, `Policy "a" allows 1 per 60 s (tokens). Retry in 12 s.`},
		"bytes with a burst":      {core.TokenBucket("a", core.PerSecond(500).WithBurst(900)).Unit("bytes"), 1, 0, `Policy "a" allows 500 bytes per 1 s, 900 at once. Retry in 1 s.`},
		"one byte with a burst":   {core.TokenBucket("a", core.PerSecond(1).WithBurst(900)).Unit("bytes"), 1, 0, `Policy "a" allows 1 per 1 s (bytes), 900 at once. Retry in 1 s.`},
		"places":                  {core.InFlight("a", 5), unknownRetry, 0, `Policy "a" allows 5 requests at the same time.`},
		"one place":               {core.InFlight("a", 1), unknownRetry, 0, `Policy "a" allows 1 request at a time.`},
		"by cost":                 {core.InFlight("a", 90_000).ByCost().Unit("tokens"), unknownRetry, 0, `Policy "a" allows 90000 tokens at the same time.`},
		"by cost, soft":           {core.InFlight("a", 100).ByCost().Soft(10), unknownRetry, 0, `Policy "a" allows 100 requests at the same time.`},
		"by cost, never":          {core.InFlight("a", 90_000).ByCost().Unit("tokens"), 0, 0, `Policy "a" allows 90000 tokens at the same time. This request costs more than the policy ever allows.`},
		"one by cost, never":      {core.InFlight("a", 1).ByCost().Unit("slots"), 0, 0, `Policy "a" allows 1 at a time (slots). This request costs more than the policy ever allows.`},
		"blocked":                 {core.SlidingLog("a", core.Blocked), 0, 0, `Policy "a" allows no requests.`},
		"blocked, tokens":         {core.SlidingLog("a", core.Blocked).Unit("tokens"), 0, 0, `Policy "a" allows no tokens.`},
		"blocked until":           {core.SlidingLog("a", core.Blocked), 5, end, `Policy "a" allows no requests until 2026-11-23T14:05:00Z. Retry in 5 s.`},
		"blocked until, with pct": {core.SlidingLog("a", core.Blocked).Unit("%d 2006"), 5, end, `Policy "a" allows no %d 2006 until 2026-11-23T14:05:00Z. Retry in 5 s.`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newPolicy(c.rule).describe(c.retry, c.end, false); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// The end of a block is rounded up to a second, and the time since the decision does not count.
func TestBlockEnd(t *testing.T) {
	const s = time.Second
	begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix() // of synctest
	blocked := core.SlidingLog("a", core.Blocked)
	for name, c := range map[string]struct {
		rule         core.Rule
		after, retry time.Duration
		want         int64 // in seconds since begin, or zero
	}{
		"a whole second":         {blocked, 0, 5 * s, 5},
		"some time later":        {blocked, 900 * time.Microsecond, 5 * s, 5},
		"a millisecond":          {blocked, 0, time.Millisecond, 1},
		"more than a second":     {blocked, 0, 5*s + time.Millisecond, 6},
		"not the present zone":   {blocked, time.Hour, time.Hour, 7200},
		"in 291 years":           {blocked, 0, 291 * 365 * 24 * time.Hour, 291 * 365 * 24 * 3600},
		"no end":                 {blocked, 0, core.Never, 0},
		"a day":                  {core.Quota("a", core.Monthly(5)), 0, 24 * time.Hour, 0},
		"above a day":            {core.Quota("a", core.Monthly(5)), 0, 24*time.Hour + s, 24*3600 + 1},
		"a limit that is no ban": {core.SlidingLog("a", core.PerMinute(5)), 0, 5 * s, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(c.after)
				want := c.want
				if want > 0 {
					want += begin
				}
				if got := endOf(&core.State{Rule: c.rule, RetryAfter: c.retry}, time.Now); got != want {
					t.Errorf("got %d, want %d", got, want)
				}
			})
		})
	}
}

// A longer Retry-After does not move the end of a block, and a wait that becomes longer than a day has an end.
func TestLaterEnd(t *testing.T) {
	const (
		day    = 24 * time.Hour
		allows = `Policy "a" allows 5 requests per 86400 s.`
	)
	log, blocked := core.SlidingLog("a", core.PerDay(5)), core.SlidingLog("a", core.Blocked)
	for name, c := range map[string]struct {
		state core.State
		retry int64
		want  string
	}{
		"a day":              {core.State{Rule: log, RetryAfter: day - 5*time.Second}, 86400, allows + " Retry in 86400 s."},
		"above a day by it":  {core.State{Rule: log, RetryAfter: day - 4*time.Second}, 86401, allows + " Retry after 2000-01-02T00:00:01Z."},
		"above a day before": {core.State{Rule: log, RetryAfter: 2 * day}, 172805, allows + " Retry after 2000-01-03T00:00:05Z."},
		"the longest wait":   {core.State{Rule: log, RetryAfter: core.Never - 1}, 9223372042, allows + " Retry in 9223372042 s."},
		"a block":            {core.State{Rule: blocked, RetryAfter: 12 * time.Second}, 17, `Policy "a" allows no requests until 2000-01-01T00:00:12Z. Retry in 17 s.`},
		"a ban":              {core.State{Rule: log, RetryAfter: 12 * time.Second, Ban: 12 * time.Second}, 17, `Policy "a" allows no requests until 2000-01-01T00:00:12Z. Retry in 17 s.`},
		"a ban of two days":  {core.State{Rule: log, RetryAfter: 2 * day, Ban: 2 * day}, 172805, `Policy "a" allows no requests until 2000-01-03T00:00:00Z. Retry in 172805 s.`},
		"a ban, then limit":  {core.State{Rule: log, RetryAfter: 12 * time.Second, Ban: 5 * time.Second}, 17, allows + " Retry in 17 s."},
		"places":             {core.State{Rule: core.InFlight("a", 5), Estimate: true, RetryAfter: 2 * day}, 5, `Policy "a" allows 5 requests at the same time. Retry in 5 s.`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := newPolicy(c.state.Rule).describe(c.retry, laterEnd(c.state, time.Now, 5), banned(&c.state)); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			})
		})
	}
}
