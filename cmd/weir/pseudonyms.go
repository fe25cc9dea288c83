package main

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// defineNames defines the flag -keys, and returns the function that returns the names of keys in reports:
// pseudonyms without the flag, because reports get into logs.
func defineNames(flags *flag.FlagSet) func() func(key string) string {
	plain := flags.Bool("keys", false, "print keys themselves, not hashes of them")
	return func() func(key string) string {
		if *plain {
			return escaped
		}
		secret := []byte(os.Getenv("WEIR_KEY_SECRET"))
		if len(secret) == 0 {
			secret = make([]byte, 32)
			_, _ = rand.Read(secret) // never fails
		}
		return func(key string) string {
			mac := hmac.New(sha256.New, secret)
			mac.Write([]byte(key))
			return "#" + hex.EncodeToString(mac.Sum(nil)[:6])
		}
	}
}

// escaped returns text with escapes in place of all characters that are not printable, for a cell of a table.
func escaped(text string) string {
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// printable returns text with escapes, such as \x1b or \u202e, in place of bytes that are not UTF-8 and of characters
// that control a terminal or the direction of text. Tabs and ends of lines are escaped unless text consists of lines.
// From U+007F on, the escapes are those of JSON. Package encoding/json escapes all characters and bytes below itself.
func printable(text string, lines bool) string {
	var b strings.Builder
	for len(text) > 0 {
		c, n := utf8.DecodeRuneInString(text)
		switch {
		case lines && (c == '\n' || c == '\t' || strings.HasPrefix(text, "\r\n")):
			b.WriteRune(c)
		case c < ' ' || c == utf8.RuneError && n == 1:
			quoted := strconv.Quote(text[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		case unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp):
			for _, unit := range utf16.AppendRune(nil, c) {
				fmt.Fprintf(&b, "\\u%04x", unit)
			}
		default:
			b.WriteString(text[:n])
		}
		text = text[n:]
	}
	return b.String()
}
