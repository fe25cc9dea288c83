package inspect

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/observe"
)

// A row is a series in the table.
type row struct {
	Rule, Plan                                             string
	Allowed, Soft, Denied, Blocked, Banned, Shadow, Failed uint64
	Unknown                                                uint64
	Determined                                             uint64
	Path                                                   string // of the denials that the rule determined, by minute; empty for none
	Most                                                   uint64 // in a minute
}

// rowOf returns the row of a rule with these decisions.
func rowOf(rule string, n observe.Counts) row {
	return row{
		Rule: rule, Allowed: n[driver.Allowed], Soft: n[driver.Soft], Denied: n[driver.Denied] + n[driver.NeverAllowed], Blocked: n[driver.Blocked], Banned: n[driver.Banned], Shadow: n[driver.ShadowDenied],
		Failed: n[driver.Failed] + n[driver.Canceled], Unknown: n.Unknown(),
	}
}

func newRow(s *series) row {
	r := rowOf(s.Rule, observe.Counts(s.Decisions.Hour))
	r.Plan, r.Determined, r.Most = s.Plan, observe.Counts(s.Requests.Hour).Denied(), slices.Max(s.denials)
	var path []byte
	for i, d := range s.denials {
		if d > 0 {
			path = fmt.Appendf(path, "M%d %dv-%dh%dV%d", chartWidth-slot*(len(s.denials)-i), chartTall, max(1, chartTall*d/r.Most), slot, chartTall)
		}
	}
	r.Path = string(path)
	return r
}

// Unknown reports whether a rule was not evaluated in a decision of the last hour.
func (v view) Unknown() bool {
	return slices.ContainsFunc(v.Series, func(s series) bool { return observe.Counts(s.Decisions.Hour).Unknown() > 0 })
}

// Rows returns the series for the table: all, or those with the most decisions in the last hour.
func (v view) Rows() []row {
	all := v.Series
	if len(all) > maxRows {
		all = slices.Clone(all)
		total := func(s series) uint64 { return observe.Counts(s.Decisions.Hour).Total() }
		slices.SortStableFunc(all, func(a, b series) int { return cmp.Compare(total(b), total(a)) })
	}
	rows := make([]row, min(maxRows, len(all)))
	for i := range rows {
		rows[i] = newRow(&all[i])
	}
	return rows
}
