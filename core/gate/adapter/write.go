package adapter

import (
	"net/http"
	"strings"
	"sync"

	"github.com/weir-go/weir/core/gate"
)

// WriteProblem responds to r with the status of p and the problem document, or with a line of text
// if text/plain or text/html is first in Accept. The response to HEAD has no body. WriteProblem
// sets Content-Type, and X-Content-Type-Options to nosniff.
func WriteProblem(w http.ResponseWriter, r *http.Request, p *gate.Problem) {
	buffer := buffers.Get().(*[1 << 10]byte)
	defer buffers.Put(buffer)
	values := &[2]string{gate.ProblemMediaType, "nosniff"} // the path of the request is in the document
	body := buffer[:0]
	if accept := r.Header["Accept"]; len(accept) > 0 && wantsText(accept[0]) {
		values[0], body = "text/plain; charset=utf-8", append(body, p.String()...)
	} else {
		body = AppendProblem(body, p)
	}
	h := w.Header()
	h["Content-Type"], h["X-Content-Type-Options"] = values[0:1:1], values[1:2:2]
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(append(body, '\n')) // an error means that the client has gone
	}
}

// buffers holds the arrays of documents for reuse: a Writer must not keep the bytes of Write.
// Longer documents have an array of their own.
var buffers = sync.Pool{New: func() any { return new([1 << 10]byte) }}

// wantsText reports whether the first media range of accept is text/plain or text/html. Browsers
// name text/html first, and clients that read problem documents name another type first.
func wantsText(accept string) bool {
	first, _, _ := strings.Cut(accept, ",")
	first, _, _ = strings.Cut(first, ";")
	first = strings.Trim(first, " \t")
	return strings.EqualFold(first, "text/plain") || strings.EqualFold(first, "text/html")
}
