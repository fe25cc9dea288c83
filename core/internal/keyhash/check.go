package keyhash

import (
	"bytes"
	"fmt"
	"strings"
)

// CheckPrefix panics if Redis keys cannot begin with prefix. The text of the panic begins with
// caller, the name of an option.
func CheckPrefix(caller, prefix string) {
	switch {
	case len(prefix) > maxPrefix:
		panic(caller + ": longer than 32 bytes")
	case strings.ContainsAny(prefix, "{}"): // a brace would determine the hash slot
		panic(caller + ": contains a brace")
	}
}

// Prefix returns the prefix of all keys of an application: beginning, with a colon unless it ends with one or is empty, the
// name of the application and a colon. It panics, like CheckPrefix, if the name is invalid, or the prefix too long.
func Prefix(caller, beginning, app string) string {
	if beginning != "" && !strings.HasSuffix(beginning, ":") {
		beginning += ":" // or "a" and "bc" would be "ab" and "c"
	}
	prefix := beginning + app + ":"
	switch {
	case app == "" || strings.ContainsFunc(app, func(c rune) bool { return !strings.ContainsRune(nameChars, c) }):
		panic(fmt.Sprintf("%s: the name of the application is %q: it has letters, digits, '-', '_' and '.', at least one", caller, app))
	case len(prefix) > maxPrefix:
		panic(fmt.Sprintf("%s: %q and the name of the application, %q, are longer than %d bytes", caller, beginning, app, maxPrefix-1))
	}
	return prefix
}

const (
	maxPrefix = 32 // keys have at most 128 bytes
	nameChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
)

// CopySecret returns a copy of secret, which an application may change later. It panics, like
// CheckPrefix, if secret is short enough to be guessed.
func CopySecret(caller string, secret []byte) []byte {
	if len(secret) < 16 {
		panic(caller + ": shorter than 16 bytes")
	}
	return bytes.Clone(secret)
}
