package driver_test

import (
	"hash/fnv"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

func TestCompiled_Constants(t *testing.T) {
	for _, c := range []struct {
		d    driver.Definition
		want driver.Constants
	}{
		{
			driver.Definition{Algorithm: driver.TokenBucket, Events: 3, Per: time.Second, Burst: 5},
			driver.Constants{Capacity: 5, Unit: driver.Span{Micros: 333_333, Frac: 1}, Full: driver.Span{Micros: 1_666_666, Frac: 2}, Denominator: 3},
		},
		{
			driver.Definition{Algorithm: driver.LeakyBucket, Events: 10, Per: time.Second, Soft: 25},
			driver.Constants{Capacity: 12, Extra: 2, Unit: driver.Span{Micros: 100_000}, Full: driver.Span{Micros: 1_200_000}, Denominator: 1},
		},
		{
			driver.Definition{Algorithm: driver.FixedWindow, Events: 3000, Per: time.Minute, Soft: 2.3},
			driver.Constants{Capacity: 3069, Extra: 69, Period: 60_000_000},
		},
		{
			driver.Definition{Algorithm: driver.SlidingLog, Events: 7, Per: time.Minute},
			driver.Constants{Capacity: 7, Period: 60_000_000, SubWindow: 1},
		},
		{
			driver.Definition{Algorithm: driver.SlidingWindow, Events: 7, Per: time.Second, SubWindows: 7, Burst: 7},
			driver.Constants{Capacity: 7, Period: 1_000_000, SubWindow: 142_858},
		},
		{
			driver.Definition{Algorithm: driver.InFlight, Events: 7, Hold: time.Minute, Soft: 50},
			driver.Constants{Capacity: 10, Extra: 3, Period: 60_000_000},
		},
		{
			driver.Definition{Algorithm: driver.Quota, Events: 7, Calendar: driver.Week, Soft: 50},
			driver.Constants{Capacity: 10, Extra: 3, Period: 9 * 86_400_000_000},
		},
		{
			driver.Definition{Algorithm: driver.Quota, Events: 7, Calendar: driver.Month, Soft: 50, Headroom: 20},
			driver.Constants{Capacity: 5, Period: 33 * 86_400_000_000},
		},
		{
			driver.Definition{Algorithm: driver.Pause},
			driver.Constants{Capacity: driver.Never, Denominator: 1},
		},
		{
			driver.Definition{Algorithm: driver.TokenBucket, Events: 3, Per: time.Second, Burst: 5, Headroom: 30},
			driver.Constants{
				Capacity: 3, Unit: driver.Span{Micros: 333_333, Frac: 1}, Full: driver.Span{Micros: 1_666_666, Frac: 2},
				Headroom: driver.Span{Micros: 666_666, Frac: 2}, Denominator: 3,
			},
		},
		{ // the extra of a soft limit is left to others, too
			driver.Definition{Algorithm: driver.LeakyBucket, Events: 10, Per: time.Second, Soft: 25, Headroom: 99},
			driver.Constants{Capacity: 1, Unit: driver.Span{Micros: 100_000}, Full: driver.Span{Micros: 1_200_000}, Headroom: driver.Span{Micros: 1_100_000}, Denominator: 1},
		},
		{
			driver.Definition{Algorithm: driver.SlidingLog, Events: 7, Per: time.Minute, Soft: 50, Headroom: 1},
			driver.Constants{Capacity: 6, Period: 60_000_000, SubWindow: 1},
		},
		{
			driver.Definition{Algorithm: driver.InFlight, Events: 90_000, Hold: time.Minute, Soft: 50, ByCost: true},
			driver.Constants{Capacity: 135_000, Extra: 45_000, Period: 60_000_000},
		},
		{
			driver.Definition{Algorithm: driver.InFlight, Events: 7, Hold: time.Minute, Headroom: 60},
			driver.Constants{Capacity: 2, Period: 60_000_000},
		},
	} {
		c.want.Algorithm = c.d.Algorithm
		if got := compile(t, c.d); got.Constants != c.want || got.Constants.Capacity != c.want.Capacity {
			t.Errorf("%+v:\n got %+v, capacity %d\nwant %+v", c.d, got.Constants, got.Constants.Capacity, c.want)
		}
	}
}

// The ID is the FNV-1a hash of the algorithm and StateName, the same for all limits of one length.
// It must not change, because stores write it down.
func TestCompiled_ID(t *testing.T) {
	seen := make(map[uint64]string)
	for _, a := range testkit.Names() {
		for _, name := range []string{"a", "b", "ab", "a b"} {
			d := valid(a)
			d.Name = name
			c, hash := compile(t, d), fnv.New64a()
			hash.Write(append([]byte{byte(a)}, c.StateName...))
			if c.ID != hash.Sum64() {
				t.Errorf("%v: got ID %x, expected %x", c, c.ID, hash.Sum64())
			}
			if other := seen[c.ID]; other != "" {
				t.Errorf("%v and %s have one ID", c, other)
			}
			seen[c.ID] = c.String()
			if d.Shadow, d.Text = true, "text"; a != driver.Pause {
				d.Events = 20
			}
			if other := compile(t, d); other.ID != c.ID || other.Name != name || other.Algorithm != a || !other.Shadow || c.Shadow {
				t.Errorf("got %+v, expected another limit of %v with its ID", other, c)
			}
		}
	}
}

func TestCompiled_StateName(t *testing.T) {
	base := compile(t, driver.Definition{Name: "api", Algorithm: driver.TokenBucket, Events: 100, Per: time.Minute})
	part := base.Divide(7)
	size, err := driver.Definition{Name: "api", Algorithm: driver.TokenBucket, Events: 250, Per: time.Minute, Like: base}.Compile()
	testkit.Must(t, err)
	window := func(t *testing.T, n int) *driver.Compiled {
		d := compile(t, driver.Definition{Name: "api", Algorithm: driver.SlidingWindow, Events: 100, Per: time.Minute, SubWindows: 60}).Divide(2).Definition
		d.SubWindows = n
		return compile(t, d)
	}
	bucket := func(events int, per time.Duration, burst int) *driver.Compiled {
		return compile(t, driver.Definition{Name: "api", Algorithm: driver.TokenBucket, Events: events, Per: per, Burst: burst})
	}
	for _, c := range []struct {
		name string
		rule *driver.Compiled
		want string
	}{
		{"bucket", base, "60:api"},
		{"another rate", bucket(7, time.Minute, 0), "60:api"},
		{"burst", bucket(10, time.Second, 25), "2500ms:api"},
		{"same ratio of burst and rate", bucket(20, time.Second, 50), "2500ms:api"},
		{"microseconds", bucket(1, time.Microsecond, 0), "1us:api"},
		{"fraction", bucket(3, time.Second, 1), "333333us+1/3:api"},
		{"reduced fraction", bucket(6, time.Second, 2), "333333us+1/3:api"},
		{"part of a bucket", part, "60:api"},
		{"elastic size", size, "60:api"},
		{"soft", compile(t, driver.Definition{Name: "api", Algorithm: driver.TokenBucket, Events: 100, Per: time.Minute, Soft: 10}), "66:api"},
		{"part of a window, then other sub-windows", window(t, 7), "60/7:api"},
		{"fixed window", compile(t, driver.Definition{Name: "api", Algorithm: driver.FixedWindow, Events: 5, Per: time.Hour}), "3600:api"},
		{"sliding log", compile(t, driver.Definition{Name: "a:b", Algorithm: driver.SlidingLog, Events: 5, Per: 1500 * time.Millisecond}), "1500ms:a:b"},
		{"sliding window", compile(t, driver.Definition{Name: "api", Algorithm: driver.SlidingWindow, Events: 5, Per: time.Minute, SubWindows: 60}), "60/60:api"},
		{"in flight", compile(t, driver.Definition{Name: "api", Algorithm: driver.InFlight, Events: 5, Hold: 30 * time.Second}), "30:api"},
		{"by cost", compile(t, driver.Definition{Name: "api", Algorithm: driver.InFlight, Events: 5, Hold: 30 * time.Second, ByCost: true}), "30:api"},
		{"part by cost", compile(t, driver.Definition{Name: "api", Algorithm: driver.InFlight, Events: 5, Hold: 90 * time.Second, ByCost: true}).Divide(3), "90:api"},
		{"quota", compile(t, driver.Definition{Name: "api", Algorithm: driver.Quota, Events: 5, Calendar: driver.Month}), "month:api"},
		{"part of a quota", compile(t, driver.Definition{Name: "api", Algorithm: driver.Quota, Events: 5, Calendar: driver.Day}).Divide(3), "day:api"},
		{"pause", compile(t, driver.Definition{Name: "api", Algorithm: driver.Pause}), "0:api"},
		{"part of a pause", compile(t, driver.Definition{Name: "api", Algorithm: driver.Pause}).Divide(3), "0:api"},
		{"headroom", compile(t, driver.Definition{Name: "api", Algorithm: driver.TokenBucket, Events: 100, Per: time.Minute, Headroom: 30}), "60:api"},
		{"headroom and soft", compile(t, driver.Definition{Name: "api", Algorithm: driver.TokenBucket, Events: 100, Per: time.Minute, Soft: 10, Headroom: 30}), "66:api"},
	} {
		if got := c.rule.StateName; got != c.want {
			t.Errorf("%s: got %q, expected %q", c.name, got, c.want)
		}
	}
}

// Equal does not fail for definitions that Compile rejects.
func TestDefinition_Equal_Invalid(t *testing.T) {
	for _, d := range []driver.Definition{
		{},
		{Name: "r", Algorithm: driver.TokenBucket},
		{Name: "r", Algorithm: driver.TokenBucket, Events: 5, Per: time.Second, Burst: -1},
		{Name: "r", Algorithm: driver.TokenBucket, Events: 1, Per: 1 << 62, Burst: 1 << 30},
	} {
		if _, err := d.Compile(); err == nil {
			t.Fatalf("%+v is valid", d)
		}
		if !d.Equal(d) {
			t.Errorf("%+v does not equal itself", d)
		}
	}
}

func TestDefinition_Like_AnotherLength(t *testing.T) {
	base := compile(t, driver.Definition{Name: "r", Algorithm: driver.SlidingWindow, Events: 5, Per: time.Minute, SubWindows: 60})
	for _, d := range []driver.Definition{
		{Name: "r", Algorithm: driver.SlidingWindow, Events: 5, Per: time.Hour, SubWindows: 60},
		{Name: "r", Algorithm: driver.SlidingWindow, Events: 5, Per: time.Minute, SubWindows: 10},
	} {
		d.Like = base
		if c, err := d.Compile(); err == nil {
			t.Errorf("got %v for another length than that of %v", c, base)
		}
	}
}

func TestCompiled_String(t *testing.T) {
	d := valid(driver.SlidingLog)
	if got, want := compile(t, d).String(), `sliding_log "rule" of 10 in 1s, burst 10`; got != want {
		t.Errorf("got %s, expected %s", got, want)
	}
	quota := compile(t, driver.Definition{Name: "calls", Algorithm: driver.Quota, Events: 10, Calendar: driver.Month})
	if got, want := quota.String(), `quota "calls" of 10 in a month, burst 10`; got != want {
		t.Errorf("got %s, expected %s", got, want)
	}
	if got, want := compile(t, valid(driver.Pause)).String(), `pause "rule"`; got != want {
		t.Errorf("got %s, expected %s", got, want)
	}
	d.Text = "ten a second"
	if got := compile(t, d).String(); got != d.Text {
		t.Errorf("got %s, expected %s", got, d.Text)
	}
}

// Price is exactly n events divided by the rate, up to more than any bucket holds.
func TestCompiled_Price(t *testing.T) {
	for _, c := range rules(t) {
		d, k := c.Definition, c.Constants
		if !d.Kind().Refills {
			continue
		}
		for _, n := range []int64{0, 1, 2, 3, 10, k.Capacity, k.Capacity + 1, 1_000_000, 1<<48 - 1, 1 << 48, math.MaxInt64} {
			want := new(big.Rat).SetFrac64(d.Per.Microseconds(), int64(d.Events))
			if want.Mul(want, new(big.Rat).SetInt64(min(n, 1<<48))); want.Cmp(new(big.Rat).SetInt64(driver.Horizon+1)) >= 0 {
				want.SetInt64(driver.Horizon + 1)
			}
			s := c.Price(n)
			got := new(big.Rat).SetFrac64(s.Frac, k.Denominator)
			if got.Add(got, new(big.Rat).SetInt64(s.Micros)); got.Cmp(want) != 0 {
				t.Errorf("%+v: got %v for %d events, expected %v", d, got, n, want)
			}
		}
	}
}

// A bucket with less than its capacity minus one event and Headroom to refill admits an event, and one with
// more does not.
func TestCompiled_Constants_OneEvent(t *testing.T) {
	for _, c := range rules(t) {
		slack := c.Constants.Full.Micros - c.Constants.Headroom.Micros - c.Constants.Unit.Micros
		if !c.Kind.Refills {
			if slack != 0 {
				t.Errorf("%+v: got %d, expected 0", c.Definition, slack)
			}
			continue
		}
		fits := func(left int64) bool {
			v := (&key{rule: c, state: driver.State{Time: start + left}}).do(driver.Charge{Op: driver.Peek, Cost: 1}, start)
			return v.Allowed
		}
		if slack < 0 || slack > 0 && !fits(slack-1) || fits(slack+1) {
			t.Errorf("%+v: got %d, expected the time from which one more event fits", c.Definition, slack)
		}
	}
}

// From ExpiresAt on, a State means the same as the zero State. A microsecond before, something is in
// use.
func TestCompiled_ExpiresAt(t *testing.T) {
	for _, c := range rules(t) {
		if at := c.ExpiresAt(driver.State{}); at != 0 {
			t.Errorf("%v: got %d for the zero State, expected 0", c, at)
		}
		used := 0
		for seed := range uint64(60) {
			k, s := key{rule: c}, newSequence(seed, c)
			for range 60 {
				charge := s.next()
				k.do(charge, s.now)
				s.remember(charge)
				if k.state == (driver.State{}) {
					continue
				}
				used++
				end := c.ExpiresAt(k.state)
				for _, later := range []int64{0, 1, span(c), 10 * span(c)} {
					if got, want := read(c, k.state, end+later, 1), read(c, driver.State{}, end+later, 1); got != want {
						t.Fatalf("%v: got %+v, %d us after the end of %+v, expected %+v", c, got, later, k.state, want)
					}
				}
				if r := read(c, k.state, end-1, 1); !inUse(c, r) {
					t.Fatalf("%v: got nothing in use of %+v a microsecond before its end", c, k.state)
				}
			}
		}
		if used < 1000 {
			t.Errorf("%v: got %d States that are not zero, expected at least 1000", c, used)
		}
	}
}

// If Compile returns an error for the parts, Divide returns the rule itself.
func TestCompiled_Divide(t *testing.T) {
	c := compile(t, valid(driver.TokenBucket))
	part := c.Divide(5)
	if d := part.Definition; d.Events != 2 || d.Burst != 0 || d.Per != time.Second || part.ID != c.ID {
		t.Errorf("got %+v, expected 2 a second", d)
	}
	if again, other := c.Divide(5), c.Divide(2); again != part || other == part || c.Divide(2) != other {
		t.Errorf("divided again by 5: got %p, expected %p; by 2: got %p", again, part, other)
	}
	for _, n := range []int{1, 0, -1} {
		if got := c.Divide(n); !got.Definition.Equal(c.Definition) {
			t.Errorf("a part of %d: got %+v, expected the rule", n, got.Definition)
		}
	}
	if pause := compile(t, valid(driver.Pause)); pause.Divide(3) != pause {
		t.Errorf("a part of a pause: got %+v, expected the rule", pause.Divide(3))
	}
	whole := compile(t, driver.Definition{Algorithm: driver.TokenBucket, Events: 1, Per: 10 * 366 * 24 * time.Hour, Soft: 900})
	if got := whole.Divide(3); !got.Definition.Equal(whole.Definition) {
		t.Errorf("a rule that cannot be divided: got %+v, expected %+v", got.Definition, whole.Definition)
	}
}

func TestCompiled_Constants_Equal(t *testing.T) {
	c := compile(t, valid(driver.TokenBucket))
	for name, row := range map[string]struct {
		change func(d *driver.Definition)
		want   bool
	}{
		"same":              {func(*driver.Definition) {}, true},
		"another name":      {func(d *driver.Definition) { d.Name = "other" }, true},
		"another limit":     {func(d *driver.Definition) { d.Events++ }, false},
		"soft":              {func(d *driver.Definition) { d.Soft = 50 }, false},
		"another algorithm": {func(d *driver.Definition) { d.Algorithm = driver.LeakyBucket }, false},
	} {
		d := valid(driver.TokenBucket)
		row.change(&d)
		if got := c.Constants == compile(t, d).Constants; got != row.want {
			t.Errorf("%s: got %t, expected %t", name, got, row.want)
		}
	}
}
