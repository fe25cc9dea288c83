package pipe

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/driver"
)

// A Pipe sends jobs to the servers of a client. Use [New]. It is safe for concurrent use.
type Pipe struct {
	Counters
	Sender Sender // tests put another one before it
	whole  *wholeness
	Slot   func(tag string) string // returns the slot of a hash tag: one script may have all keys of a slot
	reload func()                  // reloads the slots of a Cluster after a command failed; may be nil
}

// Counters count since a Pipe was made. Keyed is no count: all senders of a Pipe need it, as they need the counts.
type Counters struct {
	Corrupt    atomic.Uint64 // states that could not be read and were replaced by new ones
	Retried    atomic.Uint64 // commands that were sent again because they had not run
	RoundTrips atomic.Uint64
	Requests   atomic.Uint64 // that were sent in these round trips
	Running    atomic.Int64  // round trips under way
	Keyed      atomic.Bool   // a server refuses TIME in scripts: see wire.Batch.UseKey
}

// A Sender sends a job and sets its outcome. If the caller leaves first, Send returns the error of its context or
// deadline, and notes that in the job. Otherwise it returns the error of the outcome.
type Sender interface {
	Send(j *Job) error
	Length() int // of the backlog
}

// A Config has the settings of a Pipe.
type Config struct {
	Prefix    string        // of the keys that test the server
	Timeout   time.Duration // of a decision
	Unbatched bool          // each job has a script and a round trip of its own
	Faults    FaultLog
}

// New returns a Pipe that uses rdb, and sends nothing before the first job.
func New(rdb redis.UniversalClient, c Config) *Pipe {
	p := &Pipe{Slot: byTag}
	p.Sender = direct{runner{rdb, &p.Counters}, newIdleCheck(rdb, c.Timeout, func() {})}
	switch rdb := rdb.(type) {
	case *redis.Client:
		p.whole = &wholeness{rdb: rdb, prefix: c.Prefix, faults: c.Faults}
		if !c.Unbatched {
			p.Sender = newServer(rdb, c, nil, p.whole, &p.Counters)
		}
	case *redis.ClusterClient:
		p.Slot = hashSlot
		if !c.Unbatched {
			p.Sender = newNodes(rdb, c, &p.Counters)
		}
		// Without this, go-redis would notice only after a minute that a replica has replaced a
		// lost master. ReloadState limits the rate of its reloads.
		p.reload = func() { rdb.ReloadState(context.Background()) }
	}
	return p
}

const (
	attempts = 4                    // at most, for a job that did not run
	backoff  = 2 * time.Millisecond // doubles with each attempt
)

// Do executes the script of j before the deadline. It sends j until it has run or may have run, until all attempts have
// failed, or until ctx or the deadline ends. After an error, j must not be used any more.
func (p *Pipe) Do(ctx context.Context, until time.Time, j *Job) error {
	j.ctx, j.until = ctx, until
	var before error // of the attempt before
	for attempt := 1; ; attempt++ {
		err := p.Sender.Send(j)
		if err == nil {
			return nil
		}
		if before != nil && errors.Is(err, driver.ErrOverloaded) {
			err = before // too little time is left after an outage
		}
		before = err
		if p.reload != nil && ctx.Err() == nil {
			p.reload()
		}
		if j.ended != nil || !didNotRun(err) || attempt >= attempts || j.sleep(backoff<<attempt) != nil {
			return err
		}
		j.again()
		j.Since = time.Time{}
		p.Retried.Add(1)
	}
}

// Whole reports whether one script may have keys of all hash slots.
func (p *Pipe) Whole() bool { return p.whole != nil && p.whole.proved() }

// Rejected reports whether err, of a job with keys of several slots, says that the server did not execute it because of
// them. Whole is false from then on.
func (p *Pipe) Rejected(err error) bool {
	if p.whole == nil || !redis.HasErrorPrefix(err, "CROSSSLOT") {
		return false
	}
	p.whole.disprove()
	return true
}
