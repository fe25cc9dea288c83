package lease

import (
	"time"

	"github.com/weir-go/weir/internal/argument"
)

// An Option changes the Store that New returns. The options are the functions of this package
// that return an Option.
type Option interface{ argument.Option[config] }

type option = argument.OptionFunc[config]

type config struct {
	maxKeys  int
	lifetime time.Duration
	timeout  time.Duration
}

// The defaults of the options.
const (
	DefaultMaxKeys  = 1 << 16
	DefaultLifetime = 500 * time.Millisecond
	DefaultTimeout  = time.Second
)

// MaxLifetime is the longest [Lifetime].
const MaxLifetime = time.Second

// MaxKeys returns an Option that keeps at most n keys in memory. The default is [DefaultMaxKeys].
// Every rule and plan of a key counts as one key. Keys with calls under way may exceed the limit.
// At the limit, a new key evicts the least recently used of eight random keys, whose tokens are
// then lost. A key takes about 340 bytes plus its own length. MaxKeys panics if n is less than 1.
func MaxKeys(n int) Option {
	if n < 1 {
		panic("lease: MaxKeys: n is less than 1")
	}
	return option(func(c *config) { c.maxKeys = n })
}

// Lifetime returns an Option that sets the period over which the use of a key is measured to choose
// the size of a bundle. The default is [DefaultLifetime]. A bundle is half of the recent use. A used
// token counts fully at first, and half as much after each Lifetime. A longer Lifetime saves calls
// for keys with some hundred decisions a second. With a shorter Lifetime, a process that has
// become idle leaves fewer tokens unused. For a bucket, the Lifetime is at most an eighth of the
// time in which the bucket fills up. Processes that share a Store may use different Lifetimes.
// Tokens may be held for longer: see the package comment. Lifetime panics if d is less than a
// millisecond or more than [MaxLifetime].
func Lifetime(d time.Duration) Option {
	if d < time.Millisecond || d > MaxLifetime {
		panic("lease: Lifetime: not between a millisecond and a second")
	}
	return option(func(c *config) { c.lifetime = d })
}

// Timeout returns an Option that bounds each call that serves several callers or fetches a bundle,
// and the time for which Close waits for such calls. The default is [DefaultTimeout]. The Option is
// for Stores without a deadline of their own. Timeout panics if d is not positive.
func Timeout(d time.Duration) Option {
	if d <= 0 {
		panic("lease: Timeout: not positive")
	}
	return option(func(c *config) { c.timeout = d })
}
