package trace

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"strings"
)

// A csvParser parses CSV with one record in each line, so that a quotation mark without its
// counterpart breaks one line only.
type csvParser struct {
	columns columns
	width   int      // number of columns of the header, or 0 if there is no header
	record  [][]byte // of the latest line

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
	names := make([]string, len(p.record))
	for i, text := range p.record {
		names[i] = strings.TrimSpace(string(text))
	}
	var missing string
	p.columns, missing = columnsOf(f, names)
	if header = len(p.columns[fieldTime]) > 0; header {
		p.width = len(p.record)
	} else {
		if _, reason := new(timeParser).parse(p.record[0]); !forced && (reason != "" || len(p.record) < 2) {
			return nil, false, nil
		}
		p.columns = columns{fieldTime: {0}, fieldKey: {1}, fieldCost: {2}, fieldPlan: {3}, fieldRoute: {4}}
		missing = cmp.Or(f.Time, f.Key, f.Cost, f.Plan, f.Request, f.Method, f.Path, f.Status)
	}
	if missing != "" {
		return nil, false, fmt.Errorf("no header with a column %q", missing)
	}
	return p, header, nil
}

func (p *csvParser) parse(line []byte, rec *record) (reason string) {
	if !p.split(line) {
		return "a quotation mark is missing or in the middle of a field"
	}
	if p.width != 0 && len(p.record) != p.width {
		return "not as many columns as the header"
	}
	p.columns.fill(p.record, rec)
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
