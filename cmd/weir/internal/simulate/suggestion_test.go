package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/testkit"
)

// randomEvents returns events of some keys, in bursts and alone, from 2026 on.
func randomEvents(random *rand.Rand, n, keys int, longest time.Duration) []Event {
	all := make([]Event, n)
	at := 1_767_225_600*second + random.Int64N(1000*second)
	for i := range all {
		if random.IntN(3) > 0 {
			at += random.Int64N(1 + longest.Microseconds()/int64(1+random.IntN(n)))
		}
		k := min(random.IntN(keys), random.IntN(keys))
		all[i] = Event{At: at, Key: "k" + strconv.Itoa(k), Cost: random.IntN(4) * random.IntN(2)}
	}
	return all
}

// largest returns the largest count of each key, by a count of all events: an event counts until its sub-window,
// a 60th of the period rounded up, is out of the window as a whole.
func largest(all []Event, per time.Duration) []int64 {
	width := (per.Microseconds() + 59) / 60
	most := map[string]int64{}
	for i, e := range all {
		sum := int64(0)
		for _, o := range all[:i+1] {
			if o.Key == e.Key && (o.At/width+1)*width-1 > e.At-per.Microseconds() {
				sum += int64(max(o.Cost, 1))
			}
		}
		most[e.Key] = max(most[e.Key], sum)
	}
	var counts []int64
	for _, n := range most {
		counts = append(counts, n)
	}
	slices.Sort(counts)
	return counts
}

// deniedKeys returns the number of keys of which sliding windows deny an event, and that of all their events.
func deniedKeys(t *testing.T, all []Event, limits ...core.Limit) (n int, requests uint64) {
	t.Helper()
	s := New()
	var rules []core.Rule
	for i, l := range limits {
		rules = append(rules, core.SlidingWindow(strconv.Itoa(i), l))
	}
	p := s.Add("p", core.Must(core.New(s.Store(), rules...)))
	for i := range all {
		if _, err := s.Decide(t.Context(), p, &all[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range s.Clients {
		if c.Denied > 0 {
			n++
			requests += c.Requests
		}
	}
	return n, requests
}

// The counts are those of all events. The suggested limit denies the keys that are said, and each smaller limit more
// than are permitted. All limits together, as the rules of one limiter, deny the keys that are said, too.
func TestSuggestion(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 40 {
		periods := []time.Duration{time.Second, 90 * time.Second, time.Hour, 24 * time.Hour}
		all := randomEvents(random, 1+random.IntN(150), 1+random.IntN(20), 4*periods[random.IntN(len(periods))])
		s, err := NewSuggestion(periods)
		testkit.Must(t, err)
		for i := range all {
			testkit.Must(t, s.Add(t.Context(), &all[i]))
		}
		for i, per := range periods {
			counts := s.Counts(i)
			if want := largest(all, per); !slices.Equal(counts, want) {
				t.Fatalf("%v: got %v, want %v", per, counts, want)
			}
			for _, deny := range []int{0, 1, random.IntN(1 + s.Keys()), s.Keys(), 1000} {
				limit := Limit(counts, deny)
				limits := make([]int64, len(periods)) // of the other periods, none
				limits[i] = limit
				denied, requests := s.Denied(limits)
				if denied > deny || limit < 1 {
					t.Errorf("%v: got the limit %d, which denies %d keys, more than %d", counts, limit, denied, deny)
				}
				if got, all := deniedKeys(t, all, core.Per(int(limit), per)); got != denied || all != requests {
					t.Errorf("%v: the limit %d denies %d keys with %d events, not %d with %d", counts, limit, got, all, denied, requests)
				}
				if limit > 1 {
					if got, _ := deniedKeys(t, all, core.Per(int(limit)-1, per)); got <= deny {
						t.Errorf("%v: a limit below %d denies %d keys, at most %d", counts, limit, got, deny)
					}
				}
			}
		}
		limits, rules := make([]int64, len(periods)), make([]core.Limit, len(periods))
		for i, per := range periods {
			limits[i] = Limit(s.Counts(i), random.IntN(1+s.Keys()))
			rules[i] = core.Per(int(limits[i]), per)
		}
		denied, requests := s.Denied(limits)
		if n, all := deniedKeys(t, all, rules...); n != denied || all != requests {
			t.Errorf("the limits %v deny %d keys with %d events, not %d with %d", rules, n, all, denied, requests)
		}
	}
}

func TestLimit(t *testing.T) {
	for _, test := range []struct {
		counts []int64
		deny   int
		limit  int64
		denied int
	}{
		{nil, 0, 1, 0},
		{[]int64{5}, 0, 5, 0},
		{[]int64{5}, 1, 1, 1},
		{[]int64{1}, 1, 1, 0},
		{[]int64{1, 2, 9}, 0, 9, 0},
		{[]int64{1, 2, 9}, 1, 2, 1},
		{[]int64{1, 2, 9}, 2, 1, 2},
		{[]int64{2, 2, 9}, 3, 1, 3},
		{[]int64{5, 7, 7}, 1, 7, 0},
		{[]int64{5, 7, 7}, 2, 5, 2},
	} {
		limit, denied := Limit(test.counts, test.deny), 0
		for _, c := range test.counts {
			if c > limit {
				denied++
			}
		}
		if limit != test.limit || denied != test.denied {
			t.Errorf("%v, %d: got %d, which denies %d, want %d, which denies %d", test.counts, test.deny, limit, denied, test.limit, test.denied)
		}
	}
}

func TestNewSuggestion_Errors(t *testing.T) {
	for per, want := range map[time.Duration]string{
		0:                          "period 0s: ",
		time.Nanosecond:            "period 1ns: ",
		-1:                         "period -1ns: ",
		290 * 365 * 24 * time.Hour: "period 2540400h0m0s: ",
	} {
		if _, err := NewSuggestion([]time.Duration{time.Second, per}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	s, err := NewSuggestion([]time.Duration{time.Hour})
	testkit.Must(t, err)
	for _, cost := range []int{unbounded - 1, 1} {
		if err := s.Add(t.Context(), &Event{At: Begin, Key: "k", Cost: cost}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Add(t.Context(), &Event{At: Begin, Key: "k"}); err == nil || err.Error() != fmt.Sprintf("the costs of a key within one period are more than %d, the largest limit", unbounded) {
		t.Errorf("got %v", err)
	}
}
