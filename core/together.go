package core

import (
	"context"
	"fmt"
	"slices"

	"github.com/weir-go/weir/core/driver"
)

// addTogether adds the lines of any number of asks, with rules that were in force at one moment.
func (e *event) addTogether(ctx context.Context, asks []Ask) error {
	if err := checkTogether(asks); err != nil {
		return err
	}
	var few struct {
		choices [4]choice
		sets    [4]*ruleSet
		rules   [4][]Rule
	}
	choices, sets, rules := few.choices[:0], few.sets[:0], few.rules[:0]
	err := readRules(func() error {
		choices, sets = choices[:0], sets[:0]
		for i := range asks {
			if j := slices.IndexFunc(asks[:i], func(o Ask) bool { return asks[i].sameChoice(&o) }); j >= 0 { // the function of Choose might choose another view now
				choices, sets = append(choices, choices[j]), append(sets, sets[j])
				continue
			}
			c, err := asks[i].Limiter.choose(ctx, asks[i].Key, asks[i].Plan)
			if err != nil {
				return err
			}
			choices, sets = append(choices, c), append(sets, c.ruleSet())
		}
		return nil
	})
	if err != nil {
		return err
	}
	e.begin()
	for i := range asks {
		rules = append(rules, choices[i].planned(sets[i]))
		for j := range i {
			if asks[i].Key == asks[j].Key && conflict(rules[i], rules[j]) {
				return invalidAsk(fmt.Sprintf("asks %d and %d have different limits for one rule and key", j, i))
			}
		}
		e.add(ctx, i, &asks[i], rules[i], driver.Spend, choices[i].ends)
	}
	if n := len(e.charges()); n > maxCharges {
		return invalidAsk(fmt.Sprintf("%d rules for keys in one call, more than %d", n, maxCharges))
	}
	return nil
}

// checkTogether returns an error if an ask is invalid, or if the asks are about several Stores.
func checkTogether(asks []Ask) error {
	if len(asks) == 0 {
		return invalidAsk("there is none")
	}
	for i := range asks {
		if err := asks[i].check(); err != nil {
			return err
		}
		if asks[i].Limiter.store != asks[0].Limiter.store {
			return invalidAsk(fmt.Sprintf("asks 0 and %d have different stores", i))
		}
	}
	return nil
}

// conflict reports whether rules and others have a rule of the same name with different limits.
func conflict(rules, others []Rule) bool {
	for _, r := range rules {
		for _, o := range others {
			if r.d == o.d || r.Name() != o.Name() {
				continue
			}
			if !r.d.sameLimit(o.d) {
				return true
			}
		}
	}
	return false
}
