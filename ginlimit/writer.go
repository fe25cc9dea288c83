package ginlimit

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core/gate/adapter"
)

// run runs the handlers that follow if o has to know how they end. Otherwise Gin
// does.
func run(o *adapter.Outcome, c *gin.Context) {
	if o == nil {
		return
	}
	if o.NeedsStatus() {
		c.Writer = &writer{c.Writer, o}
	}
	o.Run(func() (answered bool) {
		c.Next()
		if answered = c.Writer.Written() || len(c.Errors) == 0; answered {
			o.Answer(c.Writer.Status()) // Gin sends a status without a body later
		}
		return answered
	})
}

// A writer tells about an answer that is written when the handlers have returned,
// by a middleware for errors, and about a connection that was taken over, of which
// Gin has no status.
type writer struct {
	gin.ResponseWriter
	outcome *adapter.Outcome
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) begin() { w.outcome.Answer(w.Status()) }

func (w *writer) WriteHeaderNow() {
	w.begin()
	w.ResponseWriter.WriteHeaderNow()
}

func (w *writer) Write(b []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(b)
}

func (w *writer) WriteString(s string) (int, error) {
	w.begin()
	return w.ResponseWriter.WriteString(s)
}

func (w *writer) Flush() {
	w.begin()
	w.ResponseWriter.Flush()
}

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.ResponseWriter.Hijack()
	if err == nil {
		w.outcome.Hijacked()
	}
	return conn, rw, err
}

// An answered writer is that of a request whose answer is complete. Gin has no rule
// about writing when c.Errors has an entry, and its own ErrorLogger does so in any
// case: without the writer, the body would have two documents.
type answered struct{ gin.ResponseWriter }

// Unwrap is for http.ResponseController.
func (w answered) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w answered) WriteHeader(int) {}

func (w answered) Write(b []byte) (int, error) { return len(b), nil }

func (w answered) WriteString(s string) (int, error) { return len(s), nil }
