package keyfunc

import (
	"context"
	"net/http"
)

// Constant is one key for all requests: a limit for the whole system. It is
// never the key of a user or an address. Constant panics if name is empty.
func Constant(name string) Func {
	if name == "" {
		panic("keyfunc: Constant: the name is empty")
	}
	key := "constant:" + name
	return func(context.Context, *http.Request) (string, error) { return key, nil }
}
