package resilient

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/internal/processes"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/diagnose"
	"github.com/weir-go/weir/core/redisstore/internal/pipe"
	"github.com/weir-go/weir/internal/argument"
)

// A Store keeps the states of rules in Redis, and in the memory of this process during an outage of
// Redis. Use [New] to make a Store, and [Store.Close] to end its probes. It is safe for concurrent
// use.
type Store struct {
	observed *observe.Store
	cache    *denycache.Store
	failover *failover.Store
	primary  *redisstore.Store
	backup   *memstore.Store
	counter  *processes.Counter
	checks   sync.WaitGroup
	cancel   context.CancelFunc // of checks
}

// A counted is a primary that knows the number of processes of its rules.
type counted struct {
	*redisstore.Store
	*processes.Counter
}

// Describe returns the [driver.Description] of the Store, with the numbers and the switches.
func (c counted) Describe() driver.Description {
	d := c.Store.Describe()
	d.Processes, d.Off = c.Number, c.Off
	return d
}

// Declare implements [driver.Declarer].
func (c counted) Declare(changes ...driver.Change) error {
	err := c.Store.Declare(changes...)
	if err == nil {
		c.Counter.Declare(changes...)
	}
	return err
}

// Measures returns the figures of the Store, and the numbers of processes and of switches, for package observe.
func (c counted) Measures() []driver.Measure {
	return append(c.Store.Measures(), driver.Measure{
		Name: "weir.processes", Help: "Processes of the application, as their heartbeats in Redis have told; 0 if they are not known.",
		Unit: "{process}", Value: float64(c.Total()),
	}, driver.Measure{
		Name: "weir.off", Help: "Switches of weir off that are in force: limits are off.", Unit: "{switch}", Value: float64(c.Switches()),
	})
}

// New returns a Store that uses rdb for an application, such as "shop", as redisstore.New does: applications with different
// names share no state, rdb may be the client of a server, of
// a Sentinel group or of a Cluster, and hooks must be added to rdb before New. New does not wait for Redis, which
// may be unreachable. New panics if rdb or an option is nil, or app invalid.
//
// In the background, and for at most a second, the Store checks with diagnose.Diagnose whether it works on this Redis.
// If something will not work, for example because the user lacks a permission or the server accepts no scripts, the
// Store logs the first such Finding once, to [Store.Logger]. An unreachable Redis is not logged. Round trips of more
// than 10 ms leave time for a part of the checks.
//
// From the first rule on, the Store writes a heartbeat to Redis every ten seconds, and so learns the number of processes of
// the application that have each of its rules: see Processes in the documentation of the package. If the first heartbeat
// fails and neither [Instances] nor [Processes] is given, the Store logs a warning, because it then enforces the whole
// limits in an outage.
//
// The caller must call [Store.Close] unless it uses the Store until the program ends.
func New(rdb redis.UniversalClient, app string, opts ...Option) *Store {
	argument.NotNil("resilient: New", "the client", rdb)
	var c config
	argument.Apply("resilient: New", &c, opts)
	s := &Store{primary: redisstore.New(rdb, app, c.primary...), backup: memstore.New(c.backup...)}
	_, prefix, _, hasher := s.primary.Redis()
	s.counter = processes.New(processes.NewRecord(do(rdb), prefix, app), processes.Config{
		Timeout: s.primary.Describe().Deadline, Instances: c.instances, Follows: true, Tag: hasher.Tag, Once: once(rdb), Log: s.Logger, Refused: change,
		Unknown: sync.OnceFunc(func() {
			if !c.fixed && c.instances == 0 {
				s.Logger().Warn("weir: the number of processes is not known: while Redis is away, each process enforces the whole limit. " +
					"resilient.Instances(n) divides the limits by n until Redis has told the number; Instances(1) ends this warning")
			}
		}),
	})
	s.failover = failover.New(counted{s.primary, s.counter}, s.backup, c.failover...)
	s.cache = denycache.New(s.failover)
	s.observed = observe.New(s.cache, c.observe...)
	var ctx context.Context
	ctx, s.cancel = context.WithTimeout(context.Background(), checkTime)
	s.checks.Go(func() { s.check(ctx, rdb, app, c.primary) })
	return s
}

// do returns a function that executes commands on rdb.
func do(rdb redis.UniversalClient) func(ctx context.Context, args ...any) (any, error) {
	return func(ctx context.Context, args ...any) (any, error) {
		reply, err := rdb.Do(ctx, args...).Result()
		if errors.Is(err, redis.Nil) {
			err = nil
		}
		return reply, err
	}
}

// once returns a function that executes commands on rdb, each at most once.
func once(rdb redis.UniversalClient) func(ctx context.Context, args ...any) (any, error) {
	return func(ctx context.Context, args ...any) (any, error) {
		cmd := pipe.Command{Cmd: redis.NewCmd(ctx, args...)}
		_ = rdb.Process(ctx, cmd)
		return cmd.Result()
	}
}

// change returns the change that makes the heartbeats of a store possible after err, or an empty text.
func change(err error) string {
	switch {
	case pipe.ConfigurationFault(err) == pipe.NoPermission:
		return "allow the user the commands and keys in the documentation of package redisstore, under Permissions"
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return "delete the keys of the application that contain }processes"
	}
	return ""
}

// checkTime is the time for the check of Redis.
const checkTime = time.Second

// check logs the first Finding about Redis that says that something will not work, unless Redis does not reply, which
// package failover reports.
func (s *Store) check(ctx context.Context, rdb redis.UniversalClient, app string, opts []redisstore.Option) {
	defer func() { _ = recover() }() // a client of another package may panic
	findings := diagnose.Diagnose(ctx, rdb, app, opts...)
	first := slices.IndexFunc(findings, func(f diagnose.Finding) bool { return f.Result == diagnose.ResultFailed })
	if first < 0 || findings[0].Result == diagnose.ResultFailed || errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	f := findings[first]
	s.Logger().LogAttrs(ctx, slog.LevelWarn, "weir: this Redis will not work; weir doctor prints all checks",
		slog.String("check", f.Check), slog.String("detail", f.Detail), slog.String("change", f.Change))
}

// Take implements [driver.Store]. It returns the error of ctx if ctx has ended, an error about the
// charges, or core.ErrFailClosed for a rule of [FailClosedFor] during an outage.
func (s *Store) Take(ctx context.Context, charges []driver.Charge) error {
	return s.observed.Take(ctx, charges)
}

// Adjust implements [driver.Store]. It returns the errors of Take, and core.ErrUnavailable for a
// Credit or an Undo that only Redis could have executed (see package failover).
func (s *Store) Adjust(ctx context.Context, charges []driver.Charge) error {
	return s.observed.Adjust(ctx, charges)
}

// Declare implements [driver.Declarer]. It returns the errors of redisstore.
func (s *Store) Declare(changes ...driver.Change) error { return s.observed.Declare(changes...) }

// Probe implements [driver.Prober]. It probes the store that decides now.
func (s *Store) Probe(ctx context.Context, charges []driver.Charge) error {
	return s.observed.Probe(ctx, charges)
}

// Observer returns the part of the Store that counts its decisions: its Snapshot has all figures. It
// counts those of limiters on s itself. With a store over s, such as that of package lease, use
// observe.New around that store, which has the figures of all parts, too.
func (s *Store) Observer() *observe.Store { return s.observed }

// Describe returns the [driver.Description] of the stores behind s.
func (s *Store) Describe() driver.Description { return s.observed.Describe() }

// Counter implements [driver.Observer].
func (s *Store) Counter(rule, plan string) func(driver.Observation) {
	return s.observed.Counter(rule, plan)
}

// Ask implements [driver.Observer].
func (s *Store) Ask(peek bool) { s.observed.Ask(peek) }

// Logger implements [driver.Observer]. It is the log of observe.Logger, or slog.Default.
func (s *Store) Logger() *slog.Logger { return s.observed.Logger() }

// State returns which store decides now: Redis (failover.Primary), the memory of this process
// (failover.Backup), or, for half a second after an outage, both (failover.Recovering).
func (s *Store) State() failover.State { return s.failover.State() }

// Check returns core.ErrInvalidRule if [FailClosedFor] or [FailOpenFor] names a rule that no
// limiter on the Store has. Call Check after all limiters are made.
func (s *Store) Check() error { return s.failover.Check() }

// Stats contains the counts of the parts of a Store since it was made.
type Stats struct {
	Denycache  denycache.Stats  // decisions with and without a cached denial
	Failover   failover.Stats   // outages
	Redisstore redisstore.Stats // round trips to Redis
	Memstore   memstore.Stats   // states of the backup that found no memory
	Processes  int              // of the application, as the last heartbeats have told; 0 if they are not known
}

// Stats returns the counts so far.
func (s *Store) Stats() Stats {
	return Stats{
		Denycache:  s.cache.Stats(),
		Failover:   s.failover.Stats(),
		Redisstore: s.primary.Stats(),
		Memstore:   s.backup.Stats(),
		Processes:  s.counter.Total(),
	}
}

// Close ends the check of Redis, the heartbeats and the probes, and waits until they, and a running function of [OnChange],
// have returned. It tells Redis, within the [Timeout], that the process is not to be counted any more.
// Call Close after the application has stopped using the Store, and before it closes the client of
// Redis, which Close leaves open. A closed Store still decides, but does not return to Redis after
// an outage. A command of the check that was sent may hold its connection until the ReadTimeout of the client. Close may
// be called more than once. It returns nil.
func (s *Store) Close() error {
	s.cancel()
	s.checks.Wait()
	s.counter.Close()
	return s.failover.Close()
}
