package echolimit

import (
	"time"

	"github.com/labstack/echo/v5"
)

// A view is an echo.Context as the context of its request. Values stored with c.Set take precedence.
type view echo.Context

type viewKey struct{}

func (v *view) echo() *echo.Context { return (*echo.Context)(v) }

func (v *view) Deadline() (time.Time, bool) { return v.echo().Request().Context().Deadline() }
func (v *view) Done() <-chan struct{}       { return v.echo().Request().Context().Done() }
func (v *view) Err() error                  { return v.echo().Request().Context().Err() }

// Param is for [keyfunc.PathValue].
func (v *view) Param(name string) string { return v.echo().Param(name) }

func (v *view) Value(key any) any {
	switch key := key.(type) {
	case viewKey:
		return v.echo()
	case string:
		if value := v.echo().Get(key); value != nil {
			return value
		}
	}
	return v.echo().Request().Context().Value(key)
}
