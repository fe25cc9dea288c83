package playground

import (
	"context"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

// A lane is the simulation of one algorithm.
type lane struct {
	Lane
	rule       core.Rule
	simulation *simulate.Simulation
	policy     *simulate.Policy
}

func newLane(p Parameters, a driver.Algorithm) (*lane, error) {
	l := &lane{rule: p.rule(a), simulation: simulate.New()}
	limiter, err := core.New(l.simulation.Store(), l.rule)
	if err != nil {
		return nil, err
	}
	l.policy = l.simulation.Add(ruleName, limiter)
	l.Algorithm, l.Code = a.String(), p.code(a)
	l.Passed, l.Rejected = make([]int, bins), make([]int, bins)
	return l, nil
}

// add decides about e, in a run of a length in microseconds.
func (l *lane) add(ctx context.Context, e *simulate.Event, span int64) error {
	d, err := l.simulation.Decide(ctx, l.policy, e)
	if err != nil {
		return err
	}
	if d.Allowed {
		if i := bin(e.At+d.Delay.Microseconds(), span); i < bins {
			l.Passed[i]++
		}
		return nil
	}
	l.Rejected[bin(e.At, span)]++
	if l.Response == "" {
		l.Response, l.DeniedAt = response(d.State(0)), (e.At-simulate.Begin)/1000
	}
	return nil
}

// addLevel adds the level of client 1 at a time.
func (l *lane) addLevel(ctx context.Context, at int64) error {
	d, err := l.simulation.Peek(ctx, l.policy, "client:1", at)
	if err != nil {
		return err
	}
	l.Level = append(l.Level, float64(d.State(0).Used())/float64(l.rule.Capacity()))
	return nil
}

// result returns the Lane with the figures of the simulation.
func (l *lane) result() Lane {
	p := l.policy
	l.Admitted, l.Denied, l.Delayed = p.Admitted, p.Denied, p.Delayed
	l.Retry, l.RetryMax = p.RetryAfter.Quantile(0.5), p.RetryAfter.Max
	if len(p.Rules) > 0 && p.Rules[0] != nil {
		r := p.Rules[0]
		l.Worst = Worst{r.Worst.Admitted, (r.Worst.Begin - simulate.Begin) / 1000}
		l.Queue, l.Delay = r.Queue.Max, (time.Duration(r.Delay.Max) * time.Microsecond).Milliseconds()
	}
	return l.Lane
}
