package denycache

import (
	"time"

	"github.com/weir-go/weir/core/internal/argument"
)

// An Option changes what New makes. The options are the functions of this package that
// return one.
type Option interface{ argument.Option[config] }

type option = argument.OptionFunc[config]

type config struct {
	maxKeys int
	maxAge  time.Duration
}

// DefaultMaxKeys is the bound when [MaxKeys] is not given.
const DefaultMaxKeys = 1 << 16

// MaxKeys bounds what is remembered to n rules of keys, [DefaultMaxKeys] by
// default: a key with two rules counts as two. Each takes some 250 bytes, or 600 if four
// costs of a SlidingLog or SlidingWindow are remembered, and its key, of which no more
// than 128 bytes. It panics if n is less than 1.
func MaxKeys(n int) Option {
	if n < 1 {
		panic("denycache: MaxKeys: n is less than 1")
	}
	return option(func(c *config) { c.maxKeys = n })
}

// DefaultMaxAge is how long a denial is believed when [MaxAge] is not given.
const DefaultMaxAge = time.Second

// MaxAge bounds how long a denial is believed, [DefaultMaxAge] by default, however
// far its RetryAfter is. So long can it take until a Reset, a Credit or a raised
// limit of another process gets through, and so often is the Store asked about a key
// that stays denied. It panics if d is not positive.
func MaxAge(d time.Duration) Option {
	if d <= 0 {
		panic("denycache: MaxAge: not positive")
	}
	return option(func(c *config) { c.maxAge = d })
}
