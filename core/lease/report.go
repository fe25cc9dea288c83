package lease

import (
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A report is what the Store has said last about a rule of a key. The Store decided at
// some moment between sent, when it was asked, and heard, when its answer was here.
// What may still be used is reckoned from the one, what is told from the other: so
// nothing is admitted too early, and who waits as long as he was told is not too early
// either.
type report struct {
	known       bool
	sent, heard int64 // ns
	used        int64 // then, with all that was leased
	left        int64 // how long the window lasted from then on (ns)
}

const (
	// forever is how long the window of a bucket lasts.
	forever = 1 << 62
	// most is the most that is counted of a bucket: sums of two do not overflow.
	most = 1 << 61
)

// newReport reads the answer to a charge.
func newReport(m *meter, c *driver.Charge, sent, heard int64) report {
	v := &c.Verdict
	r := report{known: true, sent: sent, heard: heard, left: forever}
	if m.flow == 0 {
		r.used, r.left = m.full-int64(v.Remaining), int64(v.Window)
		return r
	}
	reset := int64(v.ResetAfter / time.Microsecond)
	if reset > most/m.flow {
		return report{} // in debt for longer than can be counted here
	}
	if r.used = reset * m.flow; v.Remaining > 0 { // it was rounded up, but what remained was there
		r.used = min(r.used, m.full-int64(v.Remaining)*m.unit)
	}
	return r
}

// most is what can be in use at now, if nobody else takes anything.
func (r *report) most(m *meter, now int64) int64 {
	if now-r.heard >= r.left {
		return 0
	}
	return max(0, r.used-m.refill(max(0, now-r.heard)/1000))
}

// least is what can be in use at now, unless somebody gives back.
func (r *report) least(m *meter, now int64) int64 {
	if now-r.sent >= r.surely() {
		return 0
	}
	return max(0, r.used-m.refill(micros(now-r.sent)))
}

// surely is how long after sent the window lasts at leav. The Store's clock counts whole
// microseconds.
func (r *report) surely() int64 { return r.left - int64(time.Microsecond) }

// doubt makes r say nothing any more about what the Store cannot have.
func (r *report) doubt() { r.sent = -forever / 2 }

// lasts is how long the window lasts at most, after now.
func (r *report) lasts(now int64) int64 {
	if r.left == forever {
		return forever
	}
	return max(0, r.heard+r.left-now)
}
