package processes

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// definitions are rules of all algorithms, with plans.
func definitions() map[string][]driver.Definition {
	all := make(map[string][]driver.Definition)
	for a := driver.Algorithm(1); a.String() != driver.Algorithm(0).String(); a++ {
		d := driver.Definition{Name: a.String() + " 1", Algorithm: a, Shadow: true}
		k := d.Kind()
		switch {
		case k.Closes:
		case k.Calendar:
			d.Events, d.Calendar = 10, driver.Month
		case k.Holds:
			d.Events, d.Hold = 10, time.Minute
		default:
			d.Events, d.Per = 10, time.Hour
		}
		if a == driver.SlidingWindow {
			d.SubWindows = 10
		}
		all[d.Name] = append(all[d.Name], d)
		if k.Closes {
			continue
		}
		for i := range 120 {
			plan := d
			plan.Plan = fmt.Sprintf("%064d", i)
			switch {
			case i%10 == 9:
				plan.Events, plan.Per, plan.Calendar, plan.Hold, plan.SubWindows, plan.Always = 0, 0, 0, d.Hold, d.SubWindows, driver.Allowed
			case k.Holds || k.Calendar:
				plan.Events += i
			default:
				plan.Per += time.Duration(i) * time.Minute
			}
			all[d.Name] = append(all[d.Name], plan)
		}
	}
	return all
}

// Published rules can be read again, whatever the number of their plans, and have a limit of each length.
func TestPublish(t *testing.T) {
	rules := definitions()
	for _, said := range publish(rules, nil, nil) {
		r, ok := parseRule(said[0], "1700000000000 "+said[1])
		if !ok || len(said[1]) > maxRule {
			t.Errorf("%s cannot be read: %d bytes, %.200s", said[0], len(said[1]), said[1])
			continue
		}
		of := rules[r.Base.Name]
		if !r.Base.Definition().Equal(of[0]) || 1+len(r.Plans)+len(r.Others)+r.More != len(of) || !r.At.Equal(time.UnixMilli(1700000000000)) {
			t.Errorf("%s: got %+v", said[0], r)
		}
		lengths, read := map[string]bool{}, map[string]bool{}
		for _, d := range of {
			lengths[lengthOf(d)] = true
		}
		for _, l := range append(append([]Limit{r.Base}, r.Plans...), r.Others...) {
			read[lengthOf(l.Definition())] = true
		}
		if len(read) < min(len(lengths), maxOthers) {
			t.Errorf("%s: %d lengths of %d are published", said[0], len(read), len(lengths))
		}
	}
	for name, text := range map[string]string{
		"no time": `{"base":{"name":"a","algorithm":5,"events":1,"per":1000000}}`, "another name": `1 {"base":{"name":"b","algorithm":5,"events":1,"per":1000000}}`,
		"no limit": `1 {"base":{"name":"a","algorithm":5}}`, "no algorithm": `1 {"base":{"name":"a","events":1,"per":1000000}}`, "no JSON": "1 x",
		"long": "1 " + strings.Repeat(" ", maxRule+1) + "{}",
	} {
		if r, ok := parseRule("a x", text); ok {
			t.Errorf("%s: got %+v", name, r)
		}
	}
}

// The pause of a rule is told from its name and its algorithm, and a pause of another one is not.
func TestTakeBans(t *testing.T) {
	log := driver.Definition{Algorithm: driver.SlidingLog, Events: 1, Per: time.Second}
	pause := driver.Definition{Algorithm: driver.Pause}
	for name, c := range map[string]struct {
		rules      map[string]driver.Definition
		bans, left string
	}{
		"ban":               {map[string]driver.Definition{"r": log, "r.ban": pause, "s": log}, "[r]", "[r s]"},
		"ban of a policy":   {map[string]driver.Definition{"api.r": log, "api.r.ban": pause}, "[api.r]", "[api.r]"},
		"other pause":       {map[string]driver.Definition{"r": log, "block": pause, "s.block": pause, ".block": pause}, "[]", "[.block block r s.block]"},
		"no pause":          {map[string]driver.Definition{"r": log, "r.ban": log}, "[]", "[r r.ban]"},
		"pause of a pause":  {map[string]driver.Definition{"r": pause, "r.ban": pause}, "[]", "[r r.ban]"},
		"rule ends with it": {map[string]driver.Definition{"r.ban": log, "r.ban.ban": pause}, "[r.ban]", "[r.ban]"},
	} {
		rules := make(map[string][]driver.Definition)
		for rule, d := range c.rules {
			d.Name = rule
			rules[rule] = []driver.Definition{d}
		}
		bans := takeBans(rules)
		if got, left := fmt.Sprint(slices.Sorted(maps.Keys(bans))), fmt.Sprint(slices.Sorted(maps.Keys(rules))); got != c.bans || left != c.left {
			t.Errorf("%s: got the bans %s of the rules %s, want %s of %s", name, got, left, c.bans, c.left)
		}
		for _, said := range publish(rules, bans, nil) {
			r, ok := parseRule(said[0], "1 "+said[1])
			if !ok || r.Bans != bans[r.Base.Name] || r.Text == "" {
				t.Errorf("%s: got %+v", name, r)
			}
		}
	}
}

func FuzzParseRule(f *testing.F) {
	for _, said := range publish(definitions(), nil, nil) {
		f.Add(said[0], "1700000000000 "+said[1])
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		r, ok := parseRule(name, text)
		if !ok {
			return
		}
		for _, l := range append(append([]Limit{r.Base}, r.Plans...), r.Others...) {
			if d := l.Definition(); d.Check() != nil || d.Name != r.Base.Name {
				t.Errorf("got %+v", d)
			}
			_ = lengthOf(l.Definition())
		}
	})
}

// The description of a process has a bounded length, whatever its Sets are.
func TestAbout_Text(t *testing.T) {
	long := strings.Repeat("\x00é\xff", 1000)
	for name, a := range map[string]About{
		"texts": {Host: long, Version: long, Sets: []Set{{Source: long, Config: long, Changes: long, Secret: long}}},
		"sets":  {Sets: make([]Set, 1000)},
		"names": {Sets: []Set{{Policies: strings.Split(strings.Repeat("policy ", 1000), " ")}, {Policies: []string{"a"}, Disabled: []string{"a"}}}},
		"bytes": {Sets: []Set{{Policies: []string{strings.Repeat("\x00", 64)}}}},
	} {
		text := a.text()
		var read About
		if err := json.Unmarshal([]byte(text), &read); err != nil || len(text) > maxAbout || len(read.Sets) > maxSets {
			t.Errorf("%s: got %d bytes, %v", name, len(text), err)
		}
		if name == "names" && (!read.Sets[0].More || read.Sets[1].More || len(read.Sets[1].Policies) != 1) {
			t.Errorf("%s: got %+v", name, read.Sets)
		}
	}
}
