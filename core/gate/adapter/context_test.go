package adapter

import (
	"context"
	"testing"

	"github.com/weir-go/weir/core/gate"
)

func TestFromContext_NoGate(t *testing.T) {
	if d, ok := gate.FromContext(t.Context()); ok || d.Len() != 0 || d.Allowed {
		t.Errorf("got %+v, %v", d, ok)
	}
	if all := gate.DecisionsFrom(t.Context()); all != nil {
		t.Errorf("got %v", all)
	}
}

// The context of an admitted request has the values, the end and the cause of the request's
// context.
func TestRequestContext_Parent(t *testing.T) {
	type own struct{}
	parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), own{}, "value"))
	r := get("/").WithContext(parent)
	admitted, _, rejection := newGate("test", once(), anyKey, nil).Admit(parent, header(), r, "")
	if rejection != nil {
		t.Fatal(rejection)
	}
	ctx := admitted.Context()
	if ctx.Value(own{}) != "value" || ctx.Done() != parent.Done() || ctx.Err() != nil {
		t.Errorf("value %v, error %v", ctx.Value(own{}), ctx.Err())
	}
	child, stop := context.WithCancel(ctx)
	defer stop()
	cancel(context.DeadlineExceeded)
	<-child.Done()
	if ctx.Err() != context.Canceled || context.Cause(child) != context.DeadlineExceeded {
		t.Errorf("error %v, cause %v", ctx.Err(), context.Cause(child))
	}
	if _, ok := gate.FromContext(child); !ok {
		t.Error("a derived context has no decision")
	}
	if _, ok := gate.FromContext(context.WithoutCancel(child)); !ok {
		t.Error("a context without the cancellation has no decision")
	}
}
