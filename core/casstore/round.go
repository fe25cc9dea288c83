package casstore

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/call"
)

const (
	// statementTimeouts is the number of timeouts after which the context of a call of Rows ends.
	statementTimeouts = 4
	// maxFree is the number of attempts of a request without locks.
	maxFree = 3
)

var (
	errRows  = errors.New("casstore: the database")
	errReply = errors.New("casstore: the database returned another number of rows, or no time")
)

// run makes a round of requests, and sets their outcomes.
func (s *Store) run(requests []*request) {
	round := s.stats.rounds.Add(1)
	s.stats.requests.Add(uint64(len(requests)))
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeouts*s.timeout)
	defer cancel()
	for _, r := range requests {
		r.outcome, r.unknown = conflict, false
	}
	locks, ok := s.rows.(Locker)
	ok = ok && slices.ContainsFunc(requests, func(r *request) bool { return r.attempts >= maxFree })
	err := call.Recover(errRows, func() error {
		if ok {
			return s.lock(ctx, locks, requests)
		}
		return s.swapRound(ctx, requests)
	})
	for _, r := range requests {
		switch {
		case r.outcome == decided:
		case err == nil || errors.Is(err, ErrConflict):
			s.stats.conflicts.Add(1)
		default:
			r.outcome, r.err, r.round = failed, err, round
		}
	}
}

// swapRound decides requests by the rows that it reads, and swaps these rows if they are unchanged. A round in which no state
// changes, such as one of denials, is over after the read.
func (s *Store) swapRound(ctx context.Context, requests []*request) error {
	t := s.newTable(requests)
	rows, now, err := s.read(ctx, t.keys)
	if err != nil {
		return err
	}
	t.fill(rows)
	t.decide(now)
	groups, roots := t.groups()
	t.conclude() // requests that change nothing
	if len(groups) == 0 {
		return nil
	}
	for _, r := range requests {
		r.unknown = r.outcome != decided
	}
	done, err := s.swap(ctx, groups)
	for i, w := range roots {
		w.done = err == nil && done[i]
	}
	t.conclude()
	return err
}

// lock decides requests under locks, so that no other process can be in the way.
func (s *Store) lock(ctx context.Context, locks Locker, requests []*request) error {
	s.stats.locked.Add(1)
	t := s.newTable(requests)
	err := locks.Update(ctx, t.keys, func(rows []Row, now int64) (all Group) {
		if len(rows) != len(t.keys) || now <= 0 {
			panic(errReply)
		}
		t.fill(rows)
		t.decide(now)
		for _, r := range requests {
			r.unknown = true
		}
		groups, _ := t.groups()
		all = slices.Concat(groups...)
		slices.SortFunc(all, func(a, b Change) int { return bytes.Compare(a.Key[:], b.Key[:]) })
		return all
	})
	if err != nil {
		return err
	}
	for _, r := range requests {
		r.conclude()
	}
	return nil
}

// read is Read of rows, whose results it checks.
func (s *Store) read(ctx context.Context, keys []Key) (rows []Row, now int64, err error) {
	rows, now, err = s.rows.Read(ctx, keys)
	if err == nil && (len(rows) != len(keys) || now <= 0) {
		err = errReply
	}
	return rows, now, err
}

// swap is Swap of rows, whose results it checks.
func (s *Store) swap(ctx context.Context, groups []Group) (done []bool, err error) {
	done, err = s.rows.Swap(ctx, groups)
	if err == nil && len(done) != len(groups) {
		err = errReply
	}
	return done, err
}

// A table is the rows of a round, in ascending order of their keys.
type table struct {
	*Store
	requests []*request
	full     bool // no key should get a new row
	keys     []Key
	rows     map[Key]*row
}

func (s *Store) newTable(requests []*request) *table {
	b, ok := s.rows.(Bounder)
	t := &table{Store: s, requests: requests, full: ok && b.Full(), rows: make(map[Key]*row)}
	for _, r := range requests {
		for i := range r.own {
			t.rows[r.own[i]] = new(row)
			if t.full {
				r.overflow[i] = s.overflowKey(&r.asked[i])
				t.rows[r.overflow[i]] = &row{shared: true}
			}
		}
	}
	t.keys = slices.SortedFunc(maps.Keys(t.rows), func(a, b Key) int { return bytes.Compare(a[:], b[:]) })
	return t
}

// fill sets the rows to those that were read. Another call begins again.
func (t *table) fill(rows []Row) {
	for i, k := range t.keys {
		w := t.rows[k]
		*w = row{Key: k, version: rows[i].Version, old: rows[i].State, shared: w.shared}
		w.group = w
		w.barred = t.full && w.version == 0 && !w.shared
		if err := w.state.UnmarshalBinary(w.old); err != nil {
			t.stats.corrupt.Add(1)
		}
	}
}

// decide decides all requests in their order. The rows of a request depend on each other, because its charges are applied
// together, and those of requests with a common row do, because the later one sees the changes of the earlier one.
func (t *table) decide(now int64) {
	for _, r := range t.requests {
		for i := range r.own {
			w := t.rows[r.own[i]]
			if k := r.asked[i].Rule.Kind; w.barred && !k.Holds && !k.Closes {
				w = t.rows[r.overflow[i]]
			}
			w.fenced = w.fenced || r.fences
			r.rows[i] = w
			w.root().group = r.rows[0].root()
		}
		r.decide(now)
	}
}

// groups returns the changes of the rows, those that depend on each other as one group, and the root of each group. It sets
// done of the roots whose rows do not change.
func (t *table) groups() (groups []Group, roots []*row) {
	index := make(map[*row]int)
	for _, k := range t.keys {
		w := t.rows[k]
		root := w.root()
		c, ok := w.change()
		if !ok {
			continue
		}
		i, known := index[root]
		if !known {
			i = len(groups)
			index[root] = i
			groups, roots = append(groups, nil), append(roots, root)
		}
		groups[i] = append(groups[i], c)
	}
	for _, r := range t.requests {
		root := r.rows[0].root()
		_, changes := index[root]
		root.done = !changes
	}
	return groups, roots
}

// conclude concludes the requests whose rows are as decided.
func (t *table) conclude() {
	for _, r := range t.requests {
		if r.outcome != decided && r.rows[0].root().done {
			r.conclude()
		}
	}
}

var _ driver.Store = (*Store)(nil)
