package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Differences says where the processes of an application do not agree, as they do for a while during a rollout: about the
// limits of rules, whether a rule is in code or in the configuration of a [Set], versions of configurations, and key
// secrets. It also says whether Redis has lost the overrides and blocks. all and published are the results of [Fleet.Processes] and [Fleet.Published].
func Differences(all []Process, published map[string]PublishedRule) (texts []string) {
	for _, name := range slices.Sorted(maps.Keys(published)) {
		p := published[name]
		if len(p.Others) == 0 {
			continue
		}
		var limits, withPlans []string
		for _, of := range append([]PublishedRule{p}, p.Others...) {
			text := of.text()
			limits = append(limits, text)
			for _, plan := range of.Policy.Rules[0].Plans {
				text += fmt.Sprintf(", plan %s %v", plan.Name, plan.Limit)
			}
			withPlans = append(withPlans, text)
		}
		if len(slices.Compact(slices.Clone(limits))) == 1 {
			limits = withPlans
		}
		texts = append(texts, fmt.Sprintf("the rule %q differs: %s", name, strings.Join(limits, "; ")))
	}
	configs := make(map[string][]string) // the versions of each source
	var secrets, lost []string
	for _, p := range all {
		for _, s := range p.Sets {
			if !slices.Contains(configs[s.Source], s.Config) {
				configs[s.Source] = append(configs[s.Source], s.Config)
			}
			if s.OtherSecret && secrets == nil {
				secrets = append(secrets, fmt.Sprintf("process %d of %s has another key secret", p.PID, p.Host))
			}
			if !s.Lost.IsZero() && lost == nil {
				lost = append(lost, fmt.Sprintf("process %d of %s found at %s that Redis had lost all overrides and blocks: write them again", p.PID, p.Host, s.Lost.UTC().Format(time.RFC3339)))
			}
		}
	}
	texts = append(append(texts, lost...), secrets...)
	for _, source := range slices.Sorted(maps.Keys(configs)) {
		if versions := configs[source]; len(versions) > 1 {
			texts = append(texts, fmt.Sprintf("the configuration of %s has several versions: %s", source, strings.Join(versions, ", ")))
		}
	}
	return texts
}

// text returns the limit of p, and where it is.
func (p *PublishedRule) text() string {
	if p.InSet {
		return p.Text + ", in a configuration"
	}
	return p.Text + ", in code"
}
