package rules

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Warnings returns the parts of a valid file that probably do not have the intended effect: routes that no
// request matches, such as "/a/*any" or "get /a". They are in the order of the file, and at most 100. There
// are none for a file that [Parse] rejects. name and data are as for Parse.
func Warnings(name string, data []byte) (all Errors) {
	_, err := parseDocument(name, data, MaxSize, func(d *decoder, v value) *Config {
		c := d.config(v)
		all = d.sorted(d.warnings)
		return c
	})
	if err != nil {
		return nil
	}
	return all
}

// methods are the methods of HTTP that a misspelled one is compared with.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"}

// mistakes are the parts of a valid pattern that no request has, or only that of a router with such patterns.
var mistakes = []struct {
	of     *regexp.Regexp // the first group is the part
	reason string         // with the part, and the name in it
}{
	{regexp.MustCompile(`^[^/]*?([^/\s]*\*[^/\s]*)/`), "no request has the host %[1]q: a pattern without a host matches each host"},
	{regexp.MustCompile(`^[^/]*?([^/\s]+:[0-9]+)/`), "no request has the host %[1]q, because hosts are compared without the port"},
	{regexp.MustCompile(`/(\*[^/]*)`), "no request has the segment %[1]q: write {%[2]s...} for the rest of a path"},
	{regexp.MustCompile(`/(:[^/]+)`), "%[1]q is a parameter in routers such as Gin and Echo only: write {%[2]s}, which all routers, weir explain and weir simulate match"},
	{regexp.MustCompile(`/[^{}]*(\?[^{}]*)`), "no path has %[1]q: a query does not choose the route"},
}

// warn reports why requests for the valid pattern of kv may have another route.
func (d *decoder) warn(kv pair) {
	if len(d.warnings) >= maxErrors {
		return
	}
	add := func(reason string) {
		d.warnings = append(d.warnings, d.at(kv.key.node.Line, kv.key.node.Column, kv.key.path.String(), reason))
	}
	if method, _, ok := strings.Cut(kv.name, " "); ok {
		if upper := strings.ToUpper(method); upper != method {
			add(fmt.Sprintf("no request has the method %q: write %s", method, upper))
		} else if hint := nearest(method, methods, ""); hint != "" && !slices.Contains(methods, method) {
			add(fmt.Sprintf("the method %q is unusual%s", method, hint))
		}
	}
	for _, m := range mistakes {
		if part := m.of.FindStringSubmatch(kv.name); part != nil {
			add(fmt.Sprintf(m.reason, part[1], cmp.Or(strings.TrimLeft(part[1], "*:"), "rest")))
		}
	}
}
