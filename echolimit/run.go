package echolimit

import (
	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/core/gate/adapter"
)

// run runs the next handler with o.
//
// If the handler returns an error, a middleware around this one or the HTTPErrorHandler writes the
// answer. The hook is on the Response and not on its Writer, because a middleware may replace the
// Writer before that, as Echo's Gzip does after an error.
func run(o *adapter.Outcome, c echo.Context, next echo.HandlerFunc) (err error) {
	res := c.Response()
	res.Writer = o.Watch(res.Writer)
	o.Run(func() (answered bool) {
		err = next(c)
		switch {
		case res.Committed:
			o.Answer(res.Status) // a no-op unless an inner Writer has buffered the answer
		case err != nil:
			res.Before(func() { o.Answer(res.Status) })
			return false
		}
		return true
	})
	return err
}
