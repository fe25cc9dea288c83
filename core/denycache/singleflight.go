package denycache

import (
	"context"
	"sync"
	"time"
)

// A singleflight holds the calls of the Store that are made because a cached denial has ended, at
// most one for each key. The package golang.org/x/sync/singleflight is not used. Its callers share
// the result, but an admission is for one event. They also cannot leave when their context ends,
// unless the call runs on another goroutine.
type singleflight struct {
	mu   sync.Mutex
	done map[cacheKey]chan struct{} // closed when the call is over
}

// join returns nil if no call is under way for key. The caller must then make the call, and call
// finish after it. Otherwise join returns a channel that is closed when the call is over.
func (f *singleflight) join(key cacheKey) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if done, ok := f.done[key]; ok {
		return done
	}
	f.done[key] = make(chan struct{})
	return nil
}

func (f *singleflight) finish(key cacheKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.done[key])
	delete(f.done, key)
}

// maxWait bounds how long a decision waits for the call of another decision, which may hang.
const maxWait = 10 * time.Millisecond

// wait returns when done is closed or maxWait is over. It returns an error if ctx ends first.
func wait(ctx context.Context, done <-chan struct{}) error {
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
