// Package config holds the values that the options of package gate set and package adapter reads.
package config

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfunc"
)

// A Config holds the values of the options of one gate. The function of an absent option is nil.
type Config struct {
	And      []Ask
	Cost     func(context.Context, *http.Request) int
	Plan     keyfunc.Func
	Skip     func(context.Context, *http.Request) bool
	Exempt   func(context.Context, *http.Request) bool // skips a request, too
	RefundIf func(status int) bool
	MaxDelay time.Duration // 0 is no bound
	InFlight interface {   // a gate.InFlightCounter
		Begin()
		End()
	}
	Routes interface { // a gate.Policy
		ForRequest(*http.Request) *core.Limiter
	}
	OnError    func(r *http.Request, err error, status int) int
	Versions   uint8 // a set of gate.HeaderVersions: bit v stands for version v
	Inherits   bool  // add the versions that outer gates send
	FailClosed bool
	Expose     bool

	DeniedStatus func(core.Decision) int
	OnDenied     any    // a function of the type that the adapter takes
	OnDeniedBy   string // the name of the adapter that OnDenied belongs to
}

// An Ask holds a limiter and the functions that find its key, cost and plan. Cost and Plan are nil
// unless the option And has its own.
type Ask struct {
	Limiter *core.Limiter
	Key     keyfunc.Func
	Cost    func(context.Context, *http.Request) int
	Plan    keyfunc.Func
}
