package trace

import (
	"bytes"
	"io"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
)

// A source is a file of a trace.
type source struct {
	reader   *Reader
	name     string
	position int // of the file among all files
	lines    *lineReader
	number   int        // of the line
	format   lineParser // nil until a line was recognized
	record   record
	build    *builder
	event    simulate.Event // the latest one
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
		reason := "the line is longer than 1 MiB"
		if !long {
			header := false
			if s.format == nil {
				if s.format, header, err = recognize(text, s.reader.options); err != nil {
					return false, err
				}
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
	if s.format == nil {
		return "neither a JSON object, nor a line of a log, nor CSV with a column for the time"
	}
	s.record = record{}
	if reason := s.format.parse(line, &s.record); reason != "" {
		return reason
	}
	return s.build.event(&s.record, &s.event)
}

// recognize returns the parser of the format of line, or nil if it has none. header reports whether
// the line is the header of CSV.
func recognize(line []byte, o Options) (format lineParser, header bool, err error) {
	f := o.Format
	if f == JSON || f == Auto && bytes.TrimSpace(line)[0] == '{' {
		return newJSONParser(o.Fields), false, nil
	}
	log, err := newLogParser(o.Fields)
	if f == Log || f == Auto && log.parse(line, new(record)) == "" {
		return log, false, err
	}
	p, header, err := newCSVParser(line, o.Fields, f == CSV)
	if p == nil || err != nil {
		return nil, false, err
	}
	return p, header, nil
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
