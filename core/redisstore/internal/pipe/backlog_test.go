package pipe

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

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/internal/wire"
	"github.com/weir-go/weir/internal/testkit"
)

// A fakeServer runs the requests of a backlog.
type fakeServer struct {
	backlog
	mu     sync.Mutex
	takes  time.Duration // of a round trip
	hangs  chan struct{} // if not nil, round trips last until it is closed
	exits  bool          // round trips end their goroutine
	err    error
	sizes  []int // of the round trips so far
	inline int   // how many of them ran on the goroutine of the caller
	most   time.Duration
}

// newFakeServer returns a server to which idle connections are open.
func newFakeServer(takes time.Duration) *fakeServer {
	s := &fakeServer{takes: takes}
	s.backlog.run, s.backlog.limit, s.backlog.idle = s.run, 100, minRunning
	s.backlog.runOwn = func(ctx context.Context, jobs []*Job) {
		s.set(func() { s.inline++ })
		s.reply(ctx.Done(), jobs)
	}
	return s
}

func (s *fakeServer) run(_ context.Context, jobs []*Job) { s.reply(nil, jobs) }

func (s *fakeServer) reply(late <-chan struct{}, jobs []*Job) {
	s.backlog.mu.Lock()
	work := s.backlog.work
	s.backlog.mu.Unlock()
	s.mu.Lock()
	s.sizes = append(s.sizes, len(jobs))
	s.most = max(s.most, work)
	hangs, exits, timer, err := s.hangs, s.exits, time.NewTimer(s.takes), s.err
	s.mu.Unlock()
	defer timer.Stop()
	if exits {
		runtime.Goexit()
	}
	reply := timer.C
	if hangs != nil {
		reply = nil
	}
	select {
	case <-reply:
	case <-hangs:
	case <-late:
		err = context.DeadlineExceeded
	}
	for _, j := range jobs {
		j.Err, j.Clock = err, j.Keys[0] // the clock stands for the reply, which only package wire sets
	}
}

// set changes the behaviour of later round trips.
func (s *fakeServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// light is the work of a light request, without a round trip.
const light = 4 * time.Microsecond

// ask sends an event of that work, and checks that the reply is its own.
func (s *fakeServer) ask(ctx context.Context, timeout, work time.Duration, key string) error {
	return s.send(ctx, timeout, &Job{Request: wire.Request{Keys: []string{key}, Work: work}})
}

// send sends a job, and checks that the reply is its own. The timer is not from the pool, where it might be that of
// another bubble.
func (s *fakeServer) send(ctx context.Context, timeout time.Duration, j *Job) error {
	j.ctx, j.until, j.timer, j.timed, j.done = ctx, time.Now().Add(timeout), time.NewTimer(timeout), true, make(chan struct{}, 1)
	defer j.timer.Stop()
	err := s.Send(j)
	if err == nil && j.Clock != j.Keys[0] {
		return fmt.Errorf("the reply is %v, want %s", j.Clock, j.Keys[0])
	}
	return err
}

// occupy starts n round trips, at most minRunning.
func (s *fakeServer) occupy(t *testing.T, wg *sync.WaitGroup, n int) {
	for i := range n {
		wg.Go(func() {
			if err := s.ask(t.Context(), time.Second, light, fmt.Sprint("first ", i)); err != nil {
				t.Errorf("the error of an early request is %v, want none", err)
			}
		})
	}
	synctest.Wait()
}

// trips returns the number of round trips so far.
func (s *fakeServer) trips() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sizes)
}

// isIdle reports an error unless the backlog counts nothing that is under way.
func (s *fakeServer) isIdle(t *testing.T) {
	t.Helper()
	s.backlog.mu.Lock()
	defer s.backlog.mu.Unlock()
	if s.running != 0 || s.late != 0 || s.work != 0 || s.waiting.length() != 0 || s.waiting.work != 0 || len(s.waiting.keys) != 0 {
		t.Errorf("at the end, %d round trips run, %d are late, with work of %v; the lanes are %+v", s.running, s.late, s.work, s.waiting)
	}
}

// Concurrent requests share round trips, and each gets its own reply.
func TestBacklog_Send(t *testing.T) {
	for _, c := range []struct {
		callers int
		work    time.Duration
		sizes   []int // of the round trips, sorted
	}{
		{1, light, []int{1}},
		{4, light, []int{1, 1, 1, 1}},
		{64, light, []int{1, 1, 1, 1, 60}},
		{200, light, []int{1, 1, 1, 1, 10, 62, 62, 62}},
		{20, 120 * time.Microsecond, []int{1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2}},
		{6, time.Second, []int{1, 1, 1, 1, 1, 1}}, // the work of a request may be above maxWork
	} {
		t.Run(fmt.Sprintf("%d callers, %v", c.callers, c.work), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeServer(time.Millisecond)
				testkit.Concurrently(c.callers, func(i int) {
					if err := s.ask(t.Context(), time.Minute, c.work, fmt.Sprint(i)); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
				slices.Sort(s.sizes)
				if !slices.Equal(s.sizes, c.sizes) {
					t.Errorf("the round trips had %d requests, want %d", s.sizes, c.sizes)
				}
				s.isIdle(t)
			})
		})
	}
}

// A server gets as much work as it can do during a round trip, however far it is, and no more.
func TestBacklog_Send_work(t *testing.T) {
	const callers, times = 2000, 10
	for _, c := range []struct {
		takes, work time.Duration
		limit       int
		least, most time.Duration // work under way at the busiest moment
	}{
		{50 * time.Microsecond, light, 100, 100 * time.Microsecond, time.Millisecond + 2*(maxWork+tripWork)},
		{time.Millisecond, light, 100, time.Millisecond, 2*time.Millisecond + 2*maxWork},
		{5 * time.Millisecond, 20 * time.Microsecond, 100, 5 * time.Millisecond, 6*time.Millisecond + 2*maxWork},
		{20 * time.Millisecond, 20 * time.Microsecond, 100, 12 * time.Millisecond, 21*time.Millisecond + 2*maxWork},
		{20 * time.Millisecond, 20 * time.Microsecond, 10, 9 * maxWork, 11 * maxWork}, // by the connections
	} {
		t.Run(fmt.Sprintf("%v, %v, %d connections", c.takes, c.work, c.limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeServer(c.takes)
				s.limit = c.limit
				testkit.Concurrently(callers, func(i int) {
					for range times {
						if err := s.ask(t.Context(), time.Minute, c.work, fmt.Sprint(i)); err != nil {
							t.Error(err)
						}
					}
				})
				synctest.Wait()
				if s.most < c.least || s.most > c.most {
					t.Errorf("the most work under way was %v, want %v to %v", s.most, c.least, c.most)
				}
				s.isIdle(t)
			})
		})
	}
}

// A caller runs its request itself if an idle connection was prompt, and the context has no earlier
// deadline.
func TestBacklog_Send_inline(t *testing.T) {
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
		{"impossible", func(s *fakeServer) { s.runOwn = nil }, 0, 0},
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
				if err := s.ask(ctx, time.Second, light, "k"); err != nil || s.inline != c.inline {
					t.Errorf("%d requests ran inline, %v, want %d", s.inline, err, c.inline)
				}
				synctest.Wait()
				if s.idle == 0 {
					t.Error("after a prompt reply, there is no idle connection")
				}
				s.isIdle(t)
			})
		})
	}
}

// After a reply that is late, requests run on goroutines of their own until one is prompt.
func TestBacklog_Send_slow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer(2 * time.Second)
		for i := range 3 {
			begin := time.Now()
			err := s.ask(t.Context(), time.Second, light, "k")
			if late := time.Since(begin) - time.Second; err != context.DeadlineExceeded || late < 0 || late > tickLength {
				t.Errorf("request %d: got %v after %v, want the deadline", i, err, time.Since(begin))
			}
		}
		if s.inline != 1 {
			t.Errorf("%d requests ran inline, want 1", s.inline)
		}
		time.Sleep(2 * time.Second)
		s.set(func() { s.takes = time.Millisecond })
		for range 2 {
			if err := s.ask(t.Context(), time.Second, light, "k"); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if s.inline != 2 {
			t.Errorf("afterwards %d requests ran inline, want 2", s.inline)
		}
		s.isIdle(t)
	})
}

// A caller that waits leaves at its deadline, or when its context ends. Its request is not sent
// after that.
func TestBacklog_Send_leave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer(10 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		s.occupy(t, &wg, minRunning)
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
				if err := s.ask(of, timeout, light, fmt.Sprint(i)); !errors.Is(err, want) || time.Since(begin) != took {
					t.Errorf("caller %d: got %v after %v, want %v after %v", i, err, time.Since(begin), want, took)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if want := []int{1, 1, 1, 1, 3}; !slices.Equal(s.sizes, want) {
			t.Errorf("the round trips had %d requests, want %d", s.sizes, want)
		}
		if err := s.ask(ctx, time.Second, light, "k"); err != context.DeadlineExceeded || len(s.sizes) != 5 {
			t.Errorf("with a context that has ended: got %v and %d round trips, want 5", err, len(s.sizes))
		}
		s.isIdle(t)
	})
}

// An event that cannot be answered before its deadline is not sent, whether it has waited or has just
// come. An adjustment is sent. After ten seconds the distance is not known, and all are sent.
func TestBacklog_Send_hopeless(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout time.Duration
		others  int // round trips that began 1 ns before; with minRunning, the event has to wait for 20 ms
		adjusts bool
		after   time.Duration
		err     error
		sent    int
	}{
		{"in time", 30 * time.Millisecond, 1, false, 0, nil, 1},
		{"too late", 15 * time.Millisecond, 1, false, 0, driver.ErrOverloaded, 0},
		{"too late, none under way", 15 * time.Millisecond, 0, false, 0, context.DeadlineExceeded, 1},
		{"too late, adjustment", 15 * time.Millisecond, 1, true, 0, context.DeadlineExceeded, 1},
		{"too late, after ten seconds", 15 * time.Millisecond, 1, false, 10 * time.Second, context.DeadlineExceeded, 1},
		{"waits, in time", 46 * time.Millisecond, minRunning, false, 0, nil, 1},
		{"waits, too late", 35 * time.Millisecond, minRunning, false, 0, driver.ErrOverloaded, 0},
		{"waits, too late, adjustment", 35 * time.Millisecond, minRunning, true, 0, context.DeadlineExceeded, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeServer(20 * time.Millisecond)
				s.runOwn = nil
				if err := s.ask(t.Context(), time.Second, light, "k"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(c.after)
				synctest.Wait()
				var wg sync.WaitGroup
				s.limit = minRunning
				s.occupy(t, &wg, c.others)
				before := s.trips()
				if err := s.send(t.Context(), c.timeout, &Job{Request: wire.Request{Keys: []string{"k"}, Work: light, Adjusts: c.adjusts}}); err != c.err {
					t.Errorf("the error is %v, want %v", err, c.err)
				}
				if sent := s.trips() - before; sent != c.sent {
					t.Errorf("%d requests were sent, want %d", sent, c.sent)
				}
				wg.Wait()
				time.Sleep(time.Second)
				s.isIdle(t)
			})
		})
	}
}

// Jobs that have waited during a pause of the server of more than half of their time are answered.
func TestBacklog_Send_stall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer(time.Millisecond)
		s.runOwn = nil
		if err := s.ask(t.Context(), time.Second, light, "k"); err != nil {
			t.Fatal(err)
		}
		stalls := make(chan struct{})
		s.set(func() { s.hangs = stalls })
		var wg sync.WaitGroup
		for range 3000 {
			wg.Go(func() {
				if err := s.ask(t.Context(), 100*time.Millisecond, light, "k"); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(60 * time.Millisecond)
		s.set(func() { s.hangs = nil })
		close(stalls)
		wg.Wait()
		time.Sleep(time.Second)
		s.isIdle(t)
	})
}

// The time to open a connection does not count, and a context that is too short for it does not stop
// those that follow.
func TestBacklog_Send_open(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer(60 * time.Millisecond)
		s.idle = 0
		if err := s.ask(t.Context(), time.Second, light, "k"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.set(func() { s.takes = time.Millisecond })
		testkit.Concurrently(20, func(int) {
			if err := s.ask(t.Context(), 40*time.Millisecond, light, "k"); err != nil {
				t.Error(err)
			}
		})
	})
}

// Callers with contexts that are shorter than a round trip do not make the server look dead to others.
func TestBacklog_Send_shortContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer(60 * time.Millisecond)
		s.limit = minRunning
		var wg sync.WaitGroup
		end := time.Now().Add(45 * time.Second)
		for range 8 {
			wg.Go(func() {
				for time.Now().Before(end) {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
					if err := s.ask(ctx, time.Second, light, "k"); err == nil {
						t.Error("a caller got a reply before its time")
					}
					cancel()
					time.Sleep(time.Millisecond)
				}
			})
		}
		for range 4 {
			time.Sleep(2*half + 503*time.Millisecond) // the distance is forgotten
			if err := s.ask(t.Context(), time.Second, light, "k"); err != nil {
				t.Errorf("with enough time: %v", err)
			}
		}
		wg.Wait()
		time.Sleep(time.Second)
		s.isIdle(t)
	})
}

// The error of a decision is a reply, too.
func TestBacklog_Send_scriptError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer(time.Millisecond)
		s.err = wire.ScriptError("ERR broken")
		for range 3 {
			if err := s.ask(t.Context(), time.Second, light, "k"); err != s.err {
				t.Error(err)
			}
		}
		if s.inline != 3 || s.distance.get(time.Now()) != time.Millisecond {
			t.Errorf("%d requests ran inline, want 3; the distance is %v, want 1ms", s.inline, s.distance.get(time.Now()))
		}
	})
}

// After a pause in which all round trips become late, requests wait, and are sent when it ends.
func TestBacklog_Send_pause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer(time.Millisecond)
		s.limit, s.runOwn = minRunning, nil
		if err := s.ask(t.Context(), time.Second, light, "k"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.set(func() { s.hangs = make(chan struct{}) })
		var wg sync.WaitGroup
		for i := range 2 * minRunning {
			wg.Go(func() {
				time.Sleep(time.Duration(i/minRunning) * 100 * time.Millisecond)
				if err := s.ask(t.Context(), 100*time.Millisecond, light, "k"); (err == nil) != (i >= minRunning) {
					t.Errorf("request %d: the error is %v", i, err)
				}
			})
		}
		time.Sleep(150 * time.Millisecond)
		s.set(func() { close(s.hangs); s.hangs = nil })
		wg.Wait()
		synctest.Wait()
		s.isIdle(t)
	})
}

// A round trip that hangs makes room for another one when its requests have missed their deadlines.
// When all connections hang, requests fail at once.
func TestBacklog_Send_hang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 3 * minRunning
		s := newFakeServer(0)
		s.hangs, s.idle, s.limit = make(chan struct{}), 0, limit
		testkit.Concurrently(100*minRunning, func(i int) {
			time.Sleep(time.Duration(i/minRunning) * 10 * time.Millisecond)
			if err := s.ask(t.Context(), 10*time.Millisecond, light, "k"); err == nil {
				t.Error("a request on a server that hangs has no error")
			}
		})
		synctest.Wait()
		if s.trips() != limit || s.running != limit || s.late != limit {
			t.Errorf("%d round trips hang, %d by its count, %d late, want %d", s.trips(), s.running, s.late, limit)
		}
		begin := time.Now()
		if err := s.ask(t.Context(), time.Hour, light, "k"); err == nil || time.Since(begin) != 0 {
			t.Errorf("the error is %v after %v, want one at once", err, time.Since(begin))
		}
		s.set(func() { close(s.hangs); s.hangs = nil })
		synctest.Wait()
		if err := s.ask(t.Context(), time.Second, light, "k"); err != nil {
			t.Errorf("afterwards: got %v", err)
		}
		synctest.Wait()
		s.isIdle(t)
	})
}

// The length of the backlog is bounded.
func TestBacklog_Send_full(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer(time.Millisecond)
		var wg sync.WaitGroup
		s.occupy(t, &wg, minRunning)
		for i := range maxWaiting {
			wg.Go(func() {
				if err := s.ask(t.Context(), time.Hour, light+time.Duration(i%2)*maxLight, "k"); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if err := s.ask(t.Context(), time.Hour, light, "k"); err != driver.ErrOverloaded {
			t.Errorf("the error is %v, want %v", err, driver.ErrOverloaded)
		}
		wg.Wait()
		synctest.Wait() // the callers may leave before their round trip has ended
		s.set(func() { s.takes, s.limit = time.Hour, minRunning })
		for range minRunning {
			wg.Go(func() { _ = s.ask(t.Context(), time.Minute, light, "k") })
		}
		synctest.Wait()
		for i := range maxWaiting {
			wg.Go(func() { _ = s.ask(t.Context(), time.Second, light+time.Duration(i%2)*maxLight, "k") })
		}
		time.Sleep(2 * time.Second)
		if err := s.ask(t.Context(), time.Second, light, "k"); err != context.DeadlineExceeded || s.Length() != 1 {
			t.Errorf("after the callers have left: got %v, %d requests wait, want 1", err, s.Length())
		}
		wg.Wait()
		time.Sleep(2 * time.Hour)
		s.isIdle(t)
	})
}

// A renewal is in the next round trip, although as many decisions as possible wait.
func TestBacklog_Send_renewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer(time.Millisecond)
		var wg sync.WaitGroup
		s.occupy(t, &wg, minRunning)
		for range maxWaiting {
			wg.Go(func() { _ = s.ask(t.Context(), time.Hour, light, "k") })
		}
		synctest.Wait()
		begun := time.Now()
		renewal := &Job{Request: wire.Request{Keys: []string{"k"}, Work: light, Adjusts: true, Urgent: true}}
		if err := s.send(t.Context(), time.Hour, renewal); err != nil || time.Since(begun) > 2*time.Millisecond {
			t.Errorf("the renewal returned %v after %v, want no error after 2 ms", err, time.Since(begun))
		}
		wg.Wait()
		synctest.Wait()
		s.isIdle(t)
	})
}

// A hook that ends the goroutine of a round trip, as T.FailNow does, frees its place.
func TestBacklog_Send_exit(t *testing.T) {
	for _, inline := range []bool{true, false} {
		t.Run(fmt.Sprintf("inline %t", inline), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeServer(time.Millisecond)
				s.exits = true
				if !inline {
					s.runOwn = nil
				}
				testkit.Concurrently(3*minRunning, func(int) {
					if err := s.ask(t.Context(), time.Second, light, "k"); err == nil {
						t.Error("a request without a reply has no error")
					}
				})
				synctest.Wait()
				if s.idle != 0 || !s.distance.replied.IsZero() {
					t.Errorf("without replies, %d connections are idle, the last reply came at %v", s.idle, s.distance.replied)
				}
				s.set(func() { s.exits = false })
				if err := s.ask(t.Context(), time.Second, light, "k"); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				s.isIdle(t)
			})
		})
	}
}
