package denycache

import (
	"time"

	"github.com/weir-go/weir/internal/argument"
)

// An Option changes the Store that New returns. The options are the functions of this package
// that return an Option.
type Option interface{ argument.Option[config] }

type option = argument.OptionFunc[config]

type config struct {
	maxKeys int
	maxAge  time.Duration
}

// DefaultMaxKeys is the bound when [MaxKeys] is not given.
const DefaultMaxKeys = 1 << 16

// MaxKeys returns an Option that limits the cache to n keys, counted for each rule. The default is
// [DefaultMaxKeys]. A key takes some 220 bytes, or 1000 bytes with eight denials of a
// SlidingLog or SlidingWindow, plus its text of at most 128 bytes. MaxKeys panics if n < 1.
func MaxKeys(n int) Option {
	if n < 1 {
		panic("denycache: MaxKeys: n is less than 1")
	}
	return option(func(c *config) { c.maxKeys = n })
}

// DefaultMaxAge is the bound when [MaxAge] is not given.
const DefaultMaxAge = time.Second

// MaxAge returns an Option that caches a denial for at most d, even if its RetryAfter is longer.
// The default is [DefaultMaxAge]. A Reset, a Credit or a raised limit of another process takes
// effect in this process within d. A key that stays denied costs a call of the Store every d.
// MaxAge panics if d is not positive.
func MaxAge(d time.Duration) Option {
	if d <= 0 {
		panic("denycache: MaxAge: not positive")
	}
	return option(func(c *config) { c.maxAge = d })
}
