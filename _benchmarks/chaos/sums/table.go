package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// writeTable writes the sums of all checks, a row for each rule.
func (a *audit) writeTable(w io.Writer, took time.Duration) {
	all, kinds := 0, []string(nil)
	for i, n := range a.faults {
		all += n
		kinds = append(kinds, fmt.Sprintf("%d %s", n, faults[i].name))
	}
	fmt.Fprintf(w, "%d operations of %d callers on %d stores in %.1f s, with the seed %d. Faults: %s.\n\n",
		a.config.operations, a.config.callers, stores, took.Seconds(), a.config.seed, strings.Join(kinds, ", "))
	fmt.Fprintln(w, "| rule | keys | operations | denied | failed | of these, outcome unknown | faults | acknowledged sum | possible range | sum of raw states | verdict |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|---|")
	for i, r := range a.rules {
		var t totals
		for key := range a.accounts {
			t.plus(a.accounts[key][i].total)
		}
		verdict := "ok"
		if t.wrong > 0 {
			verdict = fmt.Sprintf("**%d violations**", t.wrong)
		}
		fmt.Fprintf(w, "| %s | %d | %d | %d | %d | %d | %d | %d | %d to %d | %d | %s |\n",
			r.Name(), keys, t.operations, t.denied, t.failed, t.unknown, all, t.acknowledged, t.low, t.high, t.counted, verdict)
	}
	n := a.checks * keys * len(a.rules)
	fmt.Fprintf(w, "\nEach of %d checks compared %d accounts. In %d of these %d comparisons, one sum was possible only.\n",
		a.checks, keys*len(a.rules), a.exact, n)
	fmt.Fprintf(w, "The sums are those of the changes between two checks. Operations on several rules count for each of them.\n")
}
