package trace_test

import (
	"testing"

	"github.com/weir-go/weir/cmd/weir/internal/trace"
)

func TestCSV(t *testing.T) {
	const (
		quotes  = "! a quotation mark is missing or in the middle of a field"
		columns = "! not as many columns as the header"
		unknown = "! neither a JSON object, nor a line of a log, nor CSV with a column for the time"
	)
	runFormat(t, []formatCase{
		{"header", trace.Options{}, []string{
			"plan,Status, Key ,time,cost,request,x", "",
			"pro,429,192.0.2.1,1767366245.25, 2 ,GET /a?b HTTP/1.1,", "250000 192.0.2.1 2 pro GET /a limited",
			",,ann,2026-01-02 15:04:06,,,", "1000000 ann 1 _ _",
			"-,-,ann,2026-01-02 15:04:06,-,-,-", "1000000 ann 1 _ _",
			`"a ""b"", c",200,"ann",1767366246,"3","GET /a,b",`, `1000000 ann 3 a "b", c GET /a,b`,
			"pro,200,ann,1767366246,1", columns,
			"pro,200,ann,1767366246,1,GET /a,b,", columns,
			`pro,200,"ann,1767366246,1,,`, quotes,
			`pro,200,a"nn,1767366246,1,,`, quotes,
			",,ann,1767366247,,,", "2000000 ann 1 _ _",
		}},
		{"header with method and path", trace.Options{}, []string{
			"ts,remote_addr,method,url", "",
			"1767366245,192.0.2.1:1234,GET,https://example.com/a/b?c", "0 192.0.2.1 1 _ GET /a/b",
			"1767366245,192.0.2.1,,/a", "0 192.0.2.1 1 _ /a",
		}},
		{"chosen fields", trace.Options{Fields: trace.Fields{Time: "when", Key: "who", Request: "what"}}, []string{
			"time,who,what,when,path", "",
			"1,ann,login,1767366245,/a", "0 ann 1 _ login",
			"1,,login,1767366245,/a", `! no key: the field "who" is absent or has no text`,
		}},
		{"no header", trace.Options{}, []string{
			"1767366245,ann", "0 ann 1 _ _",
			"1767366245,ann,2", "0 ann 2 _ _",
			"1767366245,ann,2,pro", "0 ann 2 pro _",
			"1767366245,ann,2,pro,POST /a", "0 ann 2 pro POST /a",
			"1767366245,ann,,,login,more", "0 ann 1 _ login",
			`"1767366245","ann"`, "0 ann 1 _ _",
			"time,key", "! the time has an unknown format",
			"1767366245", "! no key",
			"1767366245,,1", "! no key",
			"1767366245,ann,x", "! the cost is not a whole number from 1 on",
		}},
		{"byte order mark", trace.Options{}, []string{
			"\uFEFFtime,key", "",
			"1767366245,ann", "0 ann 1 _ _",
		}},
		{"after other lines", trace.Options{}, []string{
			"", "",
			"1767366245", unknown,
			`"`, unknown,
			"a,b", unknown,
			"time,key", "",
			"1767366245,ann", "0 ann 1 _ _",
		}},
		{"forced", trace.Options{Format: trace.CSV}, []string{
			`{"time":1767366245,"key":"ann"}`, unknown,
			"x,ann", "! the time has an unknown format",
			"1767366245,ann", "0 ann 1 _ _",
		}},
	})
}
