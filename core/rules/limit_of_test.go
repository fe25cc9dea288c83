package rules_test

import (
	"context"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/testkit"
)

// A limiter of a Set has limits of a table, too. Overrides and blocks have precedence, and a policy that is not enforced
// denies no key.
func TestSet_Limiter_LimitOf(t *testing.T) {
	const keys = ", keys: {raised: {limits: {minute: 30/m}}, gold: {plan: gold}, blocked: {blocked: true}, day: {limits: {day: 50/d}}}"
	const policy = "rules: [{name: minute, algorithm: sliding_log, limit: 10/m, plans: {gold: 100/m}}, {name: day, algorithm: sliding_log, limit: 1000/d}]"
	table := map[string]core.Limit{"tenant": core.PerMinute(5), "raised": core.PerMinute(6), "gold": core.PerMinute(7), "blocked": core.PerMinute(8), "day": core.PerMinute(9)}
	limitOf := func(_ context.Context, key string) (core.Limit, error) { return table[key], nil }
	for name, c := range map[string]struct {
		policy, key string
		want        []string
	}{
		"none":         {policy + keys, "ann", []string{`sliding_log "api.minute" 10/m`, `sliding_log "api.day" 1000/d`}},
		"of the table": {policy + keys, "tenant", []string{`sliding_log "api.minute" 5/m`, `sliding_log "api.day" 1000/d`}},
		"an override":  {policy + keys, "raised", []string{`sliding_log "api.minute" 30/m`, `sliding_log "api.day" 1000/d`}},
		"a plan":       {policy + keys, "gold", []string{`sliding_log "api.minute" 100/m plan "gold"`, `sliding_log "api.day" 1000/d`}},
		"a block":      {policy + keys, "blocked", []string{`sliding_log "api.minute" blocked`, `sliding_log "api.day" blocked`}},
		"another rule": {policy + keys, "day", []string{`sliding_log "api.minute" 9/m`, `sliding_log "api.day" 50/d`}},
		"not enforced": {"enforce: 0, " + policy, "tenant", []string{`sliding_log "api.minute" 5/m shadow`, `sliding_log "api.day" 1000/d shadow`}},
	} {
		t.Run(name, func(t *testing.T) {
			l := limiter(t, newSet(t, "api: {"+c.policy+"}"), "api").LimitOf(limitOf)
			for range 2 {
				d := testkit.Ask(t, l, c.key, 1)
				for i, want := range c.want {
					if got := d.State(i).Rule.String(); got != want {
						t.Errorf("got %s, want %s", got, want)
					}
				}
			}
		})
	}
}
