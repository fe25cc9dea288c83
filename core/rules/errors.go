package rules

import (
	"fmt"
	"strings"
)

// Errors contains the errors of a file, in the order of the file. Parse returns no error of another
// type.
type Errors []Error

// Error returns the errors, one on each line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

// An Error describes a part of a file that is invalid.
type Error struct {
	File         string
	Line, Column int    // from 1; Column counts characters
	Path         string // such as policies.api.rules[0].limit; empty for an error in the syntax
	Reason       string
	Excerpt      string // the line, or the part of it around Column, and a line with a caret below
}

// Error returns the error in the form of a compiler: "limits.yaml:7:20: PATH: REASON".
func (e Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Reason)
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s", e.File, e.Line, e.Column, e.Path, e.Reason)
}
