package pipe

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// An overload does not become a missed deadline.
func TestJob_outcome_overloaded(t *testing.T) {
	j := &Job{until: time.Now().Add(-1)}
	if j.Err = driver.ErrOverloaded; j.outcome() != driver.ErrOverloaded {
		t.Errorf("the outcome is %v, want %v", j.outcome(), driver.ErrOverloaded)
	}
}
