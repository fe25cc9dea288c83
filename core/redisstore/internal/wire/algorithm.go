package wire

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// libraries are the names of the algorithms in Lua, as scripts get them in arguments. Library "x"
// consists of x.lua and, for take, x_take.lua, if x.lua is not enough, and likewise for the other verbs; at_most has the
// files of take for a library without x_at_most.lua.
var libraries = [...]any{ // strings, boxed once
	bucket:        "bucket",
	slidingWindow: "sliding_window",
	slidingLog:    "sliding_log",
	inFlight:      "in_flight",
	quota:         "quota",
	pause:         "pause",
	rollover:      "rollover",
}

// A library is an index into the array libraries.
type library uint8

const (
	bucket library = iota
	slidingWindow
	slidingLog
	inFlight
	quota
	pause
	rollover
)

// An algorithm encodes the script arguments of charges of a [driver.Algorithm], and decodes the
// integers that scripts report. A new algorithm needs a row in algorithms. Unless it uses the
// library of another algorithm, it also needs Lua files and a name in libraries.
type algorithm struct {
	library  library
	version  string // of the state format; part of every key; must change when the format changes
	readings int    // how many integers a script reports, up to maxReadings; 0 in an unused row

	// light is the time that Redis needs, in a script of many decisions, to spend or peek up to lightCost
	// events. heavy is the time for other ops and more events, which may read the whole state: that of a
	// debit, credit or undo with a few hundred events.
	light, heavy time.Duration

	// arguments returns the script arguments of a charge without a MaxDelay.
	arguments func(r *driver.Compiled, cost int64) []any
	// read returns the Reading for the integers that a script reported, and reports whether a rule
	// with the constants k can have that Reading. The integers are between 0 and maxInteger.
	read func(k driver.Constants, reported [maxReadings]int64) (driver.Reading, bool)
}

// reported returns how many integers a script reports for a rule with the constants k.
func (a *algorithm) reported(k *driver.Constants) int {
	if k.Denominator == 1 {
		return 1 // a bucket without fractions
	}
	return a.readings
}

const (
	lightCost   = 10 // see algorithm
	maxReadings = 5
	// Lua represents integers up to maxInteger exactly.
	maxInteger = 1<<53 - 1
	// maxCount is the largest number of events in a limit, see driver.Definition, and in a state.
	maxCount = 1<<48 - 1
	// maxPlaces is the largest number of events of an in-flight rule, as in package driver.
	maxPlaces = 1000
	// costBits is the number of the lowest bits of the number of places that are their cost, as in package driver.
	costBits = 20
	// maxNumber is the largest number of places without these bits.
	maxNumber = maxInteger >> costBits
	// maxQueues is the largest number of queues of callers in a state, as in package driver.
	maxQueues = 64
	// QueueHold is the time after which a state forgets a queue of callers, as in package driver.
	QueueHold = 2 * time.Second
	// maxPause is the length of the longest pause in microseconds, see driver.Charge.
	maxPause = 366 * 24 * 3600 * 1_000_000
	// horizon is the longest debt of a bucket in microseconds, see driver.Constants.
	horizon = 100 * 366 * 24 * 3600 * 1_000_000
)

var algorithms = [...]algorithm{
	driver.TokenBucket:   {library: bucket, version: "t2", readings: 2, light: 3 * time.Microsecond, heavy: 4 * time.Microsecond, arguments: bucketArguments, read: readBucket},
	driver.LeakyBucket:   {library: bucket, version: "q2", readings: 2, light: 3 * time.Microsecond, heavy: 4 * time.Microsecond, arguments: bucketArguments, read: readBucket},
	driver.FixedWindow:   {library: quota, version: "f3", readings: 3, light: 3 * time.Microsecond, heavy: 4 * time.Microsecond, arguments: fixedWindowArguments, read: readQuota},
	driver.SlidingWindow: {library: slidingWindow, version: "c3", readings: 5, light: 7 * time.Microsecond, heavy: 30 * time.Microsecond, arguments: slidingWindowArguments, read: readSlidingWindow},
	driver.SlidingLog:    {library: slidingLog, version: "l4", readings: 4, light: 7 * time.Microsecond, heavy: 30 * time.Microsecond, arguments: slidingLogArguments, read: readSlidingLog},
	driver.InFlight:      {library: inFlight, version: "i3", readings: 4, light: 7 * time.Microsecond, heavy: 14 * time.Microsecond, arguments: inFlightArguments, read: readInFlight},
	driver.Quota:         {library: quota, version: "d1", readings: 3, light: 3 * time.Microsecond, heavy: 4 * time.Microsecond, arguments: quotaArguments, read: readQuota},
	driver.Pause:         {library: pause, version: "p1", readings: 1, light: 3 * time.Microsecond, heavy: 4 * time.Microsecond, arguments: pauseArguments, read: readPause},
}

// withRollover encodes a quota with a rollover. Quotas with and without one have the same keys, and read each other's states.
var withRollover = algorithm{library: rollover, version: "d1", readings: 5, light: 3 * time.Microsecond, heavy: 4 * time.Microsecond, arguments: rolloverArguments, read: readRollover}

// fromFirst encodes a fixed window from the first event, which is a quota without periods in Lua.
var fromFirst = algorithm{library: quota, version: "s1", readings: 3, light: 3 * time.Microsecond, heavy: 4 * time.Microsecond, arguments: quotaArguments, read: readQuota}

// Libraries returns the names of the libraries of Lua, each with the first algorithm that has it, except for rollover, which
// needs the same of a server as quota.
func Libraries() iter.Seq2[string, driver.Algorithm] {
	return func(yield func(string, driver.Algorithm) bool) {
		for l, name := range libraries[:rollover] {
			a := slices.IndexFunc(algorithms[:], func(a algorithm) bool { return a.readings > 0 && a.library == library(l) })
			if !yield(name.(string), driver.Algorithm(a)) {
				return
			}
		}
	}
}

// CheckDefinition panics if there is no script for d.
func CheckDefinition(d *driver.Definition) { algorithmOf(d) }

// algorithmOf returns the row of d. It panics if its Algorithm has no row.
func algorithmOf(d *driver.Definition) *algorithm {
	switch {
	case d.FromFirst:
		return &fromFirst
	case d.Rollover > 0:
		return &withRollover
	}
	a := d.Algorithm
	if int(a) >= len(algorithms) || algorithms[a].readings == 0 {
		panic(fmt.Sprintf("weir: algorithm %d has no script", a))
	}
	return &algorithms[a]
}

// bucketDelay is the index of the longest delay in the arguments of a leaky bucket.
const bucketDelay = 3

func bucketArguments(r *driver.Compiled, cost int64) []any {
	k := &r.Constants
	span := price(k, cost)
	args := []any{integer(span.Micros), integer(k.Full.Micros), integer(k.Headroom.Micros), largest, integer(k.Denominator)}
	if k.Denominator > 1 {
		args = append(args, integer(span.Frac), integer(k.Full.Frac), integer(k.Headroom.Frac))
	}
	return args
}

// price returns the time in which n events of a bucket refill, at most horizon plus one microsecond, which is
// longer than any bucket takes.
func price(k *driver.Constants, n int64) driver.Span {
	hi, lo := bits.Mul64(uint64(n), uint64(k.Unit.Frac))
	carry, frac := bits.Div64(hi, lo, uint64(k.Denominator)) // Frac is below Denominator, so carry is below n
	hi, lo = bits.Mul64(uint64(n), uint64(k.Unit.Micros))
	if lo += carry; hi > 0 || lo < carry || lo > horizon {
		return driver.Span{Micros: horizon + 1}
	}
	return driver.Span{Micros: int64(lo), Frac: int64(frac)}
}

func readBucket(k driver.Constants, n [maxReadings]int64) (driver.Reading, bool) {
	used := driver.Span{Micros: n[0], Frac: n[1]}
	return driver.Reading{Used: used}, used.Frac < k.Denominator && used.Micros <= horizon
}

// fixedWindowArguments are those of a quota whose periods follow each other from the Unix epoch on.
func fixedWindowArguments(r *driver.Compiled, cost int64) []any {
	k := r.Constants
	return []any{integer(cost), integer(k.Capacity), integer(0), integer(k.Period), integer(2 * k.Period), integer(k.Period)}
}

func slidingWindowArguments(r *driver.Compiled, cost int64) []any {
	k := r.Constants
	return []any{integer(cost), integer(k.Capacity), integer(k.Period), integer(k.SubWindow)}
}

func readSlidingWindow(k driver.Constants, n [maxReadings]int64) (driver.Reading, bool) {
	r := driver.Reading{Phase: n[0], Count: n[1], First: n[2], Last: n[3], Retry: n[4]}
	longest := k.Period + k.SubWindow
	return r, r.Phase < k.SubWindow && r.First <= r.Last && r.Last <= longest && r.Retry <= longest
}

func slidingLogArguments(r *driver.Compiled, cost int64) []any {
	k := r.Constants
	return []any{integer(cost), integer(k.Capacity), integer(k.Period), integer(offsetWidth(k.Period))}
}

// offsetWidth returns the number of bytes that hold any time within a period, at least 4.
func offsetWidth(period int64) int64 {
	width := int64(4)
	for period >= 1<<(8*width) {
		width++
	}
	return width
}

func readSlidingLog(k driver.Constants, n [maxReadings]int64) (driver.Reading, bool) {
	r := driver.Reading{Count: n[0], First: n[1], Last: n[2], Retry: n[3]}
	return r, r.First <= r.Last && r.Last <= k.Period && r.Retry <= k.Period
}

func inFlightArguments(r *driver.Compiled, cost int64) []any {
	k := r.Constants
	return []any{integer(cost), integer(k.Capacity), integer(k.Period)}
}

// readInFlight reads, in its last number, how many numbers were in the way of that of the next place, and two flags: there
// can be one more event only; and, of a Renew and an Undo, the places were taken (see foundPlaces).
func readInFlight(k driver.Constants, n [maxReadings]int64) (driver.Reading, bool) {
	r := driver.Reading{Count: n[0], Last: n[1], Retry: n[2], Number: n[3] >> 2, Single: n[3]>>1&1 == 1}
	return r, r.Last <= k.Period && r.Retry <= k.Period && n[3] <= 4*maxPlaces && n[3]&3 <= 2
}

// foundPlaces reports whether a Renew or an Undo has found its places, or a queue.
func foundPlaces(r *driver.Compiled, n [maxReadings]int64) bool { return r.Kind.Holds && n[3]&1 == 1 }

func quotaArguments(r *driver.Compiled, cost int64) []any {
	k := r.Constants
	p := k.Periods
	return []any{integer(cost), integer(k.Capacity), integer(p.Start), integer(p.Boundary), integer(p.End), integer(k.Period)}
}

// readQuota accepts a period that begins later than now, because the clock may have stepped back.
func readQuota(k driver.Constants, n [maxReadings]int64) (driver.Reading, bool) {
	r := driver.Reading{Count: n[0], Left: n[1], Length: n[2]}
	return r, r.Count <= maxCount && 1 <= r.Left && r.Left <= k.Period && 1 <= r.Length && r.Length <= k.Period
}

func rolloverArguments(r *driver.Compiled, cost int64) []any {
	args, k := quotaArguments(r, cost), &r.Constants
	args[1] = integer(int64(r.Events))
	return append(args, integer(int64(r.Rollover)), integer(k.Share[0]), integer(k.Share[1]), integer(k.Extra))
}

func readRollover(k driver.Constants, n [maxReadings]int64) (driver.Reading, bool) {
	r, ok := readQuota(k, n)
	r.Rest, r.Rolls = n[3], n[4] == 1
	return r, ok && n[4] <= 1 // Decode checks the rest
}

// pauseArguments returns the length that a debit sets.
func pauseArguments(_ *driver.Compiled, length int64) []any { return []any{integer(length)} }

func readPause(_ driver.Constants, n [maxReadings]int64) (driver.Reading, bool) {
	return driver.Reading{Left: n[0]}, n[0] <= maxPause
}

// largest is maxInteger, boxed once.
var largest any = strconv.FormatInt(maxInteger, 10)

// smallIntegers are boxed once.
var smallIntegers = [...]any{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"}

// integer returns n as an argument of a command, which is decimal text.
func integer(n int64) any {
	if 0 <= n && n < int64(len(smallIntegers)) {
		return smallIntegers[n]
	}
	return strconv.FormatInt(n, 10)
}
