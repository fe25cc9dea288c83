package echolimit

import (
	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/core/gate/adapter"
)

// run runs the next handler for o, which has to know how it ends.
//
// What becomes of an error is decided further out. The hook is of the Response and
// not of its Writer, because a middleware around this one may put another Writer in
// its place before the answer is written, as Echo's Gzip does after an error.
func run(o *adapter.Outcome, c echo.Context, next echo.HandlerFunc) (err error) {
	res := c.Response()
	res.Writer = o.Watch(res.Writer)
	o.Run(func() (answered bool) {
		err = next(c)
		switch {
		case res.Committed:
			o.Answer(res.Status) // seen already, unless a Writer in between has kept it
		case err != nil:
			res.Before(func() { o.Answer(res.Status) })
			return false
		}
		return true
	})
	return err
}
