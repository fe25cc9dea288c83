package pipe

import (
	"testing"
	"time"
)

// The distance is the shortest round trip of the last seconds.
func TestDistance(t *testing.T) {
	const ms = time.Millisecond
	type sample struct{ at, took, ahead time.Duration } // ahead is -1 if the round trip may open a connection
	for name, c := range map[string]struct {
		samples []sample
		at      time.Duration
		want    time.Duration
	}{
		"unknown":                      {nil, 0, 0},
		"shortest":                     {[]sample{{0, 5 * ms, 0}, {ms, 3 * ms, 0}, {2 * ms, 4 * ms, 0}}, time.Second, 3 * ms},
		"old":                          {[]sample{{0, 5 * ms, 0}}, 10 * time.Second, 0},
		"almost old":                   {[]sample{{0, 5 * ms, 0}}, 9 * time.Second, 5 * ms},
		"longer":                       {[]sample{{0, ms, 0}, {4 * time.Second, 9 * ms, 0}}, 4 * time.Second, ms},
		"longer after five seconds":    {[]sample{{0, ms, 0}, {6 * time.Second, 9 * ms, 0}}, 6 * time.Second, ms},
		"longer after ten seconds":     {[]sample{{0, ms, 0}, {6 * time.Second, 9 * ms, 0}, {11 * time.Second, 9 * ms, 0}}, 11 * time.Second, 9 * ms},
		"longer after a pause":         {[]sample{{0, ms, 0}, {20 * time.Second, 9 * ms, 0}}, 20 * time.Second, 9 * ms},
		"waited for the server":        {[]sample{{0, ms, 0}, {6 * time.Second, 9 * ms, 5 * ms}, {12 * time.Second, 9 * ms, 5 * ms}, {18 * time.Second, 9 * ms, 5 * ms}}, 19 * time.Second, ms},
		"waited, shorter":              {[]sample{{0, 9 * ms, 0}, {ms, 4 * ms, 3 * ms}}, ms, 4 * ms},
		"always waited for the server": {[]sample{{0, 9 * ms, 5 * ms}}, 0, 0},
		"opens a connection":           {[]sample{{0, 60 * ms, -1}}, 0, 0},
		"opens a connection, shorter":  {[]sample{{0, 9 * ms, 0}, {ms, 5 * ms, -1}}, ms, 9 * ms},
		"few round trips":              {[]sample{{0, ms, 0}, {9900 * ms, 9 * ms, 0}}, 14 * time.Second, 9 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			var d distance
			start := time.Now()
			for _, s := range c.samples {
				at := start.Add(s.at)
				d.add(trip{begun: at.Add(-s.took), ahead: s.ahead, opens: s.ahead < 0}, at)
			}
			if got := d.get(start.Add(c.at)); got != c.want {
				t.Errorf("the distance is %v, want %v", got, c.want)
			}
		})
	}
}

// Round trips that are under way together count once, the first that ends.
func TestDistance_count(t *testing.T) {
	const ms = time.Millisecond
	type sample struct{ begun, ended time.Duration }
	for name, c := range map[string]struct {
		samples []sample
		want    time.Duration
	}{
		"one after the other": {[]sample{{0, 8 * ms}, {8 * ms, 16 * ms}}, ms + 7*ms/8},
		"together":            {[]sample{{0, 8 * ms}, {0, 8 * ms}, {ms, 9 * ms}}, ms},
		"two and one":         {[]sample{{0, 8 * ms}, {7 * ms, 9 * ms}, {9 * ms, 17 * ms}}, ms + 7*ms/8},
	} {
		var d distance
		start := time.Now()
		for _, s := range c.samples {
			d.count(trip{begun: start.Add(s.begun)}, start.Add(s.ended))
		}
		if d.usual != c.want {
			t.Errorf("%s: the usual round trip is %v, want %v", name, d.usual, c.want)
		}
	}
}
