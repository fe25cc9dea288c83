package gate

import (
	"errors"
	"fmt"

	"github.com/weir-go/weir/core"
)

// ErrDenied is the Err of every [Refusal] of a request over the limit.
var ErrDenied = errors.New("weir: over the limit")

// A Refusal is the error of a request that is not let through, for frameworks that collect
// errors: ginlimit adds it to c.Errors. errors.Is finds [ErrDenied], or the reason why no
// decision could be made (keyfunc.ErrNoKey, core.ErrUnavailable). The text is that of the
// [Problem] and fit for clients.
type Refusal struct {
	Problem  *Problem      // the answer
	Decision core.Decision // zero unless Denied
	// Err is ErrDenied, or the reason why no decision could be made. It is not for clients.
	Err error `json:"-"`
}

// Denied reports whether the request was over the limit. Otherwise no decision could be
// made.
func (f *Refusal) Denied() bool { return f.Err == ErrDenied }

// Error returns the status and the text of the Problem.
func (f *Refusal) Error() string { return fmt.Sprintf("weir: %d: %s", f.Problem.Status, f.Problem) }

// Unwrap returns Err.
func (f *Refusal) Unwrap() error { return f.Err }
