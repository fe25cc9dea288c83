package adapter

import (
	"context"
	"net/http"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

func anyKey(context.Context, *http.Request) (string, error) { return "k", nil }

// once admits one request a day.
func once() *core.Limiter {
	return core.Must(core.New(memstore.New(), core.SlidingLog("once", core.PerDay(1))))
}

func newGate(l *core.Limiter, opts ...gate.Option) *Gate {
	g, _ := New[func()]("test", l, anyKey, opts...)
	return g
}

// New returns the functions of Denied and Rejected to the same adapter, and panics in another.
func TestNew_Answer(t *testing.T) {
	for name, with := range map[string]func(string, func(int)) gate.Option{"OnDenied": Denied[func(int)], "OnRejected": Rejected[func(int)]} {
		called := 0
		opt := with("test", func(int) { called++ })
		rejection := &gate.Rejection{Problem: new(gate.Problem), Err: core.ErrUnavailable}
		other := &gate.Rejection{Problem: new(gate.Problem), Err: gate.ErrDenied}
		if name == "OnDenied" {
			rejection, other = other, rejection
		}
		_, answer := New[func(int)]("test", once(), anyKey, opt)
		if f, ok := answer(rejection); ok {
			f(1)
		}
		if _, ok := answer(other); ok || called != 1 {
			t.Errorf("%s: the function was called %d times, another one is given: %t", name, called, ok)
		}
		if _, answer := New[func(int)]("test", once(), anyKey); true {
			if _, ok := answer(rejection); ok {
				t.Errorf("%s: New returned a function without the option", name)
			}
		}
		testkit.Panics(t, "other: New: test."+name+" is an option for test.New only", func() {
			New[func(int)]("other", once(), anyKey, opt)
		})
		testkit.Panics(t, "gate: And: only Cost, CostOfBody and Plan can be given for one limiter", func() { gate.And(once(), anyKey, opt) })
		testkit.Panics(t, "test: "+name+": function is nil", func() { with("test", nil) })
	}
}
