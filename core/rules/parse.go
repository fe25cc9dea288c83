package rules

import (
	"fmt"
	"strings"

	"github.com/weir-go/weir/core/rules/internal/document"
)

// MaxSize is the size of the largest file that Parse accepts, in bytes.
const MaxSize = 16 << 20

// Parse reads a configuration in the format of the package comment, YAML or JSON. name is the name
// of the file in errors, and of the Config.
//
// The error is of type [Errors] and contains all errors of the file, but at most 100. After an error
// in the syntax, the rest of the file is not checked. A file larger than [MaxSize] is an error, and so
// is a file with more than about a million keys, values, mappings, lists, lines and comments.
func Parse(name string, data []byte) (*Config, error) {
	c, errs := document.Parse(name, data, MaxSize, func(d *document.Decoder, v document.Value) *Config { return decoder{d}.config(v) })
	if c != nil {
		c.Name = name
	}
	return c, errorsOf(errs)
}

const maxOverride = 64 << 10 // in bytes

// ParseOverride reads one override in the format of a file, such as {plan: gold, limits: {second:
// 5/s}}. Names of rules and plans, and the limits of rules, can be checked only with a policy, as
// [Set.Apply] does. name is the name of the text in errors.
//
// The error is that of Parse. A text larger than 64 KiB is an error.
func ParseOverride(name string, text []byte) (Override, error) {
	o, errs := document.Parse(name, text, maxOverride, func(d *document.Decoder, v document.Value) Override { return decoder{d}.override(v, knownNames{}) })
	return o, errorsOf(errs)
}

// Warnings returns the parts of a valid file that probably do not have the intended effect: routes that no
// request matches, such as "/a/*any" or "get /a", and the first block_for, which is for some keys only. They are in the order of the file, and at most 100. There
// are none for a file that [Parse] rejects. name and data are as for Parse.
func Warnings(name string, data []byte) (all Errors) {
	var warnings []document.Error
	_, errs := document.Parse(name, data, MaxSize, func(d *document.Decoder, v document.Value) *Config {
		c := decoder{d}.config(v)
		warnings = d.Sorted(d.Warnings)
		return c
	})
	if errs == nil {
		all, _ = errorsOf(warnings).(Errors)
	}
	return all
}

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

// errorsOf returns the Errors of a document, or nil if there are none.
func errorsOf(all []document.Error) error {
	if len(all) == 0 {
		return nil
	}
	errs := make(Errors, len(all))
	for i, e := range all {
		errs[i] = Error(e)
	}
	return errs
}
