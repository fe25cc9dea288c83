package rules

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"unicode/utf8"
)

// Parse returns a Config that Format writes and the schema accepts, or errors with positions.
func FuzzParse(f *testing.F) {
	_, s := schema(f)
	f.Add(example(f))
	f.Add([]byte(`{"policies": {"api": {"rules": [{"name": "r", "algorithm": "sliding_log", "limit": "5/m"}], "keys": {"\ud83d\ude00": {"limits": {"r": "1/m"}}}}}}`))
	for _, test := range invalidFiles {
		f.Add([]byte(test.in))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f", data)
		var all Errors
		if errors.As(err, &all) {
			for _, e := range all {
				if e.Line < 1 || e.Column < 1 || e.Reason == "" || !utf8.ValidString(e.Error()+e.Excerpt) {
					t.Errorf("got %#v", e)
				}
			}
			return
		}
		formatted, err := c.Format()
		if err != nil {
			t.Fatalf("%v, of %+v", err, c)
		}
		if again, err := Parse("f", formatted); err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("got %+v (%v), expected %+v", again, err, c)
		}
		if err := validates(t, s, formatted); err != nil {
			t.Errorf("the schema rejects %s: %v", formatted, err)
		}
	})
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
