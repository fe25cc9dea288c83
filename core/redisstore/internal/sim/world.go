package sim

import (
	"fmt"
	"sync"
	"time"
)

// A world is shared by all parts of one simulation. Its random numbers are hashes of the seed and of
// their subjects, so they do not depend on the order in which goroutines run.
type world struct {
	seed    uint64
	begin   time.Time
	servers []*server
	places  map[string]map[int64]int64 // the numbers that clients have chosen, by the key and the number in the state of package driver
	rules   *catalog
	messages
	verbose bool

	mu       sync.Mutex
	hash     uint64 // of all that happened
	lines    []line
	commands int
	calls    int
	failed   *violation // the first one
	losses   []span     // in which a server lost states, or its clock stepped
	moving   int        // migrations of slots under way
	moved    time.Time  // the end of the last one
}

type span struct{ from, to time.Time }

// A violation of an invariant.
type violation struct {
	invariant *invariant
	at        time.Duration
	text      string
}

func (v *violation) String() string {
	return fmt.Sprintf("after %.3f s: %s\n\tinvariant %q, %s: %q", v.at.Seconds(), v.text, v.invariant.name, v.invariant.source, v.invariant.sentence)
}

func newWorld(seed uint64) *world {
	return &world{seed: seed, begin: time.Now(), rules: newCatalog(), places: map[string]map[int64]int64{}}
}

func mix(x, y uint64) uint64 {
	x = (x ^ y) * 0x9e3779b97f4a7c15
	return x ^ x>>29
}

// hashOf returns a hash of values.
func hashOf(seed uint64, about ...any) uint64 {
	for _, v := range about {
		switch v := v.(type) {
		case int:
			seed = mix(seed, uint64(v))
		case int64:
			seed = mix(seed, uint64(v))
		case time.Duration:
			seed = mix(seed, uint64(v))
		case string:
			for i := range len(v) {
				seed = mix(seed, uint64(v[i]))
			}
		case []string:
			for _, text := range v {
				seed = hashOf(seed, text)
			}
		case error:
			seed = mix(seed, 1) // its text may have the number of a round trip
		default:
			seed = hashOf(seed, fmt.Sprint(v))
		}
	}
	return seed
}

// rand returns a number below n.
func (w *world) rand(n int64, about ...any) int64 {
	x := hashOf(w.seed, about...)
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return int64((x ^ x>>32) % uint64(n))
}

// A line of the log.
type line struct {
	at     time.Duration
	format string
	args   []any
}

func (l line) String() string {
	return fmt.Sprintf("%14.6f ", l.at.Seconds()) + fmt.Sprintf(l.format, l.args...)
}

const maxLines = 200

func (w *world) logf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := line{time.Since(w.begin), format, args}
	w.hash = hashOf(hashOf(w.hash, l.at, format), args...)
	if w.verbose {
		fmt.Printf("%v %016x\n", l, w.hash)
	}
	if len(w.lines) >= 2*maxLines {
		w.lines = append(w.lines[:0], w.lines[maxLines:]...)
	}
	w.lines = append(w.lines, l)
}

// violate notes that an invariant does not hold.
func (w *world) violate(i *invariant, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.logf("VIOLATION of %s: %s", i.name, text)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = &violation{i, time.Since(w.begin), text}
	}
}

// over reports whether the simulation has failed.
func (w *world) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed != nil
}

// lost notes that a server loses states, or that its clock steps, during s.
func (w *world) lost(s span) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.losses = append(w.losses, s)
}

// lossesWithin counts the losses of states that ended within d.
func (w *world) lossesWithin(d time.Duration) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.losses {
		if time.Since(l.to) <= d {
			n++
		}
	}
	return n
}

// takes notes that a client has taken the place at of a key, and has chosen number. A place that had the number at
// before has ended.
func (w *world) takes(key string, at, number int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.places[key] == nil {
		w.places[key] = map[int64]int64{}
	}
	w.places[key][at] = number
}

// placeOf returns the number in the state of package driver of the place for which a client has chosen number, or 0. A
// number whose lowest bits are 0 is that of places of which the client does not know the cost.
func (w *world) placeOf(key string, number int64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	for at, chosen := range w.places[key] {
		if chosen == number || number != 0 && number%(1<<20) == 0 && chosen>>20 == number>>20 {
			return at
		}
	}
	return 0
}
