package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
)

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
