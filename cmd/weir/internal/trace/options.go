package trace

import (
	"fmt"
	"io"
)

// Options are the options of a [Reader]. The zero value has the defaults.
type Options struct {
	Fields Fields
	Format Format
	Stdin  io.Reader // the content of the file "-"; nil means [os.Stdin]
}

// Fields are the names of fields of a trace: columns of CSV, or members of JSON objects, with dots
// before members of members. An empty name means the names of the package comment.
type Fields struct{ Time, Key, Cost, Plan, Request string }

// A Format is the format of a file.
type Format uint8

const (
	Auto Format = iota // recognized by the first line
	CSV
	JSON
	Log // common or combined log format
)

var formatNames = [...]string{Auto: "auto", CSV: "csv", JSON: "json", Log: "log"}

// ParseFormat returns the format with a name: "auto", "csv", "json" or "log".
func ParseFormat(name string) (Format, error) {
	for f, n := range formatNames {
		if n == name {
			return Format(f), nil
		}
	}
	return Auto, fmt.Errorf("unknown format %q: use auto, csv, json or log", name)
}
