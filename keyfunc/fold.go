package keyfunc

import (
	"context"
	"net/http"
	"strconv"
	"strings"
)

var errBlank = &NoKeyError{Detail: "the value that identifies the client is blank"}

// Fold returns a Func with the keys of f, without white space around the value and in lower case
// (Unicode): " Alice" and "ALICE" have the key of "alice". Use it if the application looks up a user
// in the same way. Otherwise each spelling of a name would have its own limit.
//
//	user := keyfunc.Fold(keyfunc.FormValue("user"))
//
// Fold changes the text after the prefix of a key, and every part of the key of a [Join]. For the
// functions of this package, the prefix includes the name of the field and the iss of a token. The
// key of a [Constant] stays as it is. For the keys of other functions, the prefix ends with the
// first colon, if there is one. The error is a [NoKeyError] if the value is blank, and otherwise
// that of f.
//
// Fold panics if f is nil.
func Fold(f Func) Func {
	if f == nil {
		panic("keyfunc: Fold: the key function is nil")
	}
	return func(ctx context.Context, r *http.Request) (string, error) {
		key, err := call(ctx, f, r)
		if err != nil {
			return "", err
		}
		folded, ok := foldKey(key, 0)
		if !ok {
			if strings.HasPrefix(key, "body:") {
				return "", errBlank.about(readBody)
			}
			return "", errBlank
		}
		return folded, nil
	}
}

// maxJoins is the number of Joins in each other whose parts Fold changes. It bounds the time for a
// text of a client that looks like the key of a Join.
const maxJoins = 8

// foldKey returns key, which is a part of depth Joins, with a folded value. ok is false if the value
// is blank.
func foldKey(key string, depth int) (folded string, ok bool) {
	if strings.HasPrefix(key, "constant:") {
		return key, true
	}
	if parts, ok := splitJoin(key); ok && depth < maxJoins {
		joined := []byte("join:")
		filled := true
		for _, part := range parts {
			part, ok := foldKey(part, depth+1)
			joined, filled = appendPart(joined, part), filled && ok
		}
		return string(joined), filled
	}
	n := prefixLen(key)
	value := strings.ToLower(strings.TrimSpace(key[n:]))
	return key[:n] + value, value != ""
}

// splitJoin returns the parts of the key of a Join. ok is false for any other key.
func splitJoin(key string) (parts []string, ok bool) {
	rest, ok := strings.CutPrefix(key, "join:")
	for ok && rest != "" {
		digits, after, found := strings.Cut(rest, ":")
		n, err := strconv.Atoi(digits)
		if !found || err != nil || n < 0 || n > len(after) {
			return nil, false
		}
		parts, rest = append(parts, after[:n]), after[n:]
	}
	return parts, len(parts) > 0
}

// prefixLen returns the length of the prefix of a key, which Fold keeps.
func prefixLen(key string) int {
	word, rest, ok := strings.Cut(key, ":")
	if !ok {
		return 0
	}
	n := len(word) + 1
	switch word {
	case "header", "cookie", "path", "body":
		if name, _, ok := strings.Cut(rest, ":"); ok {
			n += len(name) + 1
		}
	default:
		digits, ok := strings.CutPrefix(word, "user@")
		length, err := strconv.Atoi(digits)
		if ok && err == nil && length >= 0 && length < len(rest) && rest[length] == ':' {
			n += length + 1
		}
	}
	return n
}
