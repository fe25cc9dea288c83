package keyfunc_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/weir-go/weir/keyfunc"
)

func TestXForwardedFor(t *testing.T) {
	f := keyfunc.XForwardedFor(keyfunc.Proxies("10.0.0.0/8", "2001:db8:ffff::/48"))
	for _, c := range []struct {
		name, peer string
		lines      []string
		want       string
	}{
		{"untrusted peer", "203.0.113.9:1", []string{"6.6.6.6"}, "203.0.113.9"},
		{"no header", "10.0.0.1:1", nil, "10.0.0.1"},
		{"one hop", "10.0.0.1:1", []string{"203.0.113.9"}, "203.0.113.9"},
		{"claims on the left", "10.0.0.1:1", []string{"6.6.6.6, 7.7.7.7, 203.0.113.9"}, "203.0.113.9"},
		{"through two proxies", "10.0.0.1:1", []string{"6.6.6.6, 203.0.113.9, 10.0.0.2"}, "203.0.113.9"},
		{"over all lines", "10.0.0.1:1", []string{"6.6.6.6", "203.0.113.9", "10.0.0.3, 10.0.0.2"}, "203.0.113.9"},
		{"all trusted", "10.0.0.1:1", []string{"10.0.0.4, 10.0.0.3", "10.0.0.2"}, "10.0.0.4"},
		{"garbage on the right", "10.0.0.1:1", []string{"203.0.113.9, garbage"}, "10.0.0.1"},
		{"garbage behind a proxy", "10.0.0.1:1", []string{"203.0.113.9, garbage, 10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"garbage in an earlier line", "10.0.0.1:1", []string{"203.0.113.9", "unknown", "10.0.0.2"}, "10.0.0.2"},
		{"garbage left of the client", "10.0.0.1:1", []string{"garbage, \x00, 203.0.113.9"}, "203.0.113.9"},
		{"bad spelling", "10.0.0.1:1", []string{"203.0.113.9, 010.0.0.2"}, "10.0.0.1"},
		{"empty header", "10.0.0.1:1", []string{""}, "10.0.0.1"},
		{"empty entry", "10.0.0.1:1", []string{"203.0.113.9, , 10.0.0.2"}, "10.0.0.2"},
		{"comma at the end", "10.0.0.1:1", []string{"203.0.113.9,"}, "10.0.0.1"},
		{"comma at the start", "10.0.0.1:1", []string{",10.0.0.2"}, "10.0.0.2"},
		{"empty line behind a proxy", "10.0.0.1:1", []string{"203.0.113.9", "", "10.0.0.2"}, "10.0.0.2"},
		{"no spaces", "10.0.0.1:1", []string{"6.6.6.6,203.0.113.9,10.0.0.2"}, "203.0.113.9"},
		{"spaces and tabs", "10.0.0.1:1", []string{"6.6.6.6 ,\t 203.0.113.9 \t,  10.0.0.2\t"}, "203.0.113.9"},
		{"a no-break space is garbage", "10.0.0.1:1", []string{"203.0.113.9\u00a0"}, "10.0.0.1"},
		{"128 bytes with spaces", "10.0.0.1:1", []string{"6.6.6.6," + strings.Repeat(" ", 117) + "203.0.113.9"}, "203.0.113.9"},
		{"a longer entry", "10.0.0.1:1", []string{"6.6.6.6," + strings.Repeat(" ", 118) + "203.0.113.9"}, "10.0.0.1"},
		{"an entry that is an address at its end", "10.0.0.1:1", []string{"garbage" + strings.Repeat(" ", 150) + "203.0.113.9, 10.0.0.2"}, "10.0.0.2"},
		{"port", "10.0.0.1:1", []string{"203.0.113.9:4711"}, "203.0.113.9"},
		{"trusted with port", "10.0.0.1:1", []string{"203.0.113.9:4711, 10.0.0.2:80"}, "203.0.113.9"},
		{"IPv6", "10.0.0.1:1", []string{"2001:db8:1:2::3"}, "2001:db8:1:2::/64"},
		{"IPv6 with port", "10.0.0.1:1", []string{"[2001:db8:1:2::3]:443"}, "2001:db8:1:2::/64"},
		{"IPv6 in brackets", "10.0.0.1:1", []string{"[2001:db8:1:2::3]"}, "2001:db8:1:2::/64"},
		{"mapped proxy", "[::ffff:10.0.0.1]:1", []string{"203.0.113.9, ::ffff:10.0.0.2"}, "203.0.113.9"},
		{"mapped client", "10.0.0.1:1", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		{"IPv6 proxies", "[2001:db8:ffff::1]:1", []string{"6.6.6.6, 203.0.113.9, 2001:db8:ffff::2"}, "203.0.113.9"},
		{"a list in a zone", "10.0.0.1:1", []string{"fe80::1%x,10.0.0.2"}, "fe80::/64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request(c.peer, "Forwarded: for=6.6.6.6", "X-Real-Ip: 6.6.6.6", "True-Client-Ip: 6.6.6.6")
			r.Header["X-Forwarded-For"] = c.lines
			wantKey(t, f, r, c.want)
		})
	}
}

func TestXForwardedForExamines32Hops(t *testing.T) {
	f := keyfunc.XForwardedFor(keyfunc.Proxies("10.0.0.0/8"))
	chain := func(trusted int) string { return "203.0.113.9, 10.9.9.9" + strings.Repeat(", 10.0.0.2", trusted-1) }
	wantKey(t, f, request("10.0.0.1:1", "X-Forwarded-For: "+chain(31)), "203.0.113.9")
	wantKey(t, f, request("10.0.0.1:1", "X-Forwarded-For: "+chain(32)), "10.9.9.9")
	wantKey(t, f, request("10.0.0.1:1", "X-Forwarded-For: "+chain(33)), "10.0.0.2")

	// It makes no difference over how many lines the hops are spread.
	r := request("10.0.0.1:1")
	for _, entry := range strings.Split(chain(31), ", ") {
		r.Header.Add("X-Forwarded-For", entry)
	}
	wantKey(t, f, r, "203.0.113.9")
	r.Header.Add("X-Forwarded-For", "10.0.0.2")
	wantKey(t, f, r, "10.9.9.9")
}

// hugeHeaders are values of 900 KB that cost a naive reader dear.
func hugeHeaders() map[string]string {
	const size = 900_000
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	return map[string]string{
		"addresses": fill("203.0.113.7, "),
		"proxies":   fill("10.0.0.2,") + "10.0.0.2",
		"commas":    fill(","),
		"spaces":    fill(" "),
		"no comma":  fill("1"),
		"one entry": "203.0.113.9," + fill(" ") + "10.0.0.2",
		"zone":      "fe80::1%" + fill("z"),
		"elements":  fill("for=203.0.113.7, "),
		"semicolon": "for=203.0.113.7" + fill(";"),
		"quote":     `for="` + fill(`\"`),
		"names":     fill("a=b;"),
		"escapes":   `for="` + strings.Repeat(`\1`, 30_000) + `"`, // just short enough to be read
	}
}

// allocatedPerCall is the mean of bytes allocated, which a count would hide.
func allocatedPerCall(f func()) uint64 {
	const calls = 50
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		f()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / calls
}

func TestHugeHeadersAllocateNothing(t *testing.T) {
	p := keyfunc.Proxies("10.0.0.0/8")
	for name, f := range map[string]keyfunc.Func{
		"X-Forwarded-For": keyfunc.XForwardedFor(p),
		"Forwarded":       keyfunc.Forwarded(p),
		"X-Real-Ip":       keyfunc.HeaderIP("X-Real-IP", p),
	} {
		for kind, value := range hugeHeaders() {
			t.Run(name+"/"+kind, func(t *testing.T) {
				r := request("10.0.0.1:1", name+": "+value)
				// One is the key, the others the error of a bad address.
				if n := testing.AllocsPerRun(50, func() { _, _ = ask(f, r) }); n > 3 {
					t.Errorf("%v allocations", n)
				}
				if n := allocatedPerCall(func() { _, _ = ask(f, r) }); n > 1024 {
					t.Errorf("%d bytes allocated", n)
				}
			})
		}
		t.Run(name+"/many lines", func(t *testing.T) {
			r := request("10.0.0.1:1")
			r.Header[name] = strings.Split(strings.Repeat("10.0.0.2\n", 100_000), "\n")
			if n := allocatedPerCall(func() { _, _ = ask(f, r) }); n > 1024 {
				t.Errorf("%d bytes allocated", n)
			}
		})
	}
}

// A key must not be a piece of the header: that would keep all of it alive for
// as long as the bucket lives.
func TestKeyDoesNotPinTheHeader(t *testing.T) {
	p := keyfunc.Proxies("10.0.0.0/8")
	for name, f := range map[string]keyfunc.Func{
		"X-Forwarded-For": keyfunc.XForwardedFor(p),
		"X-Real-Ip":       keyfunc.HeaderIP("X-Real-IP", p),
		"Forwarded":       keyfunc.Forwarded(p),
	} {
		value := map[string]string{"Forwarded": "for=203.0.113.9"}[name]
		if value == "" {
			value = "203.0.113.9"
		}
		r := request("10.0.0.1:1", name+": "+value)
		key, err := ask(f, r)
		if err != nil || overlaps(key, r.Header.Get(name)) {
			t.Errorf("%s: key %q, %v shares the memory of the header", name, key, err)
		}
	}
}
