// Package core decides whether an event may happen now.
//
// A [Limit] says how many events in how long. A [Rule] is a named algorithm
// with a Limit. A [Limiter] is a [Store] and its Rules, and answers with a
// [Decision]:
//
//	            key, cost               charges
//	caller ───────────────▶ Limiter ───────────────▶ Store
//	       ◀───────────────         ◀───────────────  memory or Redis
//	            Decision                 states
//
// For example, with github.com/weir-go/weir/core/memstore:
//
//	store := memstore.New()
//	api := core.Must(core.New(store, core.TokenBucket("api", core.PerMinute(100))))
//	d, err := api.Allow(ctx, "203.0.113.9")
//
// For HTTP, packages nethttplimit, ginlimit and echolimit of this module make a middleware of
// a Limiter, and package keyfunc the keys.
//
// All Rules of a Limiter, and all asks of one [AllowTogether], are decided together:
// either every one of them is charged or none is.
//
// # Choosing an algorithm
//
//   - [TokenBucket] holds Burst events and refills continuously. The state is one
//     number. Over any span it admits at most Burst + rate x span. Right for most
//     APIs.
//   - [LeakyBucket] is a queue: what it admits has a Delay, so that it goes at the
//     rate and never faster. Right in front of something that bursts would hurt.
//   - [SlidingLog] remembers every admitted event and never admits more than Events
//     in any span of Per. Its memory grows with Events. Right where the number is a
//     promise: logins, messages, payments.
//   - [SlidingWindow] makes the same promise with a state of bounded size. It is slightly too
//     strict: an event counts for up to one sub-window longer, a second of a minute. Right for
//     large limits.
//   - [FixedWindow] counts by the clock, and admits up to twice the limit across an
//     edge. Right where the edge is the point: a quota a day.
//
// # Time
//
// The Store's clock decides, to the microsecond: the monotonic clock of this
// process for memstore, the server's own clock for redisstore. The clock of a
// client is never used.
//
// The package depends on the standard library only, and not on net/http.
package core
