package trace

import (
	"bytes"
	"strings"
)

// A recognizer finds the format of a file by its lines.
type recognizer struct {
	options Options
	texts   []*textParser // of textFormats, without the fields of the options
	json    *jsonParser
	logfmt  *logfmtParser
}

// recognize returns the parser of the format of line, or nil if it has none. header reports whether
// the line is the header of CSV.
func (r *recognizer) recognize(line []byte) (format lineParser, header bool, err error) {
	if f := r.options.Format; f == W3C || f == Auto && isDirective(line) {
		return &w3cParser{options: r.options}, false, nil
	}
	if format, err := r.recognizeLine(line); format != nil || err != nil {
		return format, false, err
	}
	if f := r.options.Format; f == Auto || f == CSV {
		if p, header, err := newCSVParser(line, r.options.Fields, f == CSV); p != nil || err != nil {
			return p, header, err
		}
	}
	return nil, false, nil
}

// recognizeLine is recognize without the formats whose names of fields are in another line.
func (r *recognizer) recognizeLine(line []byte) (lineParser, error) {
	o := r.options
	switch {
	case o.Format == JSON || o.Format == Auto && isJSON(line):
		if r.json == nil {
			r.json = newJSONParser(o)
		}
		return r.json, nil
	case o.Format == Logfmt:
		return newLogfmtParser(o.Fields), nil
	case strings.Contains(string(o.Format), "$"):
		return orError(newTextParser(textFormat{name: "the format", line: string(o.Format)}, o.Fields))
	case o.Format != Auto && o.Format != Log:
		return nil, nil
	}
	if bytes.IndexByte(line, '"') >= 0 { // as in all textFormats
		for i, p := range r.parsers() {
			if bytes.Contains(line, []byte(textFormats[i].has)) && p.parse(line, new(record)) == "" {
				return orError(newTextParser(textFormats[i], o.Fields))
			}
		}
	}
	if o.Format == Log || bytes.IndexByte(line, '=') < 0 {
		return nil, nil
	}
	if r.logfmt == nil {
		r.logfmt = newLogfmtParser(o.Fields)
	}
	var rec record
	if r.logfmt.parse(line, &rec) == "" && isTime(rec[fieldTime]) {
		return r.logfmt, nil
	}
	return nil, nil
}

// parsers returns the parsers of textFormats.
func (r *recognizer) parsers() []*textParser {
	if r.texts == nil {
		for _, f := range textFormats {
			p, _ := newTextParser(f, Fields{}) // it is valid
			r.texts = append(r.texts, p)
		}
	}
	return r.texts
}

// orError returns a parser, or nil if there is an error.
func orError(p *textParser, err error) (lineParser, error) {
	if err != nil {
		return nil, err
	}
	return p, nil
}
