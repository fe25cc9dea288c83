package trace

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
)

// A csvParser parses CSV with one record in each line, so that a quotation mark without its
// counterpart breaks one line only.
type csvParser struct {
	columns [fields]int // of each field; -1 if there is none
	width   int         // number of columns of the header, or 0 if there is no header
	record  [][]byte    // of the latest line

	line   bytes.Reader // a line with quotation marks
	quoted *csv.Reader  // of line
}

// newCSVParser returns the parser of CSV that begins with line, or nil if line is neither a header
// nor a record. With forced, it is a record if it is not a header.
func newCSVParser(line []byte, f Fields, forced bool) (p *csvParser, header bool, err error) {
	p = new(csvParser)
	p.quoted = csv.NewReader(&p.line)
	p.quoted.FieldsPerRecord = -1
	p.quoted.ReuseRecord = true
	if !p.split(line) {
		return nil, false, nil
	}
	for field, names := range f.names() {
		p.columns[field] = p.column(names)
	}
	header = p.columns[fieldTime] >= 0
	if header {
		p.width = len(p.record)
	} else {
		if _, reason := new(timeParser).parse(p.record[0]); !forced && (reason != "" || len(p.record) < 2) {
			return nil, false, nil
		}
		for field := range p.columns {
			p.columns[field] = slices.Index([]int{fieldTime, fieldKey, fieldCost, fieldPlan, fieldRoute}, field)
		}
	}
	for field, name := range f.chosen() {
		if name != "" && (!header || p.columns[field] < 0) {
			return nil, false, fmt.Errorf("no header with a column %q", name)
		}
	}
	return p, header, nil
}

// column returns the index of the first of names that is in the latest record, or -1.
func (p *csvParser) column(names []string) int {
	for _, name := range names {
		for i, text := range p.record {
			if strings.EqualFold(strings.TrimSpace(string(text)), name) {
				return i
			}
		}
	}
	return -1
}

func (p *csvParser) parse(line []byte, rec *record) (reason string) {
	if !p.split(line) {
		return "a quotation mark is missing or in the middle of a field"
	}
	if p.width != 0 && len(p.record) != p.width {
		return "not as many columns as the header"
	}
	for field, i := range p.columns {
		if i >= 0 && i < len(p.record) {
			rec[field] = p.record[i]
		}
	}
	rec[fieldCost] = bytes.TrimSpace(rec[fieldCost])
	return ""
}

// split sets p.record to the fields of line. It returns false if the quotation marks are invalid.
func (p *csvParser) split(line []byte) bool {
	p.record = p.record[:0]
	if bytes.IndexByte(line, '"') < 0 {
		for more := true; more; {
			var text []byte
			text, line, more = bytes.Cut(line, []byte(","))
			p.record = append(p.record, text)
		}
		return true
	}
	p.line.Reset(line)
	texts, err := p.quoted.Read()
	for _, text := range texts {
		p.record = append(p.record, []byte(text))
	}
	return err == nil
}
