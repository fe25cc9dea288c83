package keyfunc

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"

	"github.com/weir-go/weir/internal/address"
)

// A proxyWarning logs once if a peer that is probably a proxy of the application is not trusted.
// All clients behind the peer then have one key.
type proxyWarning struct {
	caller string // the function that made the Func
	header string // the canonical name of its header, or ""
	logged atomic.Bool
}

// check logs a warning if peer, which is private or the zero Addr for a Unix socket, has sent a
// forwarding header. Other peers may be clients, which can send any header.
func (w *proxyWarning) check(r *http.Request, peer netip.Addr) {
	if !peer.IsValid() && !isUnixPeer(r) {
		return
	}
	field := w.field(r.Header)
	if field == "" || !w.logged.CompareAndSwap(false, true) {
		return
	}
	trusted, effect := "unix", "none of its clients has a key"
	if peer.IsValid() {
		trusted, effect = peer.String(), "all its clients have one key"
	}
	function := map[string]string{"X-Forwarded-For": "XForwardedFor(", "Forwarded": "Forwarded("}[field]
	if function == "" {
		function = fmt.Sprintf("HeaderIP(%q, ", field)
	}
	slog.Warn("weir: keyfunc."+w.caller+" ignores a forwarding header because its peer is no trusted proxy; if the peer is a proxy, "+effect,
		"field", field, "peer", trusted, "use", fmt.Sprintf("keyfunc.%skeyfunc.Proxies(%q))", function, trusted))
}

// field returns the name of a forwarding header in h, first that of the Func, or "".
func (w *proxyWarning) field(h http.Header) string {
	if w.header != "" && len(h[w.header]) > 0 {
		return w.header
	}
	return address.ForwardingField(h)
}
