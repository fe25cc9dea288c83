package trace

import (
	"bytes"
	"fmt"
	"strings"
)

// A w3cParser parses the extended log file format of the W3C, as of IIS and CloudFront: lines of values between spaces
// or tabs, whose names are in a line "#Fields:".
type w3cParser struct {
	options Options
	columns columns
	values  [][]byte
	width   int // number of values of a line, or 0 if there were no names
}

// isDirective reports whether line describes the file or its lines.
func isDirective(line []byte) bool {
	name, _, ok := bytes.Cut(line, []byte(":"))
	switch string(name) {
	case "#Version", "#Fields", "#Software", "#Date", "#Start-Date", "#End-Date", "#Remark":
		return ok
	}
	return false
}

// direct applies a directive. It returns an error if it has the names of fields, and not those of the options.
func (p *w3cParser) direct(line []byte) (err error) {
	text, ok := strings.CutPrefix(string(line), "#Fields:")
	if !ok {
		return nil
	}
	names := strings.Fields(text)
	var missing string
	if p.columns, missing = columnsOf(p.options.Fields, names); missing != "" {
		return fmt.Errorf("no field %q in the line #Fields", missing)
	}
	p.width = len(names)
	return nil
}

func (p *w3cParser) parse(line []byte, rec *record) (reason string) {
	if p.width == 0 {
		return "no line #Fields before the line"
	}
	separator := []byte(" ")
	if bytes.IndexByte(line, '\t') >= 0 {
		separator = []byte("\t")
	}
	p.values = p.values[:0]
	for more := true; more; {
		var value []byte
		value, line, more = bytes.Cut(line, separator)
		p.values = append(p.values, value)
	}
	if len(p.values) != p.width {
		return "not as many fields as the line #Fields"
	}
	p.columns.fill(p.values, rec)
	return ""
}
