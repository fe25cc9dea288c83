package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A result holds the figures of one measurement.
type result struct {
	delay   time.Duration
	reports map[string][]report // by command, of each process
	used    map[string]usage    // of Redis, by command
	left    int                 // states in Redis at the end
}

// A usage is the CPU time of Redis during a command.
type usage struct {
	length  time.Duration
	cpu     float64 // in seconds
	scripts float64 // the number of runs of scripts
	micros  float64 // that these took
}

// cpu measures the usage of Redis during f, a command.
func (r *result) cpu(ctx context.Context, rdb *redis.Client, command string, f func() error) error {
	before, err := readUsage(ctx, rdb)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := f(); err != nil {
		return err
	}
	length := time.Since(begin)
	after, err := readUsage(ctx, rdb)
	if err != nil {
		return err
	}
	if r.used == nil {
		r.used = make(map[string]usage)
	}
	r.used[command] = usage{length, after.cpu - before.cpu, after.scripts - before.scripts, after.micros - before.micros}
	return nil
}

// readUsage returns the usage of Redis since its start.
func readUsage(ctx context.Context, rdb *redis.Client) (u usage, err error) {
	text, err := rdb.InfoMap(ctx, "cpu", "commandstats").Result()
	if err != nil {
		return u, err
	}
	number := func(s string) float64 {
		n, _ := strconv.ParseFloat(s, 64) // an absent field is zero
		return n
	}
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		u.cpu += number(text["CPU"][name])
	}
	for field := range strings.SplitSeq(text["Commandstats"]["cmdstat_evalsha"], ",") {
		switch name, value, _ := strings.Cut(field, "="); name {
		case "calls":
			u.scripts = number(value)
		case "usec":
			u.micros = number(value)
		}
	}
	return u, nil
}

// share returns the part of a core that Redis has used.
func (u usage) share() float64 { return u.cpu / u.length.Seconds() }

// sum adds up a count of the processes.
func (r *result) sum(command string, of func(report) int64) (sum int64) {
	for _, p := range r.reports[command] {
		sum += of(p)
	}
	return sum
}

func (r *result) most(command string, of func(report) int64) (most int64) {
	for _, p := range r.reports[command] {
		most = max(most, of(p))
	}
	return most
}

// table prints the results, a column each.
func table(results []*result) {
	row := func(name string, f func(r *result) string) {
		fmt.Printf("| %s |", name)
		for _, r := range results {
			fmt.Printf(" %s |", f(r))
		}
		fmt.Println()
	}
	row("delay of the network", func(r *result) string { return r.delay.String() })
	fmt.Println("|" + strings.Repeat("---|", len(results)+1))
	calls := func(p report) int64 { return p.Calls }
	renewals := func(p report) int64 { return p.Renewals }
	row("Redis CPU of the renewals, of a core", func(r *result) string {
		return fmt.Sprintf("%.2f %%", 100*(r.used[renew].share()-r.used[idle].share()))
	})
	row("of that, in scripts", func(r *result) string {
		return fmt.Sprintf("%.2f %%", r.used[renew].micros/1e4/r.used[renew].length.Seconds())
	})
	row("an idle Redis", func(r *result) string { return fmt.Sprintf("%.2f %%", 100*r.used[idle].share()) })
	row("renewals a second", func(r *result) string {
		return fmt.Sprintf("%.0f", float64(r.sum(renew, renewals))/r.used[renew].length.Seconds())
	})
	row("calls a second", func(r *result) string {
		return fmt.Sprintf("%.0f", float64(r.sum(renew, calls))/r.used[renew].length.Seconds())
	})
	row("scripts a second", func(r *result) string {
		return fmt.Sprintf("%.0f", r.used[renew].scripts/r.used[renew].length.Seconds())
	})
	row("Redis CPU of a renewal", func(r *result) string {
		cpu := r.used[renew].cpu - r.used[idle].share()*r.used[renew].length.Seconds()
		return fmt.Sprintf("%.1f us", 1e6*cpu/float64(r.sum(renew, renewals)))
	})
	row("calls that failed", func(r *result) string {
		return fmt.Sprint(r.sum(renew, func(p report) int64 { return p.Failed }))
	})
	row("slowest call", func(r *result) string {
		return milliseconds(time.Duration(r.most(renew, func(p report) int64 { return int64(p.Slowest) })))
	})
	row("lost places", func(r *result) string {
		return fmt.Sprint(r.sum(beside, func(p report) int64 { return int64(p.Lost) }))
	})
	row("memory of a stream", func(r *result) string {
		before, after := r.reports[idle][0], r.reports[renew][0]
		return fmt.Sprintf("%.0f B", float64(after.Heap-before.Heap)/float64(r.streams()))
	})
	row("goroutines of a process", func(r *result) string { return fmt.Sprint(r.reports[renew][0].Goroutines) })
	for _, c := range []struct{ command, name string }{{alone, "without streams"}, {beside, "with the streams"}} {
		for _, p := range []int{50, 99} {
			row(fmt.Sprintf("Reserve and Release, %s, p%d", c.name, p), func(r *result) string { return r.pair(c.command, p) })
		}
	}
	row("time to take all places", func(r *result) string { return milliseconds(r.used[hold].length) })
	row("time to free all places", func(r *result) string { return milliseconds(r.used[release].length) })
	row("states in Redis after that", func(r *result) string { return fmt.Sprint(r.left) })
}

// streams returns the number of streams of the first process.
func (r *result) streams() int { return r.reports[hold][0].Streams }

// pair returns a percentile of the time of a Reserve and a Release during a command.
func (r *result) pair(command string, percent int) string {
	var all []time.Duration
	for _, p := range r.reports[command] {
		all = append(all, p.Pairs...)
	}
	slices.Sort(all)
	return milliseconds(all[len(all)*percent/100])
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1000) }
