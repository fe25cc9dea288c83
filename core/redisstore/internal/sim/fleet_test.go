package sim

import (
	"testing"
	"testing/synctest"
	"time"
)

// The processes of an application count one another, whatever happens to them and to Redis.
func TestFleet(t *testing.T) {
	for i := range max(2, *seeds) {
		emptyPools()
		synctest.Test(t, func(t *testing.T) {
			seed := *firstSeed + uint64(i)
			f := newFleet(t, seed)
			f.verbose = *printAll
			f.run(12 * time.Minute)
			if f.failed != nil {
				t.Errorf("seed %d: %v", seed, f.failed)
				for _, l := range f.lines[max(0, len(f.lines)-30):] {
					t.Log(l)
				}
			}
			t.Logf("seed %d: %d processes, %d outages checked, %d changes of switches, %d decisions told, %d commands", seed, len(f.members), f.checked, f.changes, f.told, f.commands)
		})
	}
}
