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
			return shown
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

// shown returns key with escapes as in Go, such as \n and \\, for the characters that could change a line or a
// terminal.
func shown(key string) string {
	quoted := strconv.Quote(key)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
