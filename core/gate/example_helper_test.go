package gate_test

import (
	"context"
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/storetest"
)

// unavailable returns a Store that never decides.
func unavailable() core.Store {
	return new(storetest.Fake).Set(storetest.Fail(core.ErrUnavailable))
}

// quietly keeps the errors of an example out of the log.
var quietly = gate.OnError(func(_ *http.Request, _ error, status int) int { return status })

type userKey struct{}

// withUser stores name in ctx, like an authentication middleware.
func withUser(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, userKey{}, name)
}
