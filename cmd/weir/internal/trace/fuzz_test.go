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
	lines, others := 0, 1 // the header of CSV
	for line := range bytes.Lines(bytes.TrimPrefix(content, []byte("\ufeff"))) {
		switch line = bytes.TrimSpace(line); {
		case len(line) > 0 && (line[0] == '#' || bytes.HasSuffix(line, []byte("[")) || bytes.HasSuffix(line, []byte("]"))): // may be a directive, or the start or end of an array
			others++
			fallthrough
		case len(line) > 0:
			lines++
		}
	}
	if strings.HasPrefix(string(content), "\x1f\x8b") {
		return // compressed
	}
	if r.Err() != nil || s.Events != events || s.Lines != s.Events+s.Broken || s.Lines > lines || s.Lines < lines-others || s.Read != int64(len(content)) {
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
		"\xef\xbb\xbfkey,ts,url,method\na,1,http://a?b,GET", "\ufeff\nts", "\x1f\x8b\x08")
}

func FuzzLogfmt(f *testing.F) {
	fuzz(f, trace.Logfmt,
		`time=2026-01-02T15:04:05.25Z level=INFO key=ann method=GET path="/a \"b\"" status=429`+"\n"+`ts=1767366245 remote_addr=192.0.2.1:80 = =a b= url=/`,
		"web-1 | time=1767366245 key=\"a\\u00e9\"\r\nkey=\"\n")
}

func FuzzW3C(f *testing.F) {
	fuzz(f, trace.W3C,
		"#Version: 1.0\n#Fields: date time c-ip cs-method cs-uri-stem sc-status\n2026-01-02 15:04:05 192.0.2.1 GET /a 429\n2026-01-02\t15:04:05\t::1\tGET\t/a\t200\n",
		"#Fields:\n\n#Fields: time\n1767366245\n", "2026-01-02 15:04:05\n#Fields: c-ip time date\r\n192.0.2.1 15:04:05 2026-01-02\r\n")
}

// The formats of lines, and that of a log_format.
func FuzzText(f *testing.F) {
	fuzz(f, `$http_x_forwarded_for, $remote_user [$time_local] "$request" $status "$http_user_agent" $key`,
		`[GIN] 2026/01/02 - 15:04:05 | 200 |      1.5ms |    192.0.2.1 | GET      "/a\"b"`+"\n"+"\x1b[36m[GIN] \x1b[0m2026/01/02 - 15:04:05 |\x1b[97;42m 200 \x1b[0m| 1s | ::1 | GET \"/\"",
		`2026/01/02 15:04:05 [web/1] "GET http://a/b HTTP/1.1" from 192.0.2.1:80 - 200 0B in 1s`+"\n"+`2026/01/02 15:04:05 "GET / HTTP/1.1" from [::1]:80 - 429`,
		`Jan  2 15:04:05 lb haproxy[1]: 192.0.2.1:80 [02/Jan/2026:15:04:05.655] in s/s 0/0/0/0/0 200 1 - - ---- 1/1/1/1/0 0/0 {a} {} "GET / HTTP/1.1"`,
		`http 2026-01-02T15:04:05.1Z app/lb/1 192.0.2.1:80 - -1 -1 -1 429 - 0 0 "GET http://a:80/ HTTP/1.1" "c"`,
		`[2026-01-02T15:04:05.310Z] "GET / HTTP/2" 200 - 0 5 1 1 "192.0.2.1, 10.0.0.1" "c"`,
		`{"log":"192.0.2.1 - - [02/Jan/2026:15:04:05 +0000] \"GET / HTTP/1.1\" 200 5\n","time":"2026-01-02T15:04:05Z"}`+"\n"+`{"log":"{\"log\":\"time=1767366245 key=a\"}"}`,
		"line\n\x1b[m\n",
		"time=1767366245 msg=x\nweb-1 | {\"log\":\"x {\\\"key\\\":1}\",\"ts\":1767366245}\n{\"log\":\"[GIN] x\"} {}",
		`192.0.2.1, ann [02/Jan/2026:15:04:05 +0000] "GET / HTTP/1.1" 200 "\x22\" a" ann`)
}
