// Package page is the page of weir playground. It is in one file, and asks for the runs of package playground:
// over HTTP, or without a server the program for js/wasm.
package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"

	"github.com/weir-go/weir/cmd/weir/internal/playground"
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
}).Parse(pageText))

// A view is the content of the page before its first run.
type view struct {
	Policy  string // the Content-Security-Policy, if the page is a file
	Traffic []choice
	Every   float64 // the time between two bursts, as a part of a period
	Sliders []slider
	Lanes   []lane
}

// A choice is a kind of traffic. In the texts of the page, the script replaces words in braces.
type choice struct{ ID, Name, Text string }

// A slider is a number that the user chooses.
type slider struct {
	ID, Name, Text string
	Max, Value     int
}

// A lane is an algorithm.
type lane struct{ ID, Name, Text string }

var content = view{
	Traffic: []choice{
		{"steady", "Steady", "Each client sends at equal intervals."},
		{"poisson", "Random", "Each client sends at random times, like many independent people (a Poisson process)."},
		{"burst", "Spikes", "Each client sends every {every}, {size} at once."},
		{"adversary", "Adversary", "Each client sends at the worst moment: all it can just before the end of a fixed {per}, and again just after it."},
	},
	Every: playground.Interval,
	Sliders: []slider{
		{"limit", "Limit", "requests of a client in a", playground.MaxLimit, playground.Default.Limit},
		{"burst", "Burst", "saved up by the token bucket; the queue of the leaky bucket", playground.MaxBurst, playground.Default.Burst},
		{"rate", "Each client sends", "requests {aper}", playground.MaxRate, playground.Default.Rate},
		{"clients", "Clients", "at the same time", playground.MaxClients, playground.Default.Clients},
	},
	Lanes: []lane{
		{"fixed_window", "Fixed window", "Counts the requests of each {per}, and begins again at zero in the next."},
		{"fixed_window_from_first", "Fixed window from first", "The {per} of each client begins with its first request. One that sends just before and after its end gets almost twice the limit."},
		{"token_bucket", "Token bucket", "Saves up requests while a client is idle, up to the burst; then a steady rate."},
		{"leaky_bucket", "Leaky bucket", "Puts requests in a queue and lets them out evenly: blue, when they leave. A full queue denies."},
		{"sliding_log", "Sliding log", "Remembers the time of every request of the last {per}."},
		{"sliding_window", "Sliding window", "As the log, with a few counters in place of every time."},
	},
}

// rules are the parts of the Content-Security-Policy for both pages: nothing from elsewhere.
var rules = "default-src 'none'; style-src '" + hashOf(style) + "'; connect-src 'self'; img-src data:; form-action 'none'; base-uri 'none'; script-src '" + hashOf(script) + "'"

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// Static returns the page for a server of files, which also has wasm_exec.js and playground.wasm.
func Static() []byte {
	v := content
	v.Policy = rules + " 'self' 'wasm-unsafe-eval'"
	return v.text()
}

func (v view) text() []byte {
	var text bytes.Buffer
	if err := page.Execute(&text, v); err != nil {
		panic("page: " + err.Error()) // impossible: the template and the content are constant
	}
	return text.Bytes()
}
