package rules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// A Redis that has lost its overrides is reported once, in every process, and again after the next loss.
func TestSet_Lost(t *testing.T) {
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	one, other := newNode(t, rdb), newNode(t, rdb)
	lost := func(n *node) (count int) {
		for _, err := range n.errs() {
			if strings.Contains(err, "Redis has lost all overrides and blocks") {
				count++
			}
		}
		return count
	}
	for round := 1; round <= 2; round++ {
		testkit.Must(t, one.Block(t.Context(), "api", "ann", time.Time{}))
		change, err := one.source.LastChange(t.Context())
		testkit.Must(t, err)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for begun := time.Now(); ; <-tick.C { // until both have read it
			all, err := one.source.Fleet().Processes(t.Context())
			if err == nil && len(all) == 2 && all[0].Sets[0].InForce(change) && all[1].Sets[0].InForce(change) && all[0].Sets[0].Lost.IsZero() {
				break
			}
			if time.Since(begun) > time.Minute {
				t.Fatalf("after a minute: got %+v, %v", all, err)
			}
		}
		testkit.Must(t, rdb.FlushAll(t.Context()).Err())
		for begun := time.Now(); lost(one) < round || lost(other) < round; <-tick.C {
			if time.Since(begun) > time.Minute {
				t.Fatalf("after a minute: the errors are %q and %q", one.errs(), other.errs())
			}
		}
		for begun := time.Now(); ; <-tick.C {
			all, err := one.source.Fleet().Processes(t.Context())
			if err == nil && len(all) == 2 && time.Since(all[0].Sets[0].Lost) < time.Minute && time.Since(all[1].Sets[0].Lost) < time.Minute {
				break
			}
			if time.Since(begun) > time.Minute {
				t.Fatalf("after a minute, without the loss: got %+v, %v", all, err)
			}
		}
		if lost(one) != round || lost(other) != round {
			t.Errorf("round %d: got %d and %d errors", round, lost(one), lost(other))
		}
	}
}
