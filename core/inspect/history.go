package inspect

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core/observe"
)

// minutes is the number of minutes of the charts.
const minutes = 60

// A history contains the figures of the last minutes.
type history struct {
	mu   sync.Mutex
	past []interval // complete minutes, the oldest first
	last *observe.Snapshot
	from time.Time // the time of last
}

// An interval contains the differences of two snapshots.
type interval struct {
	from, to time.Time
	series   []observe.Series // those with decisions, in the order of a Snapshot
	requests observe.Counts   // the sum of those of series
	calls    observe.Calls
	trips    float64 // round trips to Redis
	outage   bool    // a backup decided
}

// start begins the first minute.
func (h *history) start(now *observe.Snapshot) { h.last, h.from = now, time.Now() }

// next completes a minute.
func (h *history) next(now *observe.Snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	present := h.present(now)
	if h.past = append(h.past, present); len(h.past) >= minutes {
		h.past = slices.Delete(h.past, 0, len(h.past)-minutes+1)
	}
	h.last, h.from = now, present.to
}

// hour returns the last minutes, of which the last one is not complete. now is a snapshot of this moment.
func (h *history) hour(now *observe.Snapshot) []interval {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append(slices.Clone(h.past), h.present(now))
}

// present returns the minute since the last complete one. now may be older than the latter, by a moment.
func (h *history) present(now *observe.Snapshot) interval {
	m := interval{from: h.from, to: time.Now()}
	old := h.last.Series
	for _, s := range now.Series {
		for len(old) > 0 && compare(&old[0], &s) < 0 {
			old = old[1:]
		}
		if len(old) > 0 && compare(&old[0], &s) == 0 {
			subtract(&s.Decisions, &old[0].Decisions)
			subtract(&s.Requests, &old[0].Requests)
		}
		if s.Decisions.Total() > 0 || s.Requests.Total() > 0 {
			m.series = append(m.series, s)
			add(&m.requests, &s.Requests)
		}
	}
	m.calls = now.Calls
	m.calls.Buckets = slices.Clone(m.calls.Buckets)
	for i := range m.calls.Buckets {
		m.calls.Buckets[i] = less(m.calls.Buckets[i], h.last.Calls.Buckets[i])
	}
	m.calls.Count = less(now.Calls.Count, h.last.Calls.Count)
	m.trips = max(0, measure(now, "weir.redis.round_trips")-measure(h.last, "weir.redis.round_trips"))
	m.outage = measure(now, failoverState) >= 1 || measure(now, "weir.failover.backup") > measure(h.last, "weir.failover.backup")
	return m
}

func compare(a, b *observe.Series) int {
	return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Plan, b.Plan))
}

func subtract(from, c *observe.Counts) {
	for i := range from {
		from[i] = less(from[i], c[i])
	}
}

// less returns a - b, or zero if b is larger.
func less(a, b uint64) uint64 { return max(a, b) - b }

// failoverState is the measure of a failover.Store: 0 the primary decides, 1 the backup, 2 both.
const failoverState = "weir.failover.state"

// measure returns the sum of the measures of a name.
func measure(s *observe.Snapshot, name string) (sum float64) {
	for _, m := range s.Measures {
		if m.Name == name {
			sum += m.Value
		}
	}
	return sum
}

// add adds c to sum.
func add(sum, c *observe.Counts) {
	for i := range c {
		sum[i] += c[i]
	}
}

// quantile returns the upper bound of the bucket that contains a quantile of the times of calls, or the
// lower bound of the last bucket.
func quantile(calls observe.Calls, q float64) string {
	rank, sum := q*float64(calls.Count), uint64(0)
	for i, bound := range observe.Bounds {
		if sum += calls.Buckets[i]; float64(sum) >= rank {
			return "≤ " + bound.String()
		}
	}
	return "> " + observe.Bounds[len(observe.Bounds)-1].String()
}
