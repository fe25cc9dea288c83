package processes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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

func TestCounter_Numbers(t *testing.T) {
	type groups = map[string]int
	for name, c := range map[string]struct {
		instances int
		readings  []groups
		want      groups // of the rules api and login
		logged    int
	}{
		"nothing":                      {0, nil, groups{}, 0},
		"Instances":                    {4, nil, groups{"api": 4, "login": 4}, 0},
		"one group":                    {0, []groups{{"web": 3}}, groups{"api": 3, "login": 3}, 0},
		"two groups":                   {0, []groups{{"web": 3, "worker": 4}}, groups{"api": 7, "login": 3}, 0},
		"rules that are not known":     {0, []groups{{"web": 3, "bad": 2}}, groups{"api": 5, "login": 5}, 0},
		"a group that is not known":    {0, []groups{{"web": 3, "other": 2}}, groups{"api": 5, "login": 5}, 0},
		"the group of all":             {0, []groups{{"web": 3, "worker": 4, All: 2}}, groups{"api": 9, "login": 9}, 0},
		"Instances, one reading":       {9, []groups{{"web": 3}}, groups{"api": 9, "login": 9}, 0},
		"Instances, more are read":     {2, []groups{{"web": 3}}, groups{"api": 3, "login": 3}, 0},
		"Instances, three readings":    {9, []groups{{"web": 3}, {"web": 3}, {"web": 3}}, groups{"api": 3, "login": 3}, 0},
		"a larger number":              {0, []groups{{"web": 3}, {"web": 4}}, groups{"api": 4, "login": 4}, 0},
		"a smaller number":             {0, []groups{{"web": 4}, {"web": 3}, {"web": 3}}, groups{"api": 4, "login": 4}, 0},
		"a smaller number three times": {0, []groups{{"web": 4}, {"web": 3}, {"web": 2}, {"web": 1}}, groups{"api": 3, "login": 3}, 0},
		"ten times":                    {0, []groups{{"web": 3}, {"web": 30}}, groups{"api": 30, "login": 30}, 0},
		"more than ten times":          {0, []groups{{"web": 3}, {"web": 31}}, groups{"api": 31, "login": 31}, 1},
		"less than a tenth":            {0, []groups{{"web": 31}, {"web": 3}}, groups{"api": 31, "login": 31}, 1},
		"many, then more":              {0, []groups{{"web": 9_999}, {"web": 10_001}, {"web": 10_002}}, groups{"api": 10_002, "login": 10_002}, 1},
		"processes without rules":      {0, []groups{{"web": 3, None: 5}}, groups{"api": 3, "login": 3}, 0},
		"a flood":                      {0, []groups{{"web": maxCount, "worker": maxCount, All: maxCount}}, groups{"api": maxCount, "login": maxCount}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			counter, log := newCounter(c.instances)
			counter.Declare(declares("api", "login"))
			for _, counts := range c.readings {
				counter.note(Reading{Counts: counts})
			}
			if got := counter.Numbers(); !maps.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if n := strings.Count(log.String(), "\n"); n != c.logged {
				t.Errorf("got %d lines, want %d: %s", n, c.logged, log)
			}
		})
	}
}

// Rules that come later have the number of all processes until it is read, and those that go have none.
func TestCounter_Declare(t *testing.T) {
	c, _ := newCounter(0)
	c.Declare(declares("api"))
	c.Declare(declares("api"))
	c.note(Reading{Counts: map[string]int{"web": 2, "worker": 5}})
	c.Declare(declares("login"))
	if got := fmt.Sprint(c.Numbers()); got != "map[api:7 login:7]" {
		t.Errorf("got %s", got)
	}
	c.note(Reading{Counts: map[string]int{"web": 2, "worker": 5}})
	one := declares("api")
	c.Declare(driver.Change{Old: one.New})
	if got := fmt.Sprint(c.Numbers(), c.Total()); got != "map[api:7 login:2] 7" {
		t.Errorf("got %s", got)
	}
	c.Declare(driver.Change{Old: one.New, New: declares("batch").New})
	if got, want := fmt.Sprint(c.Numbers()), "map[batch:7 login:2]"; got != want || c.heartbeat().Group != GroupOf([]string{"batch", "login"}) {
		t.Errorf("got %s, want %s", got, want)
	}
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
			{"b", 51 * time.Millisecond, 0, 0},
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
