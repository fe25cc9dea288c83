package resilient

import (
	"time"

	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
)

// Over returns a Store whose primary is not a redisstore, for the conformance suite. Its backup has the clock of the
// suite, in Unix microseconds. Its cached denials end at once, because package denycache has another clock.
func Over(primary driver.Store, clock func() int64) *Store {
	backup := memstore.New(memstore.Clock(func() time.Time { return time.UnixMicro(clock()) }))
	f := failover.New(primary, backup, failover.Deadline(time.Minute))
	cache := denycache.New(f, denycache.MaxAge(1))
	return &Store{failover: f, cache: cache, observed: observe.New(cache)}
}
