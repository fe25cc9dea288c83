package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

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

	cause error
}

// Denied says whether the request was over the limit. Otherwise no decision
// could be made.
func (f *Refusal) Denied() bool { return f.cause == ErrDenied }

// Error is the text of the Problem.
func (f *Refusal) Error() string { return fmt.Sprintf("weir: %d: %s", f.Problem.Status, f.Problem) }

// Unwrap gives what errors.Is looks for.
func (f *Refusal) Unwrap() error { return f.cause }

// Write sends the answer: the problem document, or a line of text to a client
// that names text/plain or text/html first in Accept. To HEAD it sends no body. It
// sets Content-Type, and X-Content-Type-Options to nosniff.
func (f *Refusal) Write(w http.ResponseWriter, r *http.Request) {
	contentType, body := ProblemMediaType, []byte(nil)
	if wantsText(r.Header.Get("Accept")) {
		contentType, body = "text/plain; charset=utf-8", []byte(f.Problem.String())
	} else if doc, err := json.Marshal(f.Problem); err == nil {
		body = doc
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff") // the path of the request is in the document
	w.WriteHeader(f.Problem.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(append(body, '\n')) // a client that has gone cannot be told
	}
}

// wantsText looks at the first media range only. Browsers start with text/html,
// and whoever can read the document says so first.
func wantsText(accept string) bool {
	first, _, _ := strings.Cut(accept, ",")
	first, _, _ = strings.Cut(first, ";")
	first = strings.Trim(first, " \t")
	return strings.EqualFold(first, "text/plain") || strings.EqualFold(first, "text/html")
}
