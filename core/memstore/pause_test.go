package memstore

import (
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/testkit"
)

// The states of pauses take the documented memory: 55 to 72 bytes. Keys without a pause have none, and a state is
// removed when its pause is over, and not before.
func TestStore_Take_memoryOfPauses(t *testing.T) {
	testkit.WithoutRace(t)
	s := newTestStore(DefaultMaxMemory / keySize)
	l := s.limiter(core.Pause("p"))
	const keys = 50_000
	for i := range keys {
		allow(t, l, "open "+strconv.Itoa(i))
	}
	if got := s.Stats(); got.States != 0 {
		t.Errorf("got %+v, expected no states of keys that are open", got)
	}
	pause := func(prefix string) {
		for i := range keys {
			testkit.Must(t, l.Pause(t.Context(), prefix+strconv.Itoa(i), time.Hour))
		}
	}
	pause("")
	bytes := 0
	for i := range s.shards {
		bytes += tableBytes(&s.shards[i].items)
	}
	if got := float64(bytes) / keys; got < 48 || got > 72 {
		t.Errorf("got %.1f bytes for each key, expected 48 to 72", got)
	}
	s.now += time.Hour.Microseconds() - 1
	for i := range keys {
		if allow(t, l, strconv.Itoa(i)) {
			t.Fatalf("key %d was admitted a microsecond before the end", i)
		}
	}
	if got := s.Stats(); got.States != keys {
		t.Errorf("got %+v, expected %d states", got, keys)
	}
	s.now++
	pause("new ")
	if got := s.Stats(); got.States > keys*5/4 {
		t.Errorf("got %+v, expected the states of the first pauses to be removed", got)
	}
	s.checkMemory(t, "after the first pauses", 1)
}

// A store that is full keeps the keys that are paused, however much of the pause is left.
func TestStore_Take_pausesAreNotEvicted(t *testing.T) {
	s := newTestStore(1)
	l := s.limiter(core.Pause("p"))
	flood := s.limiter(core.FixedWindow("w", core.PerDay(3)))
	for i := range 100 {
		testkit.Must(t, l.Pause(t.Context(), strconv.Itoa(i), time.Duration(1+i)*time.Hour))
	}
	for i := range 5000 {
		allow(t, flood, "flood "+strconv.Itoa(i))
	}
	if s.Stats().Evicted == 0 {
		t.Fatal("got no evictions, expected a flood")
	}
	for i := range 100 {
		if allow(t, l, strconv.Itoa(i)) {
			t.Errorf("key %d was admitted", i)
		}
	}
}
