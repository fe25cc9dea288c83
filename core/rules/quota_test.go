package rules_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/core/rules/internal/file"
	"github.com/weir-go/weir/internal/testkit"
)

// The limit of a quota applies as soon as its file has changed, and its time zone after the end of the
// period that a key is in. The clock of the test starts at midnight UTC.
func TestSet_Watch_Quota(t *testing.T) {
	calls := func(quota string) string {
		return "policies: {api: {rules: [{name: calls, algorithm: quota, " + quota + "}]}}\n"
	}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // of text
		text := calls("limit: 2/day, plans: {pro: 4/day}")
		source := file.New("f.yaml", func() ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			return []byte(text), nil
		})
		config, err := rules.Load(t.Context(), source)
		testkit.Must(t, err)
		var changes [][]string
		s, err := rules.New(memstore.New(), config, rules.OnChange(func(c rules.Change) { changes = append(changes, c.Diff) }))
		testkit.Must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Watch(ctx, source) }()
		l, midnight := limiter(t, s, "api"), time.Now()
		// allow admits the first n of n+1 events, and denies the last one until a time.
		allow := func(name string, l *core.Limiter, n int, until time.Duration) {
			t.Helper()
			for i := range n + 1 {
				if d := testkit.Allow(t, l, "k"); d.Allowed != (i < n) || !d.Allowed && !time.Now().Add(d.RetryAfter).Equal(midnight.Add(until)) {
					t.Errorf("%s: event %d: got %v, want %d admitted, and then a denial until %v", name, i, d, n, midnight.Add(until))
				}
			}
		}
		time.Sleep(10 * time.Hour)
		allow("before the change", l, 2, 24*time.Hour)
		allow("of a plan", l.Plan("pro"), 2, 24*time.Hour)
		mu.Lock()
		text = calls("limit: 5/day, plans: {pro: 7/day}, timezone: Asia/Tokyo") // midnight is at 15:00 UTC
		mu.Unlock()
		time.Sleep(3 * time.Second)
		allow("changed", l, 1, 24*time.Hour)
		allow("of a changed plan", l.Plan("pro"), 2, 24*time.Hour)
		time.Sleep(5 * time.Hour)
		allow("after midnight in Tokyo", l, 0, 24*time.Hour)
		time.Sleep(9 * time.Hour)
		allow("after midnight UTC", l, 5, 39*time.Hour)
		time.Sleep(15 * time.Hour)
		allow("on the next day in Tokyo", l, 5, 63*time.Hour)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want Canceled", err)
		}
		const want = "api.calls plan pro: 4/day to 7/day, api.calls timezone: UTC to Asia/Tokyo, api.calls: 2/day to 5/day"
		if len(changes) != 1 || strings.Join(changes[0], ", ") != want {
			t.Errorf("got the changes %q, want %q", changes, want)
		}
	})
}

// A Config in code can have the faults that Parse finds in a file.
func TestSet_Apply_Timezone(t *testing.T) {
	s := newSet(t, "api: {rules: [{name: r, algorithm: quota, limit: 5/day, timezone: Asia/Tokyo}]}")
	version := s.Version()
	for timezone, want := range map[string]string{"Europe/Berlinn": `timezone "Europe/Berlinn" is unknown`, "Local": `timezone "Local" differs`} {
		c := parse(t, "api: {rules: [{name: r, algorithm: quota, limit: 5/day}]}")
		c.Policies["api"].Rules[0].Timezone = timezone
		var e *core.RuleError
		if err := s.Apply(c); !errors.As(err, &e) || e.Field != "timezone" || !errors.Is(err, core.ErrInvalidRule) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", timezone, err, want)
		}
	}
	c := parse(t, "api: {rules: [{name: r, algorithm: sliding_log, limit: 5/d, candidate: {algorithm: sliding_log, limit: 5/d}}]}")
	c.Policies["api"].Rules[0].Candidate.Timezone = "UTC"
	if err := s.Apply(c); err == nil || !strings.Contains(err.Error(), "timezone has no meaning for sliding_log") {
		t.Errorf("got error %v", err)
	}
	want(t, "after errors", limiter(t, s, "api"), "k", `quota "api.r" 5/day in Asia/Tokyo`)
	if s.Version() != version {
		t.Error("an invalid configuration has changed the version")
	}
	testkit.Must(t, s.Apply(parse(t, "api: {rules: [{name: r, algorithm: quota, limit: 5/day, timezone: Asia/Seoul}]}")))
	if s.Version() == version {
		t.Error("the version does not depend on the time zone")
	}
}

// Overrides keep the time zone and the headroom of a rule, and give a plan with a headroom.
func TestSet_Override_Quota(t *testing.T) {
	s := newSet(t, `api: {rules: [{name: r, algorithm: quota, limit: 10/day, timezone: Asia/Tokyo, headroom: {batch: 20}}],
		keys: {more: {limits: {r: 20/week}}, batch: {plan: batch}, blocked: {blocked: true}, all: {limits: {r: unlimited}}}}`)
	l := limiter(t, s, "api")
	for key, text := range map[string]string{
		"k": `quota "api.r" 10/day in Asia/Tokyo`, "more": `quota "api.r" 20/week in Asia/Tokyo`,
		"batch":   `quota "api.r" 10/day in Asia/Tokyo headroom 20% plan "batch"`,
		"blocked": `quota "api.r" blocked in Asia/Tokyo`, "all": `quota "api.r" unlimited in Asia/Tokyo`,
	} {
		want(t, key, l, key, text)
	}
	want(t, "a plan and another limit", l.Plan("batch"), "more", `quota "api.r" 20/week in Asia/Tokyo headroom 20% plan "batch"`)
	want(t, "a plan and a block", l.Plan("batch"), "blocked", `quota "api.r" blocked in Asia/Tokyo headroom 20% plan "batch"`)
	for _, c := range []struct {
		key string
		n   int
	}{{"batch", 8}, {"k", 10}, {"more", 20}} {
		n := 0
		for n < 99 && testkit.Allow(t, l, c.key).Allowed {
			n++
		}
		if n != c.n {
			t.Errorf("%s: admitted %d, want %d", c.key, n, c.n)
		}
	}
}
