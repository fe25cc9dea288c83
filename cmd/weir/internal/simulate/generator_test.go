package simulate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/testkit"
)

func TestParseGenerator(t *testing.T) {
	for text, want := range map[string]Generator{
		"steady":    {Kind: Steady, Rate: core.PerSecond(10), Clients: 10, For: 10 * time.Minute, Every: 10 * time.Second, Seed: 1, Cost: 1},
		"poisson:":  {Kind: Poisson, Rate: core.PerSecond(10), Clients: 10, For: 10 * time.Minute, Every: 10 * time.Second, Seed: 1, Cost: 1},
		"adversary": {Kind: Adversary, Rate: core.PerSecond(10), Clients: 10, Every: 10 * time.Second, Seed: 1, Cost: 1},
		"poisson:rate=100/m,clients=20,for=1h30m,seed=18446744073709551615,cost=3,plan=gold,request=POST /a?b=c": {
			Kind: Poisson, Rate: core.PerMinute(100), Clients: 20, For: 90 * time.Minute, Every: 10 * time.Second, Seed: math.MaxUint64, Cost: 3, Plan: "gold", Request: "POST /a?b=c",
		},
		"burst:every=1ms,clients=1000000,for=8784h": {Kind: Burst, Rate: core.PerSecond(10), Clients: 1_000_000, For: maxFor, Every: time.Millisecond, Seed: 1, Cost: 1},
		"steady:rate=10/s burst 5,clients=2":        {Kind: Steady, Rate: core.PerSecond(10).WithBurst(5), Clients: 2, For: 10 * time.Minute, Every: 10 * time.Second, Seed: 1, Cost: 1},
	} {
		g, ok, err := ParseGenerator(text)
		if err != nil || !ok || fmt.Sprint(*g) != fmt.Sprint(want) {
			t.Errorf("%s: got %+v, %t, %v", text, g, ok, err)
		}
	}
	for _, text := range []string{"", "-", "steady.csv", "Steady", "access.log", "steadily:rate=1/s"} {
		if g, ok, err := ParseGenerator(text); ok || err != nil || g != nil {
			t.Errorf("%s: got %+v, %t, %v", text, g, ok, err)
		}
	}
}

func TestParseGenerator_Errors(t *testing.T) {
	for text, want := range map[string]string{
		"steady:rate=10":                   `rate is "10", and not a number of requests in a fixed period`,
		"steady:rate=unlimited":            `rate is "unlimited"`,
		"steady:rate=blocked":              `rate is "blocked"`,
		"steady:rate=9/month":              `rate is "9/month"`,
		"steady:rate=9/100ns":              `rate is "9/100ns"`,
		"steady:rate=9/400d":               `rate is "9/400d"`,
		"steady:rate=1000000001/s":         `rate is "1000000001/s"`,
		"steady:rate=x/s":                  `"x/s"`,
		"steady:rate":                      `invalid limit ""`,
		"adversary:rate=10/s":              "an adversary has the rate of the limits",
		"steady:clients=0":                 `clients is "0", and not a number from 1 to 1000000`,
		"steady:clients=1000001":           "clients is",
		"steady:clients=1.5":               "clients is",
		"steady:for=10":                    `for is "10", and not a duration from 1ms to 8784h0m0s`,
		"steady:for=-1s":                   "for is",
		"steady:for=1us":                   "for is",
		"steady:for=367d":                  "for is",
		"burst:every=0s":                   "every is",
		"poisson:every=1s":                 "every is a parameter of burst only",
		"poisson:seed=-1":                  `"-1"`,
		"steady:seed=1":                    "seed is a parameter of poisson only",
		"burst:cost=0":                     `cost is "0", and not a number from 1 to 1000000000`,
		"steady:clientz=2":                 `unknown parameter "clientz"; the parameters are rate, clients, for, every, seed, cost, plan, request`,
		"steady:=":                         `unknown parameter ""`,
		"steady:clients=2,,clients=x,for=": `clients is "x"`,
	} {
		g, ok, err := ParseGenerator(text)
		if err == nil || !ok || g != nil || !strings.HasPrefix(err.Error(), text+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %t, %v, want %s", text, g, ok, err, want)
		}
	}
}

// traffic returns the events of a generator, and fails if their times decrease.
func traffic(t *testing.T, text string) (all []Event) {
	t.Helper()
	g, ok, err := ParseGenerator(text)
	if err != nil || !ok {
		t.Fatal(text, ok, err)
	}
	for e := range g.Traffic() {
		if n := len(all); e.At < Begin || n > 0 && e.At < all[n-1].At {
			t.Fatalf("%s: event %d has the time %d, before that of the last one", text, n, e.At)
		}
		all = append(all, *e)
	}
	return all
}

// Each client sends its rate, at equal intervals. No two clients send at the same time.
func TestGenerator_Steady(t *testing.T) {
	for text, test := range map[string]struct {
		clients, each int
		interval      int64
	}{
		"steady":                                 {10, 6000, 100_000},
		"steady:rate=7/s,clients=3,for=1m":       {3, 420, 1_000_000 / 7},
		"steady:rate=1/m,clients=60,for=3m":      {60, 3, 60e6},
		"steady:rate=1000/s,clients=9,for=2s":    {9, 2000, 1000},
		"steady:rate=3/h,clients=100,for=4h":     {100, 12, 1200e6},
		"steady:rate=5/s,clients=1,for=1100ms":   {1, 6, 200_000},
		"steady:rate=1/366d,clients=2,for=8784h": {2, 1, 0},
	} {
		last, count := map[string]int64{}, map[string]int{}
		at := map[int64]bool{}
		for _, e := range traffic(t, text) {
			if at[e.At] {
				t.Fatalf("%s: two events have the time %d", text, e.At)
			}
			at[e.At] = true
			if count[e.Key]++; count[e.Key] > 1 {
				if d := e.At - last[e.Key]; d < test.interval || d > test.interval+1 {
					t.Fatalf("%s: %s sends after %d us, want %d", text, e.Key, d, test.interval)
				}
			}
			last[e.Key] = e.At
			if e.Cost != 1 || e.Plan != "" || e.Request != "" {
				t.Fatalf("%s: got %+v", text, e)
			}
		}
		if len(count) != test.clients {
			t.Errorf("%s: got %d clients, want %d", text, len(count), test.clients)
		}
		for key, n := range count {
			if n != test.each {
				t.Errorf("%s: got %d events of %s, want %d", text, n, key, test.each)
			}
		}
	}
}

// The number of events has the mean and the variance of the Poisson distribution, also for intervals below a microsecond.
func TestGenerator_Poisson(t *testing.T) {
	for text, want := range map[string]float64{
		"poisson:rate=10/s,clients=20,for=1m":           12_000,
		"poisson:rate=1/m,clients=500,for=20m,seed=9":   10_000,
		"poisson:rate=300000/s,clients=2,for=50ms":      30_000,
		"poisson:rate=100000000/s,clients=1,for=1ms":    1e5,
		"poisson:rate=1000/h,clients=3,for=24h,seed=77": 72_000,
	} {
		all := traffic(t, text)
		if got := float64(len(all)); math.Abs(got-want) > 4*math.Sqrt(want) {
			t.Errorf("%s: got %v events, want about %v", text, got, want)
		}
		if other := traffic(t, text); !slices.Equal(all, other) {
			t.Errorf("%s: the traffic differs from call to call", text)
		}
		if other := traffic(t, text+",seed=123"); slices.Equal(all, other) {
			t.Errorf("%s: the traffic is that of another seed", text)
		}
	}
	// The squares of the intervals have twice the mean that equal ones have.
	var last, squares float64
	all := traffic(t, "poisson:rate=1/s,clients=1,for=10h")
	for _, e := range all {
		interval := float64(e.At-Begin)/1e6 - last
		last += interval
		squares += interval * interval
	}
	if got := squares / float64(len(all)); got < 1.9 || got > 2.1 {
		t.Errorf("got intervals with the mean square %v, want 2", got)
	}
}

// A burst has the requests of an interval. If that is no whole number, the bursts differ by one.
func TestGenerator_Burst(t *testing.T) {
	for text, want := range map[string][]int{ // the bursts of each client
		"burst:clients=3,for=30s":                             {100, 100, 100},
		"burst:clients=2,for=1m,every=20s,rate=15/m":          {5, 5, 5},
		"burst:clients=1,for=1m,every=10s,rate=15/m":          {2, 3, 2, 3, 2, 3},
		"burst:clients=4,for=2m,every=10s,rate=2/m":           {1, 1, 1, 1},
		"burst:clients=1,for=5s,every=1500ms,rate=1/s,cost=7": {1, 2, 1, 2},
	} {
		bursts := map[string][]int{}
		last := map[string]int64{}
		at := map[int64]string{}
		for _, e := range traffic(t, text) {
			if key := at[e.At]; key != "" && key != e.Key {
				t.Fatalf("%s: %s and %s send at the same time", text, key, e.Key)
			}
			at[e.At] = e.Key
			if e.At != last[e.Key] {
				bursts[e.Key] = append(bursts[e.Key], 0)
			}
			last[e.Key] = e.At
			bursts[e.Key][len(bursts[e.Key])-1]++
		}
		for key, got := range bursts {
			if !slices.Equal(got, want) {
				t.Errorf("%s: got the bursts %v of %s, want %v", text, got, key, want)
			}
		}
		if g, _, _ := ParseGenerator(text); len(bursts) != g.Clients {
			t.Errorf("%s: got %d clients", text, len(bursts))
		}
	}
}

// The parameters of events are those of the generator. Traffic can be left early.
func TestGenerator_Parameters(t *testing.T) {
	for _, kind := range Kinds {
		g, _, err := ParseGenerator(kind + ":clients=2,cost=5,plan=gold,request=GET /a")
		testkit.Must(t, err)
		g.Targets = []core.Rule{core.FixedWindow("r", core.PerMinute(10))}
		n := 0
		for e := range g.Traffic() {
			if e.Cost != 5 || e.Plan != "gold" || e.Request != "GET /a" || e.Key != "client:1" && e.Key != "client:2" {
				t.Errorf("%s: got %+v", kind, e)
			}
			if n++; n == 15 {
				break
			}
		}
		if n != 15 {
			t.Errorf("%s: got %d events", kind, n)
		}
	}
}

// The times of an adversary with several targets do not decrease, and it gets more than the limit of each window
// that another rule leaves time for.
func TestGenerator_Targets(t *testing.T) {
	for name, test := range map[string]struct {
		rules []core.Rule
		want  []int64 // the worst windows
	}{
		"bucket and window": {
			[]core.Rule{core.TokenBucket("second", core.PerSecond(10).WithBurst(20)), core.FixedWindow("minute", core.PerMinute(100))},
			[]int64{29, 200},
		},
		"large limits": {
			[]core.Rule{core.FixedWindow("second", core.PerSecond(300)), core.FixedWindow("minute", core.PerMinute(4000))},
			[]int64{600, 8000},
		},
		"without a target": {[]core.Rule{core.Quota("month", core.Monthly(5))}, []int64{0}},
		"one target":       {[]core.Rule{core.Quota("month", core.Monthly(1000)), core.FixedWindow("minute", core.PerMinute(10))}, []int64{0, 20}},
	} {
		g, _, err := ParseGenerator("adversary:clients=2")
		testkit.Must(t, err)
		g.Targets = test.rules
		s := New()
		p := s.Add("p", core.Must(core.New(s.Store(), test.rules...)))
		last := int64(0)
		for e := range g.Traffic() {
			if e.At < last {
				t.Fatalf("%s: the time %d follows %d", name, e.At, last)
			}
			last = e.At
			if _, err := s.Decide(t.Context(), p, e); err != nil {
				t.Fatal(err)
			}
		}
		for i, r := range p.Rules {
			if got := r.Worst.Admitted; got != test.want[i] {
				t.Errorf("%s: %s lets %d through, want %d", name, r.Rule.Name(), got, test.want[i])
			}
		}
	}
}

// A generator has events, with times that do not decrease, or its text is an error.
func FuzzParseGenerator(f *testing.F) {
	for _, text := range []string{
		"steady", "poisson:rate=100/s,clients=20,for=10m,seed=3", "burst:every=1s,rate=9/7s", "adversary:clients=3,for=90s", "steady:rate=1000000000/1us,for=1ms",
		"poisson:rate=1000000000/s", "burst:rate=1/366d,every=8784h,for=8784h,cost=5,plan=p,request=GET /", "steady:,", "access.log", "adversary:rate=1/s",
	} {
		f.Add(text)
	}
	targets := []core.Rule{core.FixedWindow("a", core.PerSecond(300)), core.TokenBucket("b", core.PerMinute(7).WithBurst(50)), core.Quota("c", core.Monthly(5)), core.SlidingLog("d", core.Per(2, time.Microsecond))}
	f.Fuzz(func(t *testing.T, text string) {
		g, ok, err := ParseGenerator(text)
		kind, _, _ := strings.Cut(text, ":")
		if ok != slices.Contains(Kinds, kind) || (g != nil) != (ok && err == nil) || err != nil && !ok {
			t.Fatalf("got %+v, %t, %v", g, ok, err)
		}
		if g == nil {
			return
		}
		if g.Clients < 1 || g.Cost < 1 || g.For < 0 || g.For > maxFor || g.Every <= 0 || g.Rate.Events < 1 || g.Rate.Per < time.Microsecond {
			t.Fatalf("got %+v", g)
		}
		g.Targets = targets
		g.Clients = min(g.Clients, 100)
		n, last := 0, int64(Begin)
		for e := range g.Traffic() {
			if e.At < last || g.For > 0 && e.At >= Begin+g.For.Microseconds() {
				t.Fatalf("event %d has the time %d, after %d", n, e.At, last)
			}
			if last = e.At; e.Key == "" || e.Cost != g.Cost {
				t.Fatalf("got %+v", e)
			}
			if n++; n == 2000 {
				break
			}
		}
	})
}
