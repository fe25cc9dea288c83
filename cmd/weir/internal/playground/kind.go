package playground

import (
	"fmt"

	"github.com/weir-go/weir/core"
)

// A kind is an algorithm of the lanes.
type kind struct {
	id       string // of the lane
	hasBurst bool
	make     func(name string, l core.Limit) core.Rule
	code     string // of make, with a name and a limit
}

// kinds are those of the lanes of a run.
var kinds = []kind{
	{"token_bucket", true, core.TokenBucket, "core.TokenBucket(%q, %s)"},
	{"leaky_bucket", true, core.LeakyBucket, "core.LeakyBucket(%q, %s)"},
	{"fixed_window", false, core.FixedWindow, "core.FixedWindow(%q, %s)"},
	{"fixed_window_from_first", false, windowFromFirst, "core.FixedWindow(%q, %s).FromFirst()"},
	{"sliding_log", false, core.SlidingLog, "core.SlidingLog(%q, %s)"},
	{"sliding_window", false, core.SlidingWindow, "core.SlidingWindow(%q, %s)"},
}

func windowFromFirst(name string, l core.Limit) core.Rule {
	return core.FixedWindow(name, l).FromFirst()
}

// rule returns the rule of k with the limit of p.
func (k *kind) rule(p *Parameters) core.Rule {
	l := core.Per(p.Limit, p.per())
	if k.hasBurst {
		l = l.WithBurst(p.Burst)
	}
	return k.make(ruleName, l)
}

// ruleCode returns the rule of k with the limit of p in a program.
func (k *kind) ruleCode(p *Parameters) string {
	limit := fmt.Sprintf("core.%s(%d)", map[string]string{"s": "PerSecond", "m": "PerMinute", "h": "PerHour"}[p.Per], p.Limit)
	if k.hasBurst && p.Burst != p.Limit {
		limit += fmt.Sprintf(".WithBurst(%d)", p.Burst)
	}
	return fmt.Sprintf(k.code, ruleName, limit)
}
