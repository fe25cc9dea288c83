package lease_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
)

var errProbe = errors.New("the Store behind refuses writes")

// A refuser is a memstore that says that it refuses writes.
type refuser struct{ *memstore.Store }

func (refuser) Probe(context.Context, []driver.Charge) error { return errProbe }

// Tokens that are held say nothing about the Store behind.
func TestStore_ProbeOfALeasedKey(t *testing.T) {
	s := lease.New(refuser{memstore.New()})
	defer s.Close()
	rule := core.FixedWindow("year", core.Per(1_000_000, 365*24*60*60*1e9))
	l, err := core.New(s, rule)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, err := l.Allow(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
	}
	if s.Stats().Held == 0 {
		t.Fatal("no token is held, want some")
	}
	if err := driver.Probe(t.Context(), s, []driver.Charge{{Key: "k", Rule: rule.Compiled(), Op: driver.Peek, Cost: 1}}); err != errProbe {
		t.Errorf("the probe returns %v, want the error of the Store behind", err)
	}
}
