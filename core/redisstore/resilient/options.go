package resilient

import (
	"time"

	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/internal/argument"
)

// An Option configures the Store that [New] returns. Later options override earlier options.
type Option interface{ argument.Option[config] }

type option = argument.OptionFunc[config]

// A config holds the options of the parts.
type config struct {
	primary   []redisstore.Option
	failover  []failover.Option
	backup    []memstore.Option
	observe   []observe.Option
	instances int  // 0 without Instances
	fixed     bool // Processes is given
}

// Prefix sets the beginning of every key in Redis, before the name of the application, in place of
// redisstore.DefaultPrefix. It is redisstore.Prefix. Prefix panics if p is longer than 32 bytes or
// contains a brace.
func Prefix(p string) Option {
	keyhash.CheckPrefix("resilient: Prefix", p)
	return ofPrimary(redisstore.Prefix(p))
}

// KeySecret makes the Store hash identities in Redis with secret, so that a reader of Redis cannot
// guess them. It is redisstore.KeySecret, and observe.KeySecret: all processes must use the same secret. KeySecret panics
// if secret is shorter than 16 bytes.
func KeySecret(secret []byte) Option {
	secret = keyhash.CopySecret("resilient: KeySecret", secret)
	primary, observer := redisstore.KeySecret(secret), observe.KeySecret(secret)
	return option(func(c *config) {
		c.primary, c.observe = append(c.primary, primary), append(c.observe, observer)
	})
}

// Observe gives options to the part that counts decisions (see [Store.Observer]), such as
// observe.Logger and observe.TopKeys. Decisions are counted without Observe, too.
func Observe(opts ...observe.Option) Option {
	return option(func(c *config) { c.observe = append(c.observe, opts...) })
}

// Timeout sets the time that Redis may take for one decision, by default 100 ms
// (redisstore.DefaultTimeout). When d has passed, the backup decides. It is redisstore.Timeout and
// failover.Deadline. Timeout panics if d is not positive.
func Timeout(d time.Duration) Option {
	if d <= 0 {
		panic("resilient: Timeout: not positive")
	}
	// With a shorter deadline, failover would call redisstore on a separate goroutine.
	primary, deadline := redisstore.Timeout(d), failover.Deadline(d)
	return option(func(c *config) {
		c.primary, c.failover = append(c.primary, primary), append(c.failover, deadline)
	})
}

// Processes makes each process enforce every limit divided by the number that f returns during an outage, in place of the
// number of processes that Redis has told. It is failover.Processes. Processes panics if f is nil.
func Processes(f func() int) Option {
	argument.NotNil("resilient: Processes", "function", f)
	fixed := failover.Processes(f)
	return option(func(c *config) {
		c.failover, c.fixed = append(c.failover, fixed), true
	})
}

// Instances sets the number of processes until Redis has told it: for a process that starts in an outage, and for a Redis
// whose user may not write heartbeats. Until heartbeats have had replies for 15 s, the larger number counts. It panics if n
// is less than 1.
func Instances(n int) Option {
	if n < 1 {
		panic("resilient: Instances: n is less than 1")
	}
	return option(func(c *config) { c.instances = n })
}

// FailClosedFor names rules without a backup: during an outage, a decision that contains one of
// these rules returns core.ErrFailClosed, and a gate responds with 503. It is
// failover.FailClosedFor. [Store.Check] reports names that no rule has.
func FailClosedFor(rules ...string) Option { return ofFailover(failover.FailClosedFor(rules...)) }

// FailOpenFor names rules without a backup: during an outage, these rules admit every event, and
// the other rules decide. It is failover.FailOpenFor. [Store.Check] reports names that no rule has.
func FailOpenFor(rules ...string) Option { return ofFailover(failover.FailOpenFor(rules...)) }

// OnChange makes the Store call f when its [Store.State] has changed, in place of logging the change to slog.Default. A log of
// observe.Logger gets it, too. It is failover.OnChange: calls of f are made one at a time and in order, and f must not close the Store. OnChange panics if f
// is nil.
func OnChange(f func(from, to failover.State, cause error)) Option {
	return ofFailover(failover.OnChange(f))
}

// MaxMemory limits the memory of the backup to n bytes, by default memstore.DefaultMaxMemory. It is
// memstore.MaxMemory. MaxMemory panics if n is less than 1.
func MaxMemory(n int) Option {
	if n < 1 {
		panic("resilient: MaxMemory: n is less than 1")
	}
	memory := memstore.MaxMemory(n)
	return option(func(c *config) { c.backup = append(c.backup, memory) })
}

func ofPrimary(o redisstore.Option) Option {
	return option(func(c *config) { c.primary = append(c.primary, o) })
}

func ofFailover(o failover.Option) Option {
	return option(func(c *config) { c.failover = append(c.failover, o) })
}
