// Package core decides whether an event, such as a request or a login, may happen now.
//
// A [Limit] is a number of events per period, or at the same time. A [Rule] is a named algorithm with
// a Limit. A [Limiter] applies one or more Rules, keeps its state in a [Store], and returns a
// [Decision]:
//
//	            key, cost               charges
//	caller ───────────────▶ Limiter ───────────────▶ Store
//	       ◀───────────────         ◀───────────────  memory, Redis, Postgres
//	            Decision                 states
//
// For example, with github.com/weir-go/weir/core/memstore:
//
//	store := memstore.New()
//	api := core.Must(core.New(store, core.TokenBucket("api", core.PerMinute(100))))
//	d, err := api.Allow(ctx, "203.0.113.9")
//
// For HTTP, packages nethttplimit, ginlimit and echolimit make middleware from a Limiter, and
// package keyfunc derives keys from requests. Package grpclimit makes interceptors for gRPC.
//
// An event is charged to all Rules of a Limiter or to none. [AllowTogether] does this for several
// Limiters.
//
// # Choosing an algorithm
//
//   - [TokenBucket] holds Burst tokens and refills continuously, so it admits at most Burst + rate
//     x span over any span. Its state is one number. Use it for most APIs.
//   - [LeakyBucket] is a queue that delays events, so that they depart at the rate and never
//     faster. Use it to protect a service that bursts would overload.
//   - [SlidingLog] never admits more than Events in any span of Per. Its memory grows with Events.
//     Refunds reach back over 1000 later events (see [Reservation.Refund]). Use it for limits that
//     must never be exceeded: logins, messages, payments.
//   - [SlidingWindow] has the same guarantee with a state of bounded size. It is slightly stricter:
//     an event of a one-minute limit counts for up to a second longer. Use it for large limits.
//   - [FixedWindow] restarts its count at fixed times, for example every full hour, and admits up
//     to twice the limit around such a time. Use it for short periods that must restart, such as an hour.
//   - [Quota] counts in the days, weeks or months of the calendar, in a time zone or from the day on which a
//     subscription is renewed. Use it for amounts that customers have bought, beside a rate.
//   - [InFlight] has no period: it bounds the events that run at the same time, in all processes. Use it
//     for exports, streams, jobs and slow requests, alone or beside a rate.
//   - [Pause] has no limit: it admits everything until [Limiter.Pause] closes a key for a time, in all
//     processes. Use it for the Retry-After of a service that you call, and for penalties.
//
// # Limits that depend on the caller, and limits that change
//
// A Rule can have other limits for the callers of a plan ([Rule.Plan]). [Limiter.Plan] selects the
// plan, and [Limiter.Variant] with [Limiter.Choose] gives single keys other rules. [Limiter.Replace]
// changes the rules while the Limiter is used. Limits of the same length share the state of a key:
// see [Rule]. The callers of a plan can leave a part of the limit to all others ([Rule.Headroom]).
//
// # Time
//
// Decisions use the clock of the Store, to the microsecond: the monotonic clock of this process for
// memstore (for a [Quota], its wall clock), the server's clock for redisstore and pgstore. The clock of a client of Redis
// is used only for the calendar of a Quota, and may be wrong by less than half a period.
//
// The package depends on the standard library only, and not on net/http.
package core
