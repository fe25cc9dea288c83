package trace

import (
	"bytes"
	"strings"
)

// The kinds of a word in place of a HOST.
const (
	anAddress   = "address"
	withAddress = "with an address" // and other text, such as a list of addresses
	aName       = "name"
)

// clientOf returns the HOST and the USER of the text before the time of a line. The HOST is the word before the first
// "-", which is the IDENT of nearly all lines. A PREFIX is a virtual host, or the words that a collector of logs puts
// before a line: after it, the HOST has to be an address. ok is false if another word can be the HOST.
func (p *textParser) clientOf(text []byte) (host, user []byte, ok bool) {
	if before, user, ok := bytes.Cut(text, []byte(" - ")); ok {
		begin := bytes.LastIndexByte(before, ' ') + 1
		if comma := bytes.Index(before, []byte(", ")); comma >= 0 {
			begin = bytes.LastIndexByte(before[:comma], ' ') + 1
		}
		host, first := before[begin:], begin == 0
		ambiguous := bytes.Contains(user, []byte(" - "))
		switch kind := p.kind(host); {
		case kind == withAddress, // which has no key
			kind == anAddress && (first || !ambiguous),
			kind == aName && first && !ambiguous && !hasAddress(string(user)):
			return host, user, true
		}
	}
	words := bytes.SplitN(text, []byte(" "), 5)
	if len(words) != 3 && len(words) != 4 {
		return nil, nil, false
	}
	switch second := p.kind(words[1]) == anAddress; {
	case second && len(words) == 4 && !bytes.HasSuffix(words[0], []byte(",")): // PREFIX HOST IDENT USER
		return words[1], words[3], true
	case !second && p.kind(words[0]) == anAddress:
		// With 4 words, either the IDENT is not the second word, or the USER has a space.
		return words[0], bytes.TrimPrefix(text[len(words[0])+len(words[1])+2:], []byte("- ")), true
	}
	return nil, nil, false
}

func (p *textParser) kind(word []byte) string { return intern(p.kinds, word, kindOf) }

func kindOf(word string) string {
	switch {
	case isAddress(word):
		return anAddress
	case hasAddress(word):
		return withAddress
	case isName(word):
		return aName
	}
	return ""
}

// isName reports whether word is the name of a host, "-" for no client, or "unix:", the name that nginx has for the
// client of a Unix socket. An address that is cut off or follows other characters is no name.
func isName(word string) bool {
	const digits, others = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
	last := word[strings.LastIndexByte(word, '.')+1:]
	number := last != word && last != "" && strings.Trim(last, digits) == ""
	return word == "unix:" || word != "" && !number && strings.Trim(word, digits+others+".") == ""
}
