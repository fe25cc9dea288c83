package redisstore

import (
	"strconv"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/algo"
)

// A program is the Go side of one algorithm's script: what it is sent and how
// its reading is understood.
type program struct {
	source    source
	code      byte   // in a shape
	version   string // of its state's format, in keys; changes with the format
	queue     bool   // what is charged has a turn
	arguments int    // how many it is sent
	readings  int    // how many integers it reports

	argue   func(program *algo.Program, p price) []any
	verdict func(c *core.Charge, reading []int64, spent bool) (algo.Verdict, error)
}

var programs = [...]program{
	core.AlgorithmTokenBucket: {
		source: parseSource("token_bucket.lua"), code: 't', version: "t1", arguments: 5, readings: 2,
		argue: bucketArguments, verdict: bucketVerdict,
	},
	core.AlgorithmLeakyBucket: {
		source: parseSource("token_bucket.lua"), code: 'q', version: "q1", queue: true, arguments: 6, readings: 2,
		argue: queueArguments, verdict: bucketVerdict,
	},
	core.AlgorithmFixedWindow: {
		source: parseSource("fixed_window.lua"), code: 'f', version: "f1", arguments: 3, readings: 2,
		argue: windowArguments, verdict: windowVerdict,
	},
	core.AlgorithmSlidingWindow: {
		source: parseSource("sliding_window.lua"), code: 'c', version: "c2", arguments: 4, readings: 5,
		argue: counterArguments, verdict: counterVerdict,
	},
	core.AlgorithmSlidingLog: {
		source: parseSource("sliding_log.lua"), code: 'l', version: "l2", arguments: 4, readings: 4,
		argue: logArguments, verdict: logVerdict,
	},
}

func programOf(code byte) *program {
	for i := range programs {
		if programs[i].code == code {
			return &programs[i]
		}
	}
	panic("redisstore: no program has the code " + string(code))
}

// Arguments are strings, boxed once and used again.
var (
	evalsha any = "evalsha"
	small       = [...]any{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"}
)

func count(n int) any {
	if n < len(small) {
		return small[n]
	}
	return strconv.Itoa(n)
}

func integer(n int64) any {
	if 0 <= n && n < int64(len(small)) {
		return small[n]
	}
	return strconv.FormatInt(n, 10)
}

// A price is a charge without its key: what the arguments depend on.
type price struct {
	program        algo.Program
	cost, patience int64
}

// arguments appends those of c to args. They are remembered for the charge that
// nearly all are, of one event that waits for as long as it must; others a client
// may choose at will.
func (s *Store) arguments(args []any, c *core.Charge) []any {
	rule := c.Rule
	p := price{*rule.Program(), cost(c), c.Patience()}
	work := func(price) []any { return programs[rule.Algorithm()].argue(rule.Program(), p) }
	if p.cost == 1 && p.patience == algo.Never {
		args = append(args, s.prices.get(p, work)...)
	} else {
		args = append(args, work(p)...)
	}
	if c.Op == core.Undo {
		m := c.Receipt
		args = append(args, integer(m.At), integer(m.Used.Micros), integer(m.Used.Frac), integer(min(m.Age, longest)))
	}
	return args
}

// maxCost is more than any rule can count.
const maxCost = 1 << 48

// cost is what the script is told, and stays within what a double can count. All
// that is above the capacity is the same to a rule that is asked.
func cost(c *core.Charge) int64 {
	capacity := c.Rule.Program().Capacity()
	switch {
	case c.Op.Asks():
		return min(int64(c.Cost), capacity+1)
	case c.Op == core.Reset:
		return 1
	}
	return min(int64(c.Cost), maxCost)
}

func bucketArguments(program *algo.Program, p price) []any {
	b := &program.Bucket
	price := b.Price(p.cost)
	return []any{
		integer(price.Micros), integer(price.Frac),
		integer(b.Full.Micros), integer(b.Full.Frac), integer(b.Den()),
	}
}

// longest is a wait that no script takes for too long: the largest integer of Lua.
const longest = 1<<53 - 1

func queueArguments(program *algo.Program, p price) []any {
	return append(bucketArguments(program, p), integer(min(p.patience, longest)))
}

func bucketVerdict(c *core.Charge, reading []int64, spent bool) (algo.Verdict, error) {
	b := &c.Rule.Program().Bucket
	used := usedOf(reading)
	if used.Frac >= b.Den() || used.Micros > algo.Horizon {
		return algo.Verdict{}, errReply
	}
	if c.Op == core.Debit {
		used = b.Debit(used, 0, int64(c.Cost)).Until
	}
	return b.Verdict(used, c.Asked(), c.Patience(), spent), nil
}

func usedOf(reading []int64) algo.Span { return algo.Span{Micros: reading[0], Frac: reading[1]} }

func logArguments(program *algo.Program, p price) []any {
	l := &program.Log
	return []any{integer(p.cost), integer(l.Events), integer(l.Period), integer(offsetWidth(l.Period))}
}

// offsetWidth is how many bytes hold any time within a period, at least 4.
func offsetWidth(period int64) int64 {
	width := int64(4)
	for period >= 1<<(8*width) {
		width++
	}
	return width
}

func logVerdict(c *core.Charge, reading []int64, spent bool) (algo.Verdict, error) {
	l := &c.Rule.Program().Log
	r := algo.Reading{Count: reading[0], First: reading[1], Last: reading[2], Retry: reading[3]}
	if r.First > r.Last || r.Last > l.Period || r.Retry > l.Period {
		return algo.Verdict{}, errReply
	}
	return l.Verdict(r, c.Asked(), spent), nil
}

func windowArguments(program *algo.Program, p price) []any {
	w := &program.Window
	return []any{integer(p.cost), integer(w.Events), integer(w.Period)}
}

func windowVerdict(c *core.Charge, reading []int64, spent bool) (algo.Verdict, error) {
	w := &c.Rule.Program().Window
	count, left := reading[0], reading[1]
	if left < 1 || left > w.Period {
		return algo.Verdict{}, errReply
	}
	return w.Verdict(count, left, c.Asked(), spent), nil
}

func counterArguments(program *algo.Program, p price) []any {
	l := &program.Log
	return []any{integer(p.cost), integer(l.Events), integer(l.Period), integer(l.Grain)}
}

func counterVerdict(c *core.Charge, reading []int64, spent bool) (algo.Verdict, error) {
	l := &c.Rule.Program().Log
	r := algo.Reading{Phase: reading[0], Count: reading[1], First: reading[2], Last: reading[3], Retry: reading[4]}
	if r.Phase >= l.Grain || r.First > r.Last || r.Last > l.Period+l.Grain || r.Retry > l.Period+l.Grain {
		return algo.Verdict{}, errReply
	}
	return l.Verdict(r, c.Asked(), spent), nil
}
