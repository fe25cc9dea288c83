// Package redisstore is a Store in Redis 6.2 or later, or Valkey: one
// server, a Sentinel group or a Cluster.
//
// Every decision is one call of one script, atomic on the server, whatever the
// number of rules. The server's clock decides. A decision costs one round trip.
//
// # What is stored
//
//	weir:{N3Jh0bO7eS3y5cQ4kz1mGA}t1:second
//	     └─ the identity, hashed ─┘ │  └─ the rule's name
//	                                └─ algorithm and version of its state
//
// All rules of one key share a hash slot. Keys show nobody's address or name;
// see [KeySecret] for identities that can be guessed. Every key has a TTL that
// ends when its state means nothing any more: no key means nothing was used. Probes of
// package failover write keys that end with a question mark, for a second.
//
// # Deadline
//
// A call of Take or Adjust returns within [Timeout], however the client was configured.
// The command goes on in the background until its answer comes or the client's
// own timeouts end it, so that a slow Redis does not cost a connection a call.
//
// A script runs at most once a decision: a command whose fate is unknown is not
// repeated. What provably did not run is repeated within the deadline: no
// connection, NOSCRIPT, LOADING, TRYAGAIN, CLUSTERDOWN, MASTERDOWN, READONLY.
// A decision that failed may therefore have been charged, once.
//
// # Permissions
//
// A Redis user with these permissions can run every algorithm and operation (weir: is
// [DefaultPrefix]; password is an example):
//
//	ACL SETUSER limiter on >password ~weir:* +evalsha +eval +time +get +psetex +del
//	    +zadd +zrem +zrank +zrange +zrevrange +zrangebyscore +zrevrangebyscore
//	    +zremrangebyscore +zremrangebyrank +hmget +hset +hgetall +hdel +exists +pexpire +info
//
// INFO is for the warning that the server may evict keys, and not needed otherwise. The
// client of a Cluster also needs
//
//	+cluster|slots +command
//
// A missing permission or a wrong password is a fault of the configuration: unlike an
// outage it does not end by itself. Decisions then fail with core.ErrUnavailable, as in an
// outage: package gate lets requests through by default, and package failover asks its
// backup. So the Store also logs an error that says so by slog, at most once a minute. A
// command that is missing in the middle of a script can leave an event charged whose
// decision failed, as an outage can, and without +pexpire a state without a TTL; no
// state admits more events than its limit.
//
// # Cluster
//
// Charges of different keys may live in different slots. They are then taken
// slot by slot, in parallel, and given back if one of them is denied or fails.
// Between the two, another decision may be denied that would have been admitted
// a moment later; none is admitted beyond a limit. (Of a bucket, as many more at one
// moment as are under way that are then given back; in the long run never.) A place in
// the queue of a leaky bucket is taken when the other slots have said yes, which costs
// a second round trip: it could not be given back once others stand behind it.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/argument"
)

// A Store keeps the state of rules in Redis. It is made by [New] and safe for
// concurrent use. It holds nothing that needs closing.
type Store struct {
	driver.Namespace

	timeout  time.Duration
	router   router
	executor executor
	faults   faultLog

	firstDecision sync.Once
	onFirst       func()

	unavailable atomic.Uint64
}

// Stats counts what a Store has met since it was made.
type Stats struct {
	Corrupt     uint64 // states that could not be read and were replaced by fresh ones
	Retried     uint64 // commands that were repeated because they had not run
	Unavailable uint64 // decisions that failed
}

// New returns a Store on rdb, which stays the caller's: it is never closed or
// reconfigured here. Nothing is sent before the first decision, so Redis may be
// absent. New panics if rdb or an option is nil.
//
// A *redis.Client, plain or from NewFailoverClient, decides all charges in one
// call. With a *redis.ClusterClient that holds for the charges of one slot, and
// with any other client for those of one key.
func New(rdb redis.UniversalClient, opts ...Option) *Store {
	argument.NotNil("redisstore: New", "the client", rdb)
	c := config{prefix: DefaultPrefix, timeout: DefaultTimeout}
	argument.Apply("redisstore: New", &c, opts)
	s := &Store{
		timeout:  c.timeout,
		router:   newRouter(rdb, c),
		executor: executor{sender: direct{rdb}, clock: c.clock},
		faults:   faultLog{start: time.Now()},
		onFirst:  func() { go warnOfEviction(rdb) },
	}
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		// Nothing else would make go-redis look for the replica that took over from a
		// master that is gone before a minute has passed. It limits how often it looks.
		s.executor.reload = func() { cluster.ReloadState(context.Background()) }
	}
	if c.pipelined {
		s.executor.sender = newPipeline(rdb)
	}
	return s
}

// MaxCharges is how many charges can be decided together. It bounds how long one script
// occupies Redis, which executes no other command meanwhile.
const MaxCharges = 16

// Declare implements [driver.Declarer]. More than [MaxCharges] rules of one limiter
// are refused: no decision about them could be made.
func (s *Store) Declare(rules ...*driver.Compiled) error {
	if len(rules) > MaxCharges {
		return fmt.Errorf("%w: %d rules of one limiter, more than %d", driver.ErrInvalidRule, len(rules), MaxCharges)
	}
	for _, r := range rules {
		algorithmOf(r.Algorithm()) // panics if there is none
	}
	return s.Namespace.Declare(rules...)
}

// Deadline implements [driver.Deadliner]: see [Timeout].
func (s *Store) Deadline() time.Duration { return s.timeout }

// Stats returns the counts so far.
func (s *Store) Stats() Stats {
	return Stats{Corrupt: s.executor.corrupt.Load(), Retried: s.executor.retried.Load(), Unavailable: s.unavailable.Load()}
}

// decide decides or adjusts charges before the deadline, and counts failures: in one call of
// a script, or by split, which is takeSplit or adjustSplit.
func (s *Store) decide(ctx context.Context, charges []driver.Charge, split func(*Store, context.Context, time.Time, []driver.Charge) error) error {
	if err := tooMany(charges); err != nil {
		return err
	}
	deadline := time.Now().Add(s.timeout)
	var err error
	if s.router.one(charges) {
		c := s.router.whole(charges)
		if s.executor.exec(ctx, deadline, &c); c.err == nil {
			c.err = c.answer(c.admitted)
		}
		err = c.err
	} else {
		err = split(s, ctx, deadline, charges)
	}
	err = s.failure(ctx, err)
	switch {
	case err == nil:
		s.firstDecision.Do(s.onFirst)
	case errors.Is(err, driver.ErrUnavailable):
		s.unavailable.Add(1)
	}
	return err
}

// tooMany returns an error if charges are more than [MaxCharges].
func tooMany(charges []driver.Charge) error {
	if len(charges) > MaxCharges {
		return fmt.Errorf("%w: %d of them, more than %d", driver.ErrInvalidCharge, len(charges), MaxCharges)
	}
	return nil
}

// failure is the error of a call that failed because of cause; nil if that is.
func (s *Store) failure(ctx context.Context, cause error) error {
	if cause == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	s.faults.log(ctx, cause)
	return &Error{Cause: cause, Timeout: s.timeout}
}
