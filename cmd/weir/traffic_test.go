package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/cmd/weir/internal/trace"
)

// The progress has the part of the files that was read, or only counts without a known length: of a pipe and of
// a generator.
func TestProgress(t *testing.T) {
	for want, s := range map[string]trace.Stats{
		"0 KB, 0 requests": {},
		"2 MB, 9 requests": {Read: 2e6, Events: 9},
		"[███████░░░░░░░░░░░░░░░░░░░░░░░]  25 %  500 KB of 2 MB, 1 000 requests, 9s left":   {Read: 5e5, Total: 2e6, Events: 1000},
		"[██████████████████████████████] 100 %  3.0 GB of 2.0 GB, 1 000 requests, 0s left": {Read: 3e9, Total: 2e9, Events: 1000}, // the file grows
	} {
		if got := progress(s, 3*time.Second); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	var generated traffic
	err := generated.read([]string{"steady:clients=1,rate=1000/s,for=2s"}, nil, io.Discard, func(*simulate.Event) error {
		if got := generated.progress(0); !strings.HasSuffix(got, " requests") {
			t.Fatalf("got %q", got)
		}
		return nil
	})
	if got := generated.progress(time.Second); err != nil || got != "2 000 requests" {
		t.Errorf("got %q, %v", got, err)
	}
}
