package echolimit

import (
	"reflect"
	"runtime"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/adapter"
)

// httpError is p for the application's HTTPErrorHandler.
//
// Echo's default handler sends p as application/json: it has no other media
// type, keeps one that is set before, and nothing may be set before, because
// another handler would inherit it. So the type is corrected at the last moment,
// when p is turned into JSON. A handler that puts p into a document of its own
// has that done too, and its type is none of ours: what tells the two apart is
// the call stack. Asking it costs a refused request some microseconds, once.
func httpError(c echo.Context, p *gate.Problem) *echo.HTTPError {
	h := c.Response().Header()
	h.Set(echo.HeaderXContentTypeOptions, "nosniff")
	adapter.BeforeMarshal(p, func() {
		if inDefaultHandler() && h.Get(echo.HeaderContentType) == echo.MIMEApplicationJSON {
			h.Set(echo.HeaderContentType, gate.ProblemMediaType)
		}
	})
	return &echo.HTTPError{Code: p.Status, Message: p}
}

var defaultHandler = runtime.FuncForPC(reflect.ValueOf((*echo.Echo).DefaultHTTPErrorHandler).Pointer()).Name()

// inDefaultHandler says whether Echo's default error handler is on the stack.
func inDefaultHandler() bool {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for {
		frame, more := frames.Next()
		if frame.Function == defaultHandler {
			return true
		}
		if !more {
			return false
		}
	}
}
