package main

import (
	"fmt"
	"math"
)

// A way is one way to send decisions to Redis.
type way struct {
	name  string
	calls float64 // calls of Redis per decision
	us    float64 // Redis CPU per call, in microseconds
}

// estimate prints the number of Redis processes and the memory that the load needs. alone is the cost of a
// decision that shares no round trip.
func estimate(c config, m measures, alone float64, denied [2]float64) {
	rows := [][]string{{"", "calls of Redis a second", "Redis processes"}}
	one, two := m["token bucket"].admitted, m["2 token buckets"].admitted
	for _, w := range []way{
		{"one rule", 1, one},
		{"one rule, each decision in a round trip of its own", 1, alone},
		{"two rules", 1, two},
		{fmt.Sprintf("one rule, %v a second, denycache, each user at one process", c.limit), denied[0], one},
		{fmt.Sprintf("one rule, %v a second, denycache, each user at %d processes", c.limit, c.nodes), denied[1], one},
		{fmt.Sprintf("one rule, lease of the keys of %.0f %% of the decisions", 100*c.hot), leased(c.hot, c.lease), one},
	} {
		calls := float64(c.users) * c.rate * w.calls
		rows = append(rows, []string{w.name, count(calls), fmt.Sprint(shards(calls, w.us, c.busy))})
	}
	table(fmt.Sprintf("%s users with %v requests a second each, %.0f %% of a core a Redis process", count(float64(c.users)), c.rate, 100*c.busy), rows...)

	rows = [][]string{{"", "memory of all Redis processes"}}
	for _, sub := range subjects(c) {
		if sub.asks > 0 {
			continue // has the same state as the subject before
		}
		rows = append(rows, []string{sub.name, fmt.Sprintf("%.2g GB", float64(c.users)*m[sub.name].bytes/1e9)})
	}
	table(fmt.Sprintf("%s users at once", count(float64(c.users))), rows...)
}

// leased returns the calls per decision if the part hot of the decisions makes lease
// calls each, and the others make one.
func leased(hot, lease float64) float64 { return 1 - hot + hot*lease }

// shards returns the number of processes that serve calls a second, each of which takes
// us microseconds, with a CPU utilization of at most busy.
func shards(calls, us, busy float64) int { return int(math.Ceil(calls * us / 1e6 / busy)) }

// count returns n with a unit prefix.
func count(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.3g M", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.3g k", n/1e3)
	}
	return fmt.Sprintf("%.0f", n)
}
