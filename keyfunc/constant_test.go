package keyfunc_test

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/keyfunc"
)

func TestConstant(t *testing.T) {
	all := keyfunc.Constant("all")
	for _, addr := range []string{"192.0.2.1:1", "[2001:db8::1]:2", "@"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = addr
		if key, err := all(context.Background(), r); err != nil || key != "constant:all" {
			t.Errorf("%s: %q, %v", addr, key, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("Constant of nothing did not panic")
		}
	}()
	keyfunc.Constant("")
}
