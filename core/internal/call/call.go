// Package call calls code of others, which may panic, end its goroutine, or ignore its context.
package call

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Recover calls f, and returns its error or its panic as an error. callee names the called code: the
// error of a panic wraps it, with a text such as "the client panicked: boom".
func Recover(callee error, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w panicked: %v", callee, p)
		}
	}()
	return f()
}

// Detached calls f on a goroutine of its own, because f may ignore ctx. It returns the results of f,
// or the error of ctx if ctx ends first. A panic of f is an error, as in Recover, and so is a call of
// runtime.Goexit. hanging, unless nil, counts the calls of f that have not returned although Detached
// has.
func Detached[T any](ctx context.Context, callee error, hanging *atomic.Int64, f func() (T, error)) (T, error) {
	c := &detached[T]{done: make(chan struct{})}
	go c.run(callee, hanging, f)
	select {
	case <-c.done:
	case <-ctx.Done():
		if !c.ended.Swap(true) {
			if hanging != nil {
				hanging.Add(1)
			}
			var none T
			return none, ctx.Err()
		}
		<-c.done
	}
	return c.value, c.err
}

// A detached is a call on a goroutine of its own.
type detached[T any] struct {
	value T
	err   error
	done  chan struct{} // closed when value and err are set
	ended atomic.Bool   // f or Detached has returned
}

func (c *detached[T]) run(callee error, hanging *atomic.Int64, f func() (T, error)) {
	returned := false
	defer func() {
		if !returned {
			c.err = fmt.Errorf("%w ended the goroutine", callee)
		}
		if c.ended.Swap(true) && hanging != nil {
			hanging.Add(-1)
		}
		close(c.done)
	}()
	c.err = Recover(callee, func() (err error) {
		c.value, err = f()
		return err
	})
	returned = true
}
