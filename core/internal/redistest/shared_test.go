package redistest

import (
	"errors"
	"testing"
)

func TestShared(t *testing.T) {
	s := Shared(t)
	ping(t, s.Client())
	t.Run("the same for all", func(t *testing.T) {
		other := Shared(t)
		ping(t, other.Client())
		if other.Addr != s.Addr || other.PID() != s.PID() {
			t.Errorf("second server %s (process %d), first %s (process %d)", other.Addr, other.PID(), s.Addr, s.PID())
		}
	})
	ping(t, s.Client()) // it did not end with the subtest
}

func TestSharedIsNotForOutages(t *testing.T) {
	for name, verb := range map[string]func(*Server){
		"Stop": (*Server).Stop, "Start": (*Server).Start, "Pause": (*Server).Pause, "Resume": (*Server).Resume,
	} {
		if v := judge(t, func(t testing.TB) { verb(Shared(t)) }); v.failed == "" {
			t.Errorf("%s of the shared server is not refused", name)
		}
	}
	ping(t, Shared(t).Client())
}

func TestShareRemembersFailure(t *testing.T) {
	var o once
	reason, calls := errors.New("reason"), 0
	for range 2 {
		nodes, err := share(&o, func(string) ([]*instance, error) {
			calls++
			return []*instance{nil}, reason
		})
		if err != reason || nodes != nil {
			t.Errorf("share: %v, %v; want no nodes and %v", nodes, err, reason)
		}
	}
	if calls != 1 {
		t.Errorf("a start that failed was tried %d times", calls)
	}
}
