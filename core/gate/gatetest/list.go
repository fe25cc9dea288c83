package gatetest

import (
	"fmt"
	"strings"
)

// An item is a member of RateLimit-Policy or RateLimit.
type item struct {
	name   string
	params map[string]int64
}

// parseList reads the List of RFC 9651 that both fields are: Strings with
// Integer parameters. It takes nothing else, no second space and no empty list.
func parseList(s string) ([]item, error) {
	var items []item
	for {
		it, rest, err := parseItem(s)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", s, err)
		}
		items = append(items, it)
		if rest == "" {
			return items, nil
		}
		after, ok := strings.CutPrefix(rest, ", ")
		if !ok {
			return nil, fmt.Errorf("%q is not a comma and a space", rest)
		}
		s = after
	}
}

func parseItem(s string) (item, string, error) {
	it := item{params: map[string]int64{}}
	name, s, err := parseString(s)
	if err != nil {
		return it, s, err
	}
	it.name = name
	for strings.HasPrefix(s, ";") {
		end := strings.IndexByte(s, '=')
		if end < 2 || strings.Trim(s[1:end], "abcdefghijklmnopqrstuvwxyz") != "" {
			return it, s, fmt.Errorf("%q does not start with a parameter", s)
		}
		key := s[1:end]
		if _, twice := it.params[key]; twice {
			return it, s, fmt.Errorf("parameter %s occurs twice", key)
		}
		n, rest, err := parseInteger(s[end+1:])
		if err != nil {
			return it, s, err
		}
		it.params[key], s = n, rest
	}
	return it, s, nil
}

func parseString(s string) (name, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		return "", s, fmt.Errorf("%q does not start with a String", s)
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], nil
		case c < 0x20 || c > 0x7e:
			return "", s, fmt.Errorf("byte %#x in a String", c)
		case c == '\\':
			i++
			if i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", s, fmt.Errorf("%q has a bad escape", s)
			}
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", s, fmt.Errorf("%q is a String without an end", s)
}

func parseInteger(s string) (n int64, rest string, err error) {
	digits := 0
	for digits < len(s) && s[digits] >= '0' && s[digits] <= '9' {
		n = n*10 + int64(s[digits]-'0')
		digits++
		if digits > 15 {
			return 0, s, fmt.Errorf("%q is an Integer of more than 15 digits", s)
		}
	}
	if digits == 0 {
		return 0, s, fmt.Errorf("%q does not start with an Integer", s)
	}
	return n, s[digits:], nil
}
