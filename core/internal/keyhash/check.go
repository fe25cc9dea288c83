package keyhash

import (
	"bytes"
	"strings"
)

// CheckPrefix panics if Redis keys cannot begin with prefix. The text of the panic begins with
// caller, the name of an option.
func CheckPrefix(caller, prefix string) {
	switch {
	case len(prefix) > 32: // keys have at most 128 bytes
		panic(caller + ": longer than 32 bytes")
	case strings.ContainsAny(prefix, "{}"): // a brace would determine the hash slot
		panic(caller + ": contains a brace")
	}
}

// CopySecret returns a copy of secret, which an application may change later. It panics, like
// CheckPrefix, if secret is short enough to be guessed.
func CopySecret(caller string, secret []byte) []byte {
	if len(secret) < 16 {
		panic(caller + ": shorter than 16 bytes")
	}
	return bytes.Clone(secret)
}
