package redisstore

import "time"

// A distance is the shortest round trip to a server in the last 5 to 10 seconds. It is a property of the
// network: a server that is busy is not farther.
type distance struct {
	seen      time.Time     // the end of the last prompt round trip
	since     time.Time     // when now began
	now, last time.Duration // of this half and of the half before; 0 if there was none
}

const half = 5 * time.Second

// add adds a prompt round trip. ahead is the work that was under way when it began. If that may be a large
// part of the time, the round trip waited for the server, and says little about the distance.
func (d *distance) add(now time.Time, took, ahead time.Duration) {
	d.seen = now
	if ahead > took/2 {
		return
	}
	if age := now.Sub(d.since); age >= half {
		d.last, d.now, d.since = d.now, 0, now
		if age >= 2*half {
			d.last = 0
		}
	}
	if d.now == 0 || took < d.now {
		d.now = took
	}
}

// get returns the shortest time, or 0 if there was no round trip in the last 10 s.
func (d *distance) get(now time.Time) time.Duration {
	switch {
	case now.Sub(d.seen) >= 2*half:
		return 0
	case d.now == 0 || d.last != 0 && d.last < d.now:
		return d.last
	}
	return d.now
}
