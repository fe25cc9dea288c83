package gate

import (
	"errors"
	"fmt"

	"github.com/weir-go/weir/core"
)

// ErrDenied is the Err of the [Rejection] of a denied request.
var ErrDenied = errors.New("weir: over the limit")

// A Rejection describes a request whose handler does not run, because the request is over the
// limit, has no key or could not be decided. It is an error, so frameworks can collect it: ginlimit
// adds it to c.Errors. errors.Is finds [ErrDenied], or the reason why no decision could be made
// (keyfunc.ErrNoKey, core.ErrUnavailable). Its text is for logs; that of its Problem is fit for clients.
type Rejection struct {
	Problem  *Problem      // the body of the response
	Decision core.Decision // zero unless Denied
	// Err is ErrDenied, or the reason why no decision could be made. It is not for clients.
	Err error `json:"-"`
}

// Denied reports whether the request was over the limit. If not, no decision could be made.
func (r *Rejection) Denied() bool { return r.Err == ErrDenied }

// Error returns the status and the text of the Problem.
func (r *Rejection) Error() string { return fmt.Sprintf("weir: %d: %s", r.Problem.Status, r.Problem) }

// Unwrap returns Err.
func (r *Rejection) Unwrap() error { return r.Err }
