package lease_test

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"

	"github.com/weir-go/weir/core/lease"
)

// A generous Store admits everything, and keeps nothing.
type generous struct{ calls atomic.Int64 }

func (g *generous) Take(_ context.Context, charges []driver.Charge) error {
	g.calls.Add(1)
	for i := range charges {
		c := &charges[i]
		c.Answer(&driver.Reading{}, true)
		if c.Receipt != nil {
			*c.Receipt = driver.Receipt{At: 1 << 50}
		}
	}
	return nil
}

func (g *generous) Adjust(ctx context.Context, charges []driver.Charge) error {
	return g.Take(ctx, charges)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Many keys stay within MaxKeys, and take what is said of them.
func TestFlood(t *testing.T) {
	const maxKeys, keys = 10_000, 300_000
	ctx := t.Context()
	s := lease.New(new(generous), lease.MaxKeys(maxKeys))
	defer s.Close()
	l := core.Must(core.New(s, core.TokenBucket("b", core.PerHour(50_000))))
	before := heap()
	for i := range keys {
		if _, err := l.Allow(ctx, strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	st := s.Stats()
	if st.Keys > maxKeys+64 {
		t.Errorf("%d keys are watched", st.Keys)
	}
	if each := (heap() - before) / uint64(st.Keys); each > 480 {
		t.Errorf("a key takes %d bytes", each)
	} else {
		t.Logf("a key takes %d bytes", each)
	}
	runtime.KeepAlive(s)
}

// Keys are as long as clients make them, and may be parts of something longer.
func TestLongKeys(t *testing.T) {
	ctx := t.Context()
	s := lease.New(new(generous))
	defer s.Close()
	l := core.Must(core.New(s, core.TokenBucket("b", core.PerHour(50_000))))
	before := heap()
	for i := range 100 {
		long := strings.Repeat("x", 1<<20) + strconv.Itoa(i)
		for _, key := range []string{long, long[1<<20-100:]} {
			if _, err := l.Allow(ctx, key); err != nil {
				t.Fatal(err)
			}
		}
	}
	if grown := int64(heap()) - int64(before); grown > 1<<20 {
		t.Errorf("100 keys of 1 MB take %d bytes", grown)
	}
	if n := s.Stats().Keys; n != 100 {
		t.Errorf("%d keys are watched", n)
	}
	runtime.KeepAlive(s)
}
