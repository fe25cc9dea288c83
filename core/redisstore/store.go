package redisstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/redisstore/internal/pipe"
	"github.com/weir-go/weir/core/redisstore/internal/wire"
	"github.com/weir-go/weir/internal/sampler"
)

// A Store keeps the states of rules in Redis. Use [New] to make a Store. It is safe for concurrent
// use and need not be closed.
type Store struct {
	driver.Namespace

	timeout   time.Duration
	clock     func() string // set by tests, Unix microseconds; nil for the clock of the server
	encoder   *wire.Encoder
	pipe      *pipe.Pipe
	faults    pipe.FaultLog
	listeners *listeners
	app       string

	onFirst     func()       // after the first decision; only the first call has an effect
	freers      atomic.Int64 // at work
	unavailable atomic.Uint64
	split       atomic.Uint64 // calls of Take and Adjust that took several scripts
}

// Stats contains counts since a Store was made, and its state at the moment. A request is a decision
// or an adjustment, or, on a Cluster, the part of it that concerns one hash slot.
type Stats struct {
	Corrupt     uint64 // states that could not be read and were replaced by new ones
	Retried     uint64 // commands that were sent again because they had not run
	Unavailable uint64 // decisions that failed
	RoundTrips  uint64 // round trips to Redis
	Requests    uint64 // requests that were sent in these round trips
	Running     int    // round trips under way
	Waiting     int    // requests that wait for a round trip
}

// New returns a Store that uses rdb for an application, such as "shop": applications with different names share no state.
// app has letters, digits, '-', '_' and '.', and at most 26 of them (see [Prefix]). The Store neither closes nor
// reconfigures rdb. It sends no command before the first decision, so Redis may be unreachable when New is called. New
// panics if rdb or an option is nil, or app invalid.
//
// Hooks must be added to rdb before New, because the Store also uses a copy of rdb with the same
// connections. On a Cluster, the Store uses the clients of the nodes, so hooks must be added to
// these (see OnNewNode of go-redis); those of the ClusterClient see only commands that were
// redirected. A round trip of several decisions has the context of one of them.
//
// On a *redis.Client, plain or from NewFailoverClient, one call decides all charges, after a test has shown
// that the server has all keys (see Batches in the documentation of the package). On a
// *redis.ClusterClient, one call decides the charges of one hash slot. On any other client, and before the
// test, one call decides the charges of one key.
func New(rdb redis.UniversalClient, app string, opts ...Option) *Store {
	c := newConfig("redisstore: New", rdb, app, opts)
	faults := pipe.FaultLog{Sampler: sampler.New(1, time.Minute)}
	return &Store{
		timeout:   c.timeout,
		clock:     c.clock,
		encoder:   wire.NewEncoder(c.prefix, c.hasher()),
		pipe:      pipe.New(rdb, pipe.Config{Prefix: c.prefix, Timeout: c.timeout, Unbatched: c.unbatched, Faults: faults}),
		faults:    faults,
		listeners: newListeners(rdb, c.prefix, faults),
		app:       app,
		onFirst:   sync.OnceFunc(func() { go pipe.WarnOfEviction(rdb) }),
	}
}

// Redis returns the client of s, the prefix of its keys, the name of the application, and the hasher of identities, for
// package rules.
func (s *Store) Redis() (rdb redis.UniversalClient, prefix, app string, h keyhash.Hasher) {
	return s.listeners.rdb, s.encoder.Prefix, s.app, s.encoder.Hasher
}

// Declare implements [driver.Declarer].
func (s *Store) Declare(changes ...driver.Change) error {
	for _, c := range changes {
		for _, d := range c.New {
			wire.CheckDefinition(&d)
		}
	}
	return s.Namespace.Declare(changes...)
}

// Describe returns a [driver.Description] with the [Timeout] as Deadline.
func (s *Store) Describe() driver.Description { return driver.Description{Deadline: s.timeout} }

// Stats returns the counts so far.
func (s *Store) Stats() Stats {
	p := s.pipe
	return Stats{
		Corrupt: p.Corrupt.Load(), Retried: p.Retried.Load(), Unavailable: s.unavailable.Load(),
		RoundTrips: p.RoundTrips.Load(), Requests: p.Requests.Load(), Running: int(p.Running.Load()), Waiting: p.Sender.Length(),
	}
}

// Take implements [driver.Store]. If the deadline passes or Redis fails, it returns an *[Error],
// which is a core.ErrUnavailable. If ctx ends first, it returns the error of ctx.
func (s *Store) Take(ctx context.Context, charges []driver.Charge) error {
	deadline := time.Now().Add(s.timeout)
	var err error
	if s.one(charges) {
		err = s.decideOne(ctx, deadline, charges)
	} else {
		err = s.decideSplit(ctx, deadline, charges)
	}
	if err != nil && len(charges) > 1 && s.pipe.Rejected(err) { // nothing was executed
		err = s.decideSplit(ctx, deadline, charges)
	}
	if err != nil {
		if err = s.failure(ctx, err); errors.Is(err, driver.ErrUnavailable) {
			s.unavailable.Add(1)
		}
		return err
	}
	s.onFirst()
	if s.pipe.Keyed.Load() {
		inMilliseconds(charges)
	}
	for i := range charges {
		if c := &charges[i]; !c.Verdict.Allowed && wire.Waits(c) {
			s.listeners.listen(s.encoder.Probe(s.encoder.Tag(c.Key), c.Rule), c.Waiter.Queue)
			break
		}
	}
	return nil
}

// inMilliseconds makes each RetryAfter a whole number of milliseconds, by a clock of which it holds.
func inMilliseconds(charges []driver.Charge) {
	for i := range charges {
		if wait := &charges[i].Verdict.RetryAfter; *wait > 0 && *wait != driver.Never {
			*wait = (*wait + time.Millisecond - 1).Truncate(time.Millisecond)
		}
	}
}

// Adjust implements [driver.Store]. It is Take with another script, and returns the same errors.
func (s *Store) Adjust(ctx context.Context, charges []driver.Charge) error {
	return s.Take(ctx, charges)
}

// one reports whether one job can contain all charges: if they have the same key, or the server is known
// to have all keys.
func (s *Store) one(charges []driver.Charge) bool {
	for i := range charges {
		if charges[i].Key != charges[0].Key {
			return s.pipe.Whole()
		}
	}
	return true
}

// decideOne takes or adjusts charges in one job.
func (s *Store) decideOne(ctx context.Context, deadline time.Time, charges []driver.Charge) error {
	j := pipe.NewJob()
	var tag string
	for i := range charges {
		if i == 0 || charges[i].Key != charges[i-1].Key {
			tag = s.encoder.Tag(charges[i].Key)
		}
		j.Keys = append(j.Keys, s.encoder.Key(tag, charges[i].Rule))
	}
	j.Charges = charges
	if err := s.do(ctx, deadline, j); err != nil {
		return err
	}
	err := j.Answer(j.Admitted)
	j.Free()
	return err
}

// do encodes j, sends it, and decodes the reply. After an error, j must not be used any more: its caller may have left.
func (s *Store) do(ctx context.Context, deadline time.Time, j *pipe.Job) error {
	if s.encoder.Encode(&j.Request); s.clock != nil {
		j.Clock = s.clock()
	}
	if j.Takes {
		j.Effect = newFreer(s, j)
	}
	if err := s.pipe.Do(ctx, deadline, j); err != nil {
		return err
	}
	return j.Decode()
}

// failure returns the error of a call that failed because of cause, or nil if cause is nil.
func (s *Store) failure(ctx context.Context, cause error) error {
	if cause == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) { // its timer is about to run
		return context.DeadlineExceeded
	}
	failed := &Error{Cause: cause, Timeout: s.timeout}
	if shared, ok := cause.(*pipe.SharedError); ok {
		failed.Cause, failed.roundTrip = shared.Err, shared.RoundTrip
	}
	s.faults.Log(ctx, failed.Cause)
	return failed
}
