package pgstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/internal/call"
)

// A sweeper deletes rows that expired a minute ago, of sweepPages pages in each sweepInterval, while the Store is used, and up to
// ten times as many if many rows have expired. Each process has one, which begins at a page of its own. It is safe for concurrent use.
type sweeper struct {
	begun   time.Time
	next    atomic.Int64 // the time of the next sweep, in nanoseconds since begun
	running atomic.Bool
	page    int64 // the next one; only while running
	pages   int64 // of the table; only while running

	rows  atomic.Int64 // of the table, as Postgres estimates
	swept atomic.Uint64
}

const (
	sweepPages    = 64 // also in sweepStatement
	sweepInterval = time.Second
	sweepMany     = 500              // deleted rows after which the next sweep begins sooner
	sweepTimeout  = 10 * time.Second // also the pause after an error
)

var errDriver = errors.New("the driver")

// start sweeps once, on another goroutine, if it is time.
func (w *sweeper) start(r *rows) {
	now := time.Since(w.begun)
	if int64(now) < w.next.Load() || !w.running.CompareAndSwap(false, true) {
		return
	}
	w.next.Store(int64(now + sweepInterval))
	go func() {
		defer w.running.Store(false)
		if err := call.Recover(errDriver, func() error { return w.sweep(r) }); err != nil {
			w.next.Store(int64(now + sweepTimeout))
		}
	}()
}

func (w *sweeper) sweep(r *rows) error {
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	var deleted uint64
	var found int64
	first := w.pages == 0
	if err := r.db.QueryRowContext(ctx, r.statements.sweep, w.page).Scan(&deleted, &w.pages, &found); err != nil {
		return err
	}
	w.rows.Store(found)
	if w.swept.Add(deleted); deleted > sweepMany {
		w.next.Store(int64(time.Since(w.begun) + sweepInterval/10))
	}
	if w.page += sweepPages; first && w.pages > 0 {
		w.page = rand.Int64N(w.pages)
	}
	if w.page >= w.pages {
		w.page = 0
	}
	return nil
}
