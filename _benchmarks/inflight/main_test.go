package main

import (
	"os"
	"testing"
	"time"

	"github.com/weir-go/weir/core/redisstore/redistest"
)

// TestMain also runs a worker, because the program starts workers as processes of itself.
func TestMain(m *testing.M) {
	if text := os.Getenv(workerEnv); text != "" {
		workerMain(text)
		return
	}
	redistest.Main(m)
}

// Streams that are held for some leases are renewed, keep their places, and free them.
func TestMeasure(t *testing.T) {
	redistest.Require(t)
	for _, delay := range []time.Duration{0, 5 * time.Millisecond} {
		c := config{streams: 100, processes: 3, perKey: 7, large: 20, lease: 3 * time.Second, length: 4 * time.Second}
		r, err := measure(t.Context(), c, delay)
		if err != nil {
			t.Fatal(err)
		}
		streams := 0
		for _, p := range r.reports[hold] {
			streams += p.Streams
		}
		renewals := r.sum(renew, func(p report) int64 { return p.Renewals })
		lost := r.sum(beside, func(p report) int64 { return int64(p.Lost) })
		if streams != c.streams || renewals < int64(3*streams) || renewals > int64(6*streams) || lost > 0 || r.left > 0 {
			t.Errorf("delay %v: %d streams, %d renewals, %d lost, %d keys left, want %d streams, 3 to 6 renewals of each, and none lost or left",
				delay, streams, renewals, lost, r.left, c.streams)
		}
		table([]*result{r})
	}
}

// The processes of a measurement hold all streams, and at most as many of a key as its limit.
func TestShare(t *testing.T) {
	for _, c := range []config{{streams: 100, processes: 3, perKey: 7, large: 20}, {streams: 10, processes: 4, perKey: 1, large: 10}, {streams: 1, processes: 2, perKey: 5}} {
		large, keys := 0, make(map[int]int)
		for i := range c.processes {
			w := share(c, i, "")
			large += w.Large
			for _, key := range w.Keys {
				keys[key]++
			}
		}
		small := 0
		for key, n := range keys {
			if small += n; n > c.perKey {
				t.Errorf("%+v: %d streams of key %d", c, n, key)
			}
		}
		if large != c.large || small+large != c.streams {
			t.Errorf("%+v: %d streams of the large key and %d others", c, large, small)
		}
	}
}

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"-streams", "0"}, {"-large", "1001"}, {"-streams", "10", "-large", "11"}, {"-delays", "1"}, {"-time", "0s"}} {
		if c, err := parse(args); err == nil {
			t.Errorf("%q: got %+v, want an error", args, c)
		}
	}
}
