package file_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core/rules/internal/file"
)

// A file that changes all the time is not applied.
func TestFile_Unstable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		source := file.New("f", func() ([]byte, error) { reads++; return bytes.Repeat([]byte("#"), reads), nil })
		if text, err := source.Load(t.Context()); string(text) != "#" || err != nil {
			t.Errorf("got %q, %v", text, err)
		}
		begin := time.Now()
		if text, err := source.Load(t.Context()); err == nil || text != nil {
			t.Errorf("got %q, %v, want an error", text, err)
		}
		if got := time.Since(begin); got != time.Second {
			t.Errorf("got an error after %v, want 1s", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := source.Load(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want Canceled", err)
		}
	})
}
