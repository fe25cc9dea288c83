package rules

import (
	"log/slog"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// Measures returns figures, so that observe.Store.Add accepts a Set. Those of
// overrides are there if the Set has a [RedisSource].
func (s *Set) Measures() []driver.Measure {
	all := []driver.Measure{
		{Name: "weir.rules.policies", Help: "Policies of the configuration in force, and removed ones.", Unit: "{policy}", Value: float64(len(s.applied.Load().policies))},
		{Name: "weir.rules.changes", Help: "Configurations that were applied after the first one.", Unit: "{configuration}", Total: true, Value: float64(s.changes.Load())},
		{Name: "weir.rules.errors", Help: "Configurations and overrides that could not be read or applied.", Unit: "{error}", Total: true, Value: float64(s.errors.Load())},
	}
	if s.source == nil {
		return all
	}
	n := s.source.Stats()
	return append(all,
		driver.Measure{Name: "weir.rules.overrides", Help: "Keys with an override; -1 if unknown.", Unit: "{key}", Value: float64(n.Overrides)},
		driver.Measure{Name: "weir.rules.blocks", Help: "Keys that are blocked, in Redis or the configuration; -1 if unknown.", Unit: "{key}", Value: float64(s.blocked(n.Blocks))},
		driver.Measure{Name: "weir.rules.overrides.age", Help: "Time since the changes of overrides were read; negative before the first time.", Unit: "s", Value: n.Age.Seconds()},
		driver.Measure{Name: "weir.rules.overrides.reads", Help: "Overrides of single keys that were read.", Unit: "{read}", Total: true, Value: float64(n.Reads)},
		driver.Measure{Name: "weir.rules.overrides.stale", Help: "Lookups that used old knowledge about a key.", Unit: "{lookup}", Total: true, Value: float64(n.Stale)},
		driver.Measure{Name: "weir.rules.overrides.missing", Help: "Lookups without any knowledge about a key.", Unit: "{lookup}", Total: true, Value: float64(n.Missing)},
	)
}

// blocked returns the number of blocks, in Redis and of the configuration. Overrides in Redis have precedence over
// the configuration.
func (s *Set) blocked(inRedis int) int {
	if inRedis < 0 {
		return -1
	}
	for name, p := range s.Config().Policies {
		for key, o := range p.Keys {
			if !o.Blocked || p.Disabled || !o.Until.IsZero() && !time.Now().Before(o.Until) {
				continue
			}
			if !s.source.overrides.Has(name, key) {
				inRedis++
			}
		}
	}
	return inRedis
}

// LogTo sets the log, for package observe. Each new configuration is logged at level Info as "weir: new
// configuration", with the attributes previous, version and changes, the number of differences. Errors
// go to this log, in place of slog.Default, unless there is an [OnError]. It must be called before the
// Set is used concurrently.
func (s *Set) LogTo(log *slog.Logger) { s.log = log }
