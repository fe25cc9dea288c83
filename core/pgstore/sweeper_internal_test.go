package pgstore

import (
	sqldriver "database/sql/driver"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core/casstore"
)

// The sweeper runs once a second while the Store is used, once in ten seconds after an error, and never beside itself. It visits all
// pages one after the other.
func TestSweeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		var pause atomic.Int64
		var pages [300/sweepPages + 1]atomic.Int64
		f := &fake{reply: func(query string, args []string) ([][]sqldriver.Value, error) {
			if !strings.Contains(query, "SKIP LOCKED") {
				return [][]sqldriver.Value{{int64(1), int64(0), nil, int64(1)}}, nil
			}
			page, _ := strconv.Atoi(args[0])
			pages[page/sweepPages].Add(1)
			time.Sleep(time.Duration(pause.Load()))
			if failing.Load() {
				return nil, errors.New("boom")
			}
			return [][]sqldriver.Value{{int64(3), int64(300), int64(1000)}}, nil
		}}
		s := New(f.open(t), "test", MaxRows(1000))
		use := func(d time.Duration) (sweeps int) {
			before := f.count("SKIP LOCKED")
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				_, _, _ = s.rows.Read(t.Context(), []casstore.Key{keyA})
				synctest.Wait()
			}
			return f.count("SKIP LOCKED") - before
		}
		if s.rows.Full() {
			t.Error("a Store that has not swept is full")
		}
		if n := use(time.Second); n != 1 || !s.rows.Full() || s.rows.sweeper.swept.Load() != 3 {
			t.Errorf("%d sweeps in the first second, want 1", n)
		}
		if n := use(99 * time.Second); n != 99 {
			t.Errorf("%d sweeps, want 99", n)
		}
		for i := range pages {
			if n := pages[i].Load(); n < 15 {
				t.Errorf("the pages after page %d were visited %d times", i*sweepPages, n)
			}
		}
		pause.Store(int64(5500 * time.Millisecond))
		if n := use(60 * time.Second); n < 9 || n > 11 {
			t.Errorf("%d sweeps that take 5.5 s in a minute", n)
		}
		time.Sleep(time.Minute)
		pause.Store(0)
		failing.Store(true)
		if n := use(60 * time.Second); n != 6 {
			t.Errorf("%d sweeps that fail in a minute, want 6", n)
		}
		if m := s.Measures(); m[len(m)-2].Value != 1000 || m[len(m)-1].Value < 300 {
			t.Errorf("got the measures %v", m[len(m)-2:])
		}
	})
}
