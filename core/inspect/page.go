package inspect

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/core/driver"
)

//go:embed page.html
var pageText string

//go:embed page.css
var style string

//go:embed page.js
var script string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"style":  func() template.CSS { return template.CSS(style) },
	"script": func() template.JS { return template.JS(script) },
	"number": number,
	"clock":  func(t time.Time) string { return t.Format("15:04:05 MST") },
	"date":   func(t time.Time) string { return t.Format("2006-01-02 15:04:05 MST") },
}).Parse(pageText))

// policy permits the script and the style of the page, by their hashes, and nothing from elsewhere.
var policy = "default-src 'none'; script-src '" + hashOf(script) + "'; style-src '" + hashOf(style) +
	"'; connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func writePage(w http.ResponseWriter, r *report) {
	var text bytes.Buffer
	if err := page.Execute(&text, view{r}); err != nil { // impossible, as far as the tests show
		http.Error(w, "The page cannot be written.", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "same-origin") // "no-referrer" makes the Origin of the form null
	_, _ = text.WriteTo(w)
}

// maxRows is the number of rows of a table of the page. JSON has all.
const maxRows = 50

// A view is a report as the page shows it.
type view struct{ *report }

// More returns the number of elements of a table that the page does not show.
func (view) More(n int) int { return max(0, n-maxRows) }

// Shown returns the rules for the table.
func (v view) Shown() []rule { return v.Rules[:min(maxRows, len(v.Rules))] }

// Charts returns the charts of the last hour.
func (v view) Charts() []chart {
	of := func(results ...driver.Result) (values []uint64) {
		for i := range v.intervals {
			sum := uint64(0)
			for _, r := range results {
				sum += v.intervals[i].requests[r]
			}
			values = append(values, sum)
		}
		return values
	}
	return []chart{
		newChart("results", "Decisions by result", "decisions a minute", v.intervals,
			layer{Class: "allowed", Name: "allowed", values: of(driver.Allowed)},
			layer{Class: "soft", Name: "soft", values: of(driver.Soft)},
			layer{Class: "denied", Name: "denied", values: of(driver.Denied, driver.NeverAllowed)},
			layer{Class: "blocked", Name: "blocked", values: of(driver.Blocked)},
			layer{Class: "banned", Name: "banned", values: of(driver.Banned)},
			layer{Class: "failed", Name: "not decided", values: of(driver.Canceled, driver.Failed)}),
		newChart("binding", "Denials by the rule that determined them", "denials a minute", v.intervals, v.binding()...),
	}
}

// binding returns a layer for each of the rules that determined the most denials, and one for the others.
func (v view) binding() (layers []layer) {
	const colors = 4
	for _, s := range v.Series {
		at := slices.IndexFunc(layers, func(l layer) bool { return l.Name == s.Rule })
		if at < 0 {
			at, layers = len(layers), append(layers, layer{Name: s.Rule, values: make([]uint64, len(v.intervals))})
		}
		for i, n := range s.denials {
			layers[at].values[i] += n
			layers[at].Total += n
		}
	}
	slices.SortStableFunc(layers, func(a, b layer) int { return cmp.Compare(b.Total, a.Total) })
	others := layer{Name: "others", values: make([]uint64, len(v.intervals))}
	for _, l := range layers[min(colors, len(layers)):] {
		for at, n := range l.values {
			others.values[at] += n
		}
	}
	layers = append(layers[:min(colors, len(layers))], others)
	for i := range layers {
		layers[i].Class = fmt.Sprint("rule", i+1)
	}
	return layers
}

// Text returns the value of a measure with its unit.
func (m measured) Text() string {
	switch {
	case m.Unit == "By":
		for i, unit := range []string{"B", "KiB", "MiB", "GiB"} {
			if v := m.Value / math.Pow(1024, float64(i)); v < 1024 || unit == "GiB" {
				return strconv.FormatFloat(v, 'f', min(1, i), 64) + " " + unit
			}
		}
	case m.Unit == "s":
		return strconv.FormatFloat(m.Value, 'f', 1, 64) + " s"
	case m.Value >= 0:
		return number(uint64(m.Value))
	}
	return strconv.FormatFloat(m.Value, 'f', -1, 64)
}

// number returns n with spaces between groups of three digits.
func number(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	var groups []string
	for len(digits) > 3 {
		groups, digits = append(groups, digits[len(digits)-3:]), digits[:len(digits)-3]
	}
	slices.Reverse(groups)
	return strings.Join(append([]string{digits}, groups...), "\u202f")
}

// Plans returns the plans of all rules, for the form.
func (v view) Plans() []string { return v.plans }
