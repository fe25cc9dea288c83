package inspect

import (
	"fmt"
	"slices"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/observe"
)

// A card is a figure at the top of the page.
type card struct{ ID, Name, Value, Detail, Class string }

// Cards returns the figures at the top.
func (v view) Cards() []card {
	var hour observe.Counts
	for i := range v.intervals {
		add(&hour, &v.intervals[i].requests)
	}
	total := observe.Counts(v.Requests)
	share := "no decision yet"
	if n := hour.Total(); n > 0 {
		share = fmt.Sprintf("%.1f %% of the decisions", 100*float64(hour.Denied())/float64(n))
	}
	cards := []card{
		{"decisions", "Decisions in the last hour", number(hour.Total()), number(total.Total()) + " since the start", ""},
		{"denied", "Denied in the last hour", number(hour.Denied()), share, ""},
	}
	undecided := card{"undecided", "Not decided in the last hour", number(hour[driver.Failed]), "because of a failure of the store", ""}
	if hour[driver.Failed] > 0 {
		undecided.Class = "alarm"
	}
	cards = append(cards, undecided)
	for _, m := range v.Measures {
		if m.Name != failoverState {
			continue
		}
		c := card{"failover", "Failover", "primary", "the primary store decides", ""}
		switch m.Value {
		case 1:
			c.Value, c.Detail, c.Class = "backup", "the primary has failed; the backup decides", "alarm"
		case 2:
			c.Value, c.Detail, c.Class = "returning", "the primary is back, and takes over", "alarm"
		}
		cards = append(cards, c)
	}
	if v.Calls.Count > 0 {
		c := card{"latency", "Latency of the store", "no call", "in the last one to two minutes", ""}
		if t := v.Calls.Minute; t.Count > 0 {
			c.Value, c.Detail = t.P50, "median; 99 of 100 calls "+t.P99+"; in the last one to two minutes"
		}
		cards = append(cards, c)
	}
	if overrides, ok := v.measure("weir.rules.overrides"); ok && overrides >= 0 {
		blocked := "unknown" // too many to count
		if blocks, ok := v.measure("weir.rules.blocks"); ok && blocks >= 0 {
			blocked = number(uint64(blocks))
		}
		cards = append(cards, card{"blocks", "Blocked keys", blocked, number(uint64(overrides)) + " keys have an override in Redis", ""})
	}
	if _, ok := v.measure("weir.redis.round_trips"); ok {
		trips, latest := 0.0, v.intervals[max(0, len(v.intervals)-2):]
		for _, m := range latest {
			trips += m.trips
		}
		cards = append(cards, card{"trips", "Round trips to Redis", fmt.Sprintf("%.3g", trips/max(1, v.Now.Sub(latest[0].from).Seconds())), "a second, in the last one to two minutes", ""})
	}
	return cards
}

// measure returns the value of the first measure of a name, and false if there is none.
func (v view) measure(name string) (float64, bool) {
	i := slices.IndexFunc(v.Measures, func(m measured) bool { return m.Name == name })
	if i < 0 {
		return 0, false
	}
	return v.Measures[i].Value, true
}
