package trace

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"math/big"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzObject compares the members of objects with those of encoding/json.
func FuzzObject(f *testing.F) {
	for _, text := range []string{
		`{}`, ` { "a" : 1 } `, `{"a":"x","b":{"c":-1.5e+3,"d":"A\n\"\u00e9"}}`, `{"b":{"c":1},"b":{"d":2}}`, `{"a":1,"a":null}`,
		`{"a":[1,{"a":2},[]],"b":[true]}`, `{"b":{"c":{"d":1}},"b":7}`, `{"a":01}`, `{"a":1.}`, `{"a":-}`, `{"a":1e}`, `{"a":tru}`,
		`{"a":"\x"}`, `{"a":"\u12g4"}`, "{\"a\":\"\x01\"}", `{"a":1,}`, `{,}`, `{"a"}`, `{"a":}`, `[1]`, `{"a":1}x`, `{"a":"`, `{"a":"\`,
		`{"\u0061":true,"b.c":false}`, "{\"a\":\"\xff\"}",
	} {
		f.Add([]byte(text))
	}
	paths := [][]string{{"a"}, {"b", "c"}, {"b", "d"}, {"b"}, {"b.c"}, {"b", "c", "d"}, {"a"}}
	var o object
	for i, path := range paths {
		o.wanted.add(path, i)
	}
	o.texts = make([][]byte, len(paths))
	f.Fuzz(func(t *testing.T, line []byte) {
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.UseNumber()
		var all map[string]any
		err := decoder.Decode(&all)
		want := err == nil && json.Valid(line) && all != nil
		if got := o.read(line); got != want {
			t.Fatalf("read = %v, want %v", got, want)
		}
		if !want || !utf8.Valid(line) { // encoding/json replaces bytes that are not UTF-8
			return
		}
		for i, path := range paths {
			var value any = all
			for _, name := range path {
				members, _ := value.(map[string]any)
				value = members[name]
			}
			text := ""
			switch v := value.(type) {
			case string:
				text = v
			case json.Number:
				text = v.String()
			case bool:
				text = map[bool]string{true: "true", false: "false"}[v]
			}
			got := o.texts[i]
			if len(got) > 0 && got[0] == '"' {
				got = unquoteJSON(got)
			}
			if string(got) != text {
				t.Errorf("%v: got %q, want %q", path, got, text)
			}
		}
	})
}

// The depth of JSON is limited, because a deep one would need a large stack.
func TestObject_Depth(t *testing.T) {
	for _, c := range []struct{ begin, value, end string }{{`{"a":`, "1", "}"}, {"[", "", "]"}} {
		for _, depth := range []int{maxDepth - 1, maxDepth} {
			value := strings.Repeat(c.begin, depth) + c.value + strings.Repeat(c.end, depth)
			line := []byte(`{"x":` + value + "}")
			var o object
			if got, want := o.read(line), depth < maxDepth; got != want || got != json.Valid(line) {
				t.Errorf("%s with depth %d: got %v, want %v", c.begin, depth+1, got, want)
			}
		}
	}
}

// FuzzRecord compares the fields of lines of CSV with those of a new reader of encoding/csv for each line.
func FuzzRecord(f *testing.F) {
	for _, text := range []string{"a,b", "", ",", `"a","b"`, `"a,""b"`, `a"b`, `"a"b`, `"`, `"a`, "a\rb", "\"a\r\",b", "\r,\""} {
		f.Add([]byte(text))
	}
	var p csvParser
	p.quoted = csv.NewReader(&p.line)
	p.quoted.FieldsPerRecord = -1
	p.quoted.ReuseRecord = true
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.IndexByte(line, '\n') >= 0 || len(line) == 0 || bytes.HasSuffix(line, []byte("\r")) {
			return // not a line without its end
		}
		r := csv.NewReader(bytes.NewReader(line))
		want, err := r.Read()
		if err == nil {
			if _, rest := r.Read(); rest != io.EOF {
				t.Fatal("encoding/csv has found two records")
			}
		}
		if got := p.split(line); got != (err == nil) {
			t.Fatalf("split = %v, want the error %v", got, err)
		}
		if err == nil && string(bytes.Join(p.record, []byte("\n"))) != strings.Join(want, "\n") {
			t.Errorf("got %q, want %q", p.record, want)
		}
	})
}

// FuzzUnix compares times with exact arithmetic.
func FuzzUnix(f *testing.F) {
	for _, text := range []string{"0", "1700000000.123456", "1700000000123.4567", "1700000000123456", "1700000000123456789", "9223372036854775807", "9223372036854775808", "99999999999.9999999", "100000000000", "1.", ".1", "1e9", "00000000000000000001"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := parseUnix([]byte(text))
		digits := strings.Replace(text, ".", "0", 1)
		decimal := digits != "" && strings.Trim(digits, "0123456789") == "" && text[0] != '.' && text[len(text)-1] != '.'
		if ok != decimal {
			t.Fatalf("parseUnix = %v, want %v", ok, decimal)
		}
		if !ok {
			return
		}
		n, _ := new(big.Rat).SetString(text)
		unit := big.NewRat(1, 1000)
		for _, u := range []struct{ below, unit int64 }{{1e17, 1}, {1e14, 1e3}, {1e11, 1e6}} {
			if n.Cmp(big.NewRat(u.below, 1)) < 0 {
				unit = big.NewRat(u.unit, 1)
			}
		}
		n.Mul(n, unit)
		want := new(big.Int).Quo(n.Num(), n.Denom())
		if want.Cmp(big.NewInt(maxTime)) > 0 {
			if got <= maxTime {
				t.Errorf("got %d, want a time after maxTime", got)
			}
		} else if want.Int64() != got {
			t.Errorf("got %d, want %d", got, want)
		}
	})
}
