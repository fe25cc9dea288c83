package pipe

import (
	"time"

	"github.com/weir-go/weir/core/driver"
)

// lanes contain the jobs that wait. Renewals and undos go first, because places lapse without the first,
// and the second end an overload: decisions neither delay nor reject them. An undo is sent although its
// caller has left. Light jobs do not wait behind heavy ones: they may take half of a round trip before
// heavy ones, and the rest in the order of arrival. The jobs of one key stay in their order, except for
// urgent ones.
type lanes struct {
	urgent, light, heavy []*Job
	keys                 map[string]int // of the heavy jobs, with the number of jobs for each
	work                 time.Duration  // of all jobs
}

const (
	// maxLight is the greatest work of a light job: a decision about one rule or a few.
	maxLight = 14 * time.Microsecond
	// lateTimeout is the time for the reply to an undo that is sent after its caller has left. With a longer one, a
	// round trip to a server that was frozen would count as its distance.
	lateTimeout = 100 * time.Millisecond
	// maxWaiting bounds the memory that callers occupy during an outage. Urgent jobs have room for as many more.
	maxWaiting = 10_000
)

// add adds j, and reports whether there was room for it.
func (l *lanes) add(j *Job) bool {
	most := maxWaiting
	if j.Urgent {
		most *= 2
	}
	if l.length() >= most {
		l.removeEnded(j.Since)
		if l.length() >= most {
			return false
		}
	}
	l.work += j.Work
	if j.Urgent {
		l.urgent = append(l.urgent, j)
		return true
	}
	if j.Work <= maxLight && !l.follows(j) {
		l.light = append(l.light, j)
		return true
	}
	if l.keys == nil {
		l.keys = make(map[string]int)
	}
	for _, key := range j.Keys {
		l.keys[key]++
	}
	l.heavy = append(l.heavy, j)
	return true
}

// follows reports whether a heavy job has a key of j.
func (l *lanes) follows(j *Job) bool {
	if len(l.keys) > 0 {
		for _, key := range j.Keys {
			if l.keys[key] > 0 {
				return true
			}
		}
	}
	return false
}

// next takes jobs of up to maxWork, or one job, out of the lanes, and returns them with the sum
// of their work. It drops jobs whose callers have left, and lets those fail that are hopeless at the
// distance of the server, with the work under way.
func (l *lanes) next(now time.Time, d *distance, underWay time.Duration) (jobs []*Job, work time.Duration) {
	for {
		lane := l.first(work)
		if len(*lane) == 0 {
			return jobs, work
		}
		j := (*lane)[0]
		switch {
		case j.over(now):
		case d.isHopeless(j, now, underWay):
			j.Err = driver.ErrOverloaded
			j.finish()
			j.done <- struct{}{} // has room for one
		case len(jobs) > 0 && work+j.Work > maxWork:
			return jobs, work
		default:
			if !now.Before(j.leaves) { // an undo
				j.leaves = now.Add(lateTimeout)
			}
			jobs, work = append(jobs, j), work+j.Work
		}
		l.remove(lane)
	}
}

// first returns the lane of the next job of a round trip that already has some work.
func (l *lanes) first(work time.Duration) *[]*Job {
	if len(l.urgent) > 0 {
		return &l.urgent
	}
	if len(l.light) == 0 || len(l.heavy) > 0 && l.heavy[0].Since.Before(l.light[0].Since) &&
		(work >= maxWork/2 ||
			l.heavy[0].Work > maxWork/2 || // it needs more than that, and does not wait for it
			l.heavy[0].Work <= maxLight) { // it followed a heavy one
		return &l.heavy
	}
	return &l.light
}

// remove removes the first job of lane.
func (l *lanes) remove(lane *[]*Job) {
	j := (*lane)[0]
	(*lane)[0] = nil
	*lane = (*lane)[1:]
	l.work -= j.Work
	if lane != &l.heavy {
		return
	}
	for _, key := range j.Keys {
		if l.keys[key]--; l.keys[key] == 0 {
			delete(l.keys, key)
		}
	}
}

// removeEnded removes the first jobs of each lane if their callers have left.
func (l *lanes) removeEnded(now time.Time) {
	for _, lane := range []*[]*Job{&l.urgent, &l.light, &l.heavy} {
		for len(*lane) > 0 && (*lane)[0].over(now) {
			l.remove(lane)
		}
	}
}

func (l *lanes) length() int { return len(l.urgent) + len(l.light) + len(l.heavy) }
