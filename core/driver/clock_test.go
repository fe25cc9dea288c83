package driver_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
)

// The clock of a Store over others is that of the first one behind it.
func TestClockOf(t *testing.T) {
	at := time.Date(2024, 2, 10, 0, 0, 0, 0, time.UTC)
	clocked := memstore.New(memstore.Clock(func() time.Time { return at }))
	plain := struct{ driver.Store }{clocked} // neither a Clocked nor a Wrapper
	for name, test := range map[string]struct {
		store driver.Store
		want  bool
	}{
		"memstore":             {clocked, true},
		"observe":              {observe.New(clocked), true},
		"denycache":            {denycache.New(clocked), true},
		"lease":                {lease.New(clocked), true},
		"failover, primary":    {failover.New(clocked, memstore.New()), true},
		"failover, backup":     {failover.New(plain, clocked), false},
		"several":              {observe.New(denycache.New(failover.New(clocked, memstore.New()))), true},
		"unknown":              {plain, false},
		"a wrapper of unknown": {observe.New(plain), false},
		"memstore, no option":  {memstore.New(), false},
	} {
		before := time.Now()
		if now := driver.ClockOf(test.store)(); now.Equal(at) != test.want || !test.want && now.Before(before) {
			t.Errorf("%s: got %v", name, now)
		}
	}
}
