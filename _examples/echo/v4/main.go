// V4 limits an API on Echo v4. The packages echolimit and echolimit/v5 have the same
// functions; the program in the directory above shows them with Echo v5. Echo v4 has
// echo.Context instead of *echo.Context, an HTTPErrorHandler with other arguments, and
// another meaning of c.RealIP: see echolimit.RealIP.
//
//	go run -C _examples ./echo/v4
package main

import (
	"errors"
	"log"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/echolimit"
	"github.com/weir-go/weir/examples/internal/demo"
)

func newRouter() http.Handler {
	e := echo.New()
	e.HTTPErrorHandler = errorHandler(e)
	e.Use(echolimit.PerIP(core.PerMinute(20)))
	e.GET("/", func(c echo.Context) error { return c.String(http.StatusOK, "Hello!\n") })
	return e
}

// errorHandler answers denied and rejected requests. The limiter has set the other
// header fields; it returns an *echo.HTTPError and writes no answer. Without a custom
// handler, Echo's default handler sends the problem document as application/json.
func errorHandler(e *echo.Echo) echo.HTTPErrorHandler {
	return func(err error, c echo.Context) {
		var he *echo.HTTPError
		if errors.As(err, &he) {
			if p, ok := he.Message.(*gate.Problem); ok {
				c.Response().Header().Set(echo.HeaderContentType, gate.ProblemMediaType)
				log.Printf("%s %s: %d: %s", c.Request().Method, c.Path(), p.Status, p)
			}
		}
		e.DefaultHTTPErrorHandler(err, c)
	}
}

const try = `
  curl -i http://ADDR/
  # 20 a minute
  for i in $(seq 20); do curl -s -o /dev/null -w '%{http_code} ' http://ADDR/; done; echo
`

func main() {
	if err := demo.Serve(newRouter(), try); err != nil {
		log.Fatal(err)
	}
}
