package ginlimit

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/keyfunc"
)

// ClientIP returns a key function that derives the key from c.ClientIP(), Gin's own address of the
// client. By default Gin believes the X-Forwarded-For of every peer, so a client can choose its own
// key: the first request of such an engine logs a warning through [slog.Default]. Use ClientIP only
// with Engine.SetTrustedProxies, and [keyfunc.XForwardedFor] otherwise.
//
// An address becomes a key as in [keyfunc.RemoteIP], with the same options. The error is
// [keyfunc.ErrNoKey] if there is no address, or if Gin does not serve the request.
func ClientIP(opts ...keyfunc.IPOption) keyfunc.Func {
	_, _ = keyfunc.CanonicalIP("192.0.2.1", opts...) // panics on a nil option before the first request
	var first sync.Once
	return func(ctx context.Context, _ *http.Request) (string, error) {
		c, ok := ctx.Value(gin.ContextKey).(*gin.Context)
		if !ok {
			return "", fmt.Errorf("%w: not a request of Gin", keyfunc.ErrNoKey)
		}
		first.Do(func() {
			if trustsEverybody(c) {
				slog.Warn("weir: ginlimit.ClientIP: the engine trusts the X-Forwarded-For of every peer, so clients can choose their keys; " +
					"call Engine.SetTrustedProxies with the addresses of your proxies, or nil")
			}
		})
		return keyfunc.CanonicalIP(c.ClientIP(), opts...)
	}
}

// trustsEverybody reports whether the engine of c takes the address of any client from a header.
func trustsEverybody(c *gin.Context) bool {
	const forged = "192.0.2.1" // RFC 5737
	c = c.Copy()
	for _, peer := range []string{"0.0.0.0:1", "[::]:1"} { // for Gin, the range of all addresses has these
		c.Request = &http.Request{RemoteAddr: peer, Header: http.Header{"X-Forwarded-For": {forged}, "X-Real-Ip": {forged}}}
		if c.ClientIP() == forged {
			return true
		}
	}
	return false
}
