package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// spareGoroutines is the number of goroutines that an idle instance may have more than at
// the beginning, because each connection has one.
const spareGoroutines = 20

// A residue compares the idle instances before and after the faults.
type residue struct {
	client *http.Client
	before sample
}

func newResidue(f *fleet) *residue {
	r := &residue{client: newClient(1, time.Second)}
	time.Sleep(200 * time.Millisecond) // until the connections of the load are closed
	r.before = f.look(context.Background(), r.client)
	return r
}

// compare waits until the instances have nearly as many goroutines as before, and reports
// their goroutines and heap.
func (r *residue) compare(f *fleet) (report string, err error) {
	defer r.client.CloseIdleConnections()
	var after sample
	err = until(func() error {
		after = f.look(context.Background(), r.client)
		for n := range after.states {
			if had, has := r.before.states[n].Goroutines, after.states[n].Goroutines; has > had+spareGoroutines {
				return fmt.Errorf("idle instance %d has %d goroutines, had %d before", n, has, had)
			}
		}
		return nil
	})
	a, b := r.before.states[1], after.states[1] // instance 0 is another process at the end
	return fmt.Sprintf("An idle instance had %d goroutines and %.1f MB of objects before, %d and %.1f MB after.",
		a.Goroutines, float64(a.Heap)/1e6, b.Goroutines, float64(b.Heap)/1e6), err
}
