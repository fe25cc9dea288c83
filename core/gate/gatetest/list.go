package gatetest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// An item is a member of RateLimit-Policy or RateLimit.
type item struct {
	name   string
	params map[string]int64
}

// member matches a String of RFC 9651 with Integer parameters, and the separator after it.
var member = regexp.MustCompile(`^"((?:[ !#-\[\]-~]|\\["\\])*)"((?:;[a-z]+=[0-9]{1,15})*)(?:, |$)`)

// parseList reads a field, which is a List of RFC 9651. It rejects a second space and an empty
// list.
func parseList(s string) ([]item, error) {
	var items []item
	for rest := s; ; {
		m := member.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("%q has no String with Integer parameters at %q", s, rest)
		}
		it := item{strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(m[1]), map[string]int64{}}
		for _, param := range strings.Split(m[2], ";")[1:] {
			key, value, _ := strings.Cut(param, "=")
			if _, twice := it.params[key]; twice {
				return nil, fmt.Errorf("%q has the parameter %s twice", m[0], key)
			}
			it.params[key], _ = strconv.ParseInt(value, 10, 64)
		}
		items = append(items, it)
		if !strings.HasSuffix(m[0], ", ") {
			return items, nil
		}
		rest = rest[len(m[0]):]
	}
}
