package trace_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/cmd/weir/internal/trace"
	"github.com/weir-go/weir/internal/testkit"
)

// base is 2026-01-02T15:04:05Z in Unix time, in microseconds.
const base = 1767366245_000000

// text returns e in the form "MICROSECONDS KEY COST PLAN REQUEST", with the time since base, "_" for
// an empty plan or request, and "limited" at the end if it was.
func text(e *simulate.Event) string {
	orNone := func(s string) string {
		if s == "" {
			return "_"
		}
		return s
	}
	s := fmt.Sprintf("%d %s %d %s %s", e.At-base, e.Key, e.Cost, orNone(e.Plan), orNone(e.Request))
	if e.Limited {
		s += " limited"
	}
	return s
}

// read returns the texts of all events of the files.
func read(r *trace.Reader, files ...string) []string {
	var events []string
	for e := range r.Files(files) {
		events = append(events, text(e))
	}
	return events
}

// readText is read for one file with this content.
func readText(t *testing.T, o trace.Options, content string) ([]string, trace.Stats) {
	t.Helper()
	o.Stdin = strings.NewReader(content)
	r := trace.New(o)
	events := read(r, "-")
	testkit.Must(t, r.Err())
	return events, r.Stats()
}

// want compares lines.
func want(t *testing.T, got, want []string) {
	t.Helper()
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got:\n%s\nwant:\n%s", g, w)
	}
}

// A formatCase has lines of a format, each with its event, or with its reason after "! ".
type formatCase struct {
	name    string
	options trace.Options
	lines   []string // the line, and the event or the reason, "" for none
}

// runFormat runs the cases with each kind of line ending.
func runFormat(t *testing.T, cases []formatCase) {
	for _, c := range cases {
		for _, end := range []string{"\n", "\r\n"} {
			t.Run(fmt.Sprintf("%s/%q", c.name, end), func(t *testing.T) {
				var content strings.Builder
				var events, reasons []string
				for i := 0; i < len(c.lines); i += 2 {
					content.WriteString(c.lines[i] + end)
					if reason, ok := strings.CutPrefix(c.lines[i+1], "! "); ok {
						reasons = append(reasons, fmt.Sprintf("%d: %s", i/2+1, reason))
					} else if c.lines[i+1] != "" {
						events = append(events, c.lines[i+1])
					}
				}
				got, stats := readText(t, c.options, content.String())
				want(t, got, events)
				if stats.Events != len(events) || stats.Broken != len(reasons) || stats.Lines != len(events)+len(reasons) {
					t.Errorf("got %d lines, %d events, %d broken", stats.Lines, stats.Events, stats.Broken)
				}
				if stats.Read != int64(content.Len()) {
					t.Errorf("read %d bytes of %d", stats.Read, content.Len())
				}
				var samples []string
				for _, s := range stats.Samples {
					samples = append(samples, fmt.Sprintf("%d: %s", s.Line, s.Reason))
				}
				want(t, samples, reasons[:min(len(reasons), 5)])
			})
		}
	}
}

// compressed returns data compressed by gzip.
func compressed(data string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(data))
	_ = w.Close()
	return b.String()
}

// file writes a file into dir and returns its path.
func file(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	testkit.Must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}
