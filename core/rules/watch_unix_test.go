//go:build unix

package rules_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

// A named pipe is an error, and a file in its place is read.
func TestFile_NamedPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	testkit.Must(t, syscall.Mkfifo(path, 0o600))
	source := rules.File(path)
	if text, err := source.Load(t.Context()); err == nil || err.Error() != "read "+path+": is not a regular file" {
		t.Errorf("got %q, %v", text, err)
	}
	config, err := rules.Parse("f", []byte(limited("1/s")))
	testkit.Must(t, err)
	synctest.Test(t, func(t *testing.T) {
		var errs []string
		s, err := rules.New(memstore.New(), config, rules.OnError(func(err error) { errs = append(errs, err.Error()) }))
		testkit.Must(t, err)
		time.AfterFunc(2500*time.Millisecond, func() {
			testkit.Must(t, os.WriteFile(path+".new", []byte(limited("2/s")), 0o600))
			testkit.Must(t, os.Rename(path+".new", path))
		})
		time.AfterFunc(3500*time.Millisecond, func() {
			want(t, "a file", limiter(t, s, "api"), "k", `fixed_window "api.r" 2/s`)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		_ = s.Watch(ctx, source)
		if len(errs) != 1 || !strings.Contains(errs[0], "is not a regular file") {
			t.Errorf("got the errors %q, want one", errs)
		}
	})
}
