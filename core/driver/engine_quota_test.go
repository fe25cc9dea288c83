package driver_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
)

const day = int64(24 * time.Hour / time.Microsecond)

// days returns days that begin at the multiples of day, around the boundary that is nearest to now.
func days(now int64) driver.Periods {
	boundary := (now + day/2) / day * day
	return driver.Periods{Start: boundary - day, Boundary: boundary, End: boundary + day}
}

// during returns c, a quota, in days around start, or c if it is another rule.
func during(c *driver.Compiled) *driver.Compiled {
	if c.Algorithm != driver.Quota {
		return c
	}
	return c.During(days(start))
}

// quota compiles a rule of n events a day.
func quota(t testing.TB, n int) *driver.Compiled {
	t.Helper()
	return compile(t, driver.Definition{Algorithm: driver.Quota, Events: n, Calendar: driver.Day})
}

// The period before Start and after End have the same lengths as the first and the second.
func TestPeriods_Present(t *testing.T) {
	rule := quota(t, 5).During(driver.Periods{Start: start, Boundary: start + 10, End: start + 17})
	for _, c := range []struct{ now, left, length int64 }{
		{0, 10, 10}, {9, 1, 10}, {10, 7, 7}, {16, 1, 7}, {17, 7, 7}, {23, 1, 7}, {24, 7, 7}, {17 + 7_000_003, 4, 7},
		{-1, 1, 10}, {-10, 10, 10}, {-11, 1, 10}, {-1_000_007, 7, 10},
	} {
		if r := read(rule, driver.State{}, start+c.now, 1); r.Left != c.left || r.Length != c.length {
			t.Errorf("at %d: got %+v, expected %d of %d left", c.now, r, c.left, c.length)
		}
	}
}

// A rule during periods is the same rule, and so is its part for a process.
func TestCompiled_During(t *testing.T) {
	c, p := quota(t, 10), days(start)
	d := c.During(p)
	if d.ID != c.ID || d.StateName != c.StateName || d.Definition != c.Definition || d.Constants.Periods != p || c.Constants.Periods != (driver.Periods{}) {
		t.Errorf("got %+v during periods of %+v", d, c)
	}
	if again := d.During(days(start + 9*day)); again.Constants.Periods != days(start+9*day) || d.Constants.Periods != p {
		t.Errorf("got %+v for other periods of %+v", again, d)
	}
	part := d.Divide(3)
	if part.Events != 3 || part.Constants.Periods != p || part.ID != c.ID || part != d.Divide(3) {
		t.Errorf("got %+v for a third of %+v", part, d)
	}
	if r := compile(t, driver.Definition{Algorithm: driver.Quota, Events: 10, Calendar: driver.Day, Rollover: 7}); r.Divide(3).Events != 3 || r.Divide(3).Rollover != 0 || r.Divide(1).Events != 10 || r.Divide(1).Rollover != 0 || r.Divide(0) != r.Divide(1) {
		t.Errorf("got %+v and %+v for parts of a rollover", r.Divide(3), r.Divide(1))
	}
	k := key{rule: part}
	if v, _ := k.spend(3, start); !v.Allowed || v.Window <= 0 || v.Period != 86400 {
		t.Errorf("got %+v of a part, expected 3 events admitted", v)
	}
}

// A State ends when its period does. In the first days after the epoch, it can be encoded, too.
func TestQuota_ExpiresAt(t *testing.T) {
	for _, now := range []int64{1, day - 1, day, start, 1<<53 - 1} {
		k := key{rule: quota(t, 10).During(driver.Periods{Start: days(now).Start - 5, Boundary: days(now).Boundary - 5, End: days(now).End - 5})}
		k.spend(3, now)
		end := k.rule.ExpiresAt(k.state)
		if end <= now || end > now+day || inUse(k.rule, read(k.rule, k.state, end, 1)) || read(k.rule, k.state, end-1, 1).Count != 3 {
			t.Errorf("at %d: got the end %d of %+v", now, end, k.state)
		}
		if got := decoded(t, k.state); got != k.state {
			t.Errorf("at %d: got %+v after an encoding of %+v", now, got, k.state)
		}
	}
}

// A State of another algorithm, as in a store that is corrupt, neither opens the limit nor locks a key
// out for good.
func TestQuota_StatesOfOthers(t *testing.T) {
	all := rules(t)
	all = slices.DeleteFunc(all, func(c *driver.Compiled) bool {
		return !c.Kind.Refills && c.Algorithm != driver.FixedWindow && c.Algorithm != driver.Quota
	})
	for _, from := range all {
		for _, to := range all {
			for _, debt := range []int{0, 1, 1 << 30} {
				k := key{rule: from}
				k.spend(1, start)
				if debt > 0 {
					k.do(driver.Charge{Op: driver.Debit, Cost: debt}, start)
				}
				state := k.state
				for _, now := range []int64{start - 400*day, start - 1, start, start + 1, start + 400*day} {
					k = key{rule: to, state: state}
					admitted, waited := int64(0), time.Duration(0)
					for range 3 * to.Constants.Capacity {
						if v, _ := k.spend(1, now); v.Allowed {
							admitted++
						}
					}
					if admitted > to.Constants.Capacity {
						t.Fatalf("%v of %v at %d: got %d events admitted of %+v", to, from, now-start, admitted, state)
					}
					for {
						v := k.do(driver.Charge{Op: driver.Peek, Cost: 1}, now)
						if v.Allowed {
							break
						}
						if waited += v.RetryAfter; v.RetryAfter <= 0 || waited > 2*time.Duration(driver.Horizon)*time.Microsecond {
							t.Fatalf("%v of %v: got %+v after waiting for %v", to, from, v, waited)
						}
						now += v.RetryAfter.Microseconds()
					}
				}
			}
		}
	}
}

// A State whose events roll over lasts until the end of the next period under all rules of its ID, and one without events
// until the end of its own.
func TestRollover_ExpiresAt(t *testing.T) {
	d := driver.Definition{Algorithm: driver.Quota, Events: 5, Calendar: driver.Day}
	plain := during(compile(t, d))
	d.Rollover = 3
	rolls := during(compile(t, d))
	if plain.ID != rolls.ID {
		t.Fatal("the rules have different states")
	}
	charge := func(r *driver.Compiled, op driver.Op, s driver.State, now int64) driver.State {
		c := driver.Charge{Rule: r, Op: op, Cost: 1}
		reading := c.Read(s, now)
		if op == driver.Spend {
			s, _ = c.Commit(s, &reading, now, true)
			return s
		}
		return c.Apply(s, &reading, now)
	}
	end := days(start).Boundary
	if end <= start {
		end = days(start).End
	}
	first := charge(rolls, driver.Spend, driver.State{}, start)
	second := charge(rolls, driver.Spend, first, end)
	for name, c := range map[string]struct {
		state driver.State
		want  int64
	}{
		"plain": {charge(plain, driver.Spend, driver.State{}, start), end}, "rolls": {first, end + 2*day},
		"rolls, with a rest": {second, end + 3*day}, "a rest alone": {charge(rolls, driver.Credit, charge(rolls, driver.Spend, first, end), end), end + day},
		"written by a plain rule": {charge(plain, driver.Spend, charge(rolls, driver.Spend, driver.State{}, start), start), end},
		"credited":                {charge(rolls, driver.Credit, charge(rolls, driver.Spend, driver.State{}, start), start), 0},
	} {
		for _, r := range []*driver.Compiled{plain, rolls} {
			if got := r.ExpiresAt(c.state); got != c.want {
				t.Errorf("%s: got %d, want %d", name, got, c.want)
			}
		}
	}
}
