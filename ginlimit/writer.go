package ginlimit

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core/gate/adapter"
)

// run runs the remaining handlers with o.
func run(o *adapter.Outcome, c *gin.Context) {
	if o == nil {
		c.Next()
		return
	}
	if o.NeedsStatus() {
		c.Writer = &writer{c.Writer, o}
	}
	o.Run(func() (responded bool) {
		c.Next()
		if responded = c.Writer.Written() || len(c.Errors) == 0; responded {
			o.Answer(c.Writer.Status()) // Gin sends a status without a body after the handlers
		}
		return responded
	})
}

// A writer reports the status of a response that an error middleware writes after the handlers, and
// a hijacked connection, for which Gin has no status.
type writer struct {
	gin.ResponseWriter
	outcome *adapter.Outcome
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) report() { w.outcome.Answer(w.Status()) }

func (w *writer) WriteHeaderNow() {
	w.report()
	w.ResponseWriter.WriteHeaderNow()
}

func (w *writer) Write(b []byte) (int, error) {
	w.report()
	return w.ResponseWriter.Write(b)
}

func (w *writer) WriteString(s string) (int, error) {
	w.report()
	return w.ResponseWriter.WriteString(s)
}

func (w *writer) Flush() {
	w.report()
	w.ResponseWriter.Flush()
}

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.ResponseWriter.Hijack()
	if err == nil {
		w.outcome.Answer(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}

// A complete writer drops writes after a complete response. Gin's ErrorLogger and other
// middlewares write a document for every entry of c.Errors, even if a response has been written.
type complete struct{ gin.ResponseWriter }

// Unwrap is for http.ResponseController.
func (w complete) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Written returns true also for a response without a body, such as that to HEAD, which Gin sends after
// the handlers.
func (w complete) Written() bool { return true }

func (w complete) WriteHeader(int) {}

func (w complete) Write(b []byte) (int, error) { return len(b), nil }

func (w complete) WriteString(s string) (int, error) { return len(s), nil }
