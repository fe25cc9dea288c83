package rules

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/rules/internal/document"
	"github.com/weir-go/weir/internal/testkit"
)

// A file beyond a bound is an error, whatever its shape.
func TestParse_Large_Bounds(t *testing.T) {
	testkit.WithoutRace(t)
	many := "disabled: yes\npolicies:\n" + strings.Repeat("  a: 1\n", 1000)
	huge := "policies: {a: {rules: [{name: 1, algorithm: " + strings.Repeat("x", 1<<20) + "}]}}"
	var routes, segments, plans, headroom strings.Builder
	for i := range maxRoutes + 1 {
		fmt.Fprintf(&routes, "  /%d: api\n", i)
	}
	for i := range maxSegments/100 + 1 {
		fmt.Fprintf(&segments, "  %s/%d: api\n", strings.Repeat("/a", 99), i)
	}
	for i := range maxPlans + 1 {
		fmt.Fprintf(&plans, "%d: 1/s, ", i)
		fmt.Fprintf(&headroom, "%d: 1, ", i)
	}
	for name, test := range map[string]struct {
		in     string
		errors int
		want   string // contained in the last error
	}{
		"size":        {strings.Repeat(" ", MaxSize+1), 1, "f:1:1: is larger than 16384 KiB"},
		"keys":        {"{" + strings.Repeat("a,", document.MaxParts/2) + "a}", 1, "the file has too many keys, values and comments"},
		"values":      {strings.Repeat("a:\n", document.MaxParts/3) + "b: c", 1, "the file has too many keys, values and comments"},
		"lines":       {strings.Repeat("\r", document.MaxParts) + "\n", 1, "f:1048577:1: the file has too many keys, values and comments"},
		"lists":       {"{" + strings.Repeat("a: [],", document.MaxParts/4) + "a}", 1, "too many keys, values and comments"},
		"comments":    {strings.Repeat("- a #b\n", document.MaxParts/3+1), 1, "too many keys, values and comments"},
		"quotes":      {"{" + strings.Repeat(`""`, document.MaxParts/2) + "}", 1, "the file has too many keys, values and comments"},
		"tags":        {"{" + strings.Repeat("! ", document.MaxParts) + "}", 1, "the file has too many keys, values and comments"},
		"routes":      {with(valid, "routes:\n"+routes.String()), 1, "f:6:3: routes: has more than 4000 patterns"},
		"segments":    {with(valid, "routes:\n"+segments.String()), 1, `is too long: the patterns have more than 40000 segments`},
		"rules":       {with(strings.Repeat(valid+"\n", maxRules+1), ""), 1, "f:4:7: policies.api.rules: has more than 100 rules"},
		"plans":       {with("      - {name: r, algorithm: sliding_log, limit: 5/m, plans: {"+plans.String()+"}}", ""), 1, "f:4:62: policies.api.rules[0].plans: has more than 1000 plans"},
		"headroom":    {with("      - {name: r, algorithm: sliding_log, limit: 5/m, plans: {x: 5/m}, headroom: {"+strings.Replace(headroom.String(), "1000: 1, ", "", 1)+"}}", ""), 1, "f:4:82: policies.api.rules[0].headroom: the rule has more than 1000 plans"},
		"errors":      {many, document.MaxErrors, "is given twice"},
		"last error":  {with(strings.Repeat("      - {x: 1}\n", 24)+"      - {name: a, x: 1}\n      - {name: "+strings.Repeat("r", 70)+", algorithm: sliding_log, x: 1}", ""), document.MaxErrors, "policies.api.rules[25].x: is an unknown field"},
		"long reason": {huge, 3, `x" is no algorithm: use`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("f", []byte(test.in))
			var all Errors
			if errors.As(err, &all); len(all) != test.errors || !strings.Contains(all[len(all)-1].Error(), test.want) || len(all[len(all)-1].Error()) > 2*document.MaxReason {
				t.Errorf("got %d errors, the last is %v", len(all), all[len(all)-1])
			}
		})
	}
}

// A file of any shape takes a bounded amount of memory.
func TestParse_Large_Memory(t *testing.T) {
	testkit.WithoutRace(t)
	for name, test := range map[string]struct{ begin, repeated, end string }{
		"double quotes": {"{", `""`, "}"},
		"single quotes": {"{", "'' ", "}"},
		"tags":          {"{", "! ", "}"},
		"anchors":       {"{", "&a ", "}"},
		"tags in block": {"a ", "!b ", ""},
		"list of lists": {"[", "[a,", ""},
		"two lists":     {"", "[a,\n] ", ""},
		"long key":      {"policies: {" + strings.Repeat("a", 1<<20) + ": {rules: [{plans: {", "a: 1,", "}}]}}"},
		"empty lines":   {"a: `", "\n", ""},
		"long field":    {"policies: {" + strings.Repeat("a", 1<<20) + ": {rules: [", "{},", "]}}"},
	} {
		t.Run(name, func(t *testing.T) {
			text := []byte(test.begin + strings.Repeat(test.repeated, (4<<20-len(test.begin))/len(test.repeated)) + test.end)
			var err error
			_, allocated := testkit.Allocated(1, func() { _, err = Parse("f", text) })
			if got := allocated >> 20; err == nil || got > 1200 {
				t.Errorf("got %d MiB and the error %v, want at most 1200 MiB and an error", got, err)
			}
		})
	}
}
