package pgstore

import (
	"encoding/hex"
	"strconv"

	"github.com/weir-go/weir/core/casstore"
)

// A literal is the literal of an array. All drivers and the simple protocol send it as a text.
type literal []byte

// next adds the separator before the next element.
func (l literal) next() literal {
	if len(l) == 0 {
		return append(l, '{')
	}
	return append(l, ',')
}

func (l literal) id(k casstore.Key) literal { return append(l.next(), k.String()...) }

func (l literal) int(n int64) literal { return strconv.AppendInt(l.next(), n, 10) }

func (l literal) bytes(b []byte) literal {
	return append(hex.AppendEncode(append(l.next(), `"\\x`...), b), '"')
}

// text returns the literal of the whole array.
func (l literal) text() string {
	if len(l) == 0 {
		return "{}"
	}
	return string(l) + "}"
}

// ids returns the literal of keys.
func ids(keys []casstore.Key) string {
	var l literal
	for _, k := range keys {
		l = l.id(k)
	}
	return l.text()
}
