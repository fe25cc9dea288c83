package gate

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/testkit"
)

var one, two = new(core.Limiter), new(core.Limiter)

func TestExhaustedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			stay, want time.Duration // the key ends up to a second after want
		}{
			{0, minExhausted}, {-time.Hour, minExhausted}, {time.Second, minExhausted}, {time.Minute, time.Minute},
			{90*time.Second + 1, 90*time.Second + 1}, {1000 * time.Hour, maxExhausted}, {1<<63 - 1, maxExhausted},
		} {
			s := newExhaustedKeys(false)
			if s.has(one, "a") {
				t.Error("an empty set has a key")
			}
			time.Sleep(1700 * time.Millisecond) // between two seconds
			s.add(one, "a", c.stay)
			if !s.has(one, "a") || s.has(two, "a") || s.has(one, "b") {
				t.Errorf("%v: has returns %v, %v, %v; want true, false, false", c.stay, s.has(one, "a"), s.has(two, "a"), s.has(one, "b"))
			}
			time.Sleep(c.want - 1)
			if !s.has(one, "a") {
				t.Errorf("%v: the key has ended before %v", c.stay, c.want)
			}
			time.Sleep(time.Second)
			if s.has(one, "a") {
				t.Errorf("%v: the key has not ended a second after %v", c.stay, c.want)
			}
		}
	})
}

// If a key is added twice, the later end counts.
func TestExhaustedKeys_AddAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newExhaustedKeys(false)
		s.add(one, "a", time.Minute)
		s.add(one, "a", time.Second)
		time.Sleep(time.Minute)
		if !s.has(one, "a") {
			t.Error("a key that was added for a minute and then for a second has ended after a minute")
		}
		s.add(one, "a", time.Minute)
		time.Sleep(time.Minute)
		if !s.has(one, "a") {
			t.Error("a key that was added again has ended at the end of the first")
		}
	})
}

// The memory is bounded, and a new key replaces the key of its bucket that ends first.
func TestExhaustedKeys_Flood(t *testing.T) {
	testkit.WithoutRace(t)
	s := newExhaustedKeys(false)
	s.add(one, "long", time.Hour)
	for i := range 100_000 {
		key := strconv.Itoa(i)
		s.add(one, key, time.Minute)
		if !s.has(one, key) {
			t.Fatalf("key %d is missing just after it was added", i)
		}
	}
	if !s.has(one, "long") {
		t.Error("a key that ends in an hour is replaced by keys that end in a minute")
	}
	kept := 0
	for i := range 100_000 {
		if s.has(one, strconv.Itoa(i)) {
			kept++
		}
	}
	if kept < 8000 || kept > 8192 {
		t.Errorf("%d of 100 000 keys are kept, want 8192 or a little less", kept)
	}
	if n := testing.AllocsPerRun(100, func() { s.add(one, "x", time.Minute); s.has(one, "x") }); n != 0 {
		t.Errorf("add and has allocate %v times, want 0", n)
	}
}

func TestExhaustedKeys_Concurrent(t *testing.T) {
	s := newExhaustedKeys(false)
	testkit.Concurrently(16, func(g int) {
		for i := range 1000 {
			s.add([]*core.Limiter{one, two}[g%2], strconv.Itoa(i), time.Minute)
			s.has(two, strconv.Itoa(i+g))
		}
	})
	for i := range 1000 {
		s.add(one, strconv.Itoa(i), time.Minute)
		if !s.has(one, strconv.Itoa(i)) {
			t.Fatalf("key %d is missing", i)
		}
	}
}

func BenchmarkExhaustedKeys(b *testing.B) {
	s := newExhaustedKeys(false)
	b.Run("never used", func(b *testing.B) {
		for b.Loop() {
			s.has(one, "203.0.113.9")
		}
	})
	s.add(one, "198.51.100.7", time.Hour)
	b.Run("another key", func(b *testing.B) {
		for b.Loop() {
			s.has(one, "203.0.113.9")
		}
	})
	b.Run("this key", func(b *testing.B) {
		for b.Loop() {
			s.has(one, "198.51.100.7")
		}
	})
}
