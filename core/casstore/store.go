package casstore

import (
	"context"
	"hash/maphash"
	"sync/atomic"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/internal/argument"
)

// A Store keeps the states of rules in [Rows]. Use [New] to make a Store. It is safe for concurrent use, and need not be
// closed: it has no goroutine while no decision is under way.
type Store struct {
	driver.Namespace
	config
	rows  Rows
	hash  keyhash.Hasher
	seed  maphash.Seed
	lanes []lane

	freeing atomic.Int64 // calls of free under way
	stats   struct{ rounds, requests, conflicts, locked, corrupt, failed atomic.Uint64 }
}

// Stats contains counts since a Store was made.
type Stats struct {
	Rounds    uint64 // rounds: a Read and, if something changed, a Swap; or an Update
	Requests  uint64 // decisions and adjustments in these rounds, each as often as it was repeated
	Conflicts uint64 // those that were repeated because another process had changed a row
	Locked    uint64 // rounds that were an Update
	Corrupt   uint64 // states that could not be read, and count as unused
	Failed    uint64 // decisions and adjustments that failed
}

// New returns a Store on rows. It calls no method of rows before the first decision. New panics if rows or an option is nil.
func New(rows Rows, opts ...Option) *Store {
	argument.NotNil("casstore: New", "rows", rows)
	c := config{timeout: DefaultTimeout, connections: DefaultConnections}
	argument.Apply("casstore: New", &c, opts)
	s := &Store{config: c, rows: rows, hash: keyhash.New(c.secret), seed: maphash.MakeSeed()}
	s.lanes = make([]lane, c.connections)
	for i := range s.lanes {
		s.lanes[i].store = s
	}
	return s
}

// Describe returns a [driver.Description] with the [Timeout] as Deadline.
func (s *Store) Describe() driver.Description { return driver.Description{Deadline: s.timeout} }

// Stats returns the counts so far.
func (s *Store) Stats() Stats {
	n := &s.stats
	return Stats{n.rounds.Load(), n.requests.Load(), n.conflicts.Load(), n.locked.Load(), n.corrupt.Load(), n.failed.Load()}
}

// Measures returns the figures of [Stats], for package observe.
func (s *Store) Measures() []driver.Measure {
	n := s.Stats()
	return []driver.Measure{
		{Name: "weir.casstore.rounds", Help: "Rounds of decisions.", Unit: "{round}", Total: true, Value: float64(n.Rounds)},
		{Name: "weir.casstore.requests", Help: "Decisions and adjustments in these rounds.", Unit: "{request}", Total: true, Value: float64(n.Requests)},
		{Name: "weir.casstore.conflicts", Help: "Those that were repeated because another process had changed a row.", Unit: "{request}", Total: true, Value: float64(n.Conflicts)},
		{Name: "weir.casstore.locked", Help: "Rounds under locks.", Unit: "{round}", Total: true, Value: float64(n.Locked)},
		{Name: "weir.casstore.corrupt", Help: "States that could not be read, and count as unused.", Unit: "{state}", Total: true, Value: float64(n.Corrupt)},
		{Name: "weir.casstore.failed", Help: "Decisions that failed.", Unit: "{decision}", Total: true, Value: float64(n.Failed)},
	}
}

// Take implements [driver.Store]. If the deadline passes or the database fails, it returns an *[Error],
// which is a core.ErrUnavailable. If ctx ends first, it returns the error of ctx.
func (s *Store) Take(ctx context.Context, charges []driver.Charge) error {
	r := newRequest(s, charges, s.timeout)
	if err := s.laneOf(charges).send(ctx, r); err != nil {
		return err
	}
	r.answer(charges)
	return nil
}

// Adjust implements [driver.Store]. It returns the same errors as Take, and then no charge is Done, although all of them
// may have been applied.
func (s *Store) Adjust(ctx context.Context, charges []driver.Charge) error {
	return s.Take(ctx, charges)
}

// Probe implements [driver.Prober]: it swaps a row that no state has.
func (s *Store) Probe(ctx context.Context, _ []driver.Charge) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, now, err := s.read(ctx, []Key{{}})
	if err == nil {
		version := rows[0].Version
		_, err = s.swap(ctx, []Group{{{Version: version, Next: nextVersion(version), State: []byte{0}, Expires: now}}})
	}
	if err != nil {
		return s.failure(ctx, err, 0)
	}
	return nil
}

func (s *Store) laneOf(charges []driver.Charge) *lane {
	return &s.lanes[maphash.String(s.seed, charges[0].Key)%uint64(len(s.lanes))]
}

// overflowRows is the number of overflow rows of one rule.
const overflowRows = 16

// key returns the Key of the state of c, and overflowKey that of its overflow row. No part of the hashed text contains a
// zero byte, except for the key in front.
func (s *Store) key(c *driver.Charge) Key { return s.keyOf("k"+c.Key, c.Rule) }

func (s *Store) overflowKey(c *driver.Charge) Key {
	own := s.key(c)
	return s.keyOf("o"+string('A'+rune(own[0])%overflowRows), c.Rule)
}

func (s *Store) keyOf(text string, r *driver.Compiled) Key {
	sum := s.hash.Sum(text + "\x00" + r.Algorithm.String() + "\x00" + r.StateName + "\x00" + s.application)
	return Key(sum[:len(Key{})])
}
