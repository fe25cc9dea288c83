package echolimit

import (
	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/adapter"
)

// A problemError is the error of a request that is not let through. Echo's error handlers write its
// problem document.
//
// It has no Unwrap, because these handlers, and those of applications, use the first *echo.ProblemError
// or *echo.HTTPError that errors.As finds. The error of a key function may contain one, whose status is
// not that of the gate.
type problemError struct{ rejection *gate.Rejection }

func (e *problemError) Error() string { return e.rejection.Error() }

// As makes errors.As find the Rejection.
func (e *problemError) As(target any) bool {
	rejection, ok := target.(**gate.Rejection)
	if ok {
		*rejection = e.rejection
	}
	return ok
}

// StatusCode is for [echo.StatusCode], and with MarshalJSON for [echo.DefaultHTTPErrorHandler].
func (e *problemError) StatusCode() int { return e.rejection.Problem.Status }

// MarshalJSON returns the problem document.
func (e *problemError) MarshalJSON() ([]byte, error) {
	return adapter.AppendProblem(make([]byte, 0, documentSize), e.rejection.Problem), nil
}

// documentSize is more than most problem documents have. They are copied, and then garbage.
const documentSize = 512

// ProblemError is for [echo.ProblemDetailsHTTPErrorHandler].
func (e *problemError) ProblemError() *echo.ProblemError {
	p := e.rejection.Problem
	return &echo.ProblemError{Type: p.Type, Title: p.Title, Status: p.Status, Detail: p.Detail, Instance: p.Instance}
}
