package echolimit

import (
	"time"

	"github.com/labstack/echo/v4"
)

// A view is the context of the request of c. Values stored with c.Set take precedence.
type view struct{ c echo.Context }

type viewKey struct{}

func (v *view) Deadline() (time.Time, bool) { return v.c.Request().Context().Deadline() }
func (v *view) Done() <-chan struct{}       { return v.c.Request().Context().Done() }
func (v *view) Err() error                  { return v.c.Request().Context().Err() }

// Param is for [keyfunc.PathValue].
func (v *view) Param(name string) string { return v.c.Param(name) }

func (v *view) Value(key any) any {
	switch key := key.(type) {
	case viewKey:
		return v.c
	case string:
		if value := v.c.Get(key); value != nil {
			return value
		}
	}
	return v.c.Request().Context().Value(key)
}
