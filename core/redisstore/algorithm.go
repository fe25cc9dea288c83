package redisstore

import (
	"strconv"

	"github.com/weir-go/weir/core/driver"
)

// An algorithm is the Go side of the scripts of a [driver.Algorithm]: the arguments that they
// are sent, and the meaning of the integers that they report. An entry of algorithms and a
// Lua file are all that a new one needs.
type algorithm struct {
	source    source
	version   string // of the format of its states, in keys; changes with the format
	queue     bool   // an admitted event is delayed until its departure
	arguments int    // how many argue returns
	readings  int    // how many integers a script reports, at most maxReadings

	// argue returns the arguments for a charge of cost that may be delayed for maxDelay
	// microseconds.
	argue func(r *driver.Compiled, cost, maxDelay int64) []any
	// read returns the Reading that a script reported, and whether a rule of k can have it.
	// Integers are between 0 and maxInteger.
	read func(k driver.Constants, reported [maxReadings]int64) (driver.Reading, bool)
}

const (
	maxReadings = 5
	// maxInteger is the largest integer that Lua counts exactly.
	maxInteger = 1<<53 - 1
)

var algorithms = [...]algorithm{
	driver.TokenBucket: {
		source: parseSource("token_bucket.lua"), version: "t1", arguments: 5, readings: 2,
		argue: bucketArguments, read: readBucket,
	},
	driver.LeakyBucket: {
		source: parseSource("token_bucket.lua"), version: "q1", queue: true, arguments: 6, readings: 2,
		argue: queueArguments, read: readBucket,
	},
	driver.FixedWindow: {
		source: parseSource("fixed_window.lua"), version: "f1", arguments: 3, readings: 2,
		argue: windowArguments, read: readWindow,
	},
	driver.SlidingWindow: {
		source: parseSource("sliding_window.lua"), version: "c2", arguments: 4, readings: 5,
		argue: counterArguments, read: readCounter,
	},
	driver.SlidingLog: {
		source: parseSource("sliding_log.lua"), version: "l2", arguments: 4, readings: 4,
		argue: logArguments, read: readLog,
	},
}

// algorithmOf returns the entry of a. It panics if there is none.
func algorithmOf(a driver.Algorithm) *algorithm {
	if int(a) >= len(algorithms) || algorithms[a].source == nil {
		panic(a.Unknown())
	}
	return &algorithms[a]
}

func bucketArguments(r *driver.Compiled, cost, _ int64) []any {
	k, price := r.Constants(), r.Price(cost)
	return []any{
		integer(price.Micros), integer(price.Frac),
		integer(k.Full.Micros), integer(k.Full.Frac), integer(k.Denominator),
	}
}

func queueArguments(r *driver.Compiled, cost, maxDelay int64) []any {
	return append(bucketArguments(r, cost, maxDelay), integer(min(maxDelay, maxInteger)))
}

func readBucket(k driver.Constants, n [maxReadings]int64) (driver.Reading, bool) {
	used := driver.Span{Micros: n[0], Frac: n[1]}
	return driver.Reading{Used: used}, used.Frac < k.Denominator && used.Micros <= driver.Horizon
}

func windowArguments(r *driver.Compiled, cost, _ int64) []any {
	k := r.Constants()
	return []any{integer(cost), integer(k.Capacity), integer(k.Period)}
}

func readWindow(k driver.Constants, n [maxReadings]int64) (driver.Reading, bool) {
	r := driver.Reading{Count: n[0], Left: n[1]}
	return r, 1 <= r.Left && r.Left <= k.Period
}

func counterArguments(r *driver.Compiled, cost, _ int64) []any {
	k := r.Constants()
	return []any{integer(cost), integer(k.Capacity), integer(k.Period), integer(k.SubWindow)}
}

func readCounter(k driver.Constants, n [maxReadings]int64) (driver.Reading, bool) {
	r := driver.Reading{Phase: n[0], Count: n[1], First: n[2], Last: n[3], Retry: n[4]}
	longest := k.Period + k.SubWindow
	return r, r.Phase < k.SubWindow && r.First <= r.Last && r.Last <= longest && r.Retry <= longest
}

func logArguments(r *driver.Compiled, cost, _ int64) []any {
	k := r.Constants()
	return []any{integer(cost), integer(k.Capacity), integer(k.Period), integer(offsetWidth(k.Period))}
}

// offsetWidth is how many bytes hold any time within a period, at least 4.
func offsetWidth(period int64) int64 {
	width := int64(4)
	for period >= 1<<(8*width) {
		width++
	}
	return width
}

func readLog(k driver.Constants, n [maxReadings]int64) (driver.Reading, bool) {
	r := driver.Reading{Count: n[0], First: n[1], Last: n[2], Retry: n[3]}
	return r, r.First <= r.Last && r.Last <= k.Period && r.Retry <= k.Period
}

// Arguments are strings. Frequent ones are boxed once and used again.
var (
	evalsha any = "evalsha"
	small       = [...]any{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"}
)

func integer(n int64) any {
	if 0 <= n && n < int64(len(small)) {
		return small[n]
	}
	return strconv.FormatInt(n, 10)
}
