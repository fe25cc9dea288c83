package gate

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/argument"
	"github.com/weir-go/weir/keyfunc"
)

// An Option configures a middleware. Functions of this package and OnDenied of each adapter return
// Options. If an option is given twice, the later one is used, but every [And] adds a key.
type Option interface{ argument.Option[options] }

type option = argument.OptionFunc[options]

// options holds the values of the options of a gate. Each has the name of its option. The function of
// an absent option is nil.
type options struct {
	adapter string // the name of the adapter

	and           []ask
	cost          func(context.Context, *http.Request) int
	plan          keyfunc.Func
	skip          func(context.Context, *http.Request) bool
	exempt        func(context.Context, *http.Request) bool
	routes        Policy
	refundIf      func(status int) bool
	maxDelay      time.Duration // 0 is no bound
	headers       *versions     // nil: IETFDraft and the versions of outer gates
	exposeHeaders bool
	failClosed    bool
	onError       func(r *http.Request, err error, status int) int
	onDecision    func(context.Context, Event)
	deniedStatus  func(core.Decision) int
	onDenied      any // a function of the type that the adapter takes
	onRejected    any // likewise
}
