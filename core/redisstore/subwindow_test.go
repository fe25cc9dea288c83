package redisstore_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/redistest"
	"github.com/weir-go/weir/core/redisstore"
)

// TestSlidingWindow_MaxSubWindows_duration fills the most sub-windows that there can be
// and checks that no decision takes Redis more than 300 us. Of several calls the
// fastest counts, because other processes slow them down.
func TestSlidingWindow_MaxSubWindows_duration(t *testing.T) {
	t.Parallel()
	const most, calls = 300 * time.Microsecond, 100
	rdb := redistest.Single(t).Client()
	h := harness(rdb)
	s := h.Store.(*redisstore.Store)
	const n = core.MaxSubWindows
	rule := core.SlidingWindow("r", core.Per(10*n, n*time.Second)).SubWindows(n)
	take := func(op core.Op, cost int, mark *core.Mark) core.State {
		charges := []core.Charge{{Key: "k", Rule: &rule, Op: op, Cost: cost, Mark: mark}}
		if err := s.Take(t.Context(), charges); err != nil {
			t.Fatal(err)
		}
		return charges[0].State
	}
	var marks []*core.Mark
	for range n {
		take(core.Spend, 8, nil)
		m := new(core.Mark)
		take(core.Spend, 1, m)
		marks = append(marks, m)
		h.Advance(time.Second)
	}
	key := s.Key("k", &rule)
	if encoding := rdb.ObjectEncoding(t.Context(), key).Val(); encoding != "listpack" && encoding != "ziplist" {
		t.Errorf("the encoding of %d fields is %s, expected a compact one", rdb.HLen(t.Context(), key).Val(), encoding)
	}
	total := func() (sum time.Duration) {
		for line := range strings.Lines(rdb.Info(t.Context(), "commandstats").Val()) {
			if name, rest, _ := strings.Cut(line, ":"); name == "cmdstat_evalsha" || name == "cmdstat_eval" {
				_, rest, _ = strings.Cut(rest, "usec=")
				text, _, _ := strings.Cut(rest, ",")
				us, err := strconv.Atoi(text)
				if err != nil {
					t.Fatalf("commandstats: %v in %q", err, line)
				}
				sum += time.Duration(us) * time.Microsecond
			}
		}
		return sum
	}
	for _, c := range []struct {
		name string
		call func(i int)
	}{
		{"denied, for the cost of half the limit", func(int) {
			if take(core.Spend, 5*n, nil).Allowed {
				t.Fatal("half the limit was admitted")
			}
		}},
		{"undo", func(i int) { take(core.Undo, 1, marks[len(marks)-1-i]) }},
		{"refund of 1", func(int) { take(core.Refund, 1, nil) }},
		{"settle", func(int) { take(core.Settle, 3, nil) }},
	} {
		fastest := time.Hour
		for i := range calls {
			before := total()
			c.call(i)
			fastest = min(fastest, total()-before)
		}
		t.Logf("%s: %v", c.name, fastest)
		if fastest > most {
			t.Errorf("%s: the fastest of %d calls took %v, expected at most %v", c.name, calls, fastest, most)
		}
	}
}
