package trace

import (
	"bytes"
	"io"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
)

// A source is a file of a trace.
type source struct {
	reader     *Reader
	name       string
	position   int // of the file among all files
	lines      *lineReader
	number     int        // of the line
	format     lineParser // nil until a line was recognized
	settled    bool       // the next lines have the same format
	record     record
	build      *builder
	recognizer recognizer
	uncolored  []byte         // the latest line that had escapes
	array      bool           // the file is an array of JSON
	event      simulate.Event // the latest one
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
		s.record = record{}
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
			if !s.settled {
				if header, err = s.recognize(text); err != nil {
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
			s.settled = true
			return true, nil
		}
		s.reader.broken(s, line, reason)
	}
}

// recognize sets s.format to the format of line, if it has one. Before the first event, there can be lines that another
// program wrote, or other lines of the same one: they do not settle the format. header reports whether line is the header
// of CSV.
func (s *source) recognize(line []byte) (header bool, err error) {
	format, header, err := s.recognizer.recognize(line)
	if format == nil {
		if s.format != nil { // a line of another program does not have the fields of the options
			err = nil
		}
		return false, err
	}
	_, w3c := format.(*w3cParser)
	s.format, s.settled = format, header || w3c || s.reader.options.Format.isOne()
	return header, err
}

// read reads a line into s.event. It returns the reason if the line is broken, or "".
func (s *source) read(line []byte) (reason string) {
	switch {
	case s.format == nil && s.reader.options.Format == Log:
		return "not a line of a log"
	case s.format == nil:
		return "neither a JSON object, nor a line of a log, nor CSV with a column for the time"
	}
	if reason := s.format.parse(line, &s.record); reason != "" {
		return reason
	}
	return s.build.event(&s.record, &s.event)
}

// bracket reports whether line is the start or the end of an array with an object in each line.
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
