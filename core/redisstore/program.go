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
	version   string // of its state, in keys
	queue     bool   // what is charged has a turn
	arguments int    // how many it is sent
	readings  int    // how many integers it reports

	argue   func(program *algo.Program, cost int64) []any
	verdict func(program *algo.Program, cost int64, reading []int64, spent bool) (algo.Verdict, error)
}

var programs = [...]program{
	core.AlgorithmTokenBucket: {
		source: parseSource("token_bucket.lua"), code: 't', version: "t1", arguments: 5, readings: 2,
		argue: bucketArguments, verdict: bucketVerdict,
	},
	core.AlgorithmLeakyBucket: {
		source: parseSource("token_bucket.lua"), code: 'q', version: "q1", queue: true, arguments: 5, readings: 2,
		argue: bucketArguments, verdict: bucketVerdict,
	},
	core.AlgorithmFixedWindow: {
		source: parseSource("fixed_window.lua"), code: 'f', version: "f1", arguments: 3, readings: 2,
		argue: windowArguments, verdict: windowVerdict,
	},
	core.AlgorithmSlidingWindow: {
		source: parseSource("sliding_window.lua"), code: 'c', version: "c1", arguments: 4, readings: 5,
		argue: counterArguments, verdict: counterVerdict,
	},
	core.AlgorithmSlidingLog: {
		source: parseSource("sliding_log.lua"), code: 'l', version: "l1", arguments: 4, readings: 4,
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
	algorithm  core.Algorithm
	limit      core.Limit
	subWindows int
	cost       int64
}

// arguments appends those of c to args. They are remembered for a cost of one,
// which most have; a client may choose others at will.
func (s *Store) arguments(args []any, c *core.Charge) []any {
	p := price{c.Rule.Algorithm(), c.Rule.Limit(), c.Rule.SubWindowCount(), cost(c)}
	work := func(price) []any { return programs[p.algorithm].argue(c.Rule.Program(), p.cost) }
	if p.cost != 1 {
		return append(args, work(p)...)
	}
	return append(args, s.prices.get(p, work)...)
}

// cost is what the script is told. All that is above the capacity is the same
// to it, and stays within what a double can count.
func cost(c *core.Charge) int64 { return min(int64(c.Cost), c.Rule.Program().Capacity()+1) }

func bucketArguments(program *algo.Program, cost int64) []any {
	b := &program.Bucket
	price := algo.Span{Micros: b.Full.Micros + 1} // more than fits
	if cost <= b.Burst {
		price = b.Span(cost)
	}
	return []any{
		integer(price.Micros), integer(price.Frac),
		integer(b.Full.Micros), integer(b.Full.Frac), integer(b.Den()),
	}
}

func bucketVerdict(program *algo.Program, cost int64, reading []int64, spent bool) (algo.Verdict, error) {
	b := &program.Bucket
	used := algo.Span{Micros: reading[0], Frac: reading[1]}
	if used.Frac >= b.Den() || b.Full.Less(used) {
		return algo.Verdict{}, errReply
	}
	return b.Verdict(used, cost, spent), nil
}

func logArguments(program *algo.Program, cost int64) []any {
	l := &program.Log
	return []any{integer(cost), integer(l.Events), integer(l.Period), integer(offsetWidth(l.Period))}
}

// offsetWidth is how many bytes hold any time within a period, at least 4.
func offsetWidth(period int64) int64 {
	width := int64(4)
	for period >= 1<<(8*width) {
		width++
	}
	return width
}

func logVerdict(program *algo.Program, cost int64, reading []int64, spent bool) (algo.Verdict, error) {
	l := &program.Log
	r := algo.Reading{Count: reading[0], First: reading[1], Last: reading[2], Retry: reading[3]}
	if r.First > r.Last || r.Last > l.Period || r.Retry > l.Period {
		return algo.Verdict{}, errReply
	}
	return l.Verdict(r, cost, spent), nil
}

func windowArguments(program *algo.Program, cost int64) []any {
	w := &program.Window
	return []any{integer(cost), integer(w.Events), integer(w.Period)}
}

func windowVerdict(program *algo.Program, cost int64, reading []int64, spent bool) (algo.Verdict, error) {
	w := &program.Window
	count, left := reading[0], reading[1]
	if left < 1 || left > w.Period {
		return algo.Verdict{}, errReply
	}
	return w.Verdict(count, left, cost, spent), nil
}

func counterArguments(program *algo.Program, cost int64) []any {
	l := &program.Log
	return []any{integer(cost), integer(l.Events), integer(l.Period), integer(l.Grain)}
}

func counterVerdict(program *algo.Program, cost int64, reading []int64, spent bool) (algo.Verdict, error) {
	l := &program.Log
	r := algo.Reading{Phase: reading[0], Count: reading[1], First: reading[2], Last: reading[3], Retry: reading[4]}
	if r.Phase >= l.Grain || r.First > r.Last || r.Last > l.Period+l.Grain || r.Retry > l.Period+l.Grain {
		return algo.Verdict{}, errReply
	}
	return l.Verdict(r, cost, spent), nil
}
