// Package playground sends one stream of traffic through several algorithms, for a page that shows them beside
// each other.
package playground

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/core"
)

// Parameters are the limit and the traffic that a user of the page has chosen.
type Parameters struct {
	Traffic string `json:"traffic"` // a kind of simulate.Generator
	Limit   int    `json:"limit"`   // requests in each period
	Per     string `json:"per"`     // the period: s, m or h
	Burst   int    `json:"burst"`   // of the two buckets
	Rate    int    `json:"rate"`    // the requests of each client in a period
	Clients int    `json:"clients"`
}

// Default are the parameters of a page without others.
var Default = Parameters{Traffic: simulate.Adversary, Limit: 100, Per: "m", Burst: 100, Rate: 150, Clients: 1}

// Bounds of the parameters. They bound the time of a run.
const (
	MaxLimit   = 500
	MaxBurst   = 1000
	MaxRate    = 1000
	MaxClients = 10
)

// Parse reads parameters from the query of a URL, such as "traffic=poisson&limit=20". Absent ones are those of
// Default, except that the burst is then the limit, and others are ignored. An invalid value is an error.
func Parse(query string) (Parameters, error) {
	p := Default
	p.Burst = 0
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if err := p.set(name, value); err != nil {
			return Default, err
		}
	}
	p.Burst = cmp.Or(p.Burst, p.Limit)
	return p, nil
}

func (p *Parameters) set(name, value string) error {
	choices := func(of *string, all []string) error {
		if !slices.Contains(all, value) {
			return fmt.Errorf("%s is %.40q, and not one of %s", name, value, strings.Join(all, ", "))
		}
		*of = value
		return nil
	}
	number := func(of *int, high int) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > high {
			return fmt.Errorf("%s is %.40q, and not a number from 1 to %d", name, value, high)
		}
		*of = n
		return nil
	}
	switch name {
	case "traffic":
		return choices(&p.Traffic, simulate.Kinds)
	case "per":
		return choices(&p.Per, []string{"s", "m", "h"})
	case "limit":
		return number(&p.Limit, MaxLimit)
	case "burst":
		return number(&p.Burst, MaxBurst)
	case "rate":
		return number(&p.Rate, MaxRate)
	case "clients":
		return number(&p.Clients, MaxClients)
	}
	return nil
}

func (p *Parameters) per() time.Duration {
	return map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[p.Per]
}

// periods is the length of a run in periods.
const periods = 5

// Interval is the time between two bursts of a client, as a part of a period. No two bursts are one period apart: a
// sliding window, which counts an event for a little longer, would deny the second as a whole. A run has a whole
// number of intervals.
const Interval = 5.0 / 16

// generator returns the traffic of p.
func (p *Parameters) generator() *simulate.Generator {
	return &simulate.Generator{
		Kind: p.Traffic, Rate: core.Per(p.Rate, p.per()), Clients: p.Clients, For: periods * p.per(), Every: time.Duration(Interval * float64(p.per())), Seed: 1,
		Targets: []core.Rule{kinds[0].rule(p)},
	}
}

const ruleName = "api"

// A Result is a run, for the page. Times are milliseconds since its begin.
type Result struct {
	Parameters
	Span     int64  `json:"span"`     // the length of the run
	Requests uint64 `json:"requests"` // of all clients
	Demand   []int  `json:"demand"`   // the requests in each bin, which are equal parts of the span
	Lanes    []Lane `json:"lanes"`
}

// bins is the number of bins of a run.
const bins = 240

// A Lane is one kind of rule of a run.
type Lane struct {
	Algorithm string    `json:"algorithm"` // as in a file, or fixed_window_from_first
	Admitted  uint64    `json:"admitted"`
	Denied    uint64    `json:"denied"`
	Delayed   uint64    `json:"delayed"`
	Passed    []int     `json:"passed"` // in each bin: the requests that reach the handler, at the ends of their delays
	Rejected  []int     `json:"rejected"`
	Level     []float64 `json:"level"` // in each bin: the largest used part of the limit of client 1, 0 to 1
	Worst     Worst     `json:"worst"`
	Queue     int64     `json:"queue"`     // the most requests that waited
	Delay     int64     `json:"delay"`     // the longest
	Retry     int64     `json:"retry"`     // the median of Retry-After in seconds; zero if nothing was denied
	RetryMax  int64     `json:"retry_max"` // the longest
	DeniedAt  int64     `json:"denied_at"` // the time of the first denial
	Response  string    `json:"response"`  // to the request that was denied first; if none was, to one that follows a whole capacity
	Code      string    `json:"code"`      // a program in Go with this limit
}

// Worst is the span of one period in which the most requests of one client reached the handler.
type Worst struct {
	Admitted int64 `json:"admitted"`
	Begin    int64 `json:"begin"`
}

// Run sends the traffic of p through all algorithms.
func Run(ctx context.Context, p Parameters) (*Result, error) {
	g := p.generator()
	r := &Result{Parameters: p, Span: g.For.Milliseconds(), Demand: make([]int, bins)}
	lanes := make([]*lane, len(kinds))
	for i := range kinds {
		l, err := newLane(p, &kinds[i])
		if err != nil {
			return nil, err
		}
		lanes[i] = l
	}
	span := g.For.Microseconds()
	at := 0 // the next bin whose level is not known
	levels := func(until int64) error {
		for ; at < bins && begin(at, span) <= until; at++ {
			for _, l := range lanes {
				if err := l.peekLevel(ctx, at, span); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for e := range g.Traffic() {
		if err := levels(e.At); err != nil {
			return nil, err
		}
		r.Requests++
		r.Demand[bin(e.At, span)]++
		for _, l := range lanes {
			if err := l.add(ctx, e, span); err != nil {
				return nil, err
			}
		}
	}
	if err := levels(begin(bins, span)); err != nil {
		return nil, err
	}
	for _, l := range lanes {
		result, err := l.result(ctx)
		if err != nil {
			return nil, err
		}
		r.Lanes = append(r.Lanes, result)
	}
	return r, nil
}

// bin returns the bin of a time in a run of a length in microseconds.
func bin(at, span int64) int { return int((at - simulate.Begin) * bins / span) }

// begin returns the first time of a bin.
func begin(i int, span int64) int64 { return simulate.Begin + (int64(i)*span+bins-1)/bins }
