package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/weir-go/weir/core/redisstore/redistest"
)

// A fault happens at one moment, or lasts for a random time.
type fault struct {
	name  string
	begin func(context.Context, *system, []*redistest.Proxy, *rand.Rand) error // with the proxies that are concerned
	most  time.Duration                                                        // the longest time; 0 for a moment
	end   func(*system, []*redistest.Proxy) error                              // nil for a moment
}

var faults = []fault{
	{name: "`SCRIPT FLUSH`", begin: command("script", "flush")},
	{name: "`CLIENT KILL`", begin: command("client", "kill", "type", "normal")},
	{name: "connections cut", begin: each((*redistest.Proxy).Cut)},
	{name: "connections forgotten", begin: each((*redistest.Proxy).Forget)},
	{name: "replies lost", begin: loseReplies, most: 60 * time.Millisecond, end: pass},
	{name: "all bytes lost", begin: each((*redistest.Proxy).Drop), most: 60 * time.Millisecond, end: pass},
	{name: "replies late", begin: delay, most: 150 * time.Millisecond, end: pass},
	{name: "Redis stopped", begin: freeze, most: 250 * time.Millisecond, end: resume},
}

// inject makes faults, one every 50 to 150 ms, until ctx ends. It returns after the end of the last fault.
func (a *audit) inject(ctx context.Context, random *rand.Rand) error {
	lasting := context.WithoutCancel(ctx)
	for {
		wait(ctx, 50*time.Millisecond+time.Duration(random.Int64N(int64(100*time.Millisecond))))
		if ctx.Err() != nil {
			return nil
		}
		i := random.IntN(len(faults))
		proxies := a.system.proxies[:]
		if one := random.IntN(len(proxies) + 1); one < len(proxies) { // otherwise all
			proxies = proxies[one : one+1]
		}
		a.faults[i]++
		if err := faults[i].happen(ctx, lasting, a.system, proxies, random); err != nil {
			return err
		}
	}
}

// happen begins f, and ends it after a random time or when ctx ends. lasting is the context of commands.
func (f *fault) happen(ctx, lasting context.Context, s *system, proxies []*redistest.Proxy, random *rand.Rand) error {
	if err := f.begin(lasting, s, proxies, random); err != nil || f.end == nil {
		return err
	}
	wait(ctx, time.Duration(1+random.Int64N(int64(f.most))))
	return f.end(s, proxies)
}

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// command returns a fault that is a command of Redis. CLIENT KILL spares the connection that it comes from.
func command(args ...any) func(context.Context, *system, []*redistest.Proxy, *rand.Rand) error {
	return func(ctx context.Context, s *system, _ []*redistest.Proxy, _ *rand.Rand) error {
		return s.direct.Do(ctx, args...).Err()
	}
}

func each(f func(*redistest.Proxy)) func(context.Context, *system, []*redistest.Proxy, *rand.Rand) error {
	return func(_ context.Context, _ *system, proxies []*redistest.Proxy, _ *rand.Rand) error {
		for _, p := range proxies {
			f(p)
		}
		return nil
	}
}

// loseReplies loses the replies of scripts, which are executed.
func loseReplies(_ context.Context, _ *system, proxies []*redistest.Proxy, random *rand.Rand) error {
	for _, p := range proxies {
		p.DropReplies(time.Duration(1+random.Int64N(int64(20*time.Millisecond))), "evalsha", "eval")
	}
	return nil
}

func delay(_ context.Context, _ *system, proxies []*redistest.Proxy, random *rand.Rand) error {
	for _, p := range proxies {
		p.Delay(time.Duration(1 + random.Int64N(int64(20*time.Millisecond))))
	}
	return nil
}

func freeze(_ context.Context, s *system, _ []*redistest.Proxy, _ *rand.Rand) error {
	return s.server.Pause()
}

func pass(_ *system, proxies []*redistest.Proxy) error {
	for _, p := range proxies {
		p.Pass()
	}
	return nil
}

func resume(s *system, _ []*redistest.Proxy) error { return s.server.Resume() }
