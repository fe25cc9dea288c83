package trace

import (
	"bytes"
	"io"
	"strings"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
)

// A source is a file of a trace.
type source struct {
	reader    *Reader
	name      string
	position  int // of the file among all files
	lines     *lineReader
	number    int        // of the line
	format    lineParser // nil until a line was recognized
	record    record
	build     *builder
	uncolored []byte         // the latest line that had escapes
	array     bool           // the file is an array of JSON
	event     simulate.Event // the latest one
}

// A lineParser reads the lines of a format.
type lineParser interface {
	// parse reads a line, which is not blank, into rec. The fields are valid until the line changes or
	// parse is called again. It returns the reason if the line is broken, or "".
	parse(line []byte, rec *record) (reason string)
}

// next reads the next event of the file. It returns false after the last one.
func (s *source) next() (bool, error) {
	for {
		line, long, err := s.lines.next()
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		s.number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		text := bytes.TrimLeft(line, "\x00") // see lineReader.next
		if len(bytes.TrimSpace(text)) == 0 {
			text = line
		}
		if s.bracket(text) {
			continue
		}
		reason := "the line is longer than 1 MiB"
		if !long {
			text = s.plain(text)
			header := false
			if s.format == nil {
				if s.format, header, err = recognize(text, s.reader.options); err != nil {
					return false, err
				}
			}
			if w3c, ok := s.format.(*w3cParser); ok && isDirective(text) {
				if err := w3c.direct(text); err != nil {
					return false, err
				}
				continue
			}
			if header {
				continue
			}
			reason = s.read(text)
		}
		if reason == "" {
			return true, nil
		}
		s.reader.broken(s, line, reason)
	}
}

// read reads a line into s.event. It returns the reason if the line is broken, or "".
func (s *source) read(line []byte) (reason string) {
	s.record = record{}
	if s.format == nil {
		return "neither a JSON object, nor a line of a log, nor CSV with a column for the time"
	}
	if reason := s.format.parse(line, &s.record); reason != "" {
		return reason
	}
	return s.build.event(&s.record, &s.event)
}

// bracket reports whether line is the begin or the end of an array with an object in each line.
func (s *source) bracket(line []byte) bool {
	switch string(bytes.TrimSpace(line)) {
	case "[":
		s.array = s.format == nil
		return s.array
	case "]":
		return s.array
	}
	return false
}

// plain returns line without the escapes that set colors on a terminal.
func (s *source) plain(line []byte) []byte {
	if bytes.IndexByte(line, '\x1b') < 0 {
		return line
	}
	s.uncolored = s.uncolored[:0]
	for {
		before, after, ok := bytes.Cut(line, []byte("\x1b["))
		s.uncolored = append(s.uncolored, before...)
		if !ok {
			return s.uncolored
		}
		line = bytes.TrimLeft(after, "0123456789;")
		if rest, ok := bytes.CutPrefix(line, []byte("m")); ok {
			line = rest
		} else { // another escape
			s.uncolored = append(s.uncolored, "\x1b["...)
			line = after
		}
	}
}

// recognize returns the parser of the format of line, or nil if it has none. header reports whether
// the line is the header of CSV.
func recognize(line []byte, o Options) (format lineParser, header bool, err error) {
	if o.Format == W3C || o.Format == Auto && isDirective(line) {
		return &w3cParser{options: o}, false, nil
	}
	if format, err := recognizeLine(line, o); format != nil || err != nil {
		return format, false, err
	}
	if o.Format == Auto || o.Format == CSV {
		if p, header, err := newCSVParser(line, o.Fields, o.Format == CSV); p != nil || err != nil {
			return p, header, err
		}
	}
	return nil, false, nil
}

// recognizeLine returns the parser of the format of line, or nil if it has none of those whose lines describe
// themselves.
func recognizeLine(line []byte, o Options) (lineParser, error) {
	switch {
	case o.Format == JSON || o.Format == Auto && bytes.HasPrefix(bytes.TrimSpace(line), []byte("{")):
		return newJSONParser(o), nil
	case o.Format == Logfmt:
		return newLogfmtParser(o.Fields), nil
	case strings.Contains(string(o.Format), "$"):
		return orError(newTextParser(textFormat{"the format", string(o.Format)}, o.Fields))
	case o.Format != Auto && o.Format != Log:
		return nil, nil
	}
	for _, f := range textFormats {
		if all, err := newTextParser(f, Fields{}); err == nil && all.parse(line, new(record)) == "" {
			return orError(newTextParser(f, o.Fields))
		}
	}
	if o.Format == Log {
		return orError(newTextParser(textFormats[0], o.Fields))
	}
	var rec record
	if p := newLogfmtParser(o.Fields); p.parse(line, &rec) == "" && isTime(rec[fieldTime]) {
		return p, nil
	}
	return nil, nil
}

// orError returns a parser, or nil if there is an error.
func orError(p *textParser, err error) (lineParser, error) {
	if err != nil {
		return nil, err
	}
	return p, nil
}

// sources are a heap of files by the times of their events, for package heap.
type sources []*source

func (s sources) Len() int      { return len(s) }
func (s sources) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

func (s sources) Less(i, j int) bool {
	if s[i].event.At != s[j].event.At {
		return s[i].event.At < s[j].event.At
	}
	return s[i].position < s[j].position
}

func (s *sources) Push(x any) { *s = append(*s, x.(*source)) }

func (s *sources) Pop() any {
	last := len(*s) - 1
	file := (*s)[last]
	*s = (*s)[:last]
	return file
}
