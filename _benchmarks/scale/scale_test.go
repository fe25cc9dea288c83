package main

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

func TestShards(t *testing.T) {
	for _, c := range []struct {
		calls, us, busy float64
		want            int
	}{
		{0, 13.2, 0.7, 0},
		{1, 13.2, 0.7, 1},
		{1e6, 1, 1, 1},
		{1e6 + 1, 1, 1, 2},
		{15e6, 13.2, 0.7, 283},
		{15e6, 6.6, 0.7, 142},
	} {
		if got := shards(c.calls, c.us, c.busy); got != c.want {
			t.Errorf("%v calls of %v us at %v: got %d shards, want %d", c.calls, c.us, c.busy, got, c.want)
		}
	}
}

func TestLeased(t *testing.T) {
	for _, c := range [][3]float64{{0, 0.01, 1}, {1, 0.01, 0.01}, {0.5, 0, 0.5}} {
		if got := leased(c[0], c[1]); math.Abs(got-c[2]) > 1e-9 {
			t.Errorf("%v of the decisions with %v calls each: got %v calls per decision, want %v", c[0], c[1], got, c[2])
		}
	}
}

// A crowd far above its limit causes nearly no calls; a crowd below its limit causes one per decision.
func TestCrowd(t *testing.T) {
	for _, c := range []struct {
		limit       core.Limit
		warm        int
		least, most float64
	}{
		{core.PerSecond(1_000_000), 0, 1, 1},
		{core.PerHour(1), 1, 0, 0.1},
	} {
		w := crowd{denying, []core.Rule{core.TokenBucket("r", c.limit)}, 1000, 1, 200 * time.Millisecond, c.warm}
		got, err := w.run(context.Background())
		if err != nil || got.requests == 0 {
			t.Fatal(got, err)
		}
		if calls := got.perDecision(); calls < c.least || calls > c.most {
			t.Errorf("%v: got %v calls per decision, want %v to %v", c.limit, calls, c.least, c.most)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, args := range [][]string{{"-busy", "0"}, {"-hot", "2"}, {"-users", "0"}, {"-rate", "-1"}, {"-decisions", "1"}, {"-nonsense"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v: got no error", args)
		}
	}
	if c, err := parse([]string{"-quick"}); err != nil || c.keys != 10_000 || c.users != 1_000_000 {
		t.Errorf("-quick: got %+v, %v", c, err)
	}
}

func TestFigures(t *testing.T) {
	redistest.Require(t)
	c, err := parse([]string{"-decisions", "2000", "-runs", "1", "-keys", "100", "-most-keys", "100"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := connect(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	bucket, _, err := s.figure(t.Context(), c, subjects(c)[0])
	if err != nil {
		t.Fatal(err)
	}
	if bucket.admitted <= 0 || bucket.denied <= 0 || bucket.bytes < 40 || bucket.bytes > 250 { // Valkey 8.1.1 leaves out the name of a key
		t.Errorf("token bucket: got %+v", bucket)
	}
	if _, err := growth(t.Context(), c, s); err != nil {
		t.Error(err)
	}
}
