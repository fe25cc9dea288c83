package casstore

import (
	"time"

	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/internal/argument"
)

// An Option changes the Store that New returns. The options are the functions of this package that
// return an Option.
type Option interface{ argument.Option[config] }

type option = argument.OptionFunc[config]

type config struct {
	application string
	timeout     time.Duration
	connections int
	secret      []byte
}

const (
	// DefaultTimeout is the deadline of a decision when [Timeout] is not given.
	DefaultTimeout = 100 * time.Millisecond
	// DefaultConnections is the number of rounds under way when [Connections] is not given.
	DefaultConnections = 4
)

// Application sets the name of the application, such as "shop": applications with different names share no state. It has
// letters, digits, '-', '_' and '.'. Without it, the name is empty. Application panics if name is invalid.
func Application(name string) Option {
	keyhash.Prefix("casstore: Application", "", name)
	return option(func(c *config) { c.application = name })
}

// Timeout sets the deadline of a decision, by default [DefaultTimeout]. The contexts of the methods of [Rows] end after
// four times d, because many drivers close a connection whose statement is cancelled. An event that a leaky bucket admits may
// be late by up to d beyond the MaxDelay of its ask. Timeout panics if d is not
// positive.
func Timeout(d time.Duration) Option {
	if d <= 0 {
		panic("casstore: Timeout: not positive")
	}
	return option(func(c *config) { c.timeout = d })
}

// Connections sets the number of rounds that may be under way at the same time, by default [DefaultConnections]. All
// decisions whose first charge has the same key are made one round after the other, so they do not compete for its rows.
// Connections panics if n is not from 1 to 1000.
func Connections(n int) Option {
	if n < 1 || n > 1000 {
		panic("casstore: Connections: not from 1 to 1000")
	}
	return option(func(c *config) { c.connections = n })
}

// KeySecret makes the Store hash keys with HMAC-SHA-256 and secret, instead of SHA-256. Addresses and names are few enough
// to be guessed from a plain hash. A reader of the database who does not know the secret cannot guess them. All processes
// must use the same secret. If the secret changes, all limits begin unused. KeySecret panics if secret is shorter than 16
// bytes.
func KeySecret(secret []byte) Option {
	secret = keyhash.CopySecret("casstore: KeySecret", secret)
	return option(func(c *config) { c.secret = secret })
}
