package sim

import (
	"fmt"
	"math/big"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

// A catalog has the rules of a simulation. The arguments of a script have the numbers of a rule, and the key
// has the name of its state; the catalog finds the rule to which both belong.
type catalog struct {
	mu    sync.Mutex
	rules map[string][]*driver.Compiled // by library and name of the state
}

func newCatalog() *catalog { return &catalog{rules: map[string][]*driver.Compiled{}} }

// libraries has the names of algorithms in Lua.
var libraries = map[driver.Algorithm]string{
	driver.TokenBucket: "bucket", driver.LeakyBucket: "bucket", driver.FixedWindow: "quota", driver.SlidingWindow: "sliding_window",
	driver.SlidingLog: "sliding_log", driver.InFlight: "in_flight", driver.Quota: "quota",
	driver.Pause: "pause",
}

// libraryOf returns the library of r.
func libraryOf(r *driver.Compiled) string {
	if r.Rollover > 0 {
		return "rollover"
	}
	return libraries[r.Algorithm]
}

// sizes has the numbers of arguments of the libraries; a bucket may have more.
var sizes = map[string]int{"bucket": 5, "sliding_window": 4, "sliding_log": 4, "in_flight": 3, "quota": 6, "pause": 1, "rollover": 10}

// probes has the readings of unused keys.
var probes = map[string][]any{
	"bucket": {int64(0)}, "sliding_window": {int64(0), int64(0), int64(0), int64(0), int64(0)},
	"sliding_log": {int64(0), int64(0), int64(0), int64(0)}, "in_flight": {int64(0), int64(0), int64(0), int64(0)},
	"quota": {int64(0), int64(1), int64(1)},
	"pause": {int64(0)},
}

// checkRules returns the rules of diagnose.Diagnose, which resilient.New calls.
func checkRules() (all []core.Rule) {
	const name = "check"
	for _, hold := range []time.Duration{10 * time.Second, 20 * time.Second} {
		three := core.Per(3, hold)
		all = append(all,
			core.TokenBucket(name, three), core.FixedWindow(name, three), core.FixedWindow(name, three).FromFirst(), core.SlidingLog(name, three),
			core.SlidingWindow(name, three).SubWindows(10), core.Pause(name),
			core.InFlight(name, 1).Hold(hold), core.InFlight(name, 3).Hold(hold), core.InFlight(name, 3).Hold(hold).ByCost(),
		)
	}
	return all
}

// isCheck reports whether a key in Redis is that of a rule of checkRules.
func isCheck(key string) bool { return strings.HasSuffix(key, ":check") }

// add adds a rule, unless one with the same numbers is there.
func (c *catalog) add(r *driver.Compiled) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := libraryOf(r) + " " + r.StateName
	for _, old := range c.rules[name] {
		if old.Constants == r.Constants && old.Shadow == r.Shadow || r.Kind.Calendar && old.Definition.Equal(r.Definition) {
			return
		}
	}
	c.rules[name] = append(c.rules[name], r)
}

// find returns the rule and the cost of a charge, which must be 1 if unit is true: buckets of several rules
// have equal arguments if a cost of one has the price of another cost of the other.
func (c *catalog) find(key, library string, args []string, shadow, unit bool) (*driver.Compiled, int64, error) {
	_, name, _ := strings.Cut(key, "}")
	_, name, _ = strings.Cut(name, ":")
	c.mu.Lock()
	defer c.mu.Unlock()
	numbers := make([]int64, len(args))
	for i, a := range args {
		numbers[i] = integer(a)
	}
	var found *driver.Compiled
	var foundCost int64
	for _, r := range c.rules[library+" "+name] {
		cost, ok := costOf(r, numbers)
		if !ok || unit && cost != 1 {
			continue
		}
		if found, foundCost = r, cost; r.Shadow == shadow { // an Adjust does not say whether the rule is one
			break
		}
	}
	if found == nil {
		return nil, 0, fmt.Errorf("no rule has the key %s and the arguments %v of %s", key, args, library)
	}
	if found.Algorithm == driver.Quota {
		found = found.During(driver.Periods{Start: numbers[2], Boundary: numbers[3], End: numbers[4]})
	}
	return found, foundCost, nil
}

// costOf returns the cost of a charge of r with these arguments, or false if r has other arguments.
func costOf(r *driver.Compiled, n []int64) (int64, bool) {
	k := &r.Constants
	switch k.Algorithm {
	case driver.TokenBucket, driver.LeakyBucket:
		return priced(r, n)
	case driver.FixedWindow:
		return n[0], n[1] == k.Capacity && n[len(n)-1] == k.Period
	case driver.SlidingWindow:
		return n[0], n[1] == k.Capacity && n[2] == k.Period && n[3] == k.SubWindow
	case driver.SlidingLog, driver.InFlight:
		return n[0], n[1] == k.Capacity && n[2] == k.Period
	case driver.Pause: // all have equal constants, and the argument is the length that a debit sets
		return 1, true
	case driver.Quota:
		if r.Rollover > 0 {
			return n[0], n[1] == int64(r.Events) && n[6] == int64(r.Rollover) && n[7] == k.Share[0] && n[8] == k.Share[1] && n[9] == k.Extra
		}
		return n[0], n[1] == k.Capacity
	default:
		panic(fmt.Sprintf("sim: no arguments of %v", r))
	}
}

// priced is costOf for a bucket, whose arguments have the price of the cost.
func priced(r *driver.Compiled, n []int64) (int64, bool) {
	k := &r.Constants
	price, full, headroom := driver.Span{Micros: n[0]}, driver.Span{Micros: n[1]}, driver.Span{Micros: n[2]}
	if n[4] != k.Denominator {
		return 0, false
	}
	if k.Denominator > 1 {
		price.Frac, full.Frac, headroom.Frac = n[5], n[6], n[7]
	}
	if full != k.Full || headroom != k.Headroom {
		return 0, false
	}
	unit := units(k.Unit, k.Denominator)
	if price == k.Unit {
		return 1, true
	}
	cost, remainder := new(big.Int).DivMod(units(price, k.Denominator), unit, new(big.Int))
	if price.Micros == 100*366*24*3600*1e6+1 { // of all costs that are more than any bucket holds
		return cost.Int64() + 1, true
	}
	return cost.Int64(), remainder.Sign() == 0
}

// units returns s in parts of 1/denominator us.
func units(s driver.Span, denominator int64) *big.Int {
	n := new(big.Int).Mul(big.NewInt(s.Micros), big.NewInt(denominator))
	return n.Add(n, big.NewInt(s.Frac))
}

// report appends a reading as the script of the algorithm reports it. done says whether the charge of an
// in-flight rule was applied.
func (c *charge) report(reply []any, r *driver.Reading, done bool) []any {
	switch c.Rule.Algorithm {
	case driver.TokenBucket, driver.LeakyBucket:
		if reply = append(reply, r.Used.Micros); c.Rule.Constants.Denominator > 1 {
			reply = append(reply, r.Used.Frac)
		}
	case driver.FixedWindow:
		if r.Length == 0 {
			r.Length = c.Rule.Constants.Period
		}
		reply = append(reply, r.Count, r.Left, r.Length)
	case driver.SlidingWindow:
		if r.Count == 0 {
			*r = driver.Reading{Phase: r.Phase}
		}
		reply = append(reply, r.Phase, r.Count, r.First, r.Last, r.Retry)
	case driver.SlidingLog:
		if r.Count == 0 {
			*r = driver.Reading{}
		}
		reply = append(reply, r.Count, r.First, r.Last, r.Retry)
	case driver.InFlight:
		phase := int64(0)
		if done && c.Op != driver.Spend {
			phase = 1
		} else if r.Single {
			phase = 2
		}
		reply = append(reply, r.Count, r.Last, r.Retry, phase)
	case driver.Quota:
		if reply = append(reply, r.Count, r.Left, r.Length); c.Rule.Rollover > 0 {
			rolls := int64(0)
			if r.Rolls {
				rolls = 1
			}
			reply = append(reply, r.Rest, rolls)
		}
	case driver.Pause:
		reply = append(reply, r.Left)
	}
	return reply
}
