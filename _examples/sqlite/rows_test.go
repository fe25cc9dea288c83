package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/casstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

func newRows(t *testing.T, path string) *rows {
	t.Helper()
	r, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.db.Close() })
	return r
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		var clock storetest.Clock
		r := newRows(t, filepath.Join(t.TempDir(), "states.db"))
		r.now = clock.Micros
		return clock.Harness(casstore.New(r, casstore.Timeout(10*time.Second)))
	})
}

// Processes that share a file admit a limit together, also after a restart. A sweep leaves states that count.
func TestProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "states.db")
	var admitted atomic.Int64
	for range 2 { // the second time after a restart
		var all sync.WaitGroup
		for range 2 {
			r := newRows(t, path)
			h := nethttplimit.Limit(casstore.New(r, casstore.Timeout(10*time.Second)), core.FixedWindow("api", core.PerDay(50)), keyfunc.RemoteIP())(
				http.HandlerFunc(func(http.ResponseWriter, *http.Request) { admitted.Add(1) }))
			for range 8 {
				all.Go(func() {
					for range 10 {
						h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
					}
				})
			}
			if err := sweep(t.Context(), r); err != nil {
				t.Error(err)
			}
		}
		all.Wait()
	}
	if n := admitted.Load(); n != 50 {
		t.Errorf("%d requests were admitted, want 50", n)
	}
}
