package trace_test

import (
	"testing"

	"github.com/weir-go/weir/cmd/weir/internal/trace"
)

func TestLog(t *testing.T) {
	const (
		noEnd    = "! the request has no end"
		noStatus = "! no status after the request"
	)
	runFormat(t, []formatCase{
		{"common", trace.Options{}, []string{
			`192.0.2.1 - - [02/Jan/2026:15:04:05 +0000] "GET / HTTP/1.1" 200 2326`, "0 192.0.2.1 1 _ GET /",
			`192.0.2.1 - ann [02/Jan/2026:10:04:06 -0500] "POST /login?a=b HTTP/2.0" 429 -`, "1000000 192.0.2.1 1 _ POST /login limited",
			`2001:db8:1:2:3::4 - ann smith [02/Jan/2026:15:04:06 +0000] "GET /" 304 0`, "1000000 2001:db8:1:2::/64 1 _ GET /",
			`host.example.com - - [02/Jan/2026:15:04:06 +0000] "-" 408 -`, "1000000 host.example.com 1 _ _",
			`192.0.2.1 - - [02/Jan/2026:15:04:06 +0000] "" 400 0`, "1000000 192.0.2.1 1 _ _",
			`192.0.2.1 - - [02/Jan/2026:15:04:06 +0000] "GET /a b HTTP/1.1" - 0`, "1000000 192.0.2.1 1 _ GET /a b",
			`192.0.2.1 - - [2026-01-02T15:04:07+00:00] "GET http://example.com HTTP/1.1" 200`, "2000000 192.0.2.1 1 _ GET /",
		}},
		{"combined", trace.Options{}, []string{
			`192.0.2.1 - - [02/Jan/2026:15:04:05 +0000] "GET /a HTTP/1.1" 200 5 "https://example.com/" "Mozilla/5.0 (X11) \"x\" [y] \"GET / HTTP/1.1\" 429"`, "0 192.0.2.1 1 _ GET /a",
			`192.0.2.1 - - [02/Jan/2026:15:04:05 +0000] "GET /\"\\\x22\x2Fb HTTP/1.1" 429 5 "-" "-"`, `0 192.0.2.1 1 _ GET /"\"/b limited`,
			`192.0.2.1 - - [02/Jan/2026:15:04:05 +0000] "GET /a\tb\nc\xzz HTTP/1.1" 200 5 "-" "-"`, `0 192.0.2.1 1 _ GET /a b cxzz`,
			`192.0.2.1 - - [02/Jan/2026:15:04:05 +0000] "\x16\x03\x01\x02" 400 5 "-" "-"`, "0 192.0.2.1 1 _ _",
			`192.0.2.1 - - [02/Jan/2026:15:04:05 +0000] "OPTIONS * HTTP/1.1" 200 5 "-" "-"`, "0 192.0.2.1 1 _ OPTIONS *",
		}},
		{"virtual host", trace.Options{}, []string{
			`example.com:443 192.0.2.1 - - [02/Jan/2026:15:04:05 +0000] "GET / HTTP/1.1" 200 5`, "0 192.0.2.1 1 _ GET /",
			`www ::1 - - [02/Jan/2026:15:04:05 +0000] "GET / HTTP/1.1" 200 5`, "0 ::/64 1 _ GET /",
		}},
		{"user", trace.Options{Fields: trace.Fields{Key: "remote_user"}}, []string{
			`192.0.2.1 - ann [02/Jan/2026:15:04:05 +0000] "GET / HTTP/1.1" 200 5`, "0 ann 1 _ GET /",
			`192.0.2.1 - ann smith [02/Jan/2026:15:04:05 +0000] "GET / HTTP/1.1" 200 5`, "0 ann smith 1 _ GET /",
			`www 192.0.2.1 - ann [02/Jan/2026:15:04:05 +0000] "GET / HTTP/1.1" 200 5`, "0 ann 1 _ GET /",
			`192.0.2.1 - - [02/Jan/2026:15:04:05 +0000] "GET / HTTP/1.1" 200 5`, `! no key: the field "remote_user" is absent or has no text`,
		}},
		{"broken", trace.Options{Format: trace.Log, Fields: trace.Fields{Key: "remote_addr"}}, []string{
			`a line`, "! not a line of a log",
			`a - - [02/Jan/2026:15:04:05 +0000] "GET / HTTP/1.1" 200 5`, "0 a 1 _ GET /",
			`a line`, notALog,
			` [] "" 200`, notALog,
			`a - [02/Jan/2026:15:04:05 +0000] "GET / HTTP/1.1" 200 5`, notALog,
			`a - - [02/Jan/2026:15:04:05 +0000 "GET / HTTP/1.1" 200 5`, notALog,
			`www 192.0.2.1 - [02/Jan/2026:15:04:05 +0000] "GET / HTTP/1.1" 200 5`, notALog,
			`a - - [02/Jan/2026:15:04:05 +0000] "GET / HTTP/1.1 200 5`, noEnd,
			`a - - [02/Jan/2026:15:04:05 +0000] "GET /\" 200 5`, noEnd,
			`a - - [02/Jan/2026:15:04:05 +0000] "GET /\`, noEnd,
			`a - - [02/Jan/2026:15:04:05 +0000] "GET / HTTP/1.1" 20`, noStatus,
			`a - - [02/Jan/2026:15:04:05 +0000] "GET / HTTP/1.1"`, noStatus,
			`a - - [32/Jan/2026:15:04:05 +0000] "GET / HTTP/1.1" 200`, "! the time has an unknown format",
			`- - - [02/Jan/2026:15:04:05 +0000] "GET / HTTP/1.1" 200`, `! no key: the field "remote_addr" is absent or has no text`,
		}},
	})
}
