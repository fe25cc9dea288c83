package processes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

// declares returns a change of a limiter that has rules of these names.
func declares(names ...string) driver.Change {
	var c driver.Change
	for _, name := range names {
		hour := driver.Definition{Name: name, Algorithm: driver.TokenBucket, Events: 100, Per: time.Hour}
		pro := hour
		pro.Plan, pro.Per = "pro", time.Minute
		c.New = append(c.New, hour, pro)
	}
	return c
}

// newCounter returns a Counter without heartbeats.
func newCounter(instances int) (*Counter, *testkit.Buffer) {
	log := new(testkit.Buffer)
	logger := slog.New(slog.NewTextHandler(log, nil))
	c := New(Record{}, Config{Instances: instances, Log: func() *slog.Logger { return logger }, Unknown: func() {}})
	c.begin.Do(func() {})
	c.lists = map[string][]string{None: {}, "web": {"api", "login"}, "worker": {"api", "batch"}, "bad": nil}
	return c, log
}

func TestCounter_Number(t *testing.T) {
	type groups = map[string]int
	for name, c := range map[string]struct {
		instances int
		readings  []groups // 10 s apart
		want      string   // of the rules api, login, and one that no reading has
		logged    int
	}{
		"nothing":                   {0, nil, "0 0 0", 0},
		"Instances":                 {4, nil, "4 4 4", 0},
		"one group":                 {0, []groups{{"web": 3}}, "3 3 3", 0},
		"two groups":                {0, []groups{{"web": 3, "worker": 4}}, "7 3 7", 0},
		"rules that are not known":  {0, []groups{{"web": 3, "bad": 2}}, "5 5 5", 0},
		"a group that is not known": {0, []groups{{"web": 3, "other": 2}}, "5 5 5", 0},
		"the group of all":          {0, []groups{{"web": 3, "worker": 4, All: 2}}, "9 9 9", 0},
		"processes without rules":   {0, []groups{{"web": 3, None: 5}}, "3 3 8", 0},
		"Instances, one reading":    {9, []groups{{"web": 3}}, "9 9 9", 0},
		"Instances, more are read":  {2, []groups{{"web": 3}}, "3 3 3", 0},
		"Instances, a whole window": {9, []groups{{"web": 3}, {"web": 3}, {"web": 3}, {"web": 3}}, "3 3 3", 0},
		"a larger number":           {0, []groups{{"web": 3}, {"web": 4}}, "4 4 4", 0},
		"a smaller number":          {0, []groups{{"web": 4}, {"web": 3}, {"web": 3}}, "4 4 4", 0},
		"a smaller number, later":   {0, []groups{{"web": 4}, {"web": 3}, {"web": 2}, {"web": 1}}, "3 3 3", 0},
		"ten times":                 {0, []groups{{"web": 3}, {"web": 30}}, "30 30 30", 0},
		"more than ten times":       {0, []groups{{"web": 3}, {"web": 31}}, "31 31 31", 1},
		"less than a tenth":         {0, []groups{{"web": 31}, {"web": 3}}, "31 31 31", 1},
		"many, then more":           {0, []groups{{"web": 9_999}, {"web": 10_001}, {"web": 10_002}}, "10002 10002 10002", 1},
		"a flood":                   {0, []groups{{"web": maxCount, "worker": maxCount, All: maxCount}}, fmt.Sprint(maxCount, maxCount, maxCount), 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				counter, log := newCounter(c.instances)
				for _, counts := range c.readings {
					counter.note(Reading{Counts: counts}, Group{Name: "web"})
					time.Sleep(10 * time.Second)
				}
				if got := fmt.Sprint(counter.Number("api"), counter.Number("login"), counter.Number("new")); got != c.want {
					t.Errorf("got %v, want %v", got, c.want)
				}
				if n := strings.Count(log.String(), "\n"); n != c.logged {
					t.Errorf("got %d lines, want %d: %s", n, c.logged, log)
				}
			})
		})
	}
}

// Readings that follow at once, because of new rules, do not make a number smaller, and a rule that a reading does not
// have counts with all processes in it.
func TestCounter_Number_NewRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newCounter(0)
		c.note(Reading{Counts: map[string]int{"web": 10}}, Group{Name: "web"})
		for range 15 {
			time.Sleep(time.Second)
			c.note(Reading{Counts: map[string]int{"worker": 1}}, Group{Name: "worker"})
		}
		if got := fmt.Sprint(c.Number("api"), c.Number("batch"), c.Number("login"), c.Total()); got != "10 10 10 10" {
			t.Errorf("got %s", got)
		}
		time.Sleep(10 * time.Second)
		c.note(Reading{Counts: map[string]int{"worker": 1}}, Group{Name: "worker"})
		if got := fmt.Sprint(c.Number("api"), c.Number("batch"), c.Total()); got != "1 1 1" {
			t.Errorf("after the window: got %s", got)
		}
	})
}

// After an outage, a Redis without its data does not make a number smaller at once.
func TestCounter_Number_AfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newCounter(0)
		for range 3 {
			c.note(Reading{Counts: map[string]int{"web": 8}}, Group{Name: "web"})
			time.Sleep(10 * time.Second)
		}
		time.Sleep(time.Hour)
		for i, want := range []int{8, 8, 8, 7} {
			c.note(Reading{Counts: map[string]int{"web": 1 + 2*i}}, Group{Name: "web"})
			if got := c.Number("api"); got != want {
				t.Errorf("reading %d after the outage: got %d, want %d", i, got, want)
			}
			time.Sleep(6 * time.Second)
		}
	})
}

// The group of a heartbeat has the rules that limiters have, and the rules are said when they change.
func TestCounter_Declare(t *testing.T) {
	c, _ := newCounter(0)
	one := declares("api")
	for _, step := range []struct {
		change driver.Change
		rules  string
		said   int
	}{
		{one, "api", 1}, {declares("api"), "api", 0}, {declares("login"), "api login", 2}, {driver.Change{Old: one.New}, "api login", 0},
		{driver.Change{Old: one.New, New: declares("batch").New}, "batch login", 2}, {driver.Change{Old: slices.Concat(declares("batch").New, declares("login").New)}, "", 0},
	} {
		c.Declare(step.change)
		h := c.heartbeat()
		if h.Group != GroupOf(strings.Fields(step.rules)) || len(h.Rules) != step.said {
			t.Errorf("%+v: got the group %+v, and %d rules", step, h.Group, len(h.Rules))
		}
		c.saidAt = time.Now()
	}
}

// Rules that change all the time do not delay the heartbeats.
func TestCounter_Times_Changes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		c := New(NewRecord(func(context.Context, ...any) (any, error) {
			sent.Add(1)
			return []any{int64(0), "web", int64(0)}, nil
		}, "weir:shop:", "shop"), Config{Timeout: time.Second, Log: slog.Default})
		for i := range 1000 {
			c.Declare(declares(fmt.Sprint(i)))
			time.Sleep(50 * time.Millisecond)
		}
		if n := sent.Load(); n < 45 || n > 55 {
			t.Errorf("got %d heartbeats in 50 s, want one in each", n)
		}
		c.Close()
	})
}

// A process that ends while the server is busy tries again.
func TestCounter_Close_Busy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends atomic.Int64
		c := New(NewRecord(func(_ context.Context, args ...any) (any, error) {
			if args[11] == "" && ends.Add(1) < 5 {
				return nil, errors.New("BUSY Redis is busy running a script.")
			}
			return []any{int64(0), "web", int64(0)}, nil
		}, "weir:shop:", "shop"), Config{Timeout: 100 * time.Millisecond, Log: slog.Default})
		c.Declare(declares("api"))
		time.Sleep(time.Second)
		if c.Close(); ends.Load() != 5 {
			t.Errorf("got %d attempts, want 5", ends.Load())
		}
	})
}

// The first heartbeat has the rules that are declared together, and later ones come at their times, also without replies.
// Close ends them, and may be called at any time.
func TestCounter_Times(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent, unknown atomic.Int64
		record := NewRecord(func(context.Context, ...any) (any, error) {
			sent.Add(1)
			return nil, errors.New("connection refused")
		}, "weir:shop:", "shop")
		c := New(record, Config{
			Timeout: time.Second, Log: slog.Default, Unknown: func() { unknown.Add(1) }, Refused: func(error) string { return "" },
		})
		time.Sleep(time.Minute)
		for _, step := range []struct {
			declare string
			wait    time.Duration
			from    int64 // heartbeats
			to      int64
		}{
			{"", 0, 0, 0},
			{"a", 50 * time.Millisecond, 0, 0},
			{"b", 51 * time.Millisecond, 1, 1},
			{"", 50 * time.Millisecond, 1, 1},
			{"", 1800 * time.Millisecond, 1, 1},
			{"", 200 * time.Millisecond, 2, 2},
			{"", 8800 * time.Millisecond, 2, 2},
			{"", 2300 * time.Millisecond, 3, 3},
			{"c", 900 * time.Millisecond, 4, 4},
			{"d", 50 * time.Millisecond, 4, 4},
			{"", time.Second, 5, 5},
			{"", 100 * time.Second, 5 + 9, 5 + 11},
		} {
			if step.declare != "" {
				c.Declare(declares(step.declare))
			}
			time.Sleep(step.wait)
			synctest.Wait()
			if n := sent.Load(); n < step.from || n > step.to {
				t.Fatalf("%+v: got %d heartbeats", step, n)
			}
		}
		before := sent.Load()
		if n := unknown.Load(); n != before {
			t.Errorf("%d of %d heartbeats were reported", n, before)
		}
		c.Close()
		c.Close()
		c.Declare(declares("e"))
		time.Sleep(time.Minute)
		if n := sent.Load(); n != before+1 {
			t.Errorf("got %d commands after the end, want 1", n-before)
		}
		New(record, Config{}).Close()
	})
}
