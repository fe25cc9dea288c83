package driver_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weir-go/weir/core/driver"
)

var errTake, errProbe = errors.New("take"), errors.New("probe")

// A taker is a Store that keeps its charges, a prober one that can be probed.
type taker struct{ charges []driver.Charge }

func (s *taker) Take(_ context.Context, charges []driver.Charge) error {
	s.charges = charges
	return errTake
}

func (s *taker) Adjust(context.Context, []driver.Charge) error { return errTake }

type prober struct {
	taker
	probed []driver.Charge
}

func (s *prober) Probe(_ context.Context, charges []driver.Charge) error {
	s.probed = charges
	return errProbe
}

func TestProbe_CallsProbeOrTake(t *testing.T) {
	charges := []driver.Charge{{Key: "k", Op: driver.Peek, Cost: 1}}
	t.Run("Prober", func(t *testing.T) {
		var s prober
		if err := driver.Probe(t.Context(), &s, charges); err != errProbe || len(s.probed) != 1 || s.charges != nil {
			t.Errorf("the error is %v after a Probe of %v and a Take of %v, want one Probe", err, s.probed, s.charges)
		}
	})
	t.Run("any other Store", func(t *testing.T) {
		var s taker
		if err := driver.Probe(t.Context(), &s, charges); err != errTake || len(s.charges) != 1 {
			t.Errorf("the error is %v after a Take of %v, want one Take", err, s.charges)
		}
	})
}
