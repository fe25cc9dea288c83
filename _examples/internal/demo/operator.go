package demo

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"os"
)

// Operator reports whether r has the password in the environment variable PASSWORD, with any
// user. Without that variable, no request has it. Your program uses its own authentication instead.
func Operator(r *http.Request) bool {
	want := os.Getenv("PASSWORD")
	_, password, _ := r.BasicAuth()
	a, b := sha256.Sum256([]byte(password)), sha256.Sum256([]byte(want))
	return want != "" && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
