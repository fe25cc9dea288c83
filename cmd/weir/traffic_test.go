package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/cmd/weir/internal/trace"
)

// The progress of files has the part that was read, or only counts without a known length, as of a pipe.
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
}

// The progress of a generator is the number of its events.
func TestTraffic_Progress(t *testing.T) {
	var generated traffic
	err := generated.read([]string{"steady:clients=1,rate=1000/s,for=2s"}, nil, io.Discard, func(*simulate.Event) error {
		if got := generated.progress(0); !strings.Contains(got, " request") {
			t.Fatalf("got %q", got)
		}
		return nil
	})
	if got := generated.progress(time.Second); err != nil || got != "2 000 requests" {
		t.Errorf("got %q, %v", got, err)
	}
}
