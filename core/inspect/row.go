package inspect

import (
	"cmp"
	"slices"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/observe"
)

// A row is a series in the table.
type row struct {
	Rule, Plan                            string
	Allowed, Soft, Denied, Shadow, Failed uint64
	Determined                            uint64
	Line                                  []bar
	Most                                  uint64
}

// The line of a row has the height of a chart.
func (row) Height() float64 { return chartTall }
func (row) Width() float64  { return chartWidth }

func newRow(s *series) row {
	n, determined := s.Decisions.Hour, observe.Counts(s.Requests.Hour)
	r := row{
		Rule: s.Rule, Plan: s.Plan, Allowed: n[driver.Allowed], Soft: n[driver.Soft], Denied: observe.Counts(n).Denied(), Shadow: n[driver.ShadowDenied],
		Failed: n[driver.Failed] + n[driver.Canceled], Determined: determined.Denied(), Most: slices.Max(s.denials),
	}
	for i, d := range s.denials {
		if height := chartTall * float64(d) / float64(max(1, r.Most)); d > 0 {
			x := chartWidth - slot*float64(len(s.denials)-i)
			r.Line = append(r.Line, bar{X: x, Width: slot, Parts: []part{{"denied", chartTall - height, height}}})
		}
	}
	return r
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
