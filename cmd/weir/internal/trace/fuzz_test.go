package trace_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/cmd/weir/internal/trace"
)

// fuzz checks the properties of all events of a file.
func fuzz(f *testing.F, format trace.Format, seeds ...string) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, format := range []trace.Format{format, trace.Auto} {
			check(t, trace.Options{Format: format}, content)
		}
	})
}

func check(t *testing.T, o trace.Options, content []byte) {
	o.Stdin = bytes.NewReader(content)
	r := trace.New(o)
	var last simulate.Event
	events := 0
	for e := range r.Files([]string{"-"}) {
		if e.At < last.At || e.At >= 1<<53 || e.Key == "" || e.Key == "-" || e.Cost < 1 {
			t.Fatalf("got %+v after %+v", e, last)
		}
		last = *e
		events++
	}
	s := r.Stats()
	lines := 0
	for line := range bytes.Lines(content) {
		if len(bytes.TrimSpace(line)) > 0 {
			lines++
		}
	}
	if strings.HasPrefix(string(content), "\x1f\x8b") {
		return // compressed
	}
	// The header of CSV is the only line that does not count.
	if r.Err() != nil || s.Events != events || s.Lines != s.Events+s.Broken || s.Lines > lines || s.Lines < lines-1 || s.Read != int64(len(content)) {
		t.Fatalf("got %+v, %v, with %d events in %d lines", s, r.Err(), events, lines)
	}
	for _, line := range s.Samples {
		if len(line.Text) > 80 || strings.ContainsFunc(line.Text, func(r rune) bool { return !unicode.IsPrint(r) }) || line.Reason == "" {
			t.Fatalf("got %+v", line)
		}
	}
}

func FuzzJSON(f *testing.F) {
	fuzz(f, trace.JSON,
		`{"time":1767366245.5,"key":"a","cost":2,"plan":"p","request":"GET /a?b HTTP/1.1","status":429}`+"\n"+`{"time":1}`,
		`{"ts":"2026-01-02T15:04:05Z","request":{"remote_ip":"192.0.2.1","method":"GET","uri":"/"}}`+"\r\n\r\nx\n",
		`{"time":1767366245,"key":"a\u0000\ud800","url":"http://"}`)
}

func FuzzLog(f *testing.F) {
	fuzz(f, trace.Log,
		`192.0.2.1 - ann [02/Jan/2026:15:04:05 +0000] "GET /a?b HTTP/1.1" 429 5 "-" "x"`+"\n"+`192.0.2.1 - - [02/Jan/2026:15:02:05 +0000] "\x16\"`,
		`www ::1 - a b [02/Jan/2026:15:04:05 -0730] "GET http://a/b\"\\\x41 HTTP/1.1" - 5`+"\r\n - - [] \"\" 200\n",
		"\x00T stdout F 192.0.2.1 - - [02/Jan/2026:15:04:05 +0000] \"GET / HTTP/1.1\" 200 5\n192.0.2.1, ::1 - - [02/Jan/2026:15:04:05 +0000] \"GET / HTTP/1.1\" 200 5")
}

func FuzzCSV(f *testing.F) {
	fuzz(f, trace.CSV,
		"time,key,cost,plan,route\n1767366245.5,a,2,p,GET /a\n1767366200,b,,,\n1767366100,c,0\n",
		"1767366245,\"a,\"\"b\",1,p,\"GET /a\"\r\n1767366245,\"a\n,,,,\n",
		"\xef\xbb\xbfkey,ts,url,method\na,1,http://a?b,GET", "\x1f\x8b\x08")
}
