package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// spareGoroutines is how many more an idle instance may have than at the beginning:
// there is one for each connection.
const spareGoroutines = 20

// A residue is what faults have left in the instances, when nobody asks for anything.
type residue struct {
	client *http.Client
	before sample
}

func newResidue(f *fleet) *residue {
	r := &residue{client: newClient(1, time.Second)}
	time.Sleep(200 * time.Millisecond) // the connections of the load are closed meanwhile
	r.before = f.look(context.Background(), r.client)
	return r
}

// compare waits until the instances are as they were, and says so.
func (r *residue) compare(f *fleet) (report string, err error) {
	defer r.client.CloseIdleConnections()
	var after sample
	err = until(func() error {
		after = f.look(context.Background(), r.client)
		for n := range after.states {
			if had, has := r.before.states[n].Goroutines, after.states[n].Goroutines; has > had+spareGoroutines {
				return fmt.Errorf("idle instance %d had %d goroutines, and has %d", n, had, has)
			}
		}
		return nil
	})
	a, b := r.before.states[1], after.states[1] // the first is another process in the end
	return fmt.Sprintf("An idle instance had %d goroutines and %.1f MB of objects before, %d and %.1f MB after.",
		a.Goroutines, float64(a.Heap)/1e6, b.Goroutines, float64(b.Heap)/1e6), err
}
