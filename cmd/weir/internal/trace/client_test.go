package trace_test

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/cmd/weir/internal/trace"
)

const (
	notALog  = "! not a line of the common or combined log format"
	notAlone = "! the key contains an address and other text"
)

// The key of a line of a log is an address or a name of a host, or the line is broken. Each case is the text before
// the time of a request.
func TestLog_Client(t *testing.T) {
	for _, c := range []struct{ name, text, key string }{
		// Read without a prefix.
		{"address", "192.0.2.10 - -", "192.0.2.10"},
		{"address and user", "192.0.2.10 - ann", "192.0.2.10"},
		{"address and user with spaces", "192.0.2.10 - ann b smith", "192.0.2.10"},
		{"address and user with a dash", "192.0.2.10 - ann - smith", "192.0.2.10"},
		{"address and user with a comma", "192.0.2.10 - Smith, Ann", "192.0.2.10"},
		{"address and user like a line", "192.0.2.10 - x 203.0.113.7 - y", "192.0.2.10"},
		{"address and user with a dash at the end", "192.0.2.10 - ann -", "192.0.2.10"},
		{"address and empty user", "192.0.2.10 - ", "192.0.2.10"},
		{"address, then X-Forwarded-For", "192.0.2.10 - 203.0.113.7, 10.0.0.1 - ann", "192.0.2.10"},
		{"address, ident and user", "192.0.2.10 ident ann", "192.0.2.10"},
		{"address, ident and no user", "192.0.2.10 ident -", "192.0.2.10"},
		{"address, ident and user with a space", "192.0.2.10 ident ann smith", "192.0.2.10"},
		{"address, virtual host and user", "192.0.2.10 www.example.com - ann", "192.0.2.10"},
		{"address with a port", "192.0.2.10:4711 - -", "192.0.2.10"},
		{"IPv6", "2001:db8:1:2::9 - -", "2001:db8:1:2::/64"},
		{"IPv6 with a zone", "fe80::1%eth0 - -", "fe80::/64"},
		{"IPv6 with a port", "[2001:db8:1:2::9]:4711 - -", "2001:db8:1:2::/64"},
		{"IPv4 in IPv6", "::ffff:192.0.2.10 - -", "192.0.2.10"},
		{"name", "client-7.dsl_2.example.com - -", "client-7.dsl_2.example.com"},
		{"name with a dot at the end", "client.example.com. - -", "client.example.com."},
		{"name and user with spaces", "client.example.com - ann b smith", "client.example.com"},
		{"name, no user and another field", "client.example.com - - -", "client.example.com"},
		{"name like an address", "192-0-2-10.example.net - -", "192-0-2-10.example.net"},
		{"anonymous address", "192.0.2.xxx - -", "192.0.2.xxx"},
		{"hash", "9f86d081884c7d65 - -", "9f86d081884c7d65"},
		{"number", "34600 - -", "34600"},
		{"Unix socket", "unix: - -", "unix:"},
		{"virtual host", "www.example.com 192.0.2.10 - ann smith", "192.0.2.10"},
		{"virtual host with a port", "www.example.com:443 192.0.2.10 - -", "192.0.2.10"},
		{"virtual host without a name", "- 192.0.2.10 - -", "192.0.2.10"},
		{"virtual host with an address", "203.0.113.1 192.0.2.10 - -", "192.0.2.10"},
		{"virtual host with an address and a port", "203.0.113.1:80 192.0.2.10 - -", "192.0.2.10"},
		{"virtual host before IPv6", "[2001:db8::1]:80 2001:db8:1:2::9 - -", "2001:db8:1:2::/64"},
		{"virtual host before a port", "www.example.com 192.0.2.10:4711 - -", "192.0.2.10"},
		{"virtual host and ident", "www.example.com 192.0.2.10 ident ann", "192.0.2.10"},

		// Read with a prefix.
		{"CRI", "2027-01-12T09:00:01.123456789Z stdout F 192.0.2.10 - -", "192.0.2.10"},
		{"CRI, part", "2027-01-12T09:00:01.123456789+01:00 stderr P 192.0.2.10 - ann smith", "192.0.2.10"},
		{"syslog", "Jan 12 09:00:01 web1 nginx: 192.0.2.10 - -", "192.0.2.10"},
		{"syslog, day of one digit", "Jan  2 09:00:01 web1 nginx: 192.0.2.10 - -", "192.0.2.10"},
		{"syslog with a process", "Jan 12 09:00:01 web1 nginx[123]: 192.0.2.10 - -", "192.0.2.10"},
		{"syslog with a priority", "<190>Jan 12 09:00:01 web1 nginx: 192.0.2.10 - -", "192.0.2.10"},
		{"syslog of a host without a name", "Jan 12 09:00:01 10.0.0.5 nginx: 192.0.2.10 - -", "192.0.2.10"},
		{"syslog of IPv6", "Jan 12 09:00:01 web1 nginx: 2001:db8:1:2::9 - -", "2001:db8:1:2::/64"},
		{"syslog with an exact time", "2027-01-12T09:00:01.123456+00:00 10.0.0.5 nginx: 192.0.2.10 - -", "192.0.2.10"},
		{"syslog with a virtual host", "Jan 12 09:00:01 web1 nginx: www.example.com:443 192.0.2.10 - ann", "192.0.2.10"},
		{"sender", "10.0.0.5 nginx: 192.0.2.10 - -", "192.0.2.10"},
		{"tag", "nginx: 192.0.2.10 - -", "192.0.2.10"},
		{"compose", "web-1  | 192.0.2.10 - -", "192.0.2.10"},
		{"compose, long name", "web-10 | 192.0.2.10 - -", "192.0.2.10"},
		{"compose with times", "web-1  | 2027-01-12T09:00:01.123456789Z 192.0.2.10 - -", "192.0.2.10"},
		{"swarm", "web.1.x9y8z7@node1    | 192.0.2.10 - -", "192.0.2.10"},
		{"foreman", "09:00:01 web.1  | 192.0.2.10 - -", "192.0.2.10"},
		{"kubectl with times", "2027-01-12T09:00:01.123456789Z 192.0.2.10 - -", "192.0.2.10"},
		{"kubectl with a prefix", "[pod/web-1/nginx] 192.0.2.10 - -", "192.0.2.10"},
		{"kubectl with a prefix and times", "[pod/web-1/nginx] 2027-01-12T09:00:01Z 192.0.2.10 - -", "192.0.2.10"},
		{"stern", "web-1 nginx 192.0.2.10 - -", "192.0.2.10"},
		{"stern with a namespace", "shop › web-1 › nginx 192.0.2.10 - -", "192.0.2.10"},
		{"Heroku", "2027-01-12T09:00:01.123456+00:00 app[web.1]: 192.0.2.10 - -", "192.0.2.10"},
		{"logger of Python", "2027-01-12 09:00:01,123 INFO 192.0.2.10 - -", "192.0.2.10"},
		{"CRI before another field", "2027-01-12T09:00:01Z stdout F 192.0.2.10 - - x", "192.0.2.10"},
		{"space", " 192.0.2.10 - -", "192.0.2.10"},
		{"before NULs", "\x00\x00\x00\x00192.0.2.10 - -", "192.0.2.10"},

		// Broken.
		{"CRI before a name", "2027-01-12T09:00:01Z stdout F client.example.com - -", notALog},
		{"CRI before ident", "2027-01-12T09:00:01Z stdout F 192.0.2.10 ident ann", notALog},
		{"CRI without a client", "2027-01-12T09:00:01Z stdout F", notALog},
		{"syslog before a name", "Jan 12 09:00:01 web1 nginx: client.example.com - -", notALog},
		{"syslog without a client", "Jan 12 09:00:01", notALog},
		{"syslog before an absent client", "Jan 12 09:00:01 web1 nginx: - - -", notALog},
		{"RFC 5424", "<190>1 2027-01-12T09:00:01Z web1 nginx 123 - - 192.0.2.10 - -", notALog},
		{"RFC 5424 without a program", "<190>1 2027-01-12T09:00:01Z 10.0.0.5 - - - - 192.0.2.10 - -", notALog},
		{"RFC 5424 with data", `<190>1 2027-01-12T09:00:01Z web1 nginx 123 - [meta x="y"] 192.0.2.10 - -`, notALog},
		{"process after a space", "Jan 12 09:00:01 web1 nginx [123]: 192.0.2.10 - -", notALog},
		{"compose before a name", "web-1  | client.example.com - -", notALog},
		{"compose with colors", "\x1b[36mweb-1  | \x1b[0m192.0.2.10 - -", "192.0.2.10"},
		{"kubectl before a name", "[pod/web-1/nginx] client.example.com - -", notALog},
		{"stern before a name", "web-1 nginx client.example.com - -", notALog},
		{"logger with dashes", "INFO - 192.0.2.10 - -", notALog},
		{"logger with dashes and a time", "2027-01-12 09:00:01,123 - werkzeug - INFO - 192.0.2.10 - -", notALog},
		{"logger with colons", "INFO:werkzeug:192.0.2.10 - -", notALog},
		{"file name of grep", "access.log:192.0.2.10 - -", notALog},
		{"file name of grep before IPv6", "access.log:2001:db8::9 - -", notALog},
		{"file name of grep before a name", "access.log:client.example.com - -", notALog},
		{"file name of grep, context", "access.log-192.0.2.10 - -", notALog},
		{"number of a line", "12:192.0.2.10 - -", notALog},
		{"number of a line before a name", "12:client.example.com - -", notALog},
		{"number of a line of cat", "     1\t192.0.2.10 - -", notAlone},
		{"priority alone", "<190>192.0.2.10 - -", notALog},
		{"label", "client=192.0.2.10 - -", notAlone},
		{"quotation marks", `"192.0.2.10" - -`, notAlone},
		{"quotation mark", `"192.0.2.10 - -`, notAlone},
		{"byte order mark", "\ufeff\ufeff192.0.2.10 - -", notAlone},
		{"control character", "\x1b192.0.2.10 - -", notAlone},
		{"NULs within", "192.0\x00.2.10 - -", notALog},
		{"rest of an address", ".0.2.10 - -", notALog},
		{"address that is too long", "192.0.2.10.11 - -", notALog},
		{"number above 255", "192.0.2.256 - -", notALog},
		{"virtual host before a name", "www.example.com client.example.com - -", notALog},
		{"virtual host, then address as user", "www.example.com - 192.0.2.10", notALog},
		{"virtual host, then address as last word", "www.example.com - - 192.0.2.10", notALog},
		{"name and user like a line", "www.example.com - client.example.com - -", notALog},
		{"name, ident and user", "client.example.com ident ann", notALog},
		{"two lines in one", "www.example.com 10.0.0.5 - - 192.0.2.10 - -", notALog},
		{"no client", " - -", notALog},
		{"absent client", "- - -", "! no key"},

		// Several addresses, or an address and other text.
		{"two addresses", "192.0.2.10, 10.0.0.1 - -", "192.0.2.10"},
		{"two addresses without a space", "192.0.2.10,10.0.0.1 - -", "192.0.2.10"},
		{"two addresses and a user", "192.0.2.10, 10.0.0.1 - ann smith", "192.0.2.10"},
		{"three addresses", "192.0.2.14, 198.51.100.1, 10.0.0.1 - -", "198.51.100.1"},
		{"addresses of IPv6", "2001:db8::9, 2001:db8::1 - -", "2001:db8::/64"},
		{"addresses with ports", "192.0.2.10:4711, 10.0.0.1:80 - -", "192.0.2.10"},
		{"unknown address", "unknown, 10.0.0.1 - -", notAlone},
		{"unknown proxy", "192.0.2.10, unknown - -", notAlone},
		{"absent address", "-, 10.0.0.1 - -", notAlone},
		{"comma between spaces", "192.0.2.10 , 10.0.0.1 - -", notAlone},
		{"comma at the end", "192.0.2.10, - -", notAlone},
		{"addresses in quotation marks", `"192.0.2.10, 10.0.0.1" - -`, notAlone},
		{"addresses before the proxy", "192.0.2.10, 10.0.0.1 10.0.0.9 - -", notAlone},
		{"addresses and ident", "192.0.2.10, 10.0.0.1 ident ann", notALog},
		{"addresses after syslog", "Jan 12 09:00:01 web1 nginx: 192.0.2.10, 10.0.0.1 - -", "192.0.2.10"},
		{"addresses after a virtual host", "www.example.com 192.0.2.10, 10.0.0.1 - -", "192.0.2.10"},
		{"names", "client.example.com, proxy.example.com - -", notALog},
		{"Forwarded", "for=192.0.2.10;proto=https - -", "192.0.2.10"},
	} {
		t.Run(c.name, func(t *testing.T) {
			line := c.text + ` [02/Jan/2026:15:04:05 +0000] "GET / HTTP/1.1" 200 5` + "\n"
			// Alone, it is the line that the format is recognized by.
			for _, o := range []trace.Options{{}, {Format: trace.Log}} {
				for _, before := range []string{"", `a - - [02/Jan/2026:15:04:05 +0000] "GET / HTTP/1.1" 200 5` + "\n"} {
					events, s := readText(t, o, before+line)
					got := strings.Join(events[min(len(events), strings.Count(before, "\n")):], "")
					got = strings.TrimSuffix(strings.TrimPrefix(got, "0 "), " 1 _ GET /")
					if got == "" {
						got = "! " + s.Samples[0].Reason
					}
					unknown := map[trace.Format]string{trace.Auto: "! neither a JSON object, nor a line of a log, nor CSV with a column for the time", trace.Log: "! not a line of a log"}[o.Format]
					if got != c.key && !(got == unknown && before == "" && c.key == notALog) {
						t.Errorf("%q: got %s, want %s", before+line, got, c.key)
					}
				}
			}
		})
	}
}

// A key of JSON and CSV that is a list of addresses is one client. A key with an address and other text is no key. Any
// other text is a key.
func TestReader_KeysWithAddresses(t *testing.T) {
	for key, want := range map[string]string{
		"192.0.2.1, 10.0.0.1": "192.0.2.1", "192.0.2.1,10.0.0.1": "192.0.2.1", "192.0.2.1, 198.51.100.1, 10.0.0.1": "198.51.100.1", "192.0.2.1:80, 10.0.0.1:80": "192.0.2.1",
		"10.0.0.2, 10.0.0.1": "10.0.0.2", "203.0.113.7, 192.0.2.1": "192.0.2.1", "127.0.0.1, 169.254.1.1, ::1": "127.0.0.1", "192.0.2.1, fe80::1, fd00::1, ::1, 172.31.0.1, 192.168.0.1": "192.0.2.1",
		"2001:db8::1, 10.0.0.1": "2001:db8::/64", "[2001:db8::1]:80, [2001:db8:1::2]:80": "2001:db8:1::/64",
		"for=192.0.2.1": "192.0.2.1", "for=192.0.2.1;proto=https;by=10.0.0.1": "192.0.2.1", `for="[2001:db8::1]:4711"`: "2001:db8::/64", "For=192.0.2.1, for=10.0.0.1": "192.0.2.1", "proto=https; for=192.0.2.1": "192.0.2.1",
		"192.0.2.1 10.0.0.1": "", "unknown, 10.0.0.1": "", "10.0.0.1, unknown": "", "192.0.2.1,": "", ", 192.0.2.1": "", "['192.0.2.1', '10.0.0.1']": "", "by=192.0.2.1": "", "for=192.0.2.1, ann": "", "client=192.0.2.1": "",
		"192.0.2.1": "192.0.2.1", " 192.0.2.1 ": "192.0.2.1", "[2001:db8::1]:80": "2001:db8::/64", "2001:db8:1:2::/64": "2001:db8:1:2::/64", "ann": "ann", "user:ann": "user:ann", "user@5:iss-1:alice": "user@5:iss-1:alice",
		"Smith, Ann": "Smith, Ann", "a = b; c": "a = b; c", "body:user:192.0.2.1": "body:user:192.0.2.1", "join:8:user:ann9:192.0.2.1": "join:8:user:ann9:192.0.2.1", "join:10:user:a, b9:192.0.2.1": "join:10:user:a, b9:192.0.2.1", "ann|192.0.2.1": "ann|192.0.2.1", "192.0.2.1/login": "192.0.2.1/login",
	} {
		for _, content := range []string{
			`{"time":1767366245,"client":"` + strings.ReplaceAll(key, `"`, `\"`) + `"}`,
			"time,client\n1767366245,\"" + strings.ReplaceAll(key, `"`, `""`) + `"`,
		} {
			events, s := readText(t, trace.Options{Fields: trace.Fields{Key: "client"}}, content)
			if want == "" && (len(events) > 0 || "! "+s.Samples[0].Reason != notAlone) || want != "" && (len(events) != 1 || events[0] != "0 "+want+" 1 _ _") {
				t.Errorf("%s: got %q and %+v, want %q", content, events, s.Samples, want)
			}
		}
	}
}

// NULs before a line are those of a file that was truncated while a server wrote into it.
func TestReader_NULs(t *testing.T) {
	const (
		log  = `192.0.2.1 - - [02/Jan/2026:15:04:05 +0000] "GET /a HTTP/1.1" 200 5`
		json = `{"time":1767366245,"key":"192.0.2.1","path":"/a","method":"GET"}`
		csv  = "1767366245,192.0.2.1,,,GET /a"
	)
	for name, n := range map[string]int{"one": 1, "some": 100, "a buffer": 64 << 10, "more than a buffer": 64<<10 + 1, "more than a line": 3 << 20} {
		t.Run(name, func(t *testing.T) {
			nuls := strings.Repeat("\x00", n)
			for _, line := range []string{log, json, csv} {
				for _, content := range []string{nuls + line + "\n" + line, line + "\n" + nuls + line, line + "\r\n" + nuls + line + "\r\n"} {
					events, s := readText(t, trace.Options{}, content)
					if want := "0 192.0.2.1 1 _ GET /a"; strings.Join(events, "\n") != want+"\n"+want || s.Broken > 0 {
						t.Errorf("%.20q: got %q and %+v", line, events, s.Samples)
					}
				}
				events, s := readText(t, trace.Options{}, line+"\n"+nuls+"\n"+nuls+" \t\n"+line+"\n"+nuls)
				if len(events) != 2 || s.Broken != 3 {
					t.Errorf("%.20q, lines of NULs: got %q and %+v", line, events, s.Samples)
				}
			}
		})
	}
}
