package main

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"os"
	"strconv"
	"strings"
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
