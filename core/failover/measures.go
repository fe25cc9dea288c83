package failover

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/weir-go/weir/core/driver"
)

// Describe returns a [driver.Description] with the Clock and Off of the primary, and the primary and the backup behind.
func (s *Store) Describe() driver.Description {
	d := driver.Describe(s.primary.store)
	return driver.Description{
		Clock:  d.Clock,
		Off:    d.Off,
		Behind: map[string]driver.Store{"primary": s.primary.store, "backup": s.backup.store},
	}
}

// Measures returns the State and the figures of [Stats], for package observe.
func (s *Store) Measures() []driver.Measure {
	n := s.Stats()
	return []driver.Measure{
		{Name: "weir.failover.state", Help: "The store that decides: 0 the primary, 1 the backup, 2 both while the primary returns.", Unit: "1", Value: float64(s.State())},
		{Name: "weir.failover.outages", Help: "How often the backup took over.", Unit: "{outage}", Total: true, Value: float64(n.Outages)},
		{Name: "weir.failover.failures", Help: "Calls of the primary that failed.", Unit: "{call}", Total: true, Value: float64(n.Failures)},
		{Name: "weir.failover.backup", Help: "Calls that the backup decided.", Unit: "{call}", Total: true, Value: float64(n.Backup)},
		{Name: "weir.failover.lost", Help: "Calls with credits or refunds that the primary did not execute.", Unit: "{call}", Total: true, Value: float64(n.Lost)},
		{Name: "weir.failover.probes", Help: "Probes of the primary.", Unit: "{probe}", Total: true, Value: float64(n.Probes)},
		{Name: "weir.failover.hanging", Help: "Calls that the primary has not returned from although the caller has left.", Unit: "{call}", Value: float64(n.Hanging)},
	}
}

// LogTo sets the log, for package observe, in place of slog.Default. Each change that [OnChange] would report is logged at
// level Warn as "weir: the store has changed", with the attributes from, to and error, also with OnChange. It must be called
// before the Store is used.
func (s *Store) LogTo(log *slog.Logger) { s.log = log }

// changed logs a change of the State, and calls the function of [OnChange].
func (s *Store) changed(from, to State, cause error) {
	if s.log != nil || s.onChange == nil {
		attrs := []slog.Attr{slog.String("from", from.String()), slog.String("to", to.String())}
		if cause != nil {
			attrs = append(attrs, slog.String("error", cause.Error()))
		}
		cmp.Or(s.log, slog.Default()).LogAttrs(context.Background(), slog.LevelWarn, "weir: the store has changed", attrs...)
	}
	if s.onChange != nil {
		s.onChange(from, to, cause)
	}
}
