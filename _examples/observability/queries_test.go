package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v4"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/examples/internal/demotest"
)

// A query is an expression of an alert or of the dashboard, and the text that shows its labels.
type query struct{ place, expr, text string }

// The variables of Grafana in ranges, and values for them.
var ranges = strings.NewReplacer("$__rate_interval", "1m", "$__range", "1h")

// labelOf finds the labels in the text of a query: {{rule}} in the dashboard, $labels.rule in an alert.
var labelOf = regexp.MustCompile(`(?:\$labels\.|\{\{)(\w+)`)

// alerts returns the queries of alerts.yml, after the checks of "promtool check rules".
func alerts(t *testing.T) (queries []query) {
	t.Helper()
	file, errs := rulefmt.ParseFile("alerts.yml", false, model.UTF8Validation)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.Labels["severity"] == "" {
				t.Errorf("alert %s has no summary, description or severity", r.Alert)
			}
			queries = append(queries, query{"alert " + r.Alert, r.Expr, r.Annotations["summary"] + r.Annotations["description"]})
		}
	}
	return queries
}

// dashboard returns the queries of dashboard.json, and the names of its variables.
func dashboard(t *testing.T) (queries []query, variables []string) {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	demotest.Must(t, err)
	type source struct{ UID string }
	var d struct {
		UID        string
		Templating struct {
			List []struct {
				Name, Type string
				Query      any // a string for the type datasource
				Datasource source
			}
		}
		Panels []struct {
			ID                       int
			Type, Title, Description string
			Datasource               source
			FieldConfig              struct {
				Defaults struct {
					Unit     string
					Mappings []any
				}
			}
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	demotest.Must(t, json.Unmarshal(text, &d))
	if d.UID == "" {
		t.Error("the dashboard has no uid")
	}
	for _, v := range d.Templating.List {
		variables = append(variables, "$"+v.Name)
		if v.Type == "datasource" {
			continue
		}
		q, _ := v.Query.(map[string]any)
		text, _ := q["query"].(string)
		m := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(text)
		if m == nil || v.Datasource.UID != "${datasource}" {
			t.Fatalf("variable %s: got %q from %q, want label_values from ${datasource}", v.Name, text, v.Datasource.UID)
		}
		queries = append(queries, query{"variable " + v.Name, m[1], "{{" + m[2] + "}}"})
	}
	if !slices.Contains(variables, "$datasource") {
		t.Errorf("got the variables %v, want $datasource", variables)
	}
	var ids []int
	for _, p := range d.Panels {
		if slices.Contains(ids, p.ID) {
			t.Errorf("panel %q: id %d appears twice", p.Title, p.ID)
		}
		ids = append(ids, p.ID)
		if p.Type == "row" {
			continue
		}
		if p.Datasource.UID != "${datasource}" || p.Description == "" || len(p.Targets) == 0 ||
			p.FieldConfig.Defaults.Unit == "" && len(p.FieldConfig.Defaults.Mappings) == 0 {
			t.Errorf("panel %q has no description, unit, query, or data source ${datasource}", p.Title)
		}
		for _, q := range p.Targets {
			queries = append(queries, query{"panel " + p.Title, ranges.Replace(q.Expr), q.LegendFormat})
		}
	}
	return queries, variables
}

// A target has the labels of each series of the example by its name, and their values.
type target map[string]map[string][]string

// newTarget returns the series of metrics, with the labels that Prometheus adds.
func newTarget(metrics string) target {
	series := make(target)
	label := regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
	for _, m := range regexp.MustCompile(`(?m)^(\w+)(?:\{(.*)\})? \S+$`).FindAllStringSubmatch(metrics, -1) {
		if series[m[1]] == nil {
			series[m[1]] = map[string][]string{"job": {"example"}, "instance": {"127.0.0.1:8080"}}
		}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			series[m[1]][l[1]] = append(series[m[1]][l[1]], l[2])
		}
	}
	return series
}

// labels returns the labels of the result of e.
func (s target) labels(e parser.Node) (names []string) {
	switch e := e.(type) {
	case *parser.VectorSelector:
		for name := range s[e.Name] {
			names = append(names, name)
		}
		return names
	case *parser.AggregateExpr:
		return e.Grouping
	}
	for child := range parser.ChildrenIter(e) {
		if names := s.labels(child); names != nil {
			return names
		}
	}
	return nil
}

// check fails the test unless the metrics, labels and values of labels of q exist.
func (s target) check(t *testing.T, q query, variables []string) {
	t.Helper()
	e, err := parser.ParseExpr(q.expr)
	if err != nil {
		t.Errorf("%s: %v", q.place, err)
		return
	}
	selectors := 0
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			selectors++
			for _, m := range n.LabelMatchers {
				s.checkMatcher(t, q.place, n.Name, m, variables)
			}
		case *parser.AggregateExpr:
			for _, name := range n.Grouping {
				if !slices.Contains(s.labels(n.Expr), name) {
					t.Errorf("%s: %v has no label %s", q.place, n.Expr, name)
				}
			}
		}
		return nil
	})
	if selectors == 0 {
		t.Errorf("%s: %s has no metric", q.place, q.expr)
	}
	for _, m := range labelOf.FindAllStringSubmatch(q.text, -1) {
		if !slices.Contains(s.labels(e), m[1]) {
			t.Errorf("%s: the result has no label %s, which is in %q", q.place, m[1], q.text)
		}
	}
}

func (s target) checkMatcher(t *testing.T, place, metric string, m *labels.Matcher, variables []string) {
	t.Helper()
	if m.Name == model.MetricNameLabel {
		if s[metric] == nil {
			t.Errorf("%s: %s is not in the metrics", place, metric)
		}
		return
	}
	known, ok := s[metric][m.Name]
	if !ok {
		t.Errorf("%s: %s has no label %s", place, metric, m.Name)
	}
	if m.Name == "result" {
		for r := driver.Result(0); r <= driver.Failed; r++ {
			known = append(known, r.String())
		}
	}
	for value := range strings.SplitSeq(m.Value, "|") {
		if !slices.Contains(known, value) && !slices.Contains(variables, value) {
			t.Errorf("%s: no %s has the value %q of the label %s", place, metric, value, m.Name)
		}
	}
}

// checkQueries fails the test unless all queries of the alerts and the dashboard are about metrics.
func checkQueries(t *testing.T, metrics string) {
	t.Helper()
	series := newTarget(metrics)
	for _, q := range alerts(t) {
		series.check(t, q, nil)
	}
	panels, variables := dashboard(t)
	for _, q := range panels {
		series.check(t, q, variables)
	}
}

// Prometheus accepts the configuration. It scrapes the example, and reads the alerts.
func TestConfiguration(t *testing.T) {
	text, err := os.ReadFile("prometheus.yml")
	demotest.Must(t, err)
	var c struct {
		Global struct {
			ScrapeInterval     model.Duration `yaml:"scrape_interval"`
			EvaluationInterval model.Duration `yaml:"evaluation_interval"`
		}
		RuleFiles     []string `yaml:"rule_files"`
		ScrapeConfigs []struct {
			JobName       string                       `yaml:"job_name"`
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	demotest.Must(t, yaml.Load(text, &c, yaml.WithKnownFields()))
	if !slices.Equal(c.RuleFiles, []string{"alerts.yml"}) || len(c.ScrapeConfigs) != 1 || c.ScrapeConfigs[0].JobName == "" ||
		len(c.ScrapeConfigs[0].StaticConfigs) != 1 || !slices.Equal(c.ScrapeConfigs[0].StaticConfigs[0].Targets, []string{"127.0.0.1:8080"}) ||
		c.Global.ScrapeInterval <= 0 || c.Global.EvaluationInterval <= 0 {
		t.Errorf("got %+v, want alerts.yml, 127.0.0.1:8080, and two intervals", c)
	}
	// promtool, where it is installed, also finds errors in fields that are not in c.
	if promtool, err := exec.LookPath("promtool"); err == nil {
		if out, err := exec.Command(promtool, "check", "config", "prometheus.yml").CombinedOutput(); err != nil {
			t.Errorf("promtool: %v\n%s", err, out)
		}
	}
}
