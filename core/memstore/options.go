package memstore

import (
	"time"

	"github.com/weir-go/weir/internal/argument"
)

// DefaultMaxMemory is the bound in bytes when [MaxMemory] is not given: 80 MB.
const DefaultMaxMemory = 80_000_000

// keySize is the memory for a token bucket: 36 bytes of a table, and a part of the 3 KB that the
// smallest shard takes in addition.
const keySize = 40

// An Option changes the Store that New returns. The options are the functions of this package that
// return an Option.
type Option interface{ argument.Option[config] }

type option = argument.OptionFunc[config]

type config struct {
	maxKeys int
	clock   func() time.Time // nil without Clock
}

// Clock returns an Option that makes now the clock of the store, also for quotas. It is for simulations,
// and for tests that cannot use testing/synctest. Many goroutines call now. If the time steps back, rules
// behave as after such a step of the clock of Redis. A time before 1970 counts as the beginning of 1970.
// Clock panics if now is nil.
//
// Stores over the store, such as those of packages denycache and lease, keep the clock of the process for the
// times for which they remember denials and tokens.
func Clock(now func() time.Time) Option {
	argument.NotNil("memstore: Clock", "now", now)
	return option(func(c *config) { c.clock = now })
}

// MaxMemory returns an Option that limits the memory of the states in a store to n bytes. The
// default is [DefaultMaxMemory]. The package comment lists the memory of a state. The overflow
// buckets of a rule take up to 2 KB more in each shard. The number of shards depends on n: each
// shard serves between 40 KB and 1.2 MB of it. A value below 40 KB is raised to 40 KB. MaxMemory
// panics if n is less than 1.
func MaxMemory(n int) Option {
	if n < 1 {
		panic("memstore: MaxMemory: n is less than 1")
	}
	return option(func(c *config) { c.maxKeys = n / keySize })
}
