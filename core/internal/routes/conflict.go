package routes

import (
	"strconv"
	"strings"
)

// Conflict returns the other pattern and the reason of a conflict that [Register] has returned. The
// pattern is empty if the registered one is invalid. A search for it, with a ServeMux for each
// pattern, would take up to 0.4 s.
func Conflict(text string) (pattern, reason string) {
	rest, found := strings.CutPrefix(text, "pattern ")
	if !found {
		return "", text
	}
	registered, _ := strconv.QuotedPrefix(rest)
	_, rest, _ = strings.Cut(rest[len(registered):], " conflicts with pattern ")
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return "", text
	}
	pattern, _ = strconv.Unquote(quoted)
	_, reason, _ = strings.Cut(rest, ":\n")
	reason, _, _ = strings.Cut(reason, "\n")
	return pattern, reason
}
