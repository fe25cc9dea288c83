package denycache_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

// A denial by an in-flight rule is not cached, nor is the last place, because another process may free a
// place at any time.
func TestStore_Take_inFlight(t *testing.T) {
	f := newFixture(t)
	rule, err := driver.Definition{Name: "places", Algorithm: driver.InFlight, Events: 1, Hold: time.Hour}.Compile()
	testkit.Must(t, err)
	c := driver.Charge{Key: "k", Rule: rule, Cost: 1}
	if v, hit := f.take(c); !v.Allowed || hit {
		t.Errorf("the first verdict is %+v, hit %t, want an admission by the Store", v, hit)
	}
	for range 3 {
		if v, hit := f.take(c); v.Allowed || v.RetryAfter != time.Hour || hit {
			t.Errorf("the verdict is %+v, hit %t, want a denial by the Store for an hour", v, hit)
		}
	}
	elsewhere := []driver.Charge{{Key: "k", Rule: rule, Op: driver.Undo, Cost: 1, Receipt: driver.Receipt{At: f.storeMicros()&(1<<43-1)<<20 | 1}}}
	testkit.Must(t, f.behind.Adjust(f.Context(), elsewhere))
	if v, hit := f.take(c); !v.Allowed || hit {
		t.Errorf("after an undo elsewhere, the verdict is %+v, hit %t, want an admission by the Store", v, hit)
	}
	if n := f.cache.Stats().Keys; n != 0 {
		t.Errorf("%d keys are cached, want none", n)
	}
}
