package memstore

import "testing"

func TestPackSpan_RoundsDown(t *testing.T) {
	for _, us := range []uint64{1, 2, 1023, 1024, 1025, 3_600_000_000, 31_536_000_000_000, 1 << 51} {
		got := unpackSpan(packSpan(us))
		if got > us || float64(got) < float64(us)*0.998 {
			t.Errorf("got %d, expected at most %d and at most 0.2 %% less", got, us)
		}
	}
}
