package inspect

import (
	"fmt"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/internal/testkit"
)

// BenchmarkHandler writes the page of an hour in which each of ten rules denied in each minute.
func BenchmarkHandler(b *testing.B) {
	store := observe.New(memstore.New())
	h := New(everybody, store)
	defer h.Close()
	for range minutes {
		for i := range 10 {
			l := testkit.Limiter(b, store, core.SlidingLog(fmt.Sprint("rule", i), core.PerHour(1)))
			testkit.Allow(b, l, "k")
			testkit.Allow(b, l, "k")
		}
		h.history.next(store.Snapshot())
	}
	for b.Loop() {
		if w := ask(h, "GET", "/", nil); w.Code != 200 {
			b.Fatal(w.Code)
		}
	}
}
