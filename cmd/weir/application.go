package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore/diagnose"
	"github.com/weir-go/weir/core/rules"
)

// checkApplication says which processes of the application are known, and where they do not agree: rules with several
// limits, rules that one has in code and another in a file, several configurations, and other key secrets.
func (d *doctor) checkApplication(ctx context.Context) diagnose.Finding {
	f := diagnose.Finding{Check: "application", Result: diagnose.ResultOK}
	opts := []rules.RedisOption{rules.Prefix(d.prefix), rules.Timeout(timeout)}
	if d.secret != nil {
		opts = append(opts, rules.KeySecret(d.secret))
	}
	source := rules.Redis(d.rdb, d.app, opts...)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	all, err := source.Processes(ctx)
	published, err2 := source.Published(ctx)
	if err == nil {
		err = err2
	}
	if err != nil {
		f.Result, f.Detail, f.Change = diagnose.ResultUnknown, err.Error(), "repeat the check"
		return f
	}
	f.Detail = fmt.Sprintf("%d processes", len(all))
	if versions := distinct(all, func(p rules.Process) string { return p.Version }); len(versions) > 0 {
		f.Detail += ", versions of the program: " + strings.Join(versions, ", ")
	}
	differ := func(format string, args ...any) {
		f.Result, f.Change = diagnose.ResultWarning, "end the rollout, or give all processes the same limits, configuration and secret"
		f.Detail += "; " + fmt.Sprintf(format, args...)
	}
	for _, name := range slices.Sorted(maps.Keys(published)) {
		var limits []string
		for _, p := range append([]rules.PublishedRule{published[name]}, published[name].Others...) {
			rule := p.Policy.Rules[0].Spec
			rule.Name = name
			limits = append(limits, core.NewRule(rule).String())
		}
		if len(limits) > 1 {
			differ("the rule %q differs: %s", name, strings.Join(limits, "; "))
		}
	}
	code, file := make(map[string]string), make(map[string]string) // a process with each rule
	for i := range all {
		for _, rule := range all[i].Rules {
			of := code
			if inFile(&all[i], rule) {
				of = file
			}
			of[rule] = nameOf(all[i])
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(code)) {
		if in, ok := file[rule]; ok {
			differ("the rule %q is in code in %s, and in a configuration in %s", rule, code[rule], in)
		}
	}
	configs := make(map[string][]string) // the versions of each source
	for _, p := range all {
		for _, s := range p.Sets {
			if v := escaped(s.Config); !slices.Contains(configs[s.Source], v) {
				configs[s.Source] = append(configs[s.Source], v)
			}
			if s.OtherSecret && !strings.Contains(f.Detail, "another key secret") {
				differ("%s has another key secret", nameOf(p))
			}
		}
	}
	for _, source := range slices.Sorted(maps.Keys(configs)) {
		if versions := configs[source]; len(versions) > 1 {
			differ("%s has several versions: %s", escaped(source), strings.Join(versions, ", "))
		}
	}
	return f
}

// inFile reports whether a rule of p is that of a policy in the configuration of a Set of p, or may be it. The name of the
// rule on the store is that of the policy, or begins with it and a dot.
func inFile(p *rules.Process, rule string) bool {
	for end := len(rule); end > 0; end = strings.LastIndexByte(rule[:end], '.') {
		if p.Set(rule[:end]) != nil {
			return true
		}
	}
	return false
}

// distinct returns the different texts of f, in order.
func distinct(all []rules.Process, f func(rules.Process) string) (texts []string) {
	for _, p := range all {
		if text := escaped(f(p)); text != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	slices.Sort(texts)
	return texts
}
