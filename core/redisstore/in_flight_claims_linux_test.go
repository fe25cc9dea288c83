package redisstore_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/internal/testkit"
)

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
