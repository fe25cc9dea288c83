package observe

import (
	"crypto/rand"
	"log/slog"

	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/internal/argument"
)

// An Option configures the Store that [New] returns. Later options override earlier options.
type Option interface{ argument.Option[config] }

type option = argument.OptionFunc[config]

type config struct {
	logger    *slog.Logger // nil without Logger
	topKeys   int
	secret    []byte
	clearKeys bool
	near      float64 // zero without Near
}

// Logger makes the Store log denials and changes of state to log. The messages are constant; the data
// are in attributes:
//
//   - "weir: denied" and "weir: a shadow rule would have denied", at level Info, with rule, plan,
//     result, key (see [Store.Tag]), retry_after and suppressed: at most one record a second for each
//     rule and plan; suppressed is the number of those left out since the last one.
//   - "weir: the store has changed", at level Warn, at each change of a failover.Store, with from, to
//     and error. Without Logger, it goes to slog.Default, unless the Store has an OnChange.
//   - "weir: new configuration", at level Info, when a rules.Set has new rules, with previous,
//     version and changes. Add the Set with [Store.Add].
//   - "weir: unknown plan; its callers have the limits without a plan", at level Warn, once for each
//     plan, with plan and rules. Without Logger, it goes to slog.Default.
//
// Logger panics if log is nil.
func Logger(log *slog.Logger) Option {
	argument.NotNil("observe: Logger", "log", log)
	return option(func(c *config) { c.logger = log })
}

// TopKeys makes the Store find the n keys with the most denials and the n keys with the most decisions
// of the last [Period]. For n = 10 it takes about 30 kilobytes, or up to 250 with keys of 256 bytes or
// more, however many keys there are. Denials are all counted; of all decisions, one in 64 is. TopKeys
// panics if n is not in 1 to 100.
func TopKeys(n int) Option {
	if n < 1 || n > 100 {
		panic("observe: TopKeys: n is not in 1 to 100")
	}
	return option(func(c *config) { c.topKeys = n })
}

// KeySecret sets the secret of the HMACs that stand for keys (see [Store.Tag]). With the KeySecret of
// redisstore, they are those in the names of the keys in Redis. Without KeySecret, the secret is a
// random one of this process. KeySecret panics if secret is shorter than 16 bytes.
func KeySecret(secret []byte) Option {
	secret = keyhash.CopySecret("observe: KeySecret", secret)
	return option(func(c *config) { c.secret = secret })
}

// ClearKeys makes keys appear as they are, instead of as HMACs. Keys may be personal data, such as
// addresses and names of users.
func ClearKeys() Option { return option(func(c *config) { c.clearKeys = true }) }

// Near makes the Store count the events after which more than a share of the limit is used, such as 0.8 for 80 %: the
// field Near of a [Series]. It counts admitted and denied events, also those of shadow rules. Near panics if share is not
// above 0 and below 1.
func Near(share float64) Option {
	if !(share > 0 && share < 1) {
		panic("observe: Near: share is not above 0 and below 1")
	}
	return option(func(c *config) { c.near = share })
}

func randomSecret() []byte {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never returns an error
	return secret
}
