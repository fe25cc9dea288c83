// Package document reads and writes documents in YAML or JSON. A [Decoder] reports all errors of a document, each with
// its position, and not only the first one; [Value] and [Pair] are its parts. A [Mapping] is a part to write.
//
// It knows nothing about limits.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// These limits bound the resources for a file of 16 MiB: 600 MB of memory, and 3 s on two cores.
const (
	MaxParts  = 1 << 20 // see cost
	maxLevels = 32      // of mappings and lists; configurations have 7
)

// cost has the largest number of nodes, or pairs of tokens, of package yaml that a character can
// make. Package yaml keeps all tokens of a list or mapping that could be a key, and has no bound for
// their number. Mappings and lists count in CheckDepth. A comment takes as much memory as two nodes.
var cost = [256]uint8{
	',': 2, ':': 2, '?': 1, '\n': 1, '\r': 1, '\x85': 1, '\xa8': 1, '\xa9': 1, '#': 2, '!': 1, '&': 1, '*': 1, '"': 1, '\'': 1, ']': 1, '}': 1,
}

// Parse decodes a document of at most size bytes. name is that of its file. After an error, the result is the zero
// value.
func Parse[T any](name string, data []byte, size int, decode func(*Decoder, Value) T) (decoded T, errs []Error) {
	d := Decoder{file: name}
	if len(data) > size {
		d.report(1, 1, "", fmt.Sprintf("is larger than %d KiB", size>>10))
		return decoded, d.Sorted(d.Errors)
	}
	data = withoutSurrogates(bytes.TrimPrefix(data, []byte("\ufeff")))
	d.data = string(data)
	if !utf8.Valid(data) {
		line, column := d.position(strings.IndexRune(d.data, utf8.RuneError))
		d.report(line, column, "", "is not UTF-8")
		return decoded, d.Sorted(d.Errors)
	}
	all := only(&d, decode)
	if len(d.Errors) > 0 {
		return decoded, d.Sorted(d.Errors)
	}
	return all, nil
}

// surrogates matches a character outside the Basic Multilingual Plane in a string of JSON, and
// escaped backslashes, which may be followed by other text that looks like one.
var surrogates = regexp.MustCompile(`\\\\|\\u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}`)

// withoutSurrogates returns data, if it is JSON, with other escapes for surrogate pairs, which YAML
// does not have.
func withoutSurrogates(data []byte) []byte {
	if !bytes.Contains(data, []byte(`\u`)) || !json.Valid(data) {
		return data
	}
	return surrogates.ReplaceAllFunc(data, func(pair []byte) []byte {
		var text string
		if len(pair) == 2 || json.Unmarshal(fmt.Appendf(nil, `"%s"`, pair), &text) != nil {
			return pair
		}
		c, _ := utf8.DecodeRuneInString(text)
		return fmt.Appendf(nil, `\U%08x`, c)
	})
}

// only decodes the only document of a text. A text without one is an empty mapping.
func only[T any](d *Decoder, decode func(*Decoder, Value) T) (decoded T) {
	in := &limits{Reader: *strings.NewReader(d.data)}
	l, err := yaml.NewLoader(in, yaml.WithPlugin(in))
	var first, second yaml.Node
	if err == nil {
		err = load(l, &first)
	}
	root := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1, Column: 1}
	switch {
	case err == nil:
		root = first.Content[0]
	case err != io.EOF:
		d.syntax(err)
		return decoded
	}
	decoded = decode(d, Value{Node: root})
	switch err := load(l, &second); {
	case err == nil:
		d.report(second.Line, second.Column, "", "a second document begins here: there can be only one")
	case err != io.EOF:
		d.syntax(err)
	}
	return decoded
}

// load loads the next document. Package yaml panics if it finds an error of its own, which must not
// end a program that reads a new file.
func load(l *yaml.Loader, n *yaml.Node) (err error) {
	defer func() {
		if e := recover(); e != nil {
			err = fmt.Errorf("package yaml panics: %v", e)
		}
	}()
	return l.Load(n)
}

// syntax reports an error of package yaml.
func (d *Decoder) syntax(err error) {
	e := &yaml.LoadError{Message: err.Error()}
	errors.As(err, &e)
	line, column := e.Mark.Line, e.Mark.Column
	if line == 0 { // the error is about a character
		line, column = d.position(e.Mark.Index)
	}
	reason := strings.TrimPrefix(e.Message, "input error: ")
	if e.ContextMsg != "" {
		reason = e.ContextMsg + ": " + reason
	}
	d.report(line, max(1, column), "", reason)
}

// limits implements [io.Reader] and yaml.LoaderLimitsPlugin.
type limits struct {
	strings.Reader
	parts int // the sum of cost for the characters that were read, and of mappings and lists
}

// Read is called whenever the scanner of package yaml needs more of the text.
func (l *limits) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	for _, c := range p[:n] {
		l.parts += int(cost[c])
	}
	if l.parts > MaxParts {
		return 0, errTooManyParts
	}
	return n, err
}

// CheckDepth is called for every mapping and list.
func (l *limits) CheckDepth(depth int, _ *yaml.DepthContext) error {
	l.parts++
	switch {
	case depth > maxLevels:
		return fmt.Errorf("more than %d levels", maxLevels)
	case l.parts > MaxParts:
		return errTooManyParts
	}
	return nil
}

// CheckAlias returns nil because a decoder rejects every alias.
func (*limits) CheckAlias(_, _ int) error { return nil }

var errTooManyParts = errors.New("the file has too many keys, values and comments")
