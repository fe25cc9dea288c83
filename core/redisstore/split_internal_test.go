package redisstore

import (
	"context"
	"testing"
)

// An overload of one hash slot does not hide the failure of another one.
func TestOutcome_overloaded(t *testing.T) {
	if _, err := outcome([]*part{{err: context.DeadlineExceeded}, {err: ErrOverloaded}}); err != context.DeadlineExceeded {
		t.Errorf("the error of two slots is %v, want %v", err, context.DeadlineExceeded)
	}
}
