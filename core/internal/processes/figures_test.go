package processes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A Counter tells its decisions once a minute: those since the last message, also if that was lost.
func TestCounter_Figures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		var lost atomic.Bool
		r := NewRecord(func(_ context.Context, args ...any) (any, error) {
			if args[1] != Heartbeats.SHA {
				return []any{`["api"]`}, nil
			}
			return []any{int64(0), "g", int64(0), time.Now().UnixMilli(), []any{}, "g", int64(1)}, nil
		}, "weir:", "shop")
		c := New(r, Config{
			Tag: strings.ToUpper, Log: slog.Default, Unknown: func() {}, Refused: func(error) string { return "" },
			Once: func(_ context.Context, args ...any) (any, error) {
				told = append(told, fmt.Sprint(args[5:]...)) // without the names of keys, which have the minute
				if lost.Load() {
					return nil, errors.New("EOF")
				}
				return int64(1), nil
			},
		})
		defer c.Close()
		n := uint64(0)
		c.Count(func(f *Figures, tag func(string) string) {
			n += 10
			f.Rules["api"] = Counts{driver.Allowed: n}
			f.Denied[DeniedKey{tag("ann"), "api"}] = 3
		})
		c.Declare(declares("api"))
		for _, fails := range []bool{false, true, false} {
			lost.Store(fails)
			time.Sleep(time.Minute + interval + jitter)
		}
		c.Close()
		want := fmt.Sprint(1, "api", "0 10 0 0", 3, "ANN api")
		if len(told) != 3 || slices.ContainsFunc(told, func(text string) bool { return text != want }) {
			t.Errorf("got %q, want %q three times", told, want)
		}
	})
}

func TestFigures_since(t *testing.T) {
	f := Figures{Rules: map[string]Counts{"a": {1: 5, 3: 2}, "b": {1: 1}, "c": {1: 4}, "smaller": {1: 1}}}
	before := map[string]Counts{"a": {1: 5, 3: 1}, "b": {1: 1}, "smaller": {1: 2}}
	got := f.since(before)
	if len(got) != 2 || got["a"] != (Counts{3: 1}) || got["c"] != (Counts{1: 4}) || len(f.since(before)) > 0 {
		t.Errorf("got %v", got)
	}
	for i := range 3*maxGained - 2 {
		f.Rules[fmt.Sprint(i)] = Counts{1: 1}
	}
	told := map[string]Counts{}
	for _, want := range []int{maxGained, maxGained, maxGained - 2, 0} {
		next := f.since(before)
		if maps.Copy(told, next); len(next) != want {
			t.Errorf("got %d rules, want %d", len(next), want)
		}
	}
	if len(told) != 3*maxGained-2 {
		t.Errorf("got %d rules in all", len(told))
	}
}

func FuzzParseCounts(f *testing.F) {
	for _, c := range []Counts{{}, {1: 1}, {driver.Failed: 1 << 52}} {
		f.Add(textOf(c))
	}
	f.Add("1 2 3 4 5 6 7 8 9 10")
	f.Add("-1")
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := parseCounts(text)
		if !ok {
			return
		}
		if again, ok := parseCounts(textOf(c)); !ok || again != c {
			t.Errorf("got %v and %v", c, again)
		}
	})
}
