package denycache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/reference"
	"github.com/weir-go/weir/core/storetest"
)

// age is longer than any history is, so that denials are believed for as long as
// they say. When the Store's clock is set back, so much time passes here: that is
// how long it may take to notice.
const age = 400 * 24 * time.Hour

// A witness stands on both sides of a denycache. Behind it, it takes its time on the
// way to the reference and back. Before it, it holds every answer that was given
// without the reference to what the reference says.
type witness struct {
	t      *testing.T
	clocks *pair
	behind *reference.Store
	cache  *denycache.Store
	there  time.Duration // at most
	rng    *rand.Rand

	hits, told int
}

func newWitness(t *testing.T, there time.Duration) *witness {
	w := &witness{t: t, clocks: newPair(), there: there, rng: rand.New(rand.NewPCG(3, 3))}
	w.behind = reference.New(w.clocks.now)
	w.cache = denycache.New(way{w}, denycache.MaxAge(age))
	w.cache.SetClock(w.clocks.localNow)
	return w
}

// A way is the network between.
type way struct{ w *witness }

func (y way) Take(ctx context.Context, charges []driver.Charge) error {
	y.w.pause()
	defer y.w.pause()
	return y.w.behind.Take(ctx, charges)
}

func (y way) Adjust(ctx context.Context, charges []driver.Charge) error {
	y.w.pause()
	defer y.w.pause()
	return y.w.behind.Adjust(ctx, charges)
}

func (w *witness) pause() {
	if w.there > 0 {
		w.clocks.pass(time.Duration(w.rng.Int64N(int64(w.there))))
	}
}

func (w *witness) Declare(rules ...*driver.Compiled) error { return w.cache.Declare(rules...) }

func (w *witness) Adjust(ctx context.Context, charges []driver.Charge) error {
	return w.cache.Adjust(ctx, charges)
}

func (w *witness) Take(ctx context.Context, charges []driver.Charge) error {
	w.t.Helper()
	asked := w.behind.Calls()
	if err := w.cache.Take(ctx, charges); err != nil || w.behind.Calls() != asked {
		return err
	}
	w.hits++
	want := slices.Clone(charges)
	if err := w.behind.Take(ctx, want); err != nil {
		return err
	}
	if allowed(want) || allowed(charges) {
		w.t.Errorf("denied here, and admitted behind:\n\tgot  %+v\n\twant %+v", charges, want)
	}
	honest := false
	for i := range charges {
		got, want := &charges[i], &want[i]
		if got.Verdict.Rule != got.Rule {
			w.t.Errorf("the Verdict is about %v, not about %v", got.Verdict.Rule, got.Rule)
		}
		err := w.compare(got, want)
		honest = honest || err == nil && !got.Verdict.Allowed && !got.Rule.Shadow()
		// Of a log that is not what denies the decision, nobody but the Store knows when
		// another cost fits.
		if err != nil && (len(charges) == 1 || !isLog(got.Rule)) {
			w.t.Error(err)
		}
		got.Verdict = want.Verdict // the suite's model knows what nobody has asked about
	}
	if !honest {
		w.t.Errorf("no rule that denies is told right, of %v", charges)
	}
	return nil
}

func isLog(r *driver.Compiled) bool {
	return r.Algorithm() == driver.SlidingLog || r.Algorithm() == driver.SlidingWindow
}

// compare holds a Verdict to what is promised of one that is told here. Of a rule
// that does not deny, that is what was known last; and what no rule admits needs no
// knowledge.
func (w *witness) compare(got, want *driver.Charge) error {
	g, s := got.Verdict, want.Verdict
	if g.Allowed || s.Allowed || g.RetryAfter == core.Never && s.RetryAfter == core.Never {
		return nil
	}
	if s.ResetAfter > age {
		return nil // known since before the clock was set back, if another rule denies
	}
	w.told++
	late := g.RetryAfter - s.RetryAfter
	most := 2*w.there + time.Microsecond
	if isLog(got.Rule) {
		most = max(most, s.ResetAfter+2*w.there)
	}
	switch {
	case late < 0 || late > most:
		return fmt.Errorf("%v, cost %d: RetryAfter is %v, want %v and at most %v more", got.Rule, got.Cost, g.RetryAfter, s.RetryAfter, most)
	case g.ResetAfter < s.ResetAfter || g.ResetAfter > s.ResetAfter+2*w.there+time.Microsecond:
		return fmt.Errorf("%v: ResetAfter is %v, want %v", got.Rule, g.ResetAfter, s.ResetAfter)
	case g.Remaining > s.Remaining || g.Remaining >= got.Cost && got.Rule.Algorithm() != driver.LeakyBucket:
		return fmt.Errorf("%v, cost %d: %d remain, want %d", got.Rule, got.Cost, g.Remaining, s.Remaining)
	}
	return nil
}

func allowed(charges []driver.Charge) bool {
	return !slices.ContainsFunc(charges, func(c driver.Charge) bool { return !c.Verdict.Allowed && !c.Rule.Shadow() })
}

func (w *witness) advance(d time.Duration) {
	if d < 0 {
		w.clocks.setBack(-d, age)
		return
	}
	w.clocks.pass(d)
}

func TestConformance(t *testing.T) {
	hits, told := 0, 0
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		w := newWitness(t, 0)
		h := &storetest.Harness{
			Store:   w.cache,
			Now:     func() time.Time { return time.UnixMicro(w.clocks.now()) },
			Advance: w.advance,
		}
		if strings.HasSuffix(t.Name(), "/Histories") {
			h.Store = w
			t.Cleanup(func() { hits, told = hits+w.hits, told+w.told })
		}
		return h
	})
	if hits < 50 || told < 10 {
		t.Errorf("of the histories, %d decisions were denied here, and %d states told: too few to have seen anything", hits, told)
	}
	t.Logf("%d decisions of the histories were denied here, with %d rules that deny", hits, told)
}
