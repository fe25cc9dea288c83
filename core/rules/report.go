package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxErrors  = 100 // of a file; others are not reported
	maxReason  = 500 // in bytes: names and limits in a file can have any length
	maxExcerpt = 100 // in characters
)

// A reporter collects the errors of a file.
type reporter struct {
	file     string
	data     string
	errors   Errors // without excerpts
	warnings Errors // the same, of a valid file
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

// report adds an error at a position.
func (r *reporter) report(line, column int, path, reason string) {
	if !r.full() {
		r.errors = append(r.errors, r.at(line, column, path, reason))
	}
}

// at returns an Error at a position, without its excerpt.
func (r *reporter) at(line, column int, path, reason string) Error {
	return Error{File: r.file, Line: line, Column: column, Path: shorten(path), Reason: shorten(reason)}
}

// full reports whether more errors would not be reported.
func (r *reporter) full() bool { return len(r.errors) >= maxErrors }

// position returns the line and column of a byte of the file.
func (r *reporter) position(index int) (line, column int) {
	text := r.data[:min(index, len(r.data))]
	for line = 1; ; line++ {
		_, rest, found := cutLine(text)
		if !found {
			return line, utf8.RuneCountInString(text) + 1
		}
		text = rest
	}
}

// err returns the errors with their excerpts, or nil if there are none.
func (r *reporter) err() error {
	if len(r.errors) == 0 {
		return nil
	}
	return r.sorted(r.errors)
}

// sorted returns all in the order of the file, with their excerpts.
func (r *reporter) sorted(all Errors) Errors {
	slices.SortStableFunc(all, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	text, rest, more, line := "", r.data, true, 0
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

// shorten returns text without its middle if it is long.
func shorten(text string) string {
	if len(text) <= maxReason {
		return text
	}
	const part = maxReason/2 - len(" ... ")
	return strings.ToValidUTF8(text[:part]+" ... "+text[len(text)-part:], "")
}

// nearest returns `; did you mean "b"?` for the element of names that is similar to name, or else
// list.
func nearest(name string, names []string, list string) string {
	const compared = 1000 // a file with many names and errors is not searched for long
	best, at := min(3, len(name)), ""
	for _, n := range names[:min(len(names), compared)] {
		if d := distance(name, n); d < best {
			best, at = d, n
		}
	}
	if at == "" {
		return list
	}
	return fmt.Sprintf("; did you mean %q?", at)
}

// distance returns the number of bytes to insert, remove or replace in a to get b (Levenshtein), or
// a large number if one of them is long.
func distance(a, b string) int {
	const long = 64
	if max(len(a), len(b)) > long {
		return long
	}
	var row [long + 1]int
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(row[j]+1, row[j+1]+1, replaced)
		}
	}
	return row[len(b)]
}
