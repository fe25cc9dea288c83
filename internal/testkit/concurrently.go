package testkit

import "sync"

// Concurrently calls f with 0 to n-1 in n goroutines, and returns when all calls have returned.
func Concurrently(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}
