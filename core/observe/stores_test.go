package observe_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/storetest"
)

// eventually fails the test if ok does not become true within a minute.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); !ok(); <-tick.C {
		if time.Since(begun) > time.Minute {
			t.Fatalf("after a minute: %s", what)
		}
	}
}

func value(t *testing.T, s *observe.Store, role, name string) float64 {
	t.Helper()
	for _, m := range s.Snapshot().Measures {
		if m.Role == role && m.Name == name {
			return m.Value
		}
	}
	t.Fatalf("no measure %s of the role %q", name, role)
	return 0
}

func TestStore_MeasuresOfMemory(t *testing.T) {
	s := observe.New(memstore.New())
	l := testkit.Limiter(t, s, core.TokenBucket("api", core.PerHour(9)))
	for i := range 100 {
		testkit.Allow(t, l, fmt.Sprint(i))
	}
	if states, memory := value(t, s, "", "weir.memstore.states"), value(t, s, "", "weir.memstore.memory"); states != 100 || memory < 2400 || memory > 7200 {
		t.Errorf("got %v states in %v bytes, want 100 in 2400 to 7200", states, memory)
	}
}

// An outage and its end are logged.
func TestLogger_Outage(t *testing.T) {
	var b lockedBuffer
	log := slog.New(slog.NewTextHandler(&b, nil))
	text := func() string {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.String()
	}
	fake, changes := new(storetest.Fake), make(chan failover.State, 9)
	over := failover.New(fake, memstore.New(), failover.OnChange(func(_, to failover.State, _ error) { changes <- to }))
	s := observe.New(over, observe.Logger(log))
	l := testkit.Limiter(t, s, hour("api", 1_000_000))
	fake.Set(storetest.Fail(fmt.Errorf("%w: killed", core.ErrUnavailable)))
	eventually(t, "no outage", func() bool { testkit.Allow(t, l, "k"); return over.State() == failover.Backup })
	if got := value(t, s, "", "weir.failover.state"); got != 1 {
		t.Errorf("got the state %v, want 1", got)
	}
	fake.Set()
	eventually(t, "no return", func() bool { testkit.Allow(t, l, "k"); return over.State() == failover.Primary })
	testkit.Must(t, over.Close())

	const want = `level=WARN msg="weir: the store has changed" from=primary to=backup error="weir: store unavailable: killed"`
	if !strings.Contains(text(), want) {
		t.Errorf("the log has no %q:\n%s", want, text())
	}
	if len(changes) == 0 {
		t.Error("the function of OnChange was not called")
	}
}
