package pgstore

import (
	"database/sql/driver"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core/casstore"
)

// The sweeper runs once a second while the Store is used, once in ten seconds after an error, and never beside itself. It visits all
// pages one after the other.
func TestSweeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failure error
		var pause time.Duration
		visited := make(map[int64]int)
		f := &fake{reply: func(query string, args []string) ([][]driver.Value, error) {
			if len(args) == 1 && args[0] != "" { // Read
				return [][]driver.Value{{int64(1), int64(0), nil, int64(1)}}, nil
			}
			time.Sleep(pause)
			if failure != nil {
				return nil, failure
			}
			return [][]driver.Value{{int64(3), int64(300), int64(1000)}}, nil
		}}
		s := New(f.open(t), "test", MaxRows(1000))
		use := func(d time.Duration) (sweeps int) {
			before := f.count("SKIP LOCKED")
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				_, _, _ = s.rows.Read(t.Context(), []casstore.Key{keyA})
				synctest.Wait()
				visited[s.rows.sweeper.page]++
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
		for page := int64(0); page < 300; page += sweepPages {
			if visited[page] < 100 {
				t.Errorf("the pages from %d on were visited %d times", page, visited[page]/10)
			}
		}
		pause = 5500 * time.Millisecond
		if n := use(60 * time.Second); n < 9 || n > 11 {
			t.Errorf("%d sweeps that take 5.5 s in a minute", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		pause, failure = 0, errors.New("boom")
		if n := use(60 * time.Second); n != 6 {
			t.Errorf("%d sweeps that fail in a minute, want 6", n)
		}
		if m := s.Measures(); m[len(m)-2].Value != 1000 || m[len(m)-1].Value < 300 {
			t.Errorf("got the measures %v", m[len(m)-2:])
		}
	})
}
