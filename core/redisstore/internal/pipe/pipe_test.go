package pipe

import (
	"context"
	"testing"
	"time"
)

// A silentSender keeps jobs, and their callers leave without an outcome.
type silentSender struct{ jobs map[*Job]bool }

func (s silentSender) Send(j *Job) error {
	s.jobs[j] = true
	j.ended = context.DeadlineExceeded
	return j.ended
}

func (silentSender) Length() int { return 0 }

// A job whose caller has left is not used again, because a round trip may still use it.
func TestPipe_Do_left(t *testing.T) {
	s := silentSender{make(map[*Job]bool)}
	p := Pipe{Sender: s}
	const n = 100
	for range n {
		if err := p.Do(t.Context(), time.Now().Add(time.Minute), NewJob()); err != context.DeadlineExceeded {
			t.Fatalf("the error is %v, want the deadline", err)
		}
	}
	if len(s.jobs) != n {
		t.Errorf("there were %d jobs, want %d", len(s.jobs), n)
	}
}
