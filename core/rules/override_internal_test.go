package rules

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

// Each text is the Format of its override, and ParseOverride reads it.
func TestOverride_Format(t *testing.T) {
	until := time.Date(2027, 1, 1, 0, 0, 0, 1000, time.UTC)
	for want, o := range map[string]Override{
		"{blocked: true}":             {Blocked: true},
		"{limits: {exports: 20}}":     {Limits: map[string]core.Limit{"exports": {Events: 20}}},
		"{limits: {calls: 20/month}}": {Limits: map[string]core.Limit{"calls": core.Monthly(20)}},
		"{plan: gold}":                {Plan: "gold"},
		"{plan: '1: #'}":              {Plan: "1: #"},
		"{limits: {hour: unlimited, second: 5/s burst 9}}":               {Limits: map[string]core.Limit{"second": core.PerSecond(5).WithBurst(9), "hour": core.Unlimited}},
		"{blocked: true, plan: p, until: '2027-01-01T00:00:00.000001Z'}": {Blocked: true, Plan: "p", Until: until},
		"{plan: " + strings.Repeat("a b ", 15) + "c}":                    {Plan: strings.Repeat("a b ", 15) + "c"},
	} {
		t.Run(want, func(t *testing.T) {
			got, err := o.Format()
			if err != nil || string(got) != want {
				t.Errorf("got %q (%v)", got, err)
			}
			if again, err := ParseOverride("f", got); err != nil || !reflect.DeepEqual(again, o) {
				t.Errorf("got %+v (%v), expected %+v", again, err, o)
			}
		})
	}
}

func TestOverride_FormatInvalid(t *testing.T) {
	for want, o := range map[string]Override{
		"override:1:1: an override needs a plan, limits or blocked: true": {},
		"override:1:8: plan: plan cannot be called":                       {Plan: "unknown"},
		"the name of a rule consists of letters":                          {Limits: map[string]core.Limit{"a\nb": core.Blocked}},
		"override:1:14: limits.r: invalid limit":                          {Limits: map[string]core.Limit{"r": {}}},
		`override:1:24: until: "10000-01-01T00:00:00Z" is no time`:        {Blocked: true, Until: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		if got, err := o.Format(); err == nil || got != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %q and %v, expected an error with %q", got, err, want)
		}
	}
}

func TestParseOverride_Errors(t *testing.T) {
	for name, test := range map[string]struct{ in, want string }{
		"empty":           {"", "1:1: an override needs a plan, limits or blocked: true"},
		"a list":          {"[a]", "1:1: is a list, expected a mapping"},
		"unknown field":   {"{block: true}", "1:1: an override needs a plan, limits or blocked: true\nf:1:2: block: is an unknown field; did you mean \"blocked\"?"},
		"second document": {"{blocked: true}\n---\n{}", "2:1: a second document begins here: there can be only one"},
		"syntax":          {"{plan: ]", "1:8: while parsing a flow node: did not find expected node content"},
		"size":            {"plan: gold" + strings.Repeat(" ", 64<<10), "1:1: is larger than 64 KiB"},
		"not UTF-8":       {"plan: \xff", "1:7: is not UTF-8"},
		"name of a plan":  {"{plan: é}", `1:8: plan: plan "é" is not a name of at most 64 characters of printable ASCII`},
		"empty plan":      {"{plan: ''}", "1:8: plan: plan has no name"},
		"name of a rule":  {"{limits: {a.b: 1/s}}", `1:11: limits["a.b"]: the name of a rule consists of letters, digits, _ and -`},
		"limit":           {"{limits: {a: true}}", "1:14: limits.a: is a boolean, expected a text"},
		"until":           {"{blocked: true, until: 2027-01-01}", `1:24: until: "2027-01-01" is no time such as 2027-01-01T00:00:00Z`},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := ParseOverride("f", []byte(test.in))
			var all Errors
			if !errors.As(err, &all) || err.Error() != "f:"+test.want || !reflect.DeepEqual(o, Override{}) {
				t.Errorf("got %+v and %v, expected %s", o, err, test.want)
			}
		})
	}
}

// ParseOverride returns an Override that Format writes in one line.
func FuzzParseOverride(f *testing.F) {
	for _, text := range []string{
		"{plan: gold, limits: {second: 5/s, hour: unlimited}, until: 2027-01-01T00:00:00.5+01:00}", `{"blocked":true}`, "blocked: true\nplan: ' a: #'",
		"plan: \"~\"", "limits:\n  null: 1/1h2m burst 3\n", "{limits: {a: 5}, until: 2027-01-01}", "{}\n---\n{}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := ParseOverride("f", data)
		if err != nil {
			if all, ok := err.(Errors); !ok || len(all) == 0 || !reflect.DeepEqual(o, Override{}) {
				t.Errorf("got %+v and %#v", o, err)
			}
			return
		}
		formatted, err := o.Format()
		if err != nil || bytes.ContainsAny(formatted, "\r\n") {
			t.Fatalf("got %q (%v) of %+v", formatted, err, o)
		}
		if again, err := ParseOverride("f", formatted); err != nil || !reflect.DeepEqual(again, o) {
			t.Errorf("got %+v (%v) of %s, expected %+v", again, err, formatted, o)
		}
	})
}
