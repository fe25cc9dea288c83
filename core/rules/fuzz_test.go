package rules

import (
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
