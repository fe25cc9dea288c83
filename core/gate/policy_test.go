package gate

import (
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

// TestPolicy_Denial compares the texts, remembered or not, with those that are made for each denial.
func TestPolicy_Denial(t *testing.T) {
	for _, rule := range []core.Rule{
		core.TokenBucket(`a "b"`, core.PerMinute(10).WithBurst(3)), core.SlidingLog("log", core.PerHour(1)), core.FixedWindow("no", core.Blocked),
	} {
		p := newPolicy(rule)
		for _, retry := range []int64{1, 65, 1, 1, 0, 64, 0, 3600, 16, 3600, 9_223_372_037, 61, 9_223_372_037} {
			state := core.State{Window: min(time.Duration(retry), 9_223_372_036) * time.Second}
			if retry > 9_223_372_036 {
				state.Window = core.Never
			}
			got, detail, limits := p.denial(retry), describe(rule, retry), string(appendMember(nil, p, &state))
			if got.detail != detail || got.retryAfter != strconv.FormatInt(retry, 10) || retry > 0 && got.limits != limits {
				t.Errorf("%v, %d s: %+v, want %q and %q", rule, retry, *got, detail, limits)
			}
		}
	}
}
