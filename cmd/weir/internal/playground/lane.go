package playground

import (
	"context"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/core"
)

// A lane is the simulation of one kind of rule.
type lane struct {
	Lane
	rule       core.Rule
	simulation *simulate.Simulation
	policy     *simulate.Policy
}

func newLane(p Parameters, k *kind) (*lane, error) {
	l := &lane{rule: k.rule(&p), simulation: simulate.New()}
	limiter, err := core.New(l.simulation.Store(), l.rule)
	if err != nil {
		return nil, err
	}
	l.policy = l.simulation.Add(ruleName, limiter)
	l.Algorithm, l.Code = k.id, p.code(k)
	l.Passed, l.Rejected, l.Level = make([]int, bins), make([]int, bins), make([]float64, bins)
	return l, nil
}

// add decides about e, in a run of a length in microseconds.
func (l *lane) add(ctx context.Context, e *simulate.Event, span int64) error {
	d, err := l.simulation.Decide(ctx, l.policy, e)
	if err != nil {
		return err
	}
	if e.Key == observed {
		l.addLevel(bin(e.At, span), d)
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

// observed is the key of the client whose levels are in a Lane.
const observed = "client:1"

// addLevel adds the level after a decision about the observed client to a bin.
func (l *lane) addLevel(i int, d core.Decision) {
	l.Level[i] = max(l.Level[i], float64(d.State(0).Used())/float64(l.rule.Capacity()))
}

// peekLevel adds the level at the begin of a bin.
func (l *lane) peekLevel(ctx context.Context, i int, span int64) error {
	d, err := l.simulation.Peek(ctx, l.policy, observed, begin(i, span))
	if err == nil {
		l.addLevel(i, d)
	}
	return err
}

// result returns the Lane with the figures of the simulation.
func (l *lane) result(ctx context.Context) (Lane, error) {
	p := l.policy
	if l.Response == "" {
		const key = "another" // which has sent nothing
		if _, err := p.Limiter.AllowN(ctx, key, l.rule.Capacity()); err != nil {
			return Lane{}, err
		}
		d, err := p.Limiter.Peek(ctx, key)
		if err != nil {
			return Lane{}, err
		}
		l.Response = response(d.State(0))
	}
	l.Admitted, l.Denied, l.Delayed = p.Admitted, p.Denied, p.Delayed
	l.Retry, l.RetryMax = p.RetryAfter.Quantile(0.5), p.RetryAfter.Max
	if len(p.Rules) > 0 && p.Rules[0] != nil {
		r := p.Rules[0]
		l.Worst = Worst{r.Worst.Admitted, (r.Worst.Begin - simulate.Begin) / 1000}
		l.Queue, l.Delay = r.Queue.Max, (time.Duration(r.Delay.Max) * time.Microsecond).Milliseconds()
	}
	return l.Lane, nil
}
