package trace

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
)

// drain pops all events that are due, and appends them to events.
func drain(o *order, ended bool, events []simulate.Event) ([]simulate.Event, int) {
	late := 0
	for {
		e, wasLate := o.pop(ended)
		if e == nil {
			return events, late
		}
		if wasLate {
			late++
		}
		events = append(events, *e)
	}
}

// Events that are at most a minute out of order leave in the order of a stable sort.
func TestOrder_Sorts(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 1))
		n := 1 + random.IntN(5000)
		gap := 1 + random.Int64N(horizon/50)
		disorder := random.Int64N(horizon + 1)
		pushed := make([]simulate.Event, n)
		at := int64(0)
		for i := range pushed {
			at += random.Int64N(gap)
			pushed[i] = simulate.Event{At: (max(0, at-random.Int64N(disorder+1))) / second * second, Key: fmt.Sprint(i)}
		}
		var o order
		var got []simulate.Event
		for i := range pushed {
			o.push(&pushed[i])
			var late int
			if got, late = drain(&o, false, got); late != 0 {
				t.Fatalf("seed %d: %d late events", seed, late)
			}
			if waiting := i + 1 - len(got); waiting > 1 && got != nil && o.newest-got[len(got)-1].At < horizon {
				t.Fatalf("seed %d: an event has left after less than a minute", seed)
			}
		}
		got, _ = drain(&o, true, got)
		want := slices.Clone(pushed)
		slices.SortStableFunc(want, func(a, b simulate.Event) int { return cmp.Compare(a.At, b.At) })
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d events in another order than those of a stable sort, %d", seed, len(got), len(want))
		}
	}
}

func TestOrder_Late(t *testing.T) {
	const minute = horizon
	for _, c := range []struct {
		name string
		at   []int64
		want string // times of the events that leave
		late int
	}{
		{"in time", []int64{100, 160 * second, 160*second - minute, 160*second - minute + 1}, "[100 100000000 100000001 160000000]", 0},
		{"just in time", []int64{100, 99 + minute, 0}, "[0 100 60000099]", 0},
		{"late", []int64{100, 100 + minute, 99, 0, 101}, "[100 100 100 101 60000100]", 2},
		{"after a time in the future", []int64{100, 200, 1000 * minute, 300, 250, 400}, "[100 200 300 300 400 60000000000]", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var o order
			var events []simulate.Event
			late := 0
			for i, at := range append(c.at, 0) {
				if i < len(c.at) {
					o.push(&simulate.Event{At: at})
				}
				var n int
				events, n = drain(&o, i == len(c.at), events)
				late += n
			}
			var times []int64
			for _, e := range events {
				times = append(times, e.At)
			}
			if got := fmt.Sprint(times); got != c.want || late != c.late {
				t.Errorf("got %s with %d late, want %s with %d", got, late, c.want, c.late)
			}
		})
	}
}

// An order holds the events of a minute, not all that have left.
func TestOrder_Memory(t *testing.T) {
	var o order
	for i := range int64(100_000) {
		o.push(&simulate.Event{At: i * second / 10})
		_, _ = drain(&o, false, nil)
	}
	if n := cap(o.sorted); n > 4000 {
		t.Errorf("the order has space for %d events, 600 of which can wait", n)
	}
}

// The number of events that wait is bounded, also if all have one time, and those that leave early are in order.
func TestOrder_MaxWaiting(t *testing.T) {
	const late = 10 // events that are older than all others, after these
	var o order
	left := 0
	for i := range maxWaiting + 5000 {
		o.push(&simulate.Event{At: 3 * horizon, Key: fmt.Sprint(i)})
		for e, _ := o.pop(false); e != nil; e, _ = o.pop(false) {
			if e.Key != fmt.Sprint(left) {
				t.Fatalf("event %s has left after %d others", e.Key, left)
			}
			left++
		}
		if n := len(o.sorted) - o.head; n > maxWaiting || cap(o.sorted) > 4*maxWaiting {
			t.Fatalf("%d events wait, with room for %d", n, cap(o.sorted))
		}
	}
	for range late {
		o.push(&simulate.Event{At: 3*horizon - 1})
		if e, wasLate := o.pop(false); e == nil || !wasLate || e.At != 3*horizon {
			t.Fatalf("got %+v, late: %t", e, wasLate)
		}
	}
	if left != 5000 || len(o.sorted)-o.head+len(o.early) != maxWaiting {
		t.Errorf("%d events have left, and %d wait", left, len(o.sorted)-o.head+len(o.early))
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
