package observe

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/internal/processes"
	"github.com/weir-go/weir/internal/argument"
)

// A Store counts the decisions of the limiters on it, and passes their charges to the Store behind.
// Use [New] to make a Store. It is safe for concurrent use, starts no goroutine, and needs no
// closing.
type Store struct {
	next    driver.Store
	timed   bool // a store behind has a deadline
	series  series
	figures figures
	calls   sharded[calls]
	parts   parts
	keys    *topKeys // nil without TopKeys
	clock   clock
	hasher  keyhash.Hasher
	onCall  atomic.Pointer[func(context.Context, time.Duration)]
	config
}

// New returns a Store over next, which should be the outermost one: give the result to core.New. New
// panics if next or an option is nil.
func New(next driver.Store, opts ...Option) *Store {
	argument.NotNil("observe: New", "next", next)
	s := &Store{next: next}
	argument.Apply("observe: New", &s.config, opts)
	if s.secret == nil {
		s.secret = randomSecret()
	}
	s.hasher = keyhash.New(s.secret)
	s.clock.init()
	if s.topKeys > 0 {
		s.keys = newTopKeys(s.topKeys, &s.clock)
	}
	s.series.store = s
	s.parts.add("", &s.figures, nil)
	s.visit("", next)
	if h := processes.StoreOf[processes.Sender](next); h != nil {
		h.Count(s.tell())
	}
	return s
}

// visit collects the parts of next, which has a role.
func (s *Store) visit(role string, next driver.Store) {
	of := driver.Describe(next)
	s.timed = s.timed || of.Deadline > 0
	s.parts.add(role, next, s.logger)
	for _, r := range slices.Backward(slices.Sorted(maps.Keys(of.Behind))) { // the primary first
		s.visit(cmp.Or(r, role), of.Behind[r])
	}
}

// Add adds p, a part of the application that is not a store behind s, such as a *rules.Set, to the
// measures of s. Its changes are logged, too ([Logger]).
func (s *Store) Add(p Measurer) {
	argument.NotNil("observe: Add", "part", p)
	s.parts.add("", p, s.logger)
}

// OnCall makes s call f with the time of each call of the Store behind, if times are measured (see
// [Calls]), in place of the function of an earlier OnCall. It is for exporters with histograms of their
// own. f is called concurrently, and must return quickly. OnCall panics if f is nil.
func (s *Store) OnCall(f func(ctx context.Context, took time.Duration)) {
	argument.NotNil("observe: OnCall", "function", f)
	s.onCall.Store(&f)
}

// Take implements [driver.Store]. It calls the Store behind.
func (s *Store) Take(ctx context.Context, charges []driver.Charge) error {
	if !s.timed {
		return s.failed(s.next.Take(ctx, charges))
	}
	begun := time.Now()
	return s.timedCall(ctx, begun, s.next.Take(ctx, charges))
}

// Adjust implements [driver.Store]. It calls the Store behind.
func (s *Store) Adjust(ctx context.Context, charges []driver.Charge) error {
	if !s.timed {
		return s.failed(s.next.Adjust(ctx, charges))
	}
	begun := time.Now()
	return s.timedCall(ctx, begun, s.next.Adjust(ctx, charges))
}

// timedCall counts a call that began at begun and has returned err.
func (s *Store) timedCall(ctx context.Context, begun time.Time, err error) error {
	took := time.Since(begun)
	if f := s.onCall.Load(); f != nil {
		(*f)(ctx, took)
	}
	s.calls.here().add(took)
	return s.failed(err)
}

// failed counts err, if it is a failure of the store.
func (s *Store) failed(err error) error {
	if err != nil && errors.Is(err, driver.ErrUnavailable) {
		s.figures.here().failures.Add(1)
	}
	return err
}

// Declare implements [driver.Declarer]. It declares the rules on the Store behind.
func (s *Store) Declare(changes ...driver.Change) error {
	return driver.Declare(s.next, changes...)
}

// Probe implements [driver.Prober]. It probes the Store behind.
func (s *Store) Probe(ctx context.Context, charges []driver.Charge) error {
	return driver.Probe(ctx, s.next, charges)
}

// Describe returns the [driver.Description] of the Store behind, with that Store behind s.
func (s *Store) Describe() driver.Description {
	d := driver.Describe(s.next)
	d.Behind = map[string]driver.Store{"": s.next}
	return d
}

// Counter implements [driver.Observer].
func (s *Store) Counter(rule, plan string) func(driver.Observation) {
	return s.series.counter(rule, plan).count
}

// Ask implements [driver.Observer].
func (s *Store) Ask(peek bool) {
	f := s.figures.here()
	if peek {
		f.peeks.Add(1)
	} else {
		f.attempts.Add(1)
	}
}

// Logger implements [driver.Observer]. It returns the log of the option [Logger], or slog.Default.
func (s *Store) Logger() *slog.Logger {
	if s.logger == nil {
		return slog.Default()
	}
	return s.logger
}

// Find returns a key for which is returns true, such as one with a hash, among those that [TopKeys] counts: the keys with
// the most denials and decisions of some minutes. is must be quick, and must not call the Store.
func (s *Store) Find(is func(key string) bool) (key string, ok bool) {
	if s.keys == nil {
		return "", false
	}
	if key, ok = s.keys.denied.find(is); !ok {
		key, ok = s.keys.active.find(is)
	}
	return key, ok
}

// Tag returns the text that stands for key in logs and in a [Snapshot]: the key itself with
// [ClearKeys], and otherwise a part of its HMAC-SHA-256 as base64 for URLs.
func (s *Store) Tag(key string) string {
	if s.clearKeys {
		return key
	}
	return s.hasher.Tag(key)
}
