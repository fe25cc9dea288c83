//go:build unix

package trace_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/weir-go/weir/cmd/weir/internal/trace"
)

// A pipe has no known length.
func TestReader_Pipe(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { _ = os.WriteFile(dir+"/pipe", []byte("1767366245,ann\n"), 0) }()
	r := trace.New(trace.Options{})
	want(t, read(r, dir+"/pipe", file(t, dir, "x", "1767366246,bob\n")), []string{"0 ann 1 _ _", "1000000 bob 1 _ _"})
	if s := r.Stats(); s.Total != 0 || s.Read != 30 {
		t.Errorf("got %+v", s)
	}
}
