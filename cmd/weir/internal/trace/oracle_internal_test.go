package trace

import (
	"bytes"
	"encoding/csv"
	"io"
	"math/big"
	"strings"
	"testing"
)

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
