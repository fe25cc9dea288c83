package sim

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/internal/wire"
)

// A verb is the Lua file of package redisstore that decides.
type verb string

const (
	take   verb = "take"
	atMost verb = "at_most"
	adjust verb = "adjust"
)

// A program is a script of redisstore.
type program struct {
	verb   verb
	places bool // whether it takes places, whose numbers begin with that of an argument
	alone  bool // whether its decisions are about one bucket each, and leave out some arguments
}

// programs returns the scripts of redisstore by their hashes.
var programs = sync.OnceValue(func() map[string]program {
	all := make(map[string]program)
	for name, script := range wire.Scripts() {
		v, libraries, _ := strings.Cut(name, " ")
		all[script.SHA.(string)] = program{verb(v), v != string(adjust) && strings.Contains(libraries, "in_flight"), libraries == "one bucket"}
	}
	return all
})

func integer(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic("sim: " + err.Error())
	}
	return n
}

// A charge is one of a script.
type charge struct {
	driver.Charge
	key    string
	state  driver.State
	number int64 // of the place that is undone or renewed
	probe  []any // the report of the script about the key of a probe, which has no state
}

// run decides as decisions.lua does. If it takes places, an argument has their number.
func (s *server) run(v verb, places bool, keys, argv []string) (reply []any, err error) {
	now, number, at := s.now(), int64(0), 1
	if places {
		number, at = integer(argv[1]), 2
	}
	reply = append(reply, now, int64(0))
	for at < len(argv) {
		count, charges, length := integer(argv[at]), integer(argv[at+1]), integer(argv[at+2])
		args := argv[at+3 : at+3+int(length)]
		for range count {
			decoded, err := s.decode(v, keys[:charges], args)
			if err != nil {
				return nil, err
			}
			keys, number = keys[charges:], number+charges
			switch v {
			case take:
				reply = s.take(reply, decoded, now, number)
			case atMost:
				reply = s.takeAtMost(reply, decoded, now, number)
			case adjust:
				reply = s.adjust(reply, decoded, now)
			}
		}
		at += 3 + int(length)
	}
	return reply, nil
}

var ops = map[string]driver.Op{
	"spend": driver.Spend, "wait": driver.Spend, "peek": driver.Peek, "shadow_spend": driver.Spend, "shadow_peek": driver.Peek, "reset": driver.Reset,
	"credit": driver.Credit, "debit": driver.Debit, "begin": driver.Debit, "undo": driver.Undo, "undo_last": driver.Undo, "leave": driver.Undo, "renew": driver.Renew,
}

// decode reads the charges of a decision from its arguments.
func (s *server) decode(v verb, keys, args []string) (charges []*charge, err error) {
	most := int64(0)
	if v == atMost {
		most, args = integer(args[0]), args[1:]
	}
	for _, key := range keys {
		library, op, rest := args[0], args[1], args[2:]
		size, ok := sizes[library]
		if _, known := ops[op]; !ok || !known {
			return nil, fmt.Errorf("no library is called %q, or no operation %q", library, op)
		}
		if library == "bucket" && rest[4] != "1" {
			size += 3
		}
		c := &charge{Charge: driver.Charge{Key: key, Op: ops[op]}, key: key}
		if strings.HasSuffix(key, "?") {
			c.probe = probes[library]
			if library == "bucket" && rest[4] != "1" {
				c.probe = []any{int64(0), int64(0)}
			}
		} else {
			var cost int64
			if c.Rule, cost, err = s.w.rules.find(key, library, rest[:size], strings.HasPrefix(op, "shadow_"), v == atMost); err != nil {
				return nil, err
			}
			if c.Cost = int(cost); v == atMost {
				c.AtMost, c.Cost = true, int(most)
			}
			if c.Rule.Algorithm == driver.Pause && c.Op == driver.Debit {
				c.Pause, c.Ban = time.Duration(integer(rest[0]))*time.Microsecond, op == "begin"
			}
			if c.Rule.Algorithm == driver.LeakyBucket {
				if delay := integer(rest[3]); delay < 1<<53-1 {
					c.MaxDelay = max(1, time.Duration(delay)*time.Microsecond)
				}
			}
		}
		rest = rest[size:]
		if op == "wait" {
			c.Waiter, rest = s.waiter(rest), rest[5:]
		}
		if c.Op == driver.Undo || c.Op == driver.Renew {
			if c.Receipt.At = integer(rest[0]); library == "in_flight" {
				if c.number = c.Receipt.At; op == "leave" {
					c.Receipt, c.Waiter = driver.Receipt{}, &driver.Waiter{Queue: s.queueOf(c.number)}
				} else {
					c.Receipt.At = s.w.placeOf(key, c.number)
				}
				rest = rest[1:]
			} else {
				c.Receipt.Used = driver.Span{Micros: integer(rest[1]), Frac: integer(rest[2])}
				c.Receipt.Age = integer(rest[3])
				rest = rest[4:]
			}
		}
		charges, args = append(charges, c), rest
	}
	return charges, nil
}

func (s *server) load(c *charge, now int64) driver.Reading {
	c.state = s.states[c.key]
	if s.fixed == nil && c.Rule.ExpiresAt(c.state)+2000 < now {
		c.state = driver.State{}
		delete(s.states, c.key)
	}
	return c.Read(c.state, now)
}

func (s *server) save(c *charge, state driver.State) {
	if c.state = state; state == (driver.State{}) {
		delete(s.states, c.key)
	} else {
		s.states[c.key] = state
	}
}

const noMemory = "OOM command not allowed when used memory > 'maxmemory'."

// take decides as take.lua does. number is that of the places that it takes.
func (s *server) take(reply []any, charges []*charge, now, number int64) []any {
	admitted := true
	readings := make([]driver.Reading, len(charges))
	for i, c := range charges {
		if c.probe != nil {
			continue
		}
		readings[i] = s.load(c, now)
		if s.paused != nil && c.Rule.Algorithm == driver.Pause {
			s.paused.read(c, now, readings[i].Left)
		}
		admitted = admitted && (c.Rule.Shadow || c.Fits(&readings[i]))
	}
	if s.noMemory && admitted {
		return append(reply, noMemory)
	}
	reply = append(reply, outcome(admitted))
	for i, c := range charges {
		if c.probe != nil {
			reply = append(reply, c.probe...)
			continue
		}
		reply = c.report(reply, &readings[i], admitted && c.Op == driver.Spend && c.Fits(&readings[i]))
		s.commit(c, &readings[i], now, admitted)
		s.chosen(c, number)
	}
	return reply
}

// outcome is the first integer of the reply to a decision.
func outcome(admitted bool) int64 {
	if admitted {
		return 1
	}
	return 0
}

// chosen notes that the client has chosen number for the places that c has taken, before their cost.
func (s *server) chosen(c *charge, number int64) {
	if c.Op != driver.Spend || c.Rule.Algorithm != driver.InFlight || c.Receipt.At == 0 {
		return
	}
	s.w.takes(c.key, c.Receipt.At, number<<20|int64(c.Cost))
}

func (s *server) commit(c *charge, r *driver.Reading, now int64, admitted bool) {
	w, queues, fits := c.Waiter, c.state.Debt, c.Fits(r)
	state, changed := c.Commit(c.state, r, now, admitted)
	c.Answer(r, admitted)
	if w != nil && s.noMemory && state.Debt > queues { // the caller waits without a place in the order
		leaves := driver.Charge{Rule: c.Rule, Op: driver.Undo, Waiter: w}
		state, fits = leaves.Apply(state, r, now), true
		leaves.Answer(r, false)
	}
	if changed {
		s.save(c, state)
	}
	if s.changedPlaces(c, now); w != nil && !fits {
		s.w.messages.hears(s, w.Queue)
	}
	if changed && c.Receipt.At != 0 {
		s.spends[spendName(tagOf(c.key), c.Rule.StateName)] += c.Cost
		if s.granted != nil {
			s.granted(s, c)
		}
	}
}

// takeAtMost decides as at_most.lua does. number is that of the places that it takes.
func (s *server) takeAtMost(reply []any, charges []*charge, now, number int64) []any {
	all, readings := make([]driver.Charge, len(charges)), make([]driver.Reading, len(charges))
	for i, c := range charges {
		one := *c
		one.Cost = 1
		readings[i] = s.load(&one, now)
		if s.paused != nil && c.Rule.Algorithm == driver.Pause {
			s.paused.read(c, now, readings[i].Left)
		}
		c.state, all[i] = one.state, c.Charge
	}
	driver.Reduce(all, func(i int) driver.Reading { return readings[i] })
	admitted := true
	for i, c := range charges {
		c.Cost = all[i].Cost
		admitted = admitted && (c.Rule.Shadow || c.Fits(&readings[i]))
	}
	if s.noMemory && admitted {
		return append(reply, noMemory)
	}
	reply = append(reply, outcome(admitted))
	for i, c := range charges {
		r := readings[i]
		if admitted && !c.Fits(&r) { // a shadow
			r = c.Read(c.state, now)
		}
		reply = c.report(reply, &r, admitted)
		full := c.Read(c.state, now)
		s.commit(c, &full, now, admitted)
		s.chosen(c, number)
	}
	return reply
}

// adjust does the same as adjust.lua.
func (s *server) adjust(reply []any, charges []*charge, now int64) []any {
	first := len(reply)
	reply = append(reply, outcome(true))
	for _, c := range charges {
		r := s.load(c, now)
		if s.noMemory && c.Rule.Algorithm != driver.InFlight && c.Op != driver.Reset {
			return append(reply[:first], noMemory)
		}
		before, queues, changed := inUse(c, &r, now), c.state.Debt, r
		s.save(c, c.Apply(c.state, &changed, now))
		c.Answer(&changed, false)
		s.changedPlaces(c, now)
		if s.paused != nil && c.Rule.Algorithm == driver.Pause {
			s.paused.adjusted(c, now, c.Read(c.state, now).Left)
		}
		if c.Op != driver.Reset && (c.Op != driver.Debit || !c.Rule.Kind.Refills) {
			after := c.Charge
			after.Op, after.Cost = driver.Peek, 1
			r = after.Read(c.state, now)
		}
		after := inUse(c, &r, now)
		freed := before - after
		if c.Waiter != nil {
			reply = c.report(reply, &r, c.state.Debt < queues)
			continue
		}
		if c.Op == driver.Undo && freed > 0 {
			s.spends[spendName(tagOf(c.key), c.Rule.StateName)] -= c.Cost
		}
		if c.Op == driver.Undo && s.undone != nil {
			s.undone(s, c, before, after)
		}
		reply = c.report(reply, &r, c.Verdict.Found || c.Op == driver.Undo && freed > 0)
	}
	return reply
}

// inUse returns the usage according to a reading, in events or microseconds. Callers who wait use nothing.
func inUse(c *charge, r *driver.Reading, now int64) int64 {
	switch {
	case c.Rule.Kind.Refills:
		return r.Used.Micros
	case c.Rule.Algorithm == driver.InFlight && c.state.Debt > 0: // as the first caller reads it
		first := driver.Charge{Rule: c.Rule, Op: driver.Spend, Waiter: &driver.Waiter{Queue: 1, Age: time.Duration(now) * time.Microsecond}}
		return first.Read(c.state, now).Count
	}
	return r.Count
}

// changedPlaces notes that a charge may have changed the places of its key, or the queues.
func (s *server) changedPlaces(c *charge, now int64) {
	if c.Rule.Algorithm != driver.InFlight {
		return
	}
	r := c.Read(c.state, now)
	taken := inUse(c, &r, now)
	if most := c.Rule.Constants.Capacity; taken > most && s.fixed == nil {
		s.w.violate(placesAtServer, "%d places of %s are taken, at most %d may be", taken, c.key, most)
	}
	if s.crowd != nil {
		granted := 0
		if c.Op == driver.Spend && c.Receipt.At > 0 {
			granted = c.Cost
		}
		s.crowd.taken(c.key, c.Rule.Name, int(taken), granted)
	}
	s.w.messages.publish(s)
}
