package processes

import (
	"fmt"
	"strings"
	"testing"
)

func TestGroupOf(t *testing.T) {
	long := make([]string, maxRules+1)
	for i := range long {
		long[i] = fmt.Sprintf("%05d", i)
	}
	if GroupOf(long[1:]).Name == All || GroupOf(long).Name != All || GroupOf([]string{strings.Repeat("x", maxText)}).Name != All || GroupOf(nil).Name != None {
		t.Error("the bounds of a group do not hold")
	}
	for _, text := range []string{"", "[" + strings.Repeat(`"a",`, maxRules) + `"a"]`, `["b","a"]`} {
		if _, ok := parseRules(text); ok {
			t.Errorf("%.20q is well formed", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(int64(0), "group", "name", int64(3), `["a"]`)
	f.Fuzz(func(t *testing.T, damaged int64, group, name string, n int64, text string) {
		for _, reply := range [][]any{{damaged, group, n, name, n}, {group, damaged, n, name, n}, {nil, nil, nil}, {damaged, group, nil, n}} {
			read, err := parse(reply)
			for _, count := range read.Counts {
				if count < 1 || count > maxCount {
					t.Errorf("got %v, %v", read, err)
				}
			}
		}
		if names, ok := parseRules(text); ok != (len(names) > 0) || len(names) > maxRules {
			t.Errorf("got %d names, %v", len(names), ok)
		}
	})
}
