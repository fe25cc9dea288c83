package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
)

// Who wants much does not wait forever while others take what is held.
func TestNoStarvation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := core.TokenBucket("r", core.PerSecond(1000))
		mem := memstore.New()
		l := &link{Store: mem, delay: 20 * time.Millisecond}
		s := New(l)
		take(t, mem, r, driver.Spend, 900)
		ctx, cancel := context.WithCancel(bg)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for ctx.Err() == nil {
					take(t, s, r, driver.Spend, 1)
					time.Sleep(time.Duration(7+i) * time.Millisecond)
				}
			})
		}
		time.Sleep(500 * time.Millisecond)
		var worst time.Duration
		for range 100 {
			start := time.Now()
			c2, can := context.WithTimeout(bg, 20*time.Second)
			ch := []driver.Charge{{Key: "k", Rule: r.Compiled(), Cost: 60}}
			err := s.Take(c2, ch)
			can()
			d := time.Since(start)
			worst = max(worst, d)
			if err != nil {
				t.Error(err)
				break
			}
		}
		cancel()
		wg.Wait()
		s.Close()
		if worst > 200*time.Millisecond {
			t.Errorf("waited for %v", worst)
		}
	})
}

// A key in debt is not asked about again either.
func TestDebtIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := core.TokenBucket("r", core.PerSecond(1000))
		l := &link{Store: memstore.New(), delay: time.Millisecond}
		s := New(l)
		defer s.Close()
		take(t, s, r, driver.Debit, 5000)
		l.n.Store(0)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { take(t, s, r, driver.Spend, 1) })
		}
		wg.Wait()
		for range 100 {
			take(t, s, r, driver.Spend, 1)
		}
		if l.n.Load() > 5 || l.most.Load() > 1 {
			t.Errorf("%d calls for a key that is denied for 4s, %d at a time", l.n.Load(), l.most.Load())
		}
	})
}

// What has a call under way does not give way to other keys, or it would have two.
func TestFlyingIsNotEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := core.TokenBucket("r", core.PerSecond(1000))
		var fetching, most atomic.Int64
		l := &link{Store: memstore.New()}
		l.before = func(ch []driver.Charge) error {
			if ch[0].Key == "k" {
				most.Store(max(most.Load(), fetching.Add(1)))
				time.Sleep(10 * time.Millisecond)
				fetching.Add(-1)
			}
			return nil
		}
		s := New(l, MaxKeys(1))
		defer s.Close()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { take(t, s, r, driver.Spend, 1) })
			synctest.Wait()
			wg.Go(func() {
				if err := s.Take(bg, []driver.Charge{{Key: "other", Rule: r.Compiled(), Cost: 1}}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if most.Load() > 1 {
			t.Errorf("%d calls for one key at a time", most.Load())
		}
	})
}

// An Undo while a call is under way does not cost the block that it brings.
func TestUndoKeepsBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := core.FixedWindow("w", core.Per(16000, 24*time.Hour))
		mem := memstore.New()
		l := &link{Store: mem, delay: time.Millisecond}
		s := New(l)
		admitted := 0
		for i := 0; ; i++ {
			done := make(chan bool)
			go func() { done <- take(t, s, r, driver.Spend, 1).Allowed }()
			synctest.Wait()
			if i%10 == 0 { // somebody's request failed after it was admitted: it is undone
				var m driver.Receipt
				ch := []driver.Charge{{Key: "k", Rule: r.Compiled(), Op: driver.Undo, Cost: 1, Receipt: &m}} // even one that undoes nothing
				if err := s.Adjust(bg, ch); err != nil {
					t.Fatal(err)
				}
			}
			if !<-done {
				break
			}
			admitted++
		}
		held := int(s.Stats().Held)
		s.Close()
		n := 0
		for take(t, mem, r, driver.Spend, 1).Allowed {
			n++
		}
		if admitted+n+held < 15500 {
			t.Errorf("%d + %d of 16000 admitted", admitted, n)
		}
	})
}

// What the Store said before a Reset is not believed after it.
func TestAnswerFromBeforeAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := core.FixedWindow("a", core.Per(1600, 24*time.Hour))
		b := core.FixedWindow("b", core.Per(10, 24*time.Hour))
		l := &link{Store: memstore.New()}
		s := New(l)
		defer s.Close()
		take(t, s, a, driver.Spend, 1600)
		time.Sleep(2 * time.Second) // MaxAge
		gate := make(chan struct{})
		l.after = func(ch []driver.Charge) error {
			if len(ch) == 2 {
				<-gate
			}
			return nil
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			ch := []driver.Charge{{Key: "k", Rule: a.Compiled(), Cost: 1}, {Key: "k", Rule: b.Compiled(), Cost: 1}}
			if err := s.Take(bg, ch); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		take(t, s, a, driver.Reset, 1)
		close(gate)
		wg.Wait()
		if st := take(t, s, a, driver.Spend, 1); !st.Allowed {
			t.Errorf("denied after a Reset: %+v", st)
		}
	})
}

// A decision that is denied after Close, or after a Reset, puts nothing back.
func TestStore_RestoreAfterCloseOrReset(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, s *Store, a core.Rule){
		"close": func(_ *testing.T, s *Store, _ core.Rule) { s.Close() },
		"reset": func(t *testing.T, s *Store, a core.Rule) { take(t, s, a, driver.Reset, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := core.FixedWindow("a", core.Per(1600, 24*time.Hour))
				b := core.FixedWindow("b", core.Per(10, 24*time.Hour))
				mem := memstore.New()
				l := &link{Store: mem}
				s := New(l)
				defer s.Close()
				warm(t, s, a)
				take(t, mem, b, driver.Spend, 10)
				gate := make(chan struct{})
				l.before = func(ch []driver.Charge) error {
					if ch[0].Rule.Name() == "b" {
						<-gate
					}
					return nil
				}
				var wg sync.WaitGroup
				wg.Go(func() {
					ch := []driver.Charge{{Key: "k", Rule: a.Compiled(), Cost: 8}, {Key: "k", Rule: b.Compiled(), Cost: 1}}
					if err := s.Take(bg, ch); err != nil || ch[1].Verdict.Allowed {
						t.Error(err, ch[1].Verdict)
					}
				})
				synctest.Wait()
				end(t, s, a)
				close(gate)
				wg.Wait()
				if held := s.Stats().Held; held != 0 {
					t.Errorf("expected no token, got %d", held)
				}
			})
		})
	}
}
