package observe

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func tag(key string) string { return key }

// The keys of the last minutes are ranked, and older ones are forgotten.
func TestRanking_Period(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.init()
		r := &newTopKeys(2, &c).denied
		r.add("old", "api", 1, 9)
		time.Sleep(time.Minute)
		for range 3 {
			r.add("a", "api", 1, 1)
			r.add("b", "api", 1, 1)
			r.add("a", "login", 2, 1)
		}
		r.add("b", "api", 1, 1)
		if got := fmt.Sprint(r.top(3, tag)); got != "[{old api 9 0} {b api 4 0} {a api 3 0}]" && got != "[{old api 9 0} {b api 4 0} {a login 3 0}]" {
			t.Errorf("got %v", got)
		}
		time.Sleep(Period)
		if got := r.top(3, tag); len(got) != 3 || got[0].Key != "b" {
			t.Errorf("got %v, want those of five minutes ago", got)
		}
		time.Sleep(time.Minute)
		if got := r.top(3, tag); len(got) != 0 {
			t.Errorf("got %v, want none", got)
		}
		r.add("new", "api", 1, 1)
		if got := r.top(3, tag); len(got) != 1 || got[0].Key != "new" {
			t.Errorf("got %v, want only the new key", got)
		}
	})
}
