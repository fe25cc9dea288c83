package casstore

import (
	"context"
	"slices"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// An outcome is that of a request in a round.
type outcome uint8

const (
	failed   outcome = iota
	conflict         // nothing was charged, because a row had changed
	decided
)

// A request is a call of Take or Adjust. It has copies of the charges, because its caller may leave.
type request struct {
	asked    []driver.Charge // as the caller has passed them
	charges  []driver.Charge // of the last attempt
	readings []driver.Reading
	own      []Key // of charges
	overflow []Key
	rows     []*row // of charges, in the round under way
	sums     []int  // the costs of charges together with the earlier ones that share their overflow rows, or 0
	timeout  time.Duration
	fences   bool // changes the versions of its rows although the states may stay
	attempts int
	admitted bool

	outcome outcome
	unknown bool // the last attempt may have changed rows
	err     error
	round   uint64 // that failed
	done    chan struct{}

	left, finished bool // guarded by the mutex of the lane
}

func newRequest(s *Store, charges []driver.Charge, timeout time.Duration) *request {
	n := len(charges)
	r := &request{
		asked: slices.Clone(charges), charges: make([]driver.Charge, n), readings: make([]driver.Reading, n), own: make([]Key, n), overflow: make([]Key, n),
		rows: make([]*row, n), sums: make([]int, n), timeout: timeout, done: make(chan struct{}),
	}
	for i := range charges {
		r.own[i] = s.key(&charges[i])
	}
	return r
}

// urgent reports whether r renews places or undoes charges.
func (r *request) urgent() bool { return r.asked[0].Op == driver.Renew || r.asked[0].Op == driver.Undo }

// answer copies the results of r to the charges of its caller.
func (r *request) answer(charges []driver.Charge) {
	for i := range charges {
		c := &r.charges[i]
		if charges[i].Cost, charges[i].Verdict = c.Cost, c.Verdict; c.Op == driver.Spend || c.Op == driver.Debit {
			charges[i].Receipt = c.Receipt
		}
	}
}

// decide decides r and changes the states of its rows. It begins again if there was an earlier attempt.
func (r *request) decide(now int64) {
	r.attempts++
	copy(r.charges, r.asked)
	clear(r.sums)
	if r.charges[0].Op.Asks() {
		r.take(now)
	} else {
		r.adjust(now)
	}
}

func (r *request) take(now int64) {
	if r.charges[0].AtMost {
		driver.Reduce(r.charges, func(i int) driver.Reading { return r.charges[i].Read(r.rows[i].load(&r.charges[i], now), now) })
	}
	r.admitted = true
	for i := range r.charges {
		c := &r.charges[i]
		together := *c
		for j := range i { // two keys of a decision may share an overflow row
			if r.rows[j] == r.rows[i] && r.charges[j].Op == driver.Spend {
				together.Cost += r.charges[j].Cost
				r.sums[i] = together.Cost
			}
		}
		r.readings[i] = together.Read(r.rows[i].load(c, now), now)
		r.admitted = r.admitted && (c.Rule.Shadow || together.Fits(&r.readings[i]))
	}
	for i := range r.charges {
		c, w := &r.charges[i], r.rows[i]
		if r.sums[i] > 0 && r.admitted {
			r.readings[i] = c.Read(w.load(c, now), now)
		}
		state, changed := c.Commit(w.load(c, now), &r.readings[i], now, r.admitted)
		w.store(state, c.Rule, changed)
	}
}

// adjust applies charges. The cost of a charge to an overflow row is not freed, because it is unknown how much of it each
// key has used, and a ban begins only where there is room for it.
func (r *request) adjust(now int64) {
	for i := range r.charges {
		c, w := &r.charges[i], r.rows[i]
		r.readings[i] = c.Read(w.load(c, now), now)
		if w.shared && c.Op != driver.Debit || w.barred && c.Ban {
			continue
		}
		w.store(c.Apply(w.load(c, now), &r.readings[i], now), c.Rule, true)
	}
}

// conclude sets the Verdicts when the states have been stored.
func (r *request) conclude() {
	for i := range r.charges {
		c := &r.charges[i]
		cost := c.Cost
		if !r.admitted {
			c.Cost = max(cost, r.sums[i])
		}
		c.Answer(&r.readings[i], r.admitted && c.Op.Asks())
		c.Cost = cost
	}
	r.outcome = decided
}

const (
	// maxFreeing is the number of requests whose places are freed at the same time.
	maxFreeing = 10_000
	// freeInterval is the time after an undo that has failed.
	freeInterval = 500 * time.Millisecond
)

// free frees the places of r, whose caller does not know them: they would stay taken until they lapse. It repeats that until
// they have lapsed. The undo changes the versions of the rows, so that a statement of r that the database executes later
// changes nothing.
func (s *Store) free(r *request) {
	var undos []driver.Charge
	var hold time.Duration
	for i := range r.charges {
		if c := &r.charges[i]; c.Rule.Kind.Holds && c.Op == driver.Spend && c.Receipt.At != 0 {
			undos = append(undos, driver.Charge{Key: c.Key, Rule: c.Rule, Op: driver.Undo, Cost: 1, Receipt: c.Receipt})
			hold = max(hold, c.Rule.Hold)
		}
	}
	if undos == nil {
		return
	}
	if s.freeing.Add(1) > maxFreeing {
		s.freeing.Add(-1)
		return
	}
	go func() {
		defer s.freeing.Add(-1)
		for waited := time.Duration(0); waited < hold; waited += freeInterval {
			u := newRequest(s, undos, statementTimeouts*s.timeout)
			u.fences = true
			if s.laneOf(undos).send(context.Background(), u) == nil {
				return
			}
			time.Sleep(freeInterval)
		}
	}()
}
