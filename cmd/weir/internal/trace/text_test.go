package trace_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/weir-go/weir/cmd/weir/internal/trace"
)

// Files of all formats are in the testdata of the command. These are the lines that are rare in them.
func TestText(t *testing.T) {
	const (
		unknown = "! neither a JSON object, nor a line of a log, nor CSV with a column for the time"
		own     = trace.Format(`$http_x_forwarded_for - $remote_user [$time_iso8601] "$request" $status "$http_user_agent" ${http_x_plan} $tokens`)
		gin     = `[GIN] 2026/01/02 - 15:04:05 | 429 |      1.5ms |       192.0.2.1 | GET      "/a?b"`
		chi     = `2026/01/02 15:04:05.25 "GET http://a/b HTTP/1.1" from [2001:db8::1]:4711 - 200 0B in 1s`
		envoy   = `[2026-01-02T15:04:05.310Z] "GET /a HTTP/2" 200 - 0 5 1 1 "%s" "c" "id" "a" "10.0.0.1:80"`
	)
	runFormat(t, []formatCase{
		{"Gin", trace.Options{}, []string{
			gin, "0 192.0.2.1 1 _ GET /a limited",
			"web-1  | " + gin, "0 192.0.2.1 1 _ GET /a limited",
			"2026-01-02T15:04:05.1Z stdout F " + gin, "0 192.0.2.1 1 _ GET /a limited",
			"\x1b[36mweb-1  | \x1b[0m" + gin, "0 192.0.2.1 1 _ GET /a limited",
			"[GIN-debug] Listening and serving HTTP on :8080", "! not a line of the log of Gin",
			`[GIN] 2026/01/02 - 15:04:05 | 200 |      1.5ms |                 | GET      "/"`, "! not a line of the log of Gin",
			`[GIN] 2026/13/02 - 15:04:05 | 200 | 1ms | 192.0.2.1 | GET "/"`, "! the time has an unknown format",
			`[GIN] 2026/01/02 - 15:04:06 | 200 | 1ms | 192.0.2.1 | POST "/a\"b\\"`, `1000000 192.0.2.1 1 _ POST /a"b\`,
			"Error #01: x", "! not a line of the log of Gin",
		}},
		{"chi", trace.Options{}, []string{
			chi, "250000 2001:db8::/64 1 _ GET /b",
			"web-1  | " + chi, "250000 2001:db8::/64 1 _ GET /b",
			"<14>Jan  2 15:04:05 web1 app[7]: " + chi, "250000 2001:db8::/64 1 _ GET /b",
			`2026/01/02 15:04:05 listening on "GET http://a/b HTTP/1.1"`, "! not a line of the log of chi",
		}},
		{"Envoy", trace.Options{}, []string{
			fmt.Sprintf(envoy, "192.0.2.1, 10.0.0.1"), "310000 192.0.2.1 1 _ GET /a",
			"2026-01-02T15:04:05.1Z stdout F " + fmt.Sprintf(envoy, "192.0.2.1"), "310000 192.0.2.1 1 _ GET /a",
			fmt.Sprintf(envoy, "-"), "! no key",
			fmt.Sprintf(envoy, "unknown"), "310000 unknown 1 _ GET /a",
			fmt.Sprintf(envoy, "ann, 192.0.2.1"), "! no http_x_forwarded_for in the line",
		}},
		{"Envoy behind words", trace.Options{}, []string{
			"2026-01-02T15:04:05.1Z stdout F " + fmt.Sprintf(envoy, "-"), "! no key",
			"2026-01-02T15:04:05.1Z stdout F " + fmt.Sprintf(envoy, "192.0.2.1"), "310000 192.0.2.1 1 _ GET /a",
		}},
		{"log_format", trace.Options{Format: own, Fields: trace.Fields{Plan: "http_x_plan", Cost: "tokens"}}, []string{
			`192.0.2.1, 10.0.0.1 - - [2026-01-02T15:04:05+00:00] "GET /\x22 HTTP/1.1" 200 "a \x22b\x22" pro 7`, `0 192.0.2.1 7 pro GET /"`,
			`192.0.2.1 - a - b [2026-01-02T15:04:05+00:00] "GET / HTTP/1.1" 429 "-" - -`, "0 192.0.2.1 1 _ GET / limited",
			`web-1 192.0.2.1 - - [2026-01-02T15:04:05+00:00] "GET / HTTP/1.1" 200 "-" pro 1`, "0 192.0.2.1 1 pro GET /",
			`host - - [2026-01-02T15:04:05+00:00] "GET / HTTP/1.1" 200 "-" pro 1`, "0 host 1 pro GET /",
			`192.0.2.1 - - [2026-01-02T15:04:05+00:00] "GET / HTTP/1.1" 200 "-`, "! no http_user_agent in the line",
			`192.0.2.1 - - [2026-01-02T15:04:05+00:00] "GET / HTTP/1.1" 20`, "! no status after the request",
			`192.0.2.1 - - [2026-01-02T15:04:05+00:00] "GET /`, "! the request has no end",
			`192.0.2.1 - -`, "! not a line of the format",
		}},
		{"log_format with another address", trace.Options{Format: `$remote_addr "$http_x_forwarded_for" [$time_local] "$request" $status`}, []string{
			`192.0.2.1 "-" [02/Jan/2026:15:04:05 +0000] "GET /a HTTP/1.1" 200`, "0 192.0.2.1 1 _ GET /a",
			`web-1  | 192.0.2.2 "198.51.100.7" [02/Jan/2026:15:04:05 +0000] "GET /a HTTP/1.1" 200`, "0 192.0.2.2 1 _ GET /a",
			`192.0.2.3 "unknown, ann" [02/Jan/2026:15:04:05 +0000] "GET /a HTTP/1.1" 200`, "0 192.0.2.3 1 _ GET /a",
			`web-1  | - "192.0.2.1" [02/Jan/2026:15:04:05 +0000] "GET /a HTTP/1.1" 200`, "! not a line of the format",
		}},
		{"chosen fields", trace.Options{Format: `$msec $time_iso8601 $a $b "$c"`, Fields: trace.Fields{Time: "time_iso8601", Key: "c", Path: "b", Method: "a"}}, []string{
			`1 2026-01-02T15:04:05+00:00 PUT /a "k l"`, "0 k l 1 _ PUT /a",
		}},
		{"logfmt", trace.Options{}, []string{
			`time=2026-01-02T15:04:05Z level=INFO msg="a \"b\" = c" key="ann smith" method=GET path="/a b" status=429`, "0 ann smith 1 _ GET /a b limited",
			`web-1  | ts=1767366245 remote_addr=192.0.2.1:80 request="GET /a?b HTTP/1.1" duration=1ms`, "0 192.0.2.1 1 _ GET /a",
			`time=12ms ts=1767366245 key=a x= =y z`, "0 a 1 _ _",
			`date=2026-01-02 time=15:04:05 key=a`, "0 a 1 _ _",
			"time=2026-01-02T15:04:05Z\tkey=a\tpath=\"/x y\"\tplan=", "0 a 1 _ /x y",
			"2026-01-02T15:04:05.1Z stdout F time=2026-01-02T15:04:05Z key=a", "0 a 1 _ _",
			`time=2026-01-02T15:04:05Z key="a" other="\q" path="/\\"x`, `0 a 1 _ /\`,
			`time=2026-01-02T15:04:05Z key="\q"`, "! a quoted value is invalid",
			`time=2026-01-02T15:04:05Z key=a other="\"`, "! a quotation mark is missing",
			`time=2026-01-02T15:04:05Z msg=started`, "! no key",
			`time=2026-01-02T15:04:05Z key="a`, "! a quotation mark is missing",
		}},
		{"W3C", trace.Options{}, []string{
			"#Software: x", "", "#Fields: c-ip date time cs-method cs-uri-stem sc-status", "",
			"192.0.2.1 2026-01-02 15:04:05 GET /a 429", "0 192.0.2.1 1 _ GET /a limited",
			"192.0.2.1\t2026-01-02\t15:04:05\tGET\t/a b\t200", "0 192.0.2.1 1 _ GET /a b",
			"192.0.2.1 2026-01-02 15:04:05 GET /a", "! not as many fields as the line #Fields",
			"#Fields: time c-ip", "", "1767366246 192.0.2.2", "1000000 192.0.2.2 1 _ _",
		}},
		{"W3C, forced", trace.Options{Format: trace.W3C}, []string{
			"1767366245 192.0.2.1", "! no line #Fields before the line",
			"#Fields: time c-ip", "", "1767366245 192.0.2.1", "0 192.0.2.1 1 _ _",
		}},
		{"array", trace.Options{}, []string{
			"[", "", `  {"time":1767366245,"key":"a"},`, "0 a 1 _ _", `  {"time":1767366245,"key":"b"}`, "0 b 1 _ _", "]", "",
		}},
		{"lines in JSON", trace.Options{}, []string{
			`{"log":"` + strings.ReplaceAll(gin, `"`, `\"`) + `\n","time":"2026-01-02T15:04:09Z"}`, "0 192.0.2.1 1 _ GET /a limited",
			`{"log":"started\n","time":"2026-01-02T15:04:05Z"}`, "! not a line of the log of Gin",
			`{"time":1767366245,"key":"a","log":"started"}`, "0 a 1 _ _",
		}},
		{"lines of another program first", trace.Options{}, []string{
			"starting up", unknown,
			`time=2026-01-02T15:04:00Z level=INFO msg="listening" addr=:8080`, "! no key",
			`{"level":"info","msg":"started"}`, "! no time",
			`2026/01/02 15:04:05 [notice] time=2026-01-02T15:04:05Z x`, "! no key",
			"{ x", "! not a JSON object",
			"1767366245,", "! no key",
			"still starting", "! no key",
			gin, "0 192.0.2.1 1 _ GET /a limited",
			`time=2026-01-02T15:04:05Z key=a`, "! not a line of the log of Gin",
		}},
		{"lines of another program first, log", trace.Options{Format: trace.Log}, []string{
			"[GIN-debug] Listening and serving HTTP on :8080", "! not a line of a log",
			`{"time":1767366245,"key":"a"}`, "! not a line of a log",
			chi, "250000 2001:db8::/64 1 _ GET /b",
		}},
		{"lines of another program first, in JSON", trace.Options{}, []string{
			`{"log":"time=2026-01-02T15:04:00Z level=INFO msg=listening addr=:8080\n","time":"2026-01-02T15:04:00Z"}`, "! no key",
			`{"log":"{\"msg\":\"started\"}\n","time":"2026-01-02T15:04:00Z"}`, "! no key",
			`{"log":"` + strings.ReplaceAll(gin, `"`, `\"`) + `\n","time":"2026-01-02T15:04:09Z"}`, "0 192.0.2.1 1 _ GET /a limited",
			`{"log":"time=2026-01-02T15:04:00Z key=a","time":"2026-01-02T15:04:00Z"}`, "! not a line of the log of Gin",
		}},
		{"a line of another program without the field of the key", trace.Options{Fields: trace.Fields{Key: "user.id"}}, []string{
			`{"time":1767366245,"msg":"started"}`, `! no key: the field "user.id" is absent or has no text`,
			gin, "! not a JSON object",
			`{"time":1767366245,"user":{"id":"a"}}`, "0 a 1 _ _",
		}},
		{"names of fields before a line of another program", trace.Options{}, []string{
			"time,key", "", gin, "! a quotation mark is missing or in the middle of a field", "1767366245,a", "0 a 1 _ _",
		}},
		{"directives before a line of another program", trace.Options{}, []string{
			"#Fields: time c-ip", "", gin, "! not as many fields as the line #Fields", "1767366245 a", "0 a 1 _ _",
		}},
		{"JSON behind words", trace.Options{}, []string{
			`web-1  | {"time":1767366245,"key":"a"`, unknown,
			`time=2026-01-02T15:04:00Z data={"key":"a"}`, "! no key",
			`web-1  | {"time":1767366245,"key":"a","path":"/{x}"}`, "0 a 1 _ /{x}",
			`2026-01-02T15:04:05.1Z stdout F {"time":1767366245,"key":"a"} `, "0 a 1 _ _",
			"2026-01-02T15:04:05.1Z\tINFO\trequest\t" + `{"time":1767366245,"key":"a"}`, "0 a 1 _ _",
			`web-1  | {"log":"app[7]: {\"key\":\"b\"}","time":1767366245}`, "0 b 1 _ _",
			`web-1  | started {x}`, "! not a JSON object",
			strings.Repeat("x", 256) + ` {"time":1767366245,"key":"a"}`, "! not a JSON object",
		}},
		{"JSON behind words, forced", trace.Options{Format: trace.JSON}, []string{
			`web-1  | {"time":1767366245,"key":"a"}`, "0 a 1 _ _",
		}},
		{"a time in JSON around a line", trace.Options{}, []string{
			`{"MESSAGE":"{\"client_ip\":\"192.0.2.1\"}","ts":1767366245}`, "0 192.0.2.1 1 _ _",
			`{"message":"{\"message\":\"{\\\"key\\\":\\\"a\\\"}\"}","ts":1767366245}`, "! no key",
		}},
		{"a duration beside a time", trace.Options{}, []string{
			`{"time":0.012,"timestamp":"2026-01-02T15:04:05Z","key":"a"}`, "0 a 1 _ _",
			`{"time":"12ms","ts":12,"@timestamp":1767366245,"key":"a"}`, "0 a 1 _ _",
			`{"time":"12ms","key":"a"}`, "! the time has an unknown format",
		}},
		{"a duration in CSV", trace.Options{}, []string{"time,ts,key", "", "0.012,1767366245,a", "0 a 1 _ _"}},
	})
}

func TestParseFormat_LogFormat(t *testing.T) {
	for format, want := range map[string]string{
		"$remote_addr [${msec}] $status":  "",
		"$remote_addr$msec":               `"$remote_addr$msec" has no text after $remote_addr`,
		"$ [$msec]":                       `"$ [$msec]" has a $ without the name of a field`,
		"$remote_addr [${a b}] $msec":     `"$remote_addr [${a b}] $msec" has a $ without the name of a field`,
		"$remote_addr [$msec] 100$ $time": `"$remote_addr [$msec] 100$ $time" has a $ without the name of a field`,
	} {
		if _, err := trace.ParseFormat(format); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: got the error %v, want %s", format, err, want)
		}
	}
	name := file(t, t.TempDir(), "log", "192.0.2.1 [1767366245]\n")
	for format, want := range map[trace.Format]string{
		"$a [$msec]":           `"$a [$msec]" has no key, such as $remote_addr: name another field with -key`,
		"$remote_addr [$then]": `"$remote_addr [$then]" has no time, such as $time_local, $time_iso8601 or $msec: name another field with -time`,
	} {
		r := trace.New(trace.Options{Format: format})
		if read(r, name); r.Err() == nil || r.Err().Error() != name+": "+want {
			t.Errorf("%s: got the error %v", format, r.Err())
		}
	}
}

// The advice about a file that cannot be read is a command whose output can be read, or has flags that are enough.
func TestReader_Conversion(t *testing.T) {
	_, err := exec.LookPath("jq")
	hasJQ := err == nil
	describe := `describe its lines with -format in the syntax of nginx, such as '$remote_addr - $remote_user [$time_local] "$request" $status'`
	for name, c := range map[string]struct {
		file, content, want string // FILE in want is the path
		fields              trace.Fields
	}{
		"array in a line":     {"a.json", `[{"time":1767366245,"key":"a"},{"time":1767366246,"key":"b"}]`, "convert the array of JSON: jq -c '.[]' FILE", trace.Fields{}},
		"compressed":          {"a.json.gz", compressed(`[{"time":1767366245,"key":"a"},{"time":1767366246,"key":"b"}]`), "convert the array of JSON: gzip -dc FILE | jq -c '.[]'", trace.Fields{}},
		"objects over lines":  {"a.json", "{\n \"time\":1767366245,\n\"key\":\"a\"}\n{\n \"time\":1767366246,\n\"key\":\"b\"}", "convert the JSON to one object in a line: jq -c . FILE", trace.Fields{}},
		"array over lines":    {"a.json", "[\n{\n\"time\":1767366245,\n\"key\":\"a\"},\n{\n\"time\":1767366246,\n\"key\":\"b\"}\n]", "convert the array of JSON: jq -c '.[]' FILE", trace.Fields{}},
		"array in an object":  {"it's.json", `{"n":2,"Records":[{"time":1767366245,"key":"a"},{"time":1767366246,"key":"b"}]}`, `convert the array of JSON: jq -c '."Records"[]' FILE`, trace.Fields{}},
		"other names":         {"a.json", `{"when":1767366245,"who":{"addr":"192.0.2.1"}}` + "\n" + `{"when":1767366246,"who":{"addr":"192.0.2.2"}}`, "name its fields: -time when -key who.addr", trace.Fields{Time: "when", Key: "who.addr"}},
		"other name of a key": {"a.json", `{"time":1767366245,"a b":"192.0.2.1, 10.0.0.1"}` + "\n" + `{"time":1767366246,"a b":"192.0.2.2"}`, "name its fields: -key 'a b'", trace.Fields{Key: "a b"}},
		"no address":          {"a.json", `{"time":1767366245,"user":{"id":7}}`, "name its fields with -time and -key; it has time, user.id", trace.Fields{}},
		"array beside fields": {"a.json", `{"at":1767366245,"groups":[{"id":1}],"client":{"ip":"192.0.2.1"},"headers":[{"value":"192.0.2.1"}]}` + "\n" + `{"at":1767366246,"client":{"ip":"192.0.2.2"}}`, "name its fields: -time at", trace.Fields{Time: "at"}},
		"AWS WAF":             {"a.json", `{"timestamp":1767366245250,"ruleGroupList":[{"ruleGroupId":"a"}],"httpRequest":{"clientIp":"192.0.2.9","headers":[{"name":"Host","value":"x"}]}}` + "\n" + `{"timestamp":1767366246250,"httpRequest":{"clientIp":"192.0.2.9"}}`, "name its fields: -key httpRequest.clientIp", trace.Fields{Key: "httpRequest.clientIp"}},
		"behind words":        {"a.json", `web-1  | {"when":1767366245,"who":"192.0.2.1"}` + "\n" + `web-1  | {"when":1767366246,"who":"192.0.2.2"}`, "name its fields: -time when -key who", trace.Fields{Time: "when", Key: "who"}},
		"array behind words":  {"a.json", `web-1  | {"n":1,"Records":[{"time":1767366245,"key":"a"}]}`, "name its fields with -time and -key; it has n", trace.Fields{}},
		"nested objects":      {"a.json", strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000), "name its fields with -time and -key; it has none", trace.Fields{}},
		"many names":          {"a.json", `{"n1":1,"n10":1,"n11":1,"n12":1,"n13":1,"n14":1,"n15":1,"n16":1,"n17":1,"n18":1,"n19":1,"n2":1,"n20":1,"n21":1,"n22":1,"n3":1,"n4":1,"n5":1,"n6":1,"n7":1,"n8":1,"n9":1}`, "name its fields with -time and -key; it has n1, n10, n11, n12, n13, n14, n15, n16, n17, n18, n19, n2, n20, n21, n22, n3, n4, n5, n6, n7 and 2 others", trace.Fields{}},
		"another program":     {"a.log", "starting up\ntime=2026-01-02T15:04:05Z msg=listening\n" + `{"time":1767366245,"who":"192.0.2.1"}` + "\n" + `{"time":1767366246,"who":"192.0.2.2"}`, "name its fields: -key who", trace.Fields{Key: "who"}},
		"Kong":                {"a.json", `{"route":{"created_at":1726782477},"client_ip":"192.0.2.1","started_at":1799744400}` + "\n" + `{"route":{"created_at":1726782477},"client_ip":"192.0.2.2","started_at":1799744460}`, "name its fields: -time started_at", trace.Fields{Time: "started_at"}},
		"Istio":               {"a.json", `{"start_time":"2026-01-02T15:04:05Z","downstream_local_address":"10.0.0.1:80","downstream_remote_address":"192.0.2.1:4711","upstream_host":"10.0.0.2:80","x_forwarded_for":"192.0.2.1"}` + "\n" + `{"start_time":"2026-01-02T15:04:06Z","downstream_local_address":"10.0.0.1:80","downstream_remote_address":"192.0.2.2:4711","upstream_host":"10.0.0.2:80","x_forwarded_for":"192.0.2.2"}`, "name its fields: -key downstream_remote_address; other addresses: x_forwarded_for", trace.Fields{Key: "downstream_remote_address"}},
		"a token":             {"a.json", `{"auth":{"iat":1767366000,"exp":1767369600},"started":1767366245,"ip":"192.0.2.1"}` + "\n" + `{"auth":{"iat":1767366001,"exp":1767369601},"started":1767366246,"ip":"192.0.2.2"}`, "name its fields: -time started -key ip; other times: auth.exp, auth.iat", trace.Fields{Time: "started", Key: "ip"}},
		"a backend":           {"a.json", `{"time":1767366245,"backend":"10.0.0.5:8080","caller":"192.0.2.1"}` + "\n" + `{"time":1767366246,"backend":"10.0.0.5:8080","caller":"192.0.2.2"}`, "name its fields: -key caller", trace.Fields{Key: "caller"}},
		"a backend only":      {"a.json", `{"time":1767366245,"backend":"10.0.0.5:8080"}`, "name its fields with -time and -key; it has backend, time", trace.Fields{}},
		"times of a second":   {"a.json", `{"at":1767366245,"who":"192.0.2.1"}` + "\n" + `{"at":1767366245,"who":"192.0.2.2"}`, "name its fields: -time at -key who", trace.Fields{Time: "at", Key: "who"}},
		"another time":        {"a.log", `192.0.2.1 - - [02/Jan/2026 15:04:05] "GET / HTTP/1.1" 200 -`, "times are read as Unix time, as in RFC 3339, and in the forms 2006/01/02 15:04:05 and 02/Jan/2006:15:04:05 -0700: convert them, or name another field with -time", trace.Fields{}},
		"no key":              {"a.log", "time=2026-01-02T15:04:05Z user=ann\ntime=2026-01-02T15:04:05Z user=ann", "name the field of its key with -key", trace.Fields{Key: "user"}},
		"text":                {"a.log", "192.0.2.1 GET /", describe, trace.Fields{}},
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t, t.TempDir(), c.file, c.content)
			quoted := path
			if strings.Contains(path, "'") {
				quoted = "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
			}
			r := trace.New(trace.Options{})
			events, got := read(r, path), r.Stats().Conversion
			if want := strings.ReplaceAll(c.want, "FILE", quoted); len(events) > 0 || got != want {
				t.Fatalf("got %q and %s, want %s", events, got, want)
			}
			_, command, isCommand := strings.Cut(got, ": ")
			switch {
			case c.fields != trace.Fields{}:
				events = read(trace.New(trace.Options{Fields: c.fields}), path)
			case isCommand && hasJQ && strings.Contains(command, "jq"):
				out, err := exec.Command("sh", "-c", command).Output()
				if err != nil {
					t.Fatal(err)
				}
				events, _ = readText(t, trace.Options{}, string(out))
			default:
				return
			}
			if len(events) != 2 {
				t.Errorf("got %q, want two events", events)
			}
		})
	}
}

func TestParseFormat(t *testing.T) {
	for name, format := range map[string]trace.Format{"auto": trace.Auto, "csv": trace.CSV, "json": trace.JSON, "log": trace.Log} {
		if got, err := trace.ParseFormat(name); got != format || err != nil {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "CSV", "xml"} {
		if got, err := trace.ParseFormat(name); got != trace.Auto || err == nil {
			t.Errorf("%q: got %v, %v", name, got, err)
		}
	}
}
