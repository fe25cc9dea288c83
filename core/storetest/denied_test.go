package storetest_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/storetest"
)

func TestDenied(t *testing.T) {
	for _, c := range []struct {
		got  core.Decision
		want string
		text string
	}{
		{storetest.Denied(90 * time.Second), `denied, retry after 1m30s: "limit" 0 of 1 left`, "in 1m30s"},
		{storetest.Denied(core.Never, core.TokenBucket("page", core.PerSecond(5))), `denied for ever: "page" 0 of 5 left`, "never"},
		{storetest.Denied(1200*time.Millisecond, core.SlidingLog("a", core.PerHour(3)), core.Quota("b", core.Daily(2))), `denied, retry after 1.2s: "a" 0 of 3 left, "b" 0 of 2 left`, "in 2s"},
		{storetest.Denied(30*time.Second, core.InFlight("exports", 5)), `denied, retry after about 30s: "exports" 0 of 5 left`, "in about 30s"},
		{core.Decision{}, "no decision", ""},
	} {
		if c.got.String() != c.want || c.got.Allowed || c.got.Retry() != c.text {
			t.Errorf("got %v and %q, want %s and %q", c.got, c.got.Retry(), c.want, c.text)
		}
	}
}
