package redisstore

import (
	"strconv"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/algo"
)

// A program is the Go side of one algorithm's script: what it is sent and how
// its reading is understood.
type program struct {
	file     string // in lua/
	code     string // names it to take.lua
	version  string // of its state, in keys
	readings int    // how many integers it reports

	arguments func(args []any, c *core.Charge) []any
	verdict   func(c *core.Charge, reading []int64, spent bool) (algo.Verdict, error)
}

var programs = [...]program{
	core.AlgorithmTokenBucket: {
		file: "token_bucket.lua", code: "t", version: "t1", readings: 2,
		arguments: bucketArguments, verdict: bucketVerdict,
	},
	core.AlgorithmSlidingLog: {
		file: "sliding_log.lua", code: "l", version: "l1", readings: 4,
		arguments: logArguments, verdict: logVerdict,
	},
}

func integer(n int64) string { return strconv.FormatInt(n, 10) }

// cost is what the script is told. All that is above the capacity is the same
// to it, and stays within what a double can count.
func cost(c *core.Charge) int64 { return min(int64(c.Cost), c.Rule.Program().Capacity()+1) }

func bucketArguments(args []any, c *core.Charge) []any {
	b := &c.Rule.Program().Bucket
	price := algo.Span{Micros: b.Full.Micros + 1} // more than fits
	if n := cost(c); n <= b.Burst {
		price = b.Span(n)
	}
	return append(args, integer(price.Micros), integer(price.Frac),
		integer(b.Full.Micros), integer(b.Full.Frac), integer(b.Den()))
}

func bucketVerdict(c *core.Charge, reading []int64, spent bool) (algo.Verdict, error) {
	b := &c.Rule.Program().Bucket
	used := algo.Span{Micros: reading[0], Frac: reading[1]}
	if used.Micros < 0 || used.Frac < 0 || used.Frac >= b.Den() || b.Full.Less(used) {
		return algo.Verdict{}, errReply
	}
	return b.Verdict(used, int64(c.Cost), spent), nil
}

func logArguments(args []any, c *core.Charge) []any {
	l := &c.Rule.Program().Log
	return append(args, integer(cost(c)), integer(l.Events), integer(l.Period), integer(offsetWidth(l.Period)))
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
	r := algo.Reading{Count: reading[0], Oldest: reading[1], Newest: reading[2], Retry: reading[3]}
	if r.Count < 0 || r.Newest < 0 || r.Oldest < r.Newest || r.Oldest > l.Period || r.Retry < 0 || r.Retry > l.Period {
		return algo.Verdict{}, errReply
	}
	return l.Verdict(r, int64(c.Cost), spent), nil
}
