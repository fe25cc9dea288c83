package main

import (
	"fmt"
	"slices"
	"time"
)

// A pacing holds the durations of the parts of a trial, and the rate of its load.
type pacing struct {
	calm  time.Duration // before the fault
	fault time.Duration
	after time.Duration // the time for which the fleet must be well again
	rate  int           // requests a second
}

// recoveryTimeout is the longest time for which a trial waits until the fleet is well again.
const recoveryTimeout = 15 * time.Second

// A trial is the course of one fault.
type trial struct {
	fault   *fault
	records []record
	places  []record
	samples []sample

	start    time.Time
	begun    time.Time // of the fault
	struck   time.Time // the fault had begun completely
	ended    time.Time // of the fault
	returned time.Time // Redis or the instance had started again
	back     time.Time // the fleet was well again, or the wait for it ended
	stop     time.Time

	recovered bool // the fleet was well again
}

// try runs a trial of the fault. name is part of the names of its users, so that their keys
// are unused.
func try(f *fleet, ft *fault, p pacing, name string) (*trial, error) {
	w := watch(f)
	if err := until(func() error { return w.well() }); err != nil {
		w.stop()
		return nil, fmt.Errorf("before %s: %w", ft.name, err)
	}
	if ft.rate > 0 {
		p.rate = ft.rate
	}
	if ft.brief > 0 {
		p.fault, p.after = ft.brief, placesBack+time.Second
	}
	t := &trial{fault: ft, start: time.Now()}
	l, h := drive(f, name, p.rate), occupy(f, name)
	err := t.run(f, w, l, p)
	t.records, t.places = l.stop(), h.stop()
	t.stop = time.Now()
	t.samples = w.stop()
	for _, s := range t.samples { // also those between two checks of settle
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

// settle waits until the fleet has been well for the time after: every instance reports that
// Redis decides, and at most one in ten decisions is made in memory.
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
		if now.Sub(t.returned) > recoveryTimeout {
			return
		}
	}
}

// left returns the time at which the last instance had left Redis because of the fault, or
// zero if an instance has not left it.
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

// keptAway reports whether no instance has returned to Redis between left and the end of the
// fault.
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

// p99 returns the 99th percentile of the time of the requests that were due from a to b. It
// returns false if there are fewer than 20.
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
