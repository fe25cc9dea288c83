package redisstore_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// The keys of the test with processes, and its rules: with places for few and for some events at a time.
var (
	placeKeys  = []string{"a", "b"}
	placeRules = []core.Rule{
		core.InFlight("few", 2).Hold(time.Second),
		core.InFlight("some", 5).Hold(2 * time.Second),
	}
)

const (
	longestHold = 2 * time.Second // of placeRules
	// machineSlack is how much later a process may do something because the machine is busy.
	machineSlack = 2 * time.Second
)

// A worker is a process that takes places.
type worker struct {
	Addr   string // of Redis
	Prefix string // of its keys
	Log    string // the path of the log of a witness

	cmd    *exec.Cmd
	stdin  io.Closer // the process ends when it is closed
	output bytes.Buffer
}

const workerEnv = "WEIR_IN_FLIGHT_WORKER"

// startWorker starts w: this test binary, which runs the test t again.
func startWorker(t testing.TB, w *worker) {
	t.Helper()
	config, err := json.Marshal(w)
	testkit.Must(t, err)
	w.cmd = exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=2m")
	w.cmd.Env = append(os.Environ(), workerEnv+"="+string(config))
	w.cmd.Stdout, w.cmd.Stderr = &w.output, &w.output
	w.stdin, err = w.cmd.StdinPipe()
	testkit.Must(t, err)
	testkit.Must(t, w.cmd.Start())
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill() // unless it has ended
		_ = w.cmd.Wait()
	})
}

// end ends w, whose events free their places.
func (w *worker) end(t testing.TB) {
	t.Helper()
	hangs := time.AfterFunc(waitLimit, func() { _ = w.cmd.Process.Signal(syscall.SIGQUIT) })
	defer hangs.Stop()
	_ = w.stdin.Close()
	if err := w.cmd.Wait(); err != nil {
		t.Errorf("a worker: %v\n%s", err, w.output.String())
	}
}

// placeLimiters returns a limiter for each of placeRules.
func placeLimiters(t testing.TB, s core.Store) (limiters []*core.Limiter) {
	for _, r := range placeRules {
		limiters = append(limiters, testkit.Limiter(t, s, r))
	}
	return limiters
}

// work is the main function of a worker.
func work(t *testing.T, config string) {
	var w worker
	testkit.Must(t, json.Unmarshal([]byte(config), &w))
	log, err := os.OpenFile(w.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	testkit.Must(t, err)
	rdb := redis.NewClient(&redis.Options{Addr: w.Addr, ReadTimeout: 500 * time.Millisecond})
	s := &witness{Store: redisstore.New(rdb, "test", redisstore.Prefix(w.Prefix)), log: log, holds: make(map[place]time.Duration)}
	limiters := placeLimiters(t, s)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			for ctx.Err() == nil {
				holdPlaces(ctx, t, s, limiters)
			}
		})
	}
	wg.Go(func() { // Reservations that are forgotten become garbage
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			runtime.GC()
			<-tick.C
		}
	})
	wg.Wait()
}

// holdPlaces takes a place, or one of each rule, holds it for up to some holds, and ends in one of several
// ways.
func holdPlaces(ctx context.Context, t *testing.T, s *witness, limiters []*core.Limiter) {
	var taken []place
	own, cancel := context.WithCancel(collecting(ctx, &taken))
	defer cancel()
	l, key := limiters[rand.IntN(len(limiters))], placeKeys[rand.IntN(len(placeKeys))]
	var r *core.Reservation
	var err error
	switch rand.IntN(4) {
	case 0, 1:
		r, err = l.Reserve(own, key, 1)
	case 2:
		r, err = core.ReserveTogether(own, core.Ask{Limiter: limiters[0], Key: key, Cost: 1}, core.Ask{Limiter: limiters[1], Key: key, Cost: 1})
	default:
		r, err = l.Acquire(own, key)
	}
	if err != nil {
		if !errors.Is(err, core.ErrUnavailable) && ctx.Err() == nil {
			t.Errorf("the error is %v, want core.ErrUnavailable", err)
		}
		sleep(ctx, nil, rand.N(20*time.Millisecond))
		return
	}
	if !r.Decision().Allowed {
		sleep(ctx, nil, rand.N(20*time.Millisecond))
		return
	}
	longest := time.Duration(0)
	switch rand.IntN(30) {
	case 0:
		longest = rand.N(2 * longestHold)
	case 1, 2, 3:
		longest = rand.N(200 * time.Millisecond)
	}
	end := rand.IntN(40)
	if sleep(ctx, r.Lost(), longest) {
		s.lost(taken)
	} else if end == 0 && ctx.Err() == nil {
		cancel()
		if sleep(ctx, r.Lost(), longestHold+waitLimit) {
			s.lost(taken)
		} else if ctx.Err() == nil {
			t.Error("the holder was not told that its context has ended")
		}
	}
	switch {
	case end <= 1: // forgets r
	case end <= 9:
		err = r.Refund(context.WithoutCancel(ctx))
	default:
		err = r.Release(context.WithoutCancel(ctx))
	}
	if err != nil && !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("the error of the end is %v, want core.ErrUnavailable", err)
	}
}

// sleep waits for d, or until ctx ends or lost is closed, and reports the latter.
func sleep(ctx context.Context, lost <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-lost:
		return true
	}
	return false
}

// disturb changes the fault of p until ctx ends: it loses replies, also for longer than a hold, delays
// them, or closes connections.
func disturb(ctx context.Context, p *redistest.Proxy) {
	for i := 0; ctx.Err() == nil; i++ {
		lasts := rand.N(600 * time.Millisecond)
		switch i % 4 {
		case 0:
			p.DropReplies(time.Duration(i%8/4)*time.Millisecond, "evalsha", "eval")
			if i%8 == 0 {
				lasts = longestHold + 500*time.Millisecond
			}
		case 1:
			p.Delay(rand.N(150 * time.Millisecond))
		case 2:
			p.Pass()
			p.Cut()
		case 3:
			p.Pass()
			lasts *= 3
		}
		sleep(ctx, nil, lasts)
	}
	p.Pass()
}

// Several processes take the places of few keys, and hold, free, lose and forget them. One of them is
// killed, one is stopped for longer than a hold, and one loses replies. At no time more places of a key
// are taken than the limit, and all are free one hold after the end.
func TestInFlight_processes(t *testing.T) {
	if config := os.Getenv(workerEnv); config != "" {
		work(t, config)
		return
	}
	t.Parallel()
	server := redistest.Shared(t)
	proxy := redistest.NewProxy(t, server.Addr)
	prefix, dir := redistest.Prefix(t), t.TempDir()
	var workers []*worker
	add := func(addr string) *worker {
		w := &worker{Addr: addr, Prefix: prefix, Log: filepath.Join(dir, fmt.Sprint(len(workers)))}
		startWorker(t, w)
		workers = append(workers, w)
		return w
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var disturber sync.WaitGroup
	disturber.Go(func() { disturb(ctx, proxy) })
	steady, killed, stopped, lossy := add(server.Addr), add(server.Addr), add(server.Addr), add(proxy.Addr)
	sleep(ctx, nil, 2500*time.Millisecond)
	testkit.Must(t, killed.cmd.Process.Kill())
	_ = killed.cmd.Wait() // of a killed process
	another := add(server.Addr)
	sleep(ctx, nil, time.Second)
	testkit.Must(t, stopped.cmd.Process.Signal(syscall.SIGSTOP))
	sleep(ctx, nil, longestHold+500*time.Millisecond)
	testkit.Must(t, stopped.cmd.Process.Signal(syscall.SIGCONT))
	sleep(ctx, nil, 3*time.Second)
	stop()
	disturber.Wait()
	for _, w := range []*worker{steady, stopped, lossy, another} {
		w.end(t)
	}
	ended := time.Now()

	limiters := placeLimiters(t, redisstore.New(server.Client(), "test", redisstore.Prefix(prefix), redisstore.Timeout(waitLimit)))
	for i, l := range limiters {
		for _, key := range placeKeys {
			eventually(t, func() error {
				if used := testkit.Used(t, l, key)[0]; used > 0 {
					return fmt.Errorf("rule %q, key %s: %d places are taken", placeRules[i].Name(), key, used)
				}
				return nil
			})
		}
	}
	if took := time.Since(ended); took > longestHold+machineSlack {
		t.Errorf("all places are free after %v, want %v", took, longestHold)
	} else {
		t.Logf("all places are free after %v", took)
	}
	checkTestimonies(t, workers, stopped)
	checkHandover(t, limiters, placeLimiters(t, redisstore.New(server.Client(), "test", redisstore.Prefix(prefix), redisstore.Timeout(waitLimit))))
}

// checkTestimonies checks that no more places were taken than the limit, and that workers were told of lost
// places in time, except for the one that was stopped.
func checkTestimonies(t *testing.T, workers []*worker, stopped *worker) {
	t.Helper()
	claims := make(map[[2]string][]claim)
	renewed, lost := 0, 0
	for i, w := range workers {
		of := readTestimony(t, w.Log)
		for id, more := range of.claims {
			claims[id] = append(claims[id], more...)
		}
		renewed += of.renewed
		lost += len(of.late)
		var earliest, latest time.Duration
		for _, late := range of.late {
			earliest, latest = min(earliest, late), max(latest, late)
		}
		t.Logf("worker %d lost %d places, and was told from %v to %v after the end of the hold", i, len(of.late), earliest, latest)
		if w != stopped && (earliest < -placeRules[0].Spec().Hold/4 || latest > machineSlack) {
			t.Errorf("worker %d was told of lost places from %v to %v after the end of the hold, want at its end", i, earliest, latest)
		}
	}
	if renewed == 0 || lost == 0 {
		t.Errorf("%d places were renewed and %d lost, want some", renewed, lost)
	}
	full := false // a key had as many places as the limit, so that the limit was tried
	for _, r := range placeRules {
		for _, key := range placeKeys {
			all := claims[[2]string{r.Name(), key}]
			most, n := atOnce(all), r.Limit().Events
			if most > n {
				t.Errorf("rule %q, key %s: %d places were taken at a time, want at most %d", r.Name(), key, most, n)
			}
			full = full || most == n
			t.Logf("rule %q, key %s: %d places were taken, at most %d at a time", r.Name(), key, len(all), most)
		}
	}
	if !full {
		t.Error("no key had as many places as its limit")
	}
}

// checkHandover checks that a place goes to a caller that waits at another limiter, as in another process,
// soon after it is free, and not before, although its hold would have ended.
func checkHandover(t *testing.T, holders, waiters []*core.Limiter) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range holders {
		for _, key := range placeKeys {
			wg.Go(func() {
				var first *core.Reservation
				for range placeRules[i].Limit().Events {
					r, err := holders[i].Reserve(t.Context(), key, 1)
					if err != nil || !r.Decision().Allowed {
						t.Errorf("the decision is %+v, %v, want an admission", r.Decision(), err)
						return
					}
					defer func() { _ = r.Release(context.WithoutCancel(t.Context())) }()
					first = r
				}
				got := make(chan error, 1)
				go func() {
					r, err := waiters[i].Acquire(t.Context(), key)
					if err == nil {
						err = r.Release(t.Context())
					}
					got <- err
				}()
				sleep(t.Context(), nil, longestHold+500*time.Millisecond)
				select {
				case err := <-got:
					t.Errorf("Acquire returned %v while all places were taken", err)
				default:
				}
				freed := time.Now()
				testkit.Must(t, first.Release(t.Context()))
				err := <-got
				const longestPoll = time.Second
				if took := time.Since(freed); err != nil || took > longestPoll+machineSlack {
					t.Errorf("Acquire returned %v, %v after a place was free, want one within %v", err, took, longestPoll)
				} else {
					t.Logf("a waiter got a place %v after it was free", took)
				}
			})
		}
	}
	wg.Wait()
}

// monotonic returns the time of a clock that all processes of the machine share and that never steps.
func monotonic() time.Duration {
	const clockMonotonic = 1
	var ts syscall.Timespec
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0); err != 0 {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// A place is the name of a place in a log.
type place struct {
	rule, key string
	number    int64
}

// A witness is a Store that logs when places were certainly taken. A place is taken from the reply that
// grants it until the request that frees it, and no longer than a hold from the last request to renew it
// that was confirmed. After a SIGKILL, the log is complete except for the last line.
type witness struct {
	*redisstore.Store
	log *os.File // each write is one line

	mu    sync.Mutex
	holds map[place]time.Duration // the end of the hold of each place of this process
}

type takenKey struct{}

// collecting returns a context whose calls of Take add the places that they take to taken.
func collecting(ctx context.Context, taken *[]place) context.Context {
	return context.WithValue(ctx, takenKey{}, taken)
}

func placeOf(c *driver.Charge) place { return place{c.Rule.Name, c.Key, c.Receipt.At} }

// write logs an event of a place: the time of its request, the time of the reply, and the hold.
func (w *witness) write(event string, p place, sent, replied, hold time.Duration) {
	_, err := fmt.Fprintln(w.log, event, p.rule, p.key, p.number, int64(sent), int64(replied), int64(hold))
	if err != nil {
		panic(err)
	}
}

func (w *witness) Take(ctx context.Context, charges []driver.Charge) error {
	sent := monotonic()
	err := w.Store.Take(ctx, charges)
	replied := monotonic()
	for i := range charges {
		c := &charges[i]
		if err != nil || c.Op != driver.Spend || c.Receipt.At == 0 {
			continue
		}
		p := placeOf(c)
		w.write("grant", p, sent, replied, c.Rule.Hold)
		w.mu.Lock()
		w.holds[p] = sent + c.Rule.Hold
		w.mu.Unlock()
		if taken, ok := ctx.Value(takenKey{}).(*[]place); ok {
			*taken = append(*taken, p)
		}
	}
	return err
}

func (w *witness) Adjust(ctx context.Context, charges []driver.Charge) error {
	sent := monotonic()
	for i := range charges {
		if c := &charges[i]; c.Op == driver.Undo {
			w.write("free", placeOf(c), sent, sent, 0)
		}
	}
	err := w.Store.Adjust(ctx, charges)
	replied := monotonic()
	for i := range charges {
		c := &charges[i]
		if err != nil || c.Op != driver.Renew || !c.Verdict.Found {
			continue
		}
		w.write("renew", placeOf(c), sent, replied, c.Rule.Hold)
		w.mu.Lock()
		w.holds[placeOf(c)] = sent + c.Rule.Hold
		w.mu.Unlock()
	}
	return err
}

// lost logs how much later than its hold has ended the holder of the places was told. It is negative if
// the holder was told earlier.
func (w *witness) lost(taken []place) {
	now, end := monotonic(), time.Duration(driver.Never)
	w.mu.Lock()
	for _, p := range taken {
		end = min(end, w.holds[p])
	}
	w.mu.Unlock()
	w.write("lost", taken[0], end, now, 0)
}

// A claim is a span of time in which a place was certainly taken.
type claim struct{ from, until time.Duration }

// A testimony is the content of the log of a witness.
type testimony struct {
	claims  map[[2]string][]claim // by rule and key
	renewed int                   // claims that last longer than a hold
	late    []time.Duration       // after the end of the hold, for each place that was lost
}

// readTestimony reads a log.
func readTestimony(t testing.TB, path string) *testimony {
	t.Helper()
	// The clock of Redis and the monotonic clock may differ by 500 ppm.
	const drift = 2 * time.Millisecond
	file, err := os.Open(path)
	testkit.Must(t, err)
	defer func() { _ = file.Close() }()
	of := &testimony{claims: make(map[[2]string][]claim)}
	open := make(map[place]*claim)
	end := func(p place, hold time.Duration) {
		c := open[p]
		if c == nil {
			return
		}
		delete(open, p)
		if c.until <= c.from {
			return // the reply came after the end of the hold
		}
		id := [2]string{p.rule, p.key}
		of.claims[id] = append(of.claims[id], *c)
	}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var event string
		var p place
		var sent, replied, hold time.Duration
		if n, _ := fmt.Sscan(lines.Text(), &event, &p.rule, &p.key, &p.number, (*int64)(&sent), (*int64)(&replied), (*int64)(&hold)); n < 7 {
			break // the last line of a killed process
		}
		switch c := open[p]; {
		case event == "grant":
			end(p, hold)
			open[p] = &claim{replied, sent + hold - drift}
		case event == "lost":
			of.late = append(of.late, replied-sent)
		case c == nil: // freed meanwhile
		case event == "renew":
			if c.until < sent+hold-drift {
				c.until = sent + hold - drift
			}
			if c.until-c.from > hold {
				of.renewed++
			}
		case event == "free":
			c.until = min(c.until, sent)
			end(p, hold)
		}
	}
	for p := range open {
		end(p, 0)
	}
	return of
}

// atOnce returns the largest number of claims at one time.
func atOnce(claims []claim) (most int) {
	type edge struct {
		at   time.Duration
		step int
	}
	var edges []edge
	for _, c := range claims {
		edges = append(edges, edge{c.from, 1}, edge{c.until, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.step, b.step)) })
	n := 0
	for _, e := range edges {
		n += e.step
		most = max(most, n)
	}
	return most
}
