package failover_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/internal/testkit"
)

// The function is called for each change, in order, with the cause of an outage. It may use
// the Store.
func TestOnChange(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var p *pair
		var got []string
		p = newPair(t, false, failover.OnChange(func(from, to failover.State, cause error) {
			p.Stats()
			testkit.Allow(t, p.wide, "k")
			got = append(got, fmt.Sprintf("%v to %v: %v", from, to, cause))
		}))
		for range 2 {
			p.leave()
			p.comeBack()
		}
		p.Close()
		want := []string{
			"primary to backup: weir: store unavailable: refuses", "backup to recovering: <nil>", "recovering to primary: <nil>",
		}
		if want = append(want, want...); !slices.Equal(got, want) {
			t.Errorf("the changes: got %q, expected %q", got, want)
		}
	})
}

// Without OnChange and a log of package observe, an outage is in slog.Default.
func TestNew_LogsOutages(t *testing.T) {
	const begins = `level=WARN msg="weir: the store has changed" from=primary to=backup error="weir: store unavailable: refuses"`
	for name, c := range map[string]struct {
		opts []failover.Option
		want int // records
	}{
		"default":  {nil, 3},
		"OnChange": {[]failover.Option{failover.OnChange(func(failover.State, failover.State, error) {})}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var b testkit.Buffer
			defer slog.SetDefault(slog.Default())
			slog.SetDefault(slog.New(slog.NewTextHandler(&b, nil)))
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, false, c.opts...)
				p.leave()
				p.comeBack()
				p.Close()
			})
			if got := strings.Count(b.String(), "weir: the store has changed"); got != c.want || got > 0 && !strings.Contains(b.String(), begins) {
				t.Errorf("got %q", b.String())
			}
		})
	}
}

// A slow function delays no decision. The changes during one of its calls are reported in the next
// call, and the last change is always reported.
func TestOnChange_Slow(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(p *pair) // while the function is called with the first change
		want []string      // the calls
	}{
		{"no further change", func(*pair) {}, []string{"primary to backup"}},
		{"half-open", func(p *pair) { p.set(); p.until(failover.Recovering) }, []string{"primary to backup", "backup to recovering"}},
		{"closed", (*pair).comeBack, []string{"primary to backup", "backup to primary"}},
		{"closed and open again", func(p *pair) { p.comeBack(); p.leave() }, []string{"primary to backup"}},
		{"twenty outages", func(p *pair) {
			for range 20 {
				p.comeBack()
				p.leave()
			}
			p.comeBack()
		}, []string{"primary to backup", "backup to primary"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				release := make(chan struct{})
				var got []string
				p := newPair(t, false, failover.OnChange(func(from, to failover.State, _ error) {
					<-release
					got = append(got, fmt.Sprintf("%v to %v", from, to))
				}))
				p.leave()
				c.run(p)
				close(release)
				if synctest.Wait(); !slices.Equal(got, c.want) {
					t.Errorf("the calls: got %q, expected %q", got, c.want)
				}
			})
		})
	}
}

func TestOnChange_Close(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var calls, running atomic.Int32
		p := newPair(t, false, failover.OnChange(func(failover.State, failover.State, error) {
			running.Add(1)
			time.Sleep(time.Minute)
			running.Add(-1)
			calls.Add(1)
		}))
		p.leave()
		p.comeBack()
		p.Close()
		if running.Load() != 0 || calls.Load() != 1 {
			t.Errorf("after Close: got %d calls that run and %d that ended, expected 0 and 1", running.Load(), calls.Load())
		}
		p.leave()
		time.Sleep(time.Hour)
		if calls.Load() != 1 {
			t.Errorf("calls after Close: got %d, expected 0", calls.Load()-1)
		}
	})
}
