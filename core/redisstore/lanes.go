package redisstore

import "time"

// lanes contain the requests that wait. Renewals and undos go first, because places lapse without the first,
// and the second end an overload: decisions neither delay nor reject them. An undo is sent although its
// caller has left. Light requests do not wait behind heavy ones: they may take half of a round trip before
// heavy ones, and the rest in the order of arrival. The requests of one key stay in their order, except for
// urgent ones.
type lanes struct {
	urgent, light, heavy []*request
	keys                 map[string]int // of the heavy requests, with the number of requests for each
	work                 time.Duration  // of all requests
}

const (
	// maxLight is the greatest work of a light request: a decision about one rule or a few.
	maxLight = 14 * time.Microsecond
	// lateTimeout is the time for the reply to an undo that is sent after its caller has left. With a longer one, a
	// round trip to a server that was frozen would count as its distance.
	lateTimeout = DefaultTimeout
	// maxWaiting bounds the memory that callers occupy during an outage. Urgent requests have room for as many more.
	maxWaiting = 10_000
)

// add adds r, and reports whether there was room for it.
func (l *lanes) add(r *request) bool {
	most := maxWaiting
	if r.urgent {
		most *= 2
	}
	if l.length() >= most {
		l.removeEnded(r.since)
		if l.length() >= most {
			return false
		}
	}
	l.work += r.work
	if r.urgent {
		l.urgent = append(l.urgent, r)
		return true
	}
	if r.work <= maxLight && !l.follows(r) {
		l.light = append(l.light, r)
		return true
	}
	if l.keys == nil {
		l.keys = make(map[string]int)
	}
	for _, key := range r.keys {
		l.keys[key]++
	}
	l.heavy = append(l.heavy, r)
	return true
}

// follows reports whether a heavy request has a key of r.
func (l *lanes) follows(r *request) bool {
	if len(l.keys) > 0 {
		for _, key := range r.keys {
			if l.keys[key] > 0 {
				return true
			}
		}
	}
	return false
}

// next takes requests of up to maxWork, or one request, out of the lanes, and returns them with the sum
// of their work. It drops requests whose callers have left, and lets those fail that are hopeless at the
// distance of the server, with the work under way.
func (l *lanes) next(now time.Time, d *distance, underWay time.Duration) (requests []*request, work time.Duration) {
	for {
		lane := l.first(work)
		if len(*lane) == 0 {
			return requests, work
		}
		r := (*lane)[0]
		switch {
		case r.ended(now):
		case d.isHopeless(r, now, underWay):
			r.err = ErrOverloaded
			r.finish()
			r.done <- struct{}{} // has room for one
		case len(requests) > 0 && work+r.work > maxWork:
			return requests, work
		default:
			if !now.Before(r.at) { // an undo
				r.at = now.Add(lateTimeout)
			}
			requests, work = append(requests, r), work+r.work
		}
		l.remove(lane)
	}
}

// first returns the lane of the next request of a round trip that already has some work.
func (l *lanes) first(work time.Duration) *[]*request {
	if len(l.urgent) > 0 {
		return &l.urgent
	}
	if len(l.light) == 0 || len(l.heavy) > 0 && l.heavy[0].since.Before(l.light[0].since) &&
		(work >= maxWork/2 ||
			l.heavy[0].work > maxWork/2 || // it needs more than that, and does not wait for it
			l.heavy[0].work <= maxLight) { // it followed a heavy one
		return &l.heavy
	}
	return &l.light
}

// remove removes the first request of lane.
func (l *lanes) remove(lane *[]*request) {
	r := (*lane)[0]
	(*lane)[0] = nil
	*lane = (*lane)[1:]
	l.work -= r.work
	if lane != &l.heavy {
		return
	}
	for _, key := range r.keys {
		if l.keys[key]--; l.keys[key] == 0 {
			delete(l.keys, key)
		}
	}
}

// removeEnded removes the first requests of each lane if their callers have left.
func (l *lanes) removeEnded(now time.Time) {
	for _, lane := range []*[]*request{&l.urgent, &l.light, &l.heavy} {
		for len(*lane) > 0 && (*lane)[0].ended(now) {
			l.remove(lane)
		}
	}
}

func (l *lanes) length() int { return len(l.urgent) + len(l.light) + len(l.heavy) }
