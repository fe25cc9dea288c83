package main

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

// A full is a Writer that fails once, at the n-th call.
type full struct{ n int }

var errFull = errors.New("no space left on device")

func (f *full) Write(p []byte) (int, error) {
	if f.n--; f.n == 0 {
		return 0, errFull
	}
	return len(p), nil
}

// inputs writes two files and a trace, whose first key is denied and has characters that control a terminal.
func inputs(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	write(t, "a.yaml", "policies: {api: {rules: [{name: r, algorithm: fixed_window, limit: 2/m}]}}")
	write(t, "b.yaml", "policies: {api: {rules: [{name: r, algorithm: fixed_window, limit: 1/m}, {name: l, algorithm: leaky_bucket, limit: 9/m}]}}")
	write(t, "trace.json", strings.Repeat(`{"time":1767322860.5,"key":"a\nb\t\u001b[2J\u202e\"\\n"}`+"\n", 4)+`{"time":1767322861,"key":"é"}`+"\n")
	write(t, "one.json", `{"time":1767322860.5,"key":"k"}`+"\n")
}

// A report of which any part cannot be written is an error.
func TestRun_OutputFails(t *testing.T) {
	inputs(t)
	for _, args := range []string{"simulate a.yaml trace.json", "simulate -json a.yaml trace.json", "diff a.yaml b.yaml", "diff a.yaml b.yaml -trace trace.json",
		"suggest trace.json", "suggest -json trace.json", "explain a.yaml api k", "init", "playground -addr 127.0.0.1:0"} {
		for n := 1; ; n++ {
			var stderr strings.Builder
			out := &full{n}
			status := run(strings.Fields(args), out, &stderr)
			if out.n > 0 { // all is written
				if status != 0 || n == 1 {
					t.Errorf("%s: got status %d and %s without an error", args, status, &stderr)
				}
				break
			}
			if status != exitError || stderr.String() != "weir: no space left on device\n" {
				t.Errorf("%s: got status %d and %q after an error of write %d", args, status, &stderr, n)
				break
			}
			if strings.HasPrefix(args, "playground") {
				break // without an error, it serves the page
			}
		}
	}
}

// Keys cannot change the lines of a report.
func TestRun_ShownKeys(t *testing.T) {
	inputs(t)
	const want = `a\nb\t\x1b[2J\u202e"\\n`
	for _, args := range []string{"simulate -keys a.yaml trace.json", "diff -keys a.yaml b.yaml -trace trace.json"} {
		var stdout, stderr strings.Builder
		if status := run(strings.Fields(args), &stdout, &stderr); status != 0 || !strings.Contains(stdout.String(), "  "+want+"  ") {
			t.Errorf("%s: got status %d and\n%s%s\nwithout %s", args, status, &stdout, &stderr, want)
		}
		var report struct {
			Top []struct{ Key string } `json:"top_keys"`
		}
		stdout.Reset()
		if status := run(append(strings.Fields(args), "-json"), &stdout, &stderr); status != 0 || json.Unmarshal([]byte(stdout.String()), &report) != nil || len(report.Top) != 1 || report.Top[0].Key != want {
			t.Errorf("%s -json: got status %d and %+v", args, status, report)
		}
	}
	for key, want := range map[string]string{"": "", "user:ann": "user:ann", "é": "é", `a"b`: `a"b`, `\"`: `\\"`, "\xff\x00\r": `\xff\x00\r`, "\u2028": `\u2028`} {
		if got := escaped(key); got != want {
			t.Errorf("%q: got %s, want %s", key, got, want)
		}
	}
}

// Lists in JSON are arrays, also if they are empty.
func TestRun_EmptyArrays(t *testing.T) {
	inputs(t)
	for _, args := range []string{"simulate -json a.yaml one.json", "diff -json a.yaml a.yaml -trace one.json", "suggest -json -per 1m one.json"} {
		var stdout strings.Builder
		if status := run(strings.Fields(args), &stdout, io.Discard); status != 0 || strings.Contains(stdout.String(), "null") || !json.Valid([]byte(stdout.String())) {
			t.Errorf("%s: got status %d and %s", args, status, &stdout)
		}
	}
}
