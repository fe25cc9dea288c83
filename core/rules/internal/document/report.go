package document

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	MaxErrors  = 100 // of a document; others are not reported
	MaxReason  = 500 // in bytes: names and limits in a file can have any length
	maxExcerpt = 100 // in characters
)

// An Error describes a part of a document that is invalid: see rules.Error.
type Error struct {
	File         string
	Line, Column int
	Path         string
	Reason       string
	Excerpt      string
}

// cutLine cuts text around the first characters that YAML counts as the end of a line.
func cutLine(text string) (line, rest string, found bool) {
	for i, c := range text {
		switch c {
		case '\n', '\r', '\u0085', '\u2028', '\u2029':
			after := text[i+utf8.RuneLen(c):]
			if c == '\r' {
				after = strings.TrimPrefix(after, "\n")
			}
			return text[:i], after, true
		}
	}
	return text, "", false
}

// Warn reports a part of a valid document that probably does not have the intended effect.
func (d *Decoder) Warn(v Value, reason string) {
	if len(d.Warnings) < MaxErrors {
		d.Warnings = append(d.Warnings, d.at(v.Node.Line, v.Node.Column, v.path.String(), reason))
	}
}

// report adds an error at a position.
func (d *Decoder) report(line, column int, path, reason string) {
	if !d.Full() {
		d.Errors = append(d.Errors, d.at(line, column, path, reason))
	}
}

// at returns an Error at a position, without its excerpt.
func (d *Decoder) at(line, column int, path, reason string) Error {
	return Error{File: d.file, Line: line, Column: column, Path: Shorten(path), Reason: Shorten(reason)}
}

// Full reports whether more errors would not be reported.
func (d *Decoder) Full() bool { return len(d.Errors) >= MaxErrors }

// position returns the line and column of a byte of the file.
func (d *Decoder) position(index int) (line, column int) {
	text := d.data[:min(index, len(d.data))]
	for line = 1; ; line++ {
		_, rest, found := cutLine(text)
		if !found {
			return line, utf8.RuneCountInString(text) + 1
		}
		text = rest
	}
}

// Sorted returns all in the order of the file, with their excerpts.
func (d *Decoder) Sorted(all []Error) []Error {
	slices.SortStableFunc(all, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	text, rest, more, line := "", d.data, true, 0
	for i := range all {
		e := &all[i]
		for ; more && line < e.Line; line++ {
			text, rest, more = cutLine(rest)
		}
		if line == e.Line {
			e.Excerpt = excerpt(text, e.Column)
		}
	}
	return all
}

// excerpt returns a line, or the part of it around column, and a line with a caret below.
func excerpt(text string, column int) string {
	if utf8.RuneCountInString(text) > maxExcerpt {
		for range column - 1 - maxExcerpt/2 { // characters before the excerpt
			_, n := utf8.DecodeRuneInString(text)
			text, column = text[n:], column-1
		}
	}
	shown := []rune(text[:min(len(text), maxExcerpt*utf8.UTFMax)])
	for i, c := range shown {
		if !unicode.IsGraphic(c) { // a tab, or a character that controls a terminal
			shown[i] = ' '
		}
	}
	shown = shown[:min(len(shown), maxExcerpt)]
	return strings.TrimRight(string(shown), " ") + "\n" + strings.Repeat(" ", column-1) + "^"
}

// Shorten returns text without its middle if it is long.
func Shorten(text string) string {
	if len(text) <= MaxReason {
		return text
	}
	const part = MaxReason/2 - len(" ... ")
	return strings.ToValidUTF8(text[:part]+" ... "+text[len(text)-part:], "")
}
