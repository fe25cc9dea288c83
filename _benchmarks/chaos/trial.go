package main

import (
	"fmt"
	"slices"
	"time"
)

// A pacing is how long the parts of a trial last.
type pacing struct {
	calm  time.Duration // before the fault
	fault time.Duration
	after time.Duration // for which all must be well again
	rate  int           // requests a second
}

// mostPatience is how long a trial waits for all to be well again.
const mostPatience = 15 * time.Second

// A trial is what happened around one fault.
type trial struct {
	fault   *fault
	records []record
	samples []sample

	start    time.Time
	begun    time.Time // of the fault
	struck   time.Time // when the fault had begun for sure
	ended    time.Time // of the fault
	returned time.Time // when Redis, or the instance, served again: it takes time to start
	back     time.Time // when all was well again
	stop     time.Time

	recovered bool // else back is when nobody waited any longer
}

// try puts the fleet through a fault. Its users are no others', so their limits are
// untouched.
func try(f *fleet, ft *fault, p pacing, name string) (*trial, error) {
	w := watch(f)
	if err := until(func() error { return w.well() }); err != nil {
		w.stop()
		return nil, fmt.Errorf("before %s: %w", ft.name, err)
	}
	t := &trial{fault: ft, start: time.Now()}
	l := drive(f, name, p.rate)
	err := t.run(f, w, l, p)
	t.records = l.stop()
	t.stop = time.Now()
	t.samples = w.stop()
	for _, s := range t.samples { // those between two looks of settle, too
		if s.at.After(t.back) && !s.healthy() {
			t.back = s.at
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ft.name, err)
	}
	return t, nil
}

func (t *trial) run(f *fleet, w *watcher, l *load, p pacing) error {
	time.Sleep(p.calm)
	t.begun = time.Now()
	if err := t.fault.begin(f); err != nil {
		return err
	}
	t.struck = time.Now()
	if t.fault.repeat != nil {
		for time.Since(t.begun) < p.fault {
			time.Sleep(100 * time.Millisecond)
			if err := t.fault.repeat(f); err != nil {
				return err
			}
		}
	}
	time.Sleep(time.Until(t.begun.Add(p.fault)))
	t.ended = time.Now()
	if err := t.fault.end(f); err != nil {
		return err
	}
	t.returned = time.Now()
	t.settle(w, l, p.after)
	return nil
}

// settle waits until all has been well for so long: Redis decides in every instance,
// by their own account and, but for one decision in ten, by that of the users.
func (t *trial) settle(w *watcher, l *load, after time.Duration) {
	t.back = t.returned
	total, memory := l.total.Load(), l.memory.Load()
	for {
		time.Sleep(50 * time.Millisecond)
		now := time.Now()
		newTotal, newMemory := l.total.Load(), l.memory.Load()
		s := w.latest()
		if !s.at.After(t.returned) || !s.healthy() || 10*(newMemory-memory) > newTotal-total {
			t.back = now
		}
		total, memory = newTotal, newMemory
		if now.Sub(t.back) >= after {
			t.recovered = true
			return
		}
		if now.Sub(t.returned) > mostPatience {
			return
		}
	}
}

// left is when the last instance had left Redis because of the fault, and zero if one
// of them has not.
func (t *trial) left() time.Time {
	var left time.Time
	for i := range instances {
		n := slices.IndexFunc(t.samples, func(s sample) bool {
			return s.at.After(t.begun) && s.at.Before(t.ended) && s.states[i].State > 0
		})
		if n < 0 {
			return time.Time{}
		}
		if at := t.samples[n].at; at.After(left) {
			left = at
		}
	}
	return left
}

// keptAway says whether no instance has gone back to Redis between left and the end of
// the fault.
func (t *trial) keptAway(left time.Time) bool {
	if left.IsZero() {
		return false
	}
	var before *sample
	for i := range t.samples {
		s := &t.samples[i]
		if s.at.Before(left) || s.at.After(t.ended) {
			continue
		}
		if !s.away() {
			return false
		}
		for n := range s.states {
			if before != nil && s.states[n].Outages != before.states[n].Outages {
				return false
			}
		}
		before = s
	}
	return true
}

// p99 is how long 99 percent of the requests took that were due from a to b, and
// false if there are hardly any.
func (t *trial) p99(a, b time.Time) (time.Duration, bool) {
	var took []time.Duration
	for i := range t.records {
		r := &t.records[i]
		if !r.due.Before(a) && r.due.Before(b) {
			took = append(took, r.end.Sub(r.due))
		}
	}
	if len(took) < 20 {
		return 0, false
	}
	slices.Sort(took)
	return took[len(took)*99/100], true
}
