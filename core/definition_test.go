package core

import (
	"context"
	"testing"
	"time"
)

// A quota without anchors computes its periods once, until half of them has passed, or the clock is set.
func TestDefinition_During(t *testing.T) {
	r := ready(t, Quota("q", Monthly(5)))
	first := r.d.during(t.Context(), time.Now(), "a")
	known := *r.d.present.Load()
	if again := r.d.during(t.Context(), time.Now(), "b"); again != first || known.compiled != first {
		t.Errorf("got two rules for one month: %+v and %+v", first.Constants, again.Constants)
	}
	const hour = int64(time.Hour / time.Microsecond)
	now := time.Now().UnixMicro()
	for name, other := range map[string]presentPeriods{
		"an earlier clock": {first, known.from - 9*hour, now - hour},
		"a later clock":    {first, now + hour, known.until + 9*hour},
	} {
		r.d.present.Store(&other)
		c := r.d.during(t.Context(), time.Now(), "a")
		if got := r.d.present.Load(); c == first || got.compiled != c || got.from > now || got.until <= now {
			t.Errorf("periods of %s: got %+v, want the periods of now", name, got)
		}
	}
	anchored := ready(t, r.Anchor(func(_ context.Context, key string) time.Time { return time.Unix(int64(len(key))*1e6, 0) }))
	one, two := anchored.d.during(t.Context(), time.Now(), "a"), anchored.d.during(t.Context(), time.Now(), "bb")
	if one.Constants.Periods == two.Constants.Periods || one.ID != two.ID {
		t.Errorf("got %+v and %+v for keys with different anchors", one.Constants.Periods, two.Constants.Periods)
	}
}

func ready(t *testing.T, r Rule) Rule {
	t.Helper()
	if err := r.d.ready(); err != nil {
		t.Fatal(err)
	}
	return r
}
