package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/internal/pipe"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// hourly is the limit of some rules.
var hourly = core.PerHour(100)

// A lateSender sends jobs that have waited.
type lateSender struct {
	pipe.Sender
	waited time.Duration
}

func (s lateSender) Send(j *pipe.Job) error {
	j.Since = time.Now().Add(-s.waited)
	return s.Sender.Send(j)
}

// The time that an event has waited counts against its MaxDelay, in its verdict as in the script. The
// bucket admits an event a minute. Nothing takes longer than 10 s.
func TestStore_Take_lateEvent(t *testing.T) {
	const s, within = time.Second, 10 * time.Second
	rdb := redistest.NewServer(t).Client()
	for _, c := range []struct{ waited, maxDelay, delay, retryAfter time.Duration }{
		{0, 90 * s, 60 * s, 0},
		{30 * s, 0, 60 * s, 0},
		{30 * s, time.Hour, 60 * s, 0},
		{30 * s, 60 * s, 0, 30 * s},
		{30 * s, 75 * s, 0, 15 * s},
		{time.Hour, 60 * s, 0, 60 * s},
	} {
		for _, more := range [][]core.Rule{nil, {core.SlidingLog("log", hourly)}} {
			testkit.Must(t, rdb.FlushAll(t.Context()).Err())
			store := New(rdb, "test", Timeout(3*time.Hour))
			l := core.Must(core.New(store, append(more, core.LeakyBucket("queue", core.PerHour(60)))...))
			ask := core.Ask{Limiter: l, Key: "k"}
			_, err := core.AllowTogether(t.Context(), ask)
			testkit.Must(t, err)
			store.pipe.Sender = lateSender{store.pipe.Sender, c.waited}
			ask.MaxDelay = c.maxDelay
			d, err := core.AllowTogether(t.Context(), ask)
			about := func(got, want time.Duration) bool { return want-within < got && got <= want }
			if err != nil || d.Allowed != (c.retryAfter == 0) || !about(d.Delay, c.delay) || !about(d.RetryAfter, c.retryAfter) {
				t.Errorf("%+v, %d more rules: got %v, delay %v, %v", c, len(more), d, d.Delay, err)
			}
		}
	}
}

// Each algorithm has a rule of probes, except for one without a name.
func TestProbeRule(t *testing.T) {
	for _, a := range testkit.Algorithms {
		d := testkit.Compiled(a.Rule("r", hourly)).Definition
		if c, err := probeRule(&driver.Compiled{Definition: d}); err != nil || c.Constants.Capacity < 100_000 || c.Kind.Holds || c.Kind.Closes {
			t.Errorf("%s: got the rule %v of probes, %v", a.Name, c, err)
		}
		d.Name = ""
		if c, err := probeRule(&driver.Compiled{Definition: d}); err == nil || c != nil {
			t.Errorf("%s: got a rule without a name", a.Name)
		}
	}
}

// An overload of one hash slot does not hide the failure of another one.
func TestOutcome_overloaded(t *testing.T) {
	if _, err := outcome([]*part{{err: context.DeadlineExceeded}, {err: ErrOverloaded}}); err != context.DeadlineExceeded {
		t.Errorf("the error of two slots is %v, want %v", err, context.DeadlineExceeded)
	}
}
