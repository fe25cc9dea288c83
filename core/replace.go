package core

import (
	"context"
	"hash/maphash"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/seqlock"
)

// ReplaceAll replaces the rules of several limiters, as [Limiter.Replace] does, at once: no decision
// of [AllowTogether] uses old rules of one and new rules of another limiter. All limiters must have
// the same Store, and the map must not contain nil or two views of one Limiter. Otherwise the error
// is an [ErrInvalidAsk]. On an error nothing changes.
func ReplaceAll(rules map[*Limiter][]Rule) error { return replaceAll(rules, func() {}) }

// replaceAll is ReplaceAll, and calls then after it has put the new rules into use, unless there is an
// error. then is for the data of a function of [Limiter.Choose]: each decision uses rules and data of one
// version. It must be fast, and must not use a Limiter, because decisions wait for it.
func replaceAll(rules map[*Limiter][]Rule, then func()) error {
	replacing.Lock()
	defer replacing.Unlock()
	sets := make(map[*shared]*ruleSet, len(rules))
	changes := make([]driver.Change, 0, len(rules))
	var store Store
	for l, rules := range rules {
		switch {
		case l == nil:
			return invalidAsk("the limiter is nil")
		case store != nil && l.store != store:
			return invalidAsk("the limiters have different stores")
		case sets[l.shared] != nil:
			return invalidAsk("two limiters are views of one")
		}
		store = l.store
		s, err := newRuleSet(rules)
		if err != nil {
			return err
		}
		sets[l.shared] = s
		changes = append(changes, driver.Change{Old: l.current.Load().definitions(), New: s.definitions()})
	}
	if err := driver.Declare(store, changes...); err != nil {
		return err
	}
	defer replacing.Write()()
	for l, s := range sets {
		l.formers.Store(newFormers(l.current.Load(), s, l.replaced()))
		close(l.current.Swap(s).replaced)
	}
	then()
	return nil
}

// replacing is the lock of ReplaceAll, which all limiters share, because AllowTogether reads the
// rules of several.
var replacing seqlock.Lock

// readRules calls read until no rules were replaced meanwhile.
func readRules(read func() error) error {
	err := replacing.Read(read)
	if err == seqlock.ErrWrites {
		err = invalidAsk("the function of Choose replaces rules")
	}
	return err
}

// A former holds the rules before a [ReplaceAll], for as long as the part in use of their buckets counts for the
// buckets of another length that replace them: until one of both would be full again.
type former struct {
	rules *ruleSet
	at    time.Time // when they were replaced
	lasts time.Duration

	// seen has the hashes of buckets that have been looked at, each at the place that it chooses. One whose place
	// another one has got is looked at again.
	seen [1 << 12]atomic.Uint64
}

// seed is that of the hashes in former.seen.
var seed = maphash.MakeSeed()

// maxFormers bounds the memory of a Limiter whose rules are replaced often: a former takes 32 KiB.
const maxFormers = 4

// newFormers returns the formers of a Limiter whose rules change from old to rules, or nil if there are none. earlier
// are the present ones.
func newFormers(old, rules *ruleSet, earlier []*former) *[]*former {
	all := slices.DeleteFunc(slices.Clone(earlier), (*former).isOver)
	if slices.ContainsFunc(old.rules, func(o Rule) bool {
		i := rules.find(o)
		return i >= 0 && o.Kind().Refills && rules.rules[i].d.otherLength(o.d)
	}) {
		f := &former{rules: old, at: time.Now()}
		for _, r := range old.states() {
			f.lasts = max(f.lasts, fullTime(r.d.compiled))
		}
		all = append(all, f)
	}
	if len(all) == 0 {
		return nil
	}
	all = all[max(0, len(all)-maxFormers):]
	return &all
}

func (f *former) isOver() bool { return time.Since(f.at) >= f.lasts }

// fullTime returns the time in which the bucket of c fills up, at least a microsecond, and zero for other rules.
func fullTime(c *driver.Compiled) time.Duration {
	if !c.Kind.Refills {
		return 0
	}
	return max(1, time.Duration(c.Constants.Full.Micros)) * time.Microsecond
}

// carry takes from the bucket of c, the charge of rule, the part in use of the bucket before the change, if that
// has another length and the bucket of c is unused. present are the rules after the change: the buckets of a plan
// follow those of the same plan, and a rule of a variant has not been replaced.
func (f *former) carry(ctx context.Context, store Store, present *ruleSet, rule Rule, c *driver.Charge) error {
	if !c.Rule.Kind.Refills || time.Since(f.at) >= min(f.lasts, fullTime(c.Rule)) {
		return nil
	}
	old, own := f.rules.ofSameName(rule), present.ofSameName(rule)
	if old == nil || own == nil || own.ID != c.Rule.ID || old.ID == own.ID {
		return nil
	}
	hash := (maphash.String(seed, c.Key)^c.Rule.ID)*2 | 1
	seen := &f.seen[hash>>32%uint64(len(f.seen))]
	if seen.Load() == hash {
		return nil
	}
	peek := []driver.Charge{{Key: c.Key, Rule: old, Op: driver.Peek, Cost: 1}}
	if err := store.Take(ctx, peek); err != nil {
		return err
	}
	if first, ok := begin(c.Rule, &peek[0]); ok {
		if err := store.Take(ctx, []driver.Charge{first}); err != nil {
			return err
		}
	}
	seen.Store(hash)
	return nil
}

// ofSameName returns the compiled rule of s with the name, algorithm and plan of r, or nil if there is none.
func (s *ruleSet) ofSameName(r Rule) *driver.Compiled {
	i := s.find(r)
	if i < 0 {
		return nil
	}
	rules, _ := s.of(r.d.plan.Name)
	return rules[i].d.compiled
}

// begin returns a charge that takes from an unused bucket of c the part that is in use of another one, given a
// Peek of that, in whole tokens. It is a charge to a rule with the bucket of c that admits no more tokens, so it
// does not fit if the bucket is in use: one process makes it.
func begin(c *driver.Compiled, peek *driver.Charge) (driver.Charge, bool) {
	const inexact = 0.01 // of a token: the Peek has been rounded to microseconds
	k, part := &c.Constants, min(1, float64(peek.Verdict.ResetAfter)/float64(fullTime(peek.Rule)))
	one := (float64(k.Unit.Micros) + float64(k.Unit.Frac)/float64(k.Denominator)) * float64(time.Microsecond)
	whole := float64(fullTime(c)) / one
	n := math.Ceil(part*whole - inexact)
	if n <= 0 {
		return driver.Charge{}, false
	}
	d := c.Definition
	d.Burst, d.Soft, d.Like = int(min(whole+inexact, math.MaxInt)), 0, c
	d.Headroom = min(99, max(0, 100*(1-n/float64(d.Burst))))
	r, err := d.Compile()
	if err != nil {
		return driver.Charge{}, false
	}
	return driver.Charge{Key: peek.Key, Rule: r, Cost: int(min(r.Constants.Capacity, math.MaxInt))}, true
}
