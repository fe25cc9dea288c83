package client

import (
	"strconv"
	"testing"
	"time"
)

// The number of keys is bounded, and each further key has a pause.
func TestGrowingPauses_Keys(t *testing.T) {
	var g growingPauses
	for i := range 3 * maxGrown {
		if d := g.begin(strconv.Itoa(i), time.Now(), time.Minute); d < time.Second {
			t.Fatalf("key %d: got a pause of %v", i, d)
		}
	}
	if n := len(g.pause); n != maxGrown {
		t.Errorf("%d keys are kept, want %d", n, maxGrown)
	}
}
