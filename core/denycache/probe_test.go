package denycache_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
)

var errProbe = errors.New("the Store behind refuses writes")

// A refuser is a memstore that says that it refuses writes.
type refuser struct{ *memstore.Store }

func (refuser) Probe(context.Context, []driver.Charge) error { return errProbe }

// A denial that is remembered says nothing about the Store behind.
func TestStore_ProbeOfADeniedKey(t *testing.T) {
	s := denycache.New(refuser{memstore.New()})
	l := limiter(t, s, core.TokenBucket("hour", core.PerHour(1)))
	for _, want := range []bool{true, false, false} {
		if d := ask(t, l, "k", 1); d.Allowed != want {
			t.Fatalf("allowed is %v, want %v", d.Allowed, want)
		}
	}
	rule, hits := l.Rules()[0], s.Stats().Hits
	if err := driver.Probe(t.Context(), s, []driver.Charge{{Key: "k", Rule: rule.Compiled(), Op: driver.Peek, Cost: 1}}); err != errProbe {
		t.Errorf("the probe returns %v, want the error of the Store behind", err)
	}
	if got := s.Stats().Hits; got != hits {
		t.Errorf("%d hits, want %d", got, hits)
	}
}
