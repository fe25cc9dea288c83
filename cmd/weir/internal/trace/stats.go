package trace

import (
	"strconv"
	"unicode/utf8"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
)

// Stats describe the traffic that was read.
type Stats struct {
	Lines   int   // Events and Broken; blank lines and the header of CSV do not count
	Events  int   // yielded events
	Broken  int   // lines without an event
	Late    int   // events that were yielded with a later time than their own, to keep the order
	Limited int   // events with the status 429
	First   int64 // time of the first yielded event, Unix time in microseconds
	Last    int64 // time of the latest yielded event

	// Fractions reports whether any time is not a whole second.
	Fractions bool

	// Read is the number of bytes that were read, and Total the length of all files; both count the
	// bytes of compressed files. Total is 0 if a file is a pipe.
	Read, Total int64

	// Conversion is advice to read the file with the first broken lines, if no event was read before: a command that
	// converts it, or flags.
	Conversion string

	// Samples are the first broken lines, at most maxSamples.
	Samples []BrokenLine
}

// maxSamples is the maximum number of broken lines in Stats.
const maxSamples = 5

// A BrokenLine is a line from which no event could be read.
type BrokenLine struct {
	File   string
	Line   int // from 1 on
	Reason string
	Text   string // the beginning of the line, at most 80 bytes, all of them printable
}

// yielded counts an event.
func (s *Stats) yielded(e *simulate.Event, late bool) {
	if s.Events == 0 {
		s.First = e.At
	}
	s.Lines++
	s.Events++
	s.Last = e.At
	if late {
		s.Late++
	}
	if e.Limited {
		s.Limited++
	}
	if e.At%second != 0 {
		s.Fractions = true
	}
}

// broken counts a line without an event.
func (s *Stats) broken(file string, number int, line []byte, reason string) {
	s.Lines++
	s.Broken++
	if len(s.Samples) < maxSamples {
		s.Samples = append(s.Samples, BrokenLine{file, number, reason, excerpt(line)})
	}
}

// maxExcerpt is the maximum length in bytes of the Text of a BrokenLine.
const maxExcerpt = 80

// excerpt returns the beginning of line, with "..." if there is more, and with escapes in place of
// bytes that are not printable.
func excerpt(line []byte) string {
	const more = "..."
	text := make([]byte, 0, maxExcerpt+utf8.UTFMax)
	whole := 0 // length of the text that has room for more after it
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		switch {
		case r == utf8.RuneError && size == 1:
			const hex = "0123456789abcdef"
			text = append(text, '\\', 'x', hex[line[0]>>4], hex[line[0]&15])
		case strconv.IsPrint(r):
			text = utf8.AppendRune(text, r)
		default:
			quoted := strconv.AppendQuoteRuneToASCII(nil, r)
			text = append(text, quoted[1:len(quoted)-1]...)
		}
		if len(text) > maxExcerpt {
			return string(text[:whole]) + more
		}
		if len(text) <= maxExcerpt-len(more) {
			whole = len(text)
		}
		line = line[size:]
	}
	return string(text)
}
