package call

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	errCallee = errors.New("the callee")
	errOwn    = errors.New("an error of its own")
)

func TestDetached(t *testing.T) {
	for want, f := range map[string]func() (int, error){
		"1, <nil>":                          func() (int, error) { return 1, nil },
		"2, an error of its own":            func() (int, error) { return 2, errOwn },
		"0, the callee panicked: boom":      func() (int, error) { panic("boom") },
		"0, the callee ended the goroutine": func() (int, error) { runtime.Goexit(); return 3, nil },
	} {
		var hanging atomic.Int64
		value, err := Detached(t.Context(), errCallee, &hanging, f)
		if got := fmt.Sprintf("%d, %v", value, err); got != want || hanging.Load() != 0 {
			t.Errorf("got %s and %d hanging calls, want %s", got, hanging.Load(), want)
		}
		if value == 0 && !errors.Is(err, errCallee) {
			t.Errorf("%v does not wrap %v", err, errCallee)
		}
	}
}

// A function that ignores the context is left behind, and counted until it returns.
func TestDetached_Hanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hanging atomic.Int64
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, counter := range []*atomic.Int64{&hanging, nil} {
			value, err := Detached(ctx, errCallee, counter, func() (int, error) {
				time.Sleep(3 * time.Second)
				return 1, nil
			})
			if value != 0 || err != context.DeadlineExceeded || hanging.Load() != 1 {
				t.Errorf("got %d, %v and %d hanging calls, want the error of the context and 1", value, err, hanging.Load())
			}
		}
		time.Sleep(4 * time.Second)
		if hanging.Load() != 0 {
			t.Errorf("got %d hanging calls after all have returned", hanging.Load())
		}
	})
}

// The counter ends at zero also if the function returns when the context ends.
func TestDetached_Concurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hanging atomic.Int64
		for range 1000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := Detached(ctx, errCallee, &hanging, func() (int, error) { <-ctx.Done(); return 0, ctx.Err() })
			if cancel(); err != context.DeadlineExceeded {
				t.Errorf("got %v, want the error of the context", err)
			}
		}
		synctest.Wait()
		if hanging.Load() != 0 {
			t.Errorf("got %d hanging calls after all have returned", hanging.Load())
		}
	})
}
