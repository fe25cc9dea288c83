package gate

import (
	"context"
	"net/http"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

func costs(n int) Option {
	return Cost(func(context.Context, *http.Request) int { return n })
}

// A limiter that two keys share, which are equal, is charged the larger cost, also when a denial has
// made the key exhausted, so that the first ask is charged before the second is known.
func TestGate_Admit_OneKeyTwoCosts(t *testing.T) {
	for name, c := range map[string]struct{ first, second int }{"larger second": {1, 3}, "larger first": {3, 1}, "first is a peek": {0, 3}, "second is a peek": {3, 0}} {
		t.Run(name, func(t *testing.T) {
			l := core.Must(core.New(memstore.New(), core.SlidingLog("r", core.PerHour(10))))
			g := newGate("test", l, anyKey, []Option{costs(c.first), And(l, anyKey, costs(c.second))})
			for i := range 8 {
				r := get("/")
				_, _, rejection := g.Admit(r.Context(), header(), r, "")
				if admitted, want := rejection == nil, i < 3; admitted != want {
					t.Errorf("request %d: admitted %v, want %v", i, admitted, want)
				}
				if used, want := testkit.Used(t, l, "k")[0], 3*min(i+1, 3); used != want {
					t.Errorf("request %d: got %d used, want %d", i, used, want)
				}
			}
		})
	}
}

// An admitted request whose first cost is raised is charged once.
func TestGate_Admit_RaisedCost(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.SlidingLog("r", core.PerHour(10))))
	cost := 9
	g := newGate("test", l, anyKey, []Option{And(l, anyKey, Cost(func(context.Context, *http.Request) int { return cost }))})
	for i, c := range []struct{ cost, used int }{{9, 9}, {2, 9}, {1, 10}, {1, 10}} {
		cost = c.cost
		r := get("/")
		g.Admit(r.Context(), header(), r, "")
		if used := testkit.Used(t, l, "k")[0]; used != c.used {
			t.Errorf("request %d: got %d used, want %d", i, used, c.used)
		}
	}
	if _, err := l.Reset(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	cost = 3 // the key is still exhausted, so the first ask is charged early
	r := get("/")
	_, _, rejection := g.Admit(r.Context(), header(), r, "")
	if used := testkit.Used(t, l, "k")[0]; rejection != nil || used != 3 {
		t.Errorf("got %v, %d used, want 3", rejection, used)
	}
}
