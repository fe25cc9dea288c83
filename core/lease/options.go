package lease

import (
	"time"

	"github.com/weir-go/weir/core/internal/argument"
)

// An Option changes the Store that New returns. The options are the functions of this package
// that return one.
type Option interface{ argument.Option[config] }

type option = argument.OptionFunc[config]

type config struct {
	maxKeys  int
	lifetime time.Duration
	maxAge   time.Duration
	timeout  time.Duration
}

// The defaults of the options.
const (
	DefaultMaxKeys  = 1 << 16
	DefaultLifetime = 500 * time.Millisecond
	DefaultMaxAge   = time.Second
	DefaultTimeout  = time.Second
)

// MaxLifetime is the longest [Lifetime].
const MaxLifetime = time.Second

// MaxKeys bounds the number of keys in memory, [DefaultMaxKeys] by default. Every rule of a key
// counts as one; keys for which calls are under way come on top. The least recently used of
// eight keys, chosen at random, is evicted, and its tokens are lost. A key takes about 430 bytes
// and its own length. MaxKeys panics if n is less than 1.
func MaxKeys(n int) Option {
	if n < 1 {
		panic("lease: MaxKeys: n is less than 1")
	}
	return option(func(c *config) { c.maxKeys = n })
}

// Lifetime is the span whose use decides the size of a block, [DefaultLifetime] by default. A
// block is half of the recent use, in which a token counts half after each Lifetime. A longer
// one saves calls on keys of some hundred decisions a second; with a shorter one, a process that
// has become idle leaves fewer tokens unused. For a bucket the Lifetime is at most an eighth of
// the time in which the bucket fills up. Processes that share a Store may have different ones.
// Tokens may be held for longer: see the package comment. Lifetime panics if d is less than a
// millisecond or more than [MaxLifetime].
func Lifetime(d time.Duration) Option {
	if d < time.Millisecond || d > MaxLifetime {
		panic("lease: Lifetime: not between a millisecond and a second")
	}
	return option(func(c *config) { c.lifetime = d })
}

// MaxAge bounds how long a denial of the Store is repeated without a call, [DefaultMaxAge] by
// default, however long its RetryAfter is. A Reset, a Credit or a raised limit of another
// process takes effect after MaxAge at the latest, and a key that stays denied costs one call in
// each MaxAge. MaxAge panics if d is not positive.
func MaxAge(d time.Duration) Option {
	if d <= 0 {
		panic("lease: MaxAge: not positive")
	}
	return option(func(c *config) { c.maxAge = d })
}

// Timeout bounds each call that is made for several callers at once or to fetch a block, and the
// time for which Close waits for such calls; [DefaultTimeout] by default. It is for Stores
// without a deadline of their own. Timeout panics if d is not positive.
func Timeout(d time.Duration) Option {
	if d <= 0 {
		panic("lease: Timeout: not positive")
	}
	return option(func(c *config) { c.timeout = d })
}
