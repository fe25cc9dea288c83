package simulate

import (
	"container/heap"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
)

// The kinds of a [Generator].
const (
	Steady    = "steady"    // each client sends at equal intervals
	Poisson   = "poisson"   // each client sends at random times
	Burst     = "burst"     // each client sends the requests of an interval at once
	Adversary = "adversary" // each client sends when the rules admit the most: see Generator.Targets
)

// Kinds are the kinds of generators.
var Kinds = []string{Steady, Poisson, Burst, Adversary}

// A Generator makes the traffic of some clients, whose keys are client:1, client:2 and so on.
type Generator struct {
	Kind    string
	Rate    core.Limit // of each client; the burst has no meaning
	Clients int
	For     time.Duration
	Every   time.Duration // the interval of a Burst, with the requests of Rate in it
	Seed    uint64        // of a Poisson
	Cost    int
	Plan    string
	Request string // as in an Event

	// Targets are the rules that an adversary attacks in turn. For each of them it waits until nothing is
	// used, and sends the whole capacity just before the end of a fixed window, the same again at its
	// end, and then four times the limit until the end of the next window. With several rules, it also
	// sends four times the limit during the last quarter of the window before.
	Targets []core.Rule
}

// Begin is the time of the first event that a generator can make: 2027-01-15 08:00 UTC.
const Begin = 1_800_000_000 * second

const second = int64(time.Second / time.Microsecond)

// ParseGenerator reads a text such as "poisson:rate=100/s,clients=20,for=10m". It reports false if the text
// does not begin with a kind. The parameters, and their defaults, are
//
//	rate=10/s      the requests of each client
//	clients=10
//	for=10m        for an adversary: four times the longest period of the targets
//	every=10s      of burst
//	seed=1         of poisson
//	cost=1, plan=, request=
func ParseGenerator(text string) (g *Generator, ok bool, err error) {
	kind, parameters, _ := strings.Cut(text, ":")
	if !slices.Contains(Kinds, kind) {
		return nil, false, nil
	}
	g = &Generator{Kind: kind, Rate: core.PerSecond(10), Clients: 10, For: 10 * time.Minute, Every: 10 * time.Second, Seed: 1, Cost: 1}
	if kind == Adversary {
		g.For = 0
	}
	for _, p := range strings.FieldsFunc(parameters, func(c rune) bool { return c == ',' }) {
		name, value, _ := strings.Cut(p, "=")
		if err := g.set(name, value); err != nil {
			return nil, true, fmt.Errorf("%s: %w", text, err)
		}
	}
	return g, true, nil
}

// set sets a parameter.
func (g *Generator) set(name, value string) (err error) {
	number := func(low, high int) int {
		n, e := strconv.Atoi(value)
		if e != nil || n < low || n > high {
			err = fmt.Errorf("%s is %q, and not a number from %d to %d", name, value, low, high)
		}
		return n
	}
	span := func() time.Duration {
		d, e := time.ParseDuration(value)
		if e != nil || d < time.Millisecond || d > maxFor {
			err = fmt.Errorf("%s is %q, and not a duration from 1ms to %v, such as 90s or 1h30m", name, value, maxFor)
		}
		return d
	}
	of := func(kind string) {
		if g.Kind != kind && err == nil {
			err = fmt.Errorf("%s is a parameter of %s only", name, kind)
		}
	}
	switch name {
	case "rate":
		g.Rate, err = core.ParseLimit(value)
		if l := g.Rate; err == nil && (l.Events <= 0 || l.Per < time.Microsecond || l.Events > 1_000_000_000 || l.Per > maxFor) {
			err = fmt.Errorf("rate is %q, and not a number of requests in a fixed period, such as 100/s", value)
		}
		if g.Kind == Adversary && err == nil {
			err = fmt.Errorf("an adversary has the rate of the limits")
		}
	case "clients":
		g.Clients = number(1, 1_000_000)
	case "for":
		g.For = span()
	case "every":
		g.Every = span()
		of(Burst)
	case "seed":
		g.Seed, err = strconv.ParseUint(value, 10, 64)
		of(Poisson)
	case "cost":
		g.Cost = number(1, 1_000_000_000)
	case "plan":
		g.Plan = value
	case "request":
		g.Request = value
	default:
		err = fmt.Errorf("unknown parameter %q; the parameters are rate, clients, for, every, seed, cost, plan, request", name)
	}
	return err
}

const maxFor = 366 * 24 * time.Hour

// Traffic returns the events of g.
func (g *Generator) Traffic() Traffic {
	if g.Kind == Adversary {
		return g.attack
	}
	return func(yield func(*Event) bool) {
		senders := make(senders, g.Clients)
		for i := range senders {
			senders[i] = g.sender(i)
		}
		heap.Init(&senders)
		end := Begin + g.For.Microseconds()
		for {
			s := senders[0]
			if s.at >= end || !s.send(yield, g.size(s.n)) {
				return
			}
			s.n++
			s.at = g.next(s)
			heap.Fix(&senders, 0)
		}
	}
}

// size returns the number of requests that a client sends at once, for the n-th time. If an interval does not have a
// whole number of them, the bursts differ by one.
func (g *Generator) size(n int64) int {
	if g.Kind != Burst {
		return 1
	}
	until := func(n int64) int64 {
		return share(int64(g.Rate.Events), n*g.Every.Microseconds(), g.Rate.Per.Microseconds())
	}
	return int(until(n+1) - until(n))
}

// next returns the time of the next request of s. Clients of the same rate do not send at the same times.
func (g *Generator) next(s *sender) int64 {
	per, events := g.Rate.Per.Microseconds(), int64(g.Rate.Events)
	switch g.Kind {
	case Poisson:
		s.passed += s.random.ExpFloat64() * float64(per) / float64(events)
		return Begin + int64(s.passed)
	case Burst:
		per, events = g.Every.Microseconds(), 1
	}
	return Begin + s.n/events*per + share(s.n%events, per, events) + share(int64(s.index), per, events*int64(g.Clients))
}

// share returns a*b/c, rounded down, or the largest integer.
func share(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64))
}

// CanAttack reports whether r is a target of an adversary: a rule with a fixed period.
func CanAttack(r core.Rule) bool {
	l := r.Limit()
	return l.Events > 0 && l.Per > 0
}

// attack yields the events of an adversary.
func (g *Generator) attack(yield func(*Event) bool) {
	var targets []core.Rule
	idle, longest := int64(0), int64(0) // the time until nothing is used
	for _, r := range g.Targets {
		if !CanAttack(r) {
			continue
		}
		l := r.Limit()
		per := l.Per.Microseconds()
		targets = append(targets, r)
		idle = max(idle, per+per/8, share(int64(r.Capacity()), per, int64(l.Events)))
		longest = max(longest, per)
	}
	end := Begin + g.For.Microseconds()
	if g.For == 0 {
		end = Begin + 4*longest
	}
	senders := make([]*sender, g.Clients)
	for i := range senders {
		senders[i] = g.sender(i)
	}
	send := func(at int64, n int) bool {
		for _, s := range senders {
			if s.at = at; at >= end || !s.send(yield, n) {
				return false
			}
		}
		return true
	}
	for at := int64(Begin); len(targets) > 0; {
		for _, r := range targets {
			per, events, size := r.Limit().Per.Microseconds(), int64(r.Limit().Events), max(r.Limit().Events, r.Capacity())
			edge := (at/per + 1) * per
			if edge-at < per/2 {
				edge += per
			}
			if r.Spec().FromFirst { // the window begins with an event, and ends at the edge
				if edge = at + per; !send(at, 1) {
					return
				}
			}
			before := edge - min(1000, per/4+1)
			if len(targets) > 1 {
				for i := range events {
					if !send(min(edge-per/4+share(i, per, 4*events), before), 1) {
						return
					}
				}
			}
			if !send(before, size) || !send(edge, size) {
				return
			}
			for i := int64(1); i < 4*events; i++ {
				if !send(edge+share(i, per, 4*events), 1) {
					return
				}
			}
			at = edge + per + idle
		}
	}
}
