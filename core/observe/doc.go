// Package observe counts the decisions of a process by rule, plan and result. It measures the calls of
// Redis, collects the figures of every store, finds the keys with the most denials, and logs.
//
//	store := observe.New(memstore.New(), observe.Logger(slog.Default()), observe.TopKeys(10))
//	api, err := core.New(store, core.SlidingWindow("api", core.PerMinute(100)))
//	...
//	n := store.Snapshot().Total()
//	fmt.Println(n[driver.Allowed], "requests were allowed, and", n.Denied(), "denied")
//
// A [Store] belongs around the outermost store of an application. The stores of package resilient
// contain one. Limiters tell it their decisions, including those without a call of a store, such as about
// a caller who is blocked. Other methods of limiters, such as Debit and Settle, are not counted,
// nor are the renewals and the ends of events of a core.InFlight.
//
// The modules core/observe/prometheus and core/observe/otel export all figures, one line each. Their
// metrics are those of METRICS.md in this folder.
//
// # Cost
//
// A decision takes about 20 ns longer, allocates nothing more, and locks nothing. [TopKeys] adds
// about 40 ns to a denial, under a lock. The time of a call (see [Calls]), which takes two readings of
// the clock, is measured only for a store that has a deadline, such as redisstore.
//
// The number of series does not depend on the number of keys. Rules and plans beyond [MaxSeries]
// are counted together. No key is kept without TopKeys.
//
// # Results
//
// The result of a rule, or of a whole decision, is a [driver.Result]:
//
//	allowed        within the limit
//	soft           allowed, but beyond the limit itself: core.Rule.Soft
//	denied         over the limit
//	never          denied for ever, because the cost is above the capacity
//	blocked        denied, because the limit of the plan or override is core.Blocked
//	banned         denied, because this denial or an earlier one has banned the key: core.Spec.BlockFor
//	shadow_denied  a core.Rule.Shadow would have denied
//	canceled       the context ended before the decision
//	error          the store could not decide
//	unknown        of a rule only: it was not evaluated, because a cached denial of another rule (package denycache,
//	               which resilient.New contains) or a blocked one had denied the event
//
// For each rule, the sum of its results is the number of its decisions, with every store. The division between unknown and
// the others depends on the store. An event whose result is unknown is not in the log and the top keys of that rule.
//
// Invalid arguments, such as an empty key, are counted nowhere.
package observe
