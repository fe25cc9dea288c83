package redisstore

import "github.com/weir-go/weir/core/driver"

// Measures returns the figures of [Stats], and the number of decisions that were split, for package observe.
func (s *Store) Measures() []driver.Measure {
	n := s.Stats()
	return []driver.Measure{
		{Name: "weir.redis.round_trips", Help: "Round trips to Redis.", Unit: "{round_trip}", Total: true, Value: float64(n.RoundTrips)},
		{Name: "weir.redis.requests", Help: "Requests that were sent in these round trips.", Unit: "{request}", Total: true, Value: float64(n.Requests)},
		{Name: "weir.redis.retried", Help: "Commands that were sent again because they had not run.", Unit: "{command}", Total: true, Value: float64(n.Retried)},
		{Name: "weir.redis.unavailable", Help: "Decisions that failed.", Unit: "{decision}", Total: true, Value: float64(n.Unavailable)},
		{Name: "weir.redis.split", Help: "Decisions about several keys that took a script for each hash slot or key.", Unit: "{decision}", Total: true, Value: float64(s.split.Load())},
		{Name: "weir.redis.corrupt", Help: "States that could not be read and were replaced by new ones.", Unit: "{state}", Total: true, Value: float64(n.Corrupt)},
		{Name: "weir.redis.running", Help: "Round trips under way.", Unit: "{round_trip}", Value: float64(n.Running)},
		{Name: "weir.redis.waiting", Help: "Requests that wait for a round trip.", Unit: "{request}", Value: float64(n.Waiting)},
	}
}
