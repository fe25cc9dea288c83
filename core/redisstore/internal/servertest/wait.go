package servertest

import (
	"testing"
	"time"
)

// WaitLimit bounds the waits of tests. It is longer than any pause of a busy machine.
const WaitLimit = time.Minute

// Eventually waits until check returns nil.
func Eventually(t testing.TB, check func() error) {
	t.Helper()
	deadline := time.Now().Add(WaitLimit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", WaitLimit, err)
		}
		<-tick.C
	}
}
