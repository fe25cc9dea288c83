package denycache

import (
	"context"
	"sync"
	"time"
)

// flights holds the calls of the Store that are made because a cached denial has ended. There is
// at most one for each key. The package golang.org/x/sync/singleflight is not used: its callers
// cannot leave when their context ends, unless the call runs on another goroutine, and they
// share the result, but an admission is for one event.
type flights struct {
	mu     sync.Mutex
	landed map[cacheKey]chan struct{} // closed when the call is over
}

// join returns nil if no call is under way for key. The caller then makes it, and calls land.
// Otherwise join returns a channel that is closed when the call is over.
func (f *flights) join(key cacheKey) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if landed, ok := f.landed[key]; ok {
		return landed
	}
	if f.landed == nil {
		f.landed = make(map[cacheKey]chan struct{})
	}
	f.landed[key] = make(chan struct{})
	return nil
}

// land ends the call for key.
func (f *flights) land(key cacheKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.landed[key])
	delete(f.landed, key)
}

// maxWait bounds how long a decision waits for the call of another one, which may hang.
const maxWait = 10 * time.Millisecond

// wait returns when landed is closed or maxWait is over. It returns an error if ctx ends before.
func wait(ctx context.Context, landed <-chan struct{}) error {
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case <-landed:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
