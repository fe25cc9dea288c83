package trace

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Options are the options of a [Reader]. The zero value has the defaults.
type Options struct {
	Fields Fields
	Format Format
	Stdin  io.Reader // the content of the file "-"; nil means [os.Stdin]
}

// Fields are the names of fields of a trace: columns of CSV, variables of a log_format, or members of JSON objects,
// with dots before members of members. An empty name means the names of the package comment.
type Fields struct{ Time, Key, Cost, Plan, Request, Method, Path, Status string }

// A Format is the format of a file. A text with a "$" is the log_format of nginx that a line has.
type Format string

const (
	Auto   Format = "" // that of the first line with an event
	CSV    Format = "csv"
	JSON   Format = "json"
	Logfmt Format = "logfmt"
	W3C    Format = "w3c"
	Log    Format = "log" // the one of textFormats that the first line with an event has
)

// isOne reports whether f is one format, and not that of a line.
func (f Format) isOne() bool { return f != Auto && f != Log }

// ParseFormat returns the format with a name: "auto", "csv", "json", "logfmt", "w3c" or "log", or a text with
// variables such as $remote_addr.
func ParseFormat(name string) (Format, error) {
	if strings.Contains(name, "$") {
		_, _, err := segmentsOf(textFormat{line: name})
		return Format(name), err
	}
	if f := Format(name); slices.Contains([]Format{CSV, JSON, Logfmt, W3C, Log}, f) || name == "auto" {
		return Format(strings.TrimPrefix(name, "auto")), nil
	}
	return Auto, fmt.Errorf("unknown format %q: use auto, csv, json, logfmt, w3c or log, or a log_format of nginx such as '$remote_addr [$time_local] \"$request\" $status'", name)
}
