package gate

import (
	"errors"
	"fmt"

	"github.com/weir-go/weir/core"
)

// ErrDenied is the category of every [Refusal] that says: over the limit.
var ErrDenied = errors.New("weir: over the limit")

// A Refusal is a request that is not let through. When an adapter gets it, all
// header fields of the answer are set except Content-Type and X-Content-Type-Options,
// and nothing is written.
//
// It is an error for frameworks that collect them. errors.Is finds [ErrDenied],
// or what kept the request from being decided (keyfunc.ErrNoKey,
// core.ErrUnavailable); the text is that of the [Problem] and fit for clients.
type Refusal struct {
	Problem  *Problem
	Decision core.Decision // zero unless Denied
	Err      error         `json:"-"` // ErrDenied, or the reason why no decision could be made; not for clients
}

// Denied says whether the request was over the limit. Otherwise no decision
// could be made.
func (f *Refusal) Denied() bool { return f.Err == ErrDenied }

// Error is the text of the Problem.
func (f *Refusal) Error() string { return fmt.Sprintf("weir: %d: %s", f.Problem.Status, f.Problem) }

// Unwrap gives what errors.Is looks for.
func (f *Refusal) Unwrap() error { return f.Err }
