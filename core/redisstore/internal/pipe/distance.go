package pipe

import "time"

// A distance is the shortest round trip to a server in the last 5 to 10 seconds. It is a property of the
// network: a server that is busy is not farther.
type distance struct {
	replied   time.Time     // the end of the last round trip with a reply
	since     time.Time     // when now began
	now, last time.Duration // of this half and of the half before; 0 if there was none
	usual     time.Duration // the moving average of round trips one after the other, which is longer during an overload
	counted   time.Time     // the end of the last one of them
}

const half = 5 * time.Second

// add adds a round trip with a prompt reply. If the work that was under way when it began may be a large
// part of its time, the round trip waited for the server. It then does not make the distance longer. It
// says nothing if it may have opened a connection.
func (d *distance) add(t trip, at time.Time) {
	took := at.Sub(t.begun)
	if known := d.get(at); t.ahead > took/2 {
		took = min(took, known)
	}
	if !t.opens && took > 0 && (d.now == 0 || took < d.now) {
		d.now = took
	}
}

// count adds a round trip to the usual ones. Round trips that were under way together are one of them: otherwise, a single
// pause of the server or of this process would look like an overload, and the jobs that waited meanwhile would fail.
func (d *distance) count(t trip, at time.Time) {
	if t.begun.Before(d.counted) {
		return
	}
	d.usual += (at.Sub(t.begun) - d.usual) / 8
	d.counted = at
}

// get returns the shortest time, or 0 if it is not known.
func (d *distance) get(now time.Time) time.Duration {
	if age := now.Sub(d.since); age >= 2*half {
		d.last, d.now, d.since = 0, 0, now
	} else if age >= half {
		d.last, d.now, d.since = d.now, 0, d.since.Add(half)
	}
	if d.now == 0 || d.last != 0 && d.last < d.now {
		return d.last
	}
	return d.now
}

// isHopeless reports whether j cannot be answered in time while the given work is under way. During an
// overload, jobs that are sent at the last moment would all be late. Therefore a job is also
// hopeless if it has waited for longer than it has left, and has less left than two usual round trips.
// Without a reply since j began to wait, the server may hang, and j is not hopeless. An adjustment never
// is: it has its effect even if its caller leaves before the reply.
func (d *distance) isHopeless(j *Job, now time.Time, work time.Duration) bool {
	left := j.leaves.Sub(now)
	switch {
	case j.Adjusts || !d.replied.After(j.Since):
		return false
	case left < max(d.get(now), work):
		return true
	}
	return !j.Since.IsZero() && left < min(now.Sub(j.Since), 2*d.usual)
}
