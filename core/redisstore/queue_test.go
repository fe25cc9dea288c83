package redisstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A fakeServer runs the requests of a queue.
type fakeServer struct {
	queue
	mu      sync.Mutex
	takes   time.Duration // of a round trip
	hangs   chan struct{} // if not nil, round trips last until it is closed
	err     error
	sizes   []int // of the round trips so far
	inline  int   // how many of them ran on the goroutine of the caller
	running int
	most    int // the greatest value of running
}

// newFakeServer returns a server that has replied in time before, to which idle connections are
// open.
func newFakeServer(takes time.Duration) *fakeServer {
	s := &fakeServer{takes: takes}
	s.queue.run, s.queue.idle, s.queue.prompt = s.run, maxRunning, true
	return s
}

func (s *fakeServer) run(ctx context.Context, prompt bool, requests []*request) {
	s.mu.Lock()
	s.sizes = append(s.sizes, len(requests))
	s.running++
	s.most = max(s.most, s.running)
	takes, hangs, err := s.takes, s.hangs, s.err
	var late <-chan struct{}
	if prompt {
		s.inline++
		late = ctx.Done()
	}
	s.mu.Unlock()
	if hangs == nil {
		timer := time.NewTimer(takes)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-late:
			err = context.DeadlineExceeded
		}
	} else {
		select {
		case <-hangs:
		case <-late:
			err = context.DeadlineExceeded
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	for _, r := range requests {
		r.err, r.reply = err, []any{r.keys[0]}
	}
}

// set changes the behaviour of later round trips.
func (s *fakeServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// ask sends a request, and checks that the reply is its own.
func (s *fakeServer) ask(ctx context.Context, timeout time.Duration, weight int, key string) error {
	// The timer is not from the pool, where it might be that of another bubble.
	d := &deadline{ctx: ctx, at: time.Now().Add(timeout), timer: time.NewTimer(timeout), started: true}
	defer d.timer.Stop()
	r := &request{keys: []string{key}, weight: weight, done: make(chan struct{}, 1)}
	err := s.send(d, r)
	if err == nil && r.reply[0] != key {
		return fmt.Errorf("the reply is %v, want %s", r.reply, key)
	}
	return err
}

// occupy starts as many round trips as can be under way.
func (s *fakeServer) occupy(t *testing.T, wg *sync.WaitGroup) {
	for i := range maxRunning {
		wg.Go(func() {
			if err := s.ask(t.Context(), time.Second, 1, fmt.Sprint("first ", i)); err != nil {
				t.Errorf("the error of an early request is %v, want none", err)
			}
		})
	}
	synctest.Wait()
}

// Concurrent requests share round trips, and each gets its own reply.
func TestQueue_Send(t *testing.T) {
	for _, c := range []struct {
		callers, weight int
		sizes           []int // of the round trips, sorted
	}{
		{1, 2, []int{1}},
		{4, 2, []int{1, 1, 1, 1}},
		{64, 2, []int{1, 1, 1, 1, 60}},
		{200, 2, []int{1, 1, 1, 1, 4, 64, 64, 64}},
		{20, 60, []int{1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2}},
		{6, 1000, []int{1, 1, 1, 1, 1, 1}}, // a request may be heavier than maxWeight
	} {
		t.Run(fmt.Sprintf("%d callers, weight %d", c.callers, c.weight), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeServer(time.Millisecond)
				var wg sync.WaitGroup
				for i := range c.callers {
					wg.Go(func() {
						if err := s.ask(t.Context(), time.Second, c.weight, fmt.Sprint(i)); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				synctest.Wait()
				slices.Sort(s.sizes)
				if !slices.Equal(s.sizes, c.sizes) {
					t.Errorf("the round trips had %d requests, want %d", s.sizes, c.sizes)
				}
				if s.most > maxRunning || s.queue.running != 0 || s.length() != 0 {
					t.Errorf("%d round trips ran at once, at the end %d run and %d requests wait", s.most, s.queue.running, s.length())
				}
			})
		})
	}
}

// A caller runs its request itself if the server is prompt, a connection is open, and the context
// has no earlier deadline.
func TestQueue_Send_inline(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*fakeServer)
		ends   time.Duration // of the context
		inline int
	}{
		{"prompt", func(*fakeServer) {}, 0, 1},
		{"later deadline", func(*fakeServer) {}, 2 * time.Second, 1},
		{"earlier deadline", func(*fakeServer) {}, time.Second / 2, 0},
		{"no connection", func(s *fakeServer) { s.idle = 0 }, 0, 0},
		{"detached", func(s *fakeServer) { s.detached = true }, 0, 0},
		{"not prompt", func(s *fakeServer) { s.prompt = false }, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeServer(time.Millisecond)
				c.change(s)
				ctx := t.Context()
				if c.ends > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.ends)
					defer cancel()
				}
				if err := s.ask(ctx, time.Second, 1, "k"); err != nil || s.inline != c.inline {
					t.Errorf("%d requests ran inline, %v, want %d", s.inline, err, c.inline)
				}
				synctest.Wait()
				if !s.prompt {
					t.Error("after a prompt reply, the server is not prompt")
				}
			})
		})
	}
}

// A reply that is late makes the later requests run on goroutines of their own.
func TestQueue_Send_slow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer(2 * time.Second)
		for i := range 3 {
			begin := time.Now()
			if err := s.ask(t.Context(), time.Second, 1, "k"); err != context.DeadlineExceeded || time.Since(begin) != time.Second {
				t.Errorf("request %d: got %v after %v, want the deadline", i, err, time.Since(begin))
			}
		}
		if s.inline != 1 {
			t.Errorf("%d requests ran inline, want 1", s.inline)
		}
		time.Sleep(2 * time.Second)
		s.set(func() { s.takes = time.Millisecond })
		for range 2 {
			if err := s.ask(t.Context(), time.Second, 1, "k"); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if s.inline != 2 || s.hanging != 0 {
			t.Errorf("afterwards %d requests ran inline, want 2; %d hang", s.inline, s.hanging)
		}
	})
}

// A caller that waits leaves at its deadline, or when its context ends. Its request is not sent
// after that.
func TestQueue_Send_leave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer(10 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		s.occupy(t, &wg)
		for i := range 9 {
			wg.Go(func() {
				begin, want, took := time.Now(), error(nil), 20*time.Millisecond
				of, timeout := t.Context(), time.Second
				switch i % 3 {
				case 1:
					of, want, took = ctx, context.DeadlineExceeded, 2*time.Millisecond
				case 2:
					timeout, want, took = 3*time.Millisecond, context.DeadlineExceeded, 3*time.Millisecond
				}
				if err := s.ask(of, timeout, 1, fmt.Sprint(i)); !errors.Is(err, want) || time.Since(begin) != took {
					t.Errorf("caller %d: got %v after %v, want %v after %v", i, err, time.Since(begin), want, took)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if want := []int{1, 1, 1, 1, 3}; !slices.Equal(s.sizes, want) {
			t.Errorf("the round trips had %d requests, want %d", s.sizes, want)
		}
		if err := s.ask(ctx, time.Second, 1, "k"); err != context.DeadlineExceeded || len(s.sizes) != 5 {
			t.Errorf("with a context that has ended: got %v and %d round trips, want 5", err, len(s.sizes))
		}
	})
}

// A round trip that hangs makes room for another one when its requests have missed their deadlines.
// At most maxHanging round trips hang; after that, requests fail at once.
func TestQueue_Send_hang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer(0)
		s.hangs, s.prompt = make(chan struct{}), false
		var wg sync.WaitGroup
		for i := range 100 * maxRunning {
			wg.Go(func() {
				time.Sleep(time.Duration(i/maxRunning) * 10 * time.Millisecond)
				if err := s.ask(t.Context(), 10*time.Millisecond, 1, "k"); err == nil {
					t.Error("a request on a server that hangs has no error")
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if s.running < maxHanging || s.running > maxHanging+maxRunning || s.queue.running != 0 || s.hanging != s.running {
			t.Errorf("%d round trips hang, %d by the count of the queue, which has %d under way", s.running, s.hanging, s.queue.running)
		}
		if err := s.ask(t.Context(), time.Hour, 1, "k"); err != errHanging {
			t.Errorf("the error is %v at once, want %v", err, errHanging)
		}
		s.set(func() { close(s.hangs); s.hangs = nil })
		synctest.Wait()
		if err := s.ask(t.Context(), time.Second, 1, "k"); err != nil || s.hanging != 0 {
			t.Errorf("afterwards: got %v, %d round trips hang", err, s.hanging)
		}
	})
}

// The length of the queue is bounded.
func TestQueue_Send_full(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer(time.Millisecond)
		var wg sync.WaitGroup
		s.occupy(t, &wg)
		for range maxWaiting {
			wg.Go(func() {
				if err := s.ask(t.Context(), time.Hour, 1, "k"); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if err := s.ask(t.Context(), time.Hour, 1, "k"); err != errWaiting {
			t.Errorf("the error is %v, want %v", err, errWaiting)
		}
		wg.Wait()
		synctest.Wait() // the callers may leave before their round trip has ended
		s.set(func() { s.takes = time.Hour })
		for range maxRunning {
			wg.Go(func() { _ = s.ask(t.Context(), time.Minute, 1, "k") })
		}
		synctest.Wait()
		for range maxWaiting {
			wg.Go(func() { _ = s.ask(t.Context(), time.Millisecond, 1, "k") })
		}
		time.Sleep(10 * time.Millisecond)
		if err := s.ask(t.Context(), time.Millisecond, 1, "k"); err != context.DeadlineExceeded || s.length() != 1 {
			t.Errorf("after the callers have left: got %v, %d requests wait, want 1", err, s.length())
		}
		wg.Wait()
	})
}

// A hook that ends the goroutine of a caller, as T.FailNow does, frees the place of the round trip.
func TestQueue_Send_exit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer(time.Millisecond)
		s.queue.run = func(context.Context, bool, []*request) { runtime.Goexit() }
		var wg sync.WaitGroup
		for range maxRunning {
			wg.Go(func() { _ = s.ask(t.Context(), time.Second, 1, "k") })
		}
		wg.Wait()
		s.queue.run = s.run
		if err := s.ask(t.Context(), time.Second, 1, "k"); err != nil || s.queue.running != 0 {
			t.Errorf("got %v, %d round trips are under way, want none", err, s.queue.running)
		}
	})
}
