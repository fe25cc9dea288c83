package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-go/weir/core/redisstore/diagnose"
	"github.com/weir-go/weir/core/rules"
)

// checkApplication says which processes of the application are known, where they do not agree (rules.Differences), and
// whether limits are off.
func (d *doctor) checkApplication(ctx context.Context) diagnose.Finding {
	f := diagnose.Finding{Check: "application", Result: diagnose.ResultOK}
	fleet := d.redisSource().Fleet()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	all, err := fleet.Processes(ctx)
	published, err2 := fleet.Published(ctx)
	switches, err3 := fleet.Switches(ctx)
	if err := cmp.Or(err, err2, err3); err != nil {
		f.Result, f.Detail, f.Change = diagnose.ResultUnknown, err.Error(), "repeat the check"
		return f
	}
	f.Detail = plural(len(all), "process")
	if versions := distinct(all, func(p rules.Process) string { return p.Version }); len(versions) > 0 {
		f.Detail += ", versions of the program: " + strings.Join(versions, ", ")
	}
	if differ := rules.Differences(all, published); len(differ) > 0 {
		f.Result, f.Change = diagnose.ResultWarning, "end the rollout, or give all processes the same limits, configuration and secret"
		f.Detail += "; " + escaped(strings.Join(differ, "; "))
	}
	for _, s := range switches.Off {
		f.Result, f.Change = diagnose.ResultWarning, strings.TrimPrefix(f.Change+fmt.Sprintf("; weir on '%s' turns limits on", escaped(s.Rule)), "; ")
		f.Detail += "; " + offText(s)
	}
	return f
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
