package adapter

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/felixge/httpsnoop"
)

// Watch returns a ResponseWriter for the handler, which reports the status of the response to o. It
// has the same optional methods as w, and [http.ResponseController] can unwrap it. If no status is
// needed, Watch returns w.
func (o *Outcome) Watch(w http.ResponseWriter) http.ResponseWriter {
	if !o.NeedsStatus() {
		return w
	}
	// Without a WriteHeader, net/http sends the status 200 at the first byte or flush.
	return httpsnoop.Wrap(w, httpsnoop.Hooks{
		WriteHeader: func(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(status int) { o.Answer(status); next(status) }
		},
		Write: func(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
			return func(b []byte) (int, error) { o.Answer(http.StatusOK); return next(b) }
		},
		WriteString: func(next httpsnoop.WriteStringFunc) httpsnoop.WriteStringFunc {
			return func(s string) (int, error) { o.Answer(http.StatusOK); return next(s) }
		},
		ReadFrom: func(next httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(src io.Reader) (int64, error) {
				n, err := next(src)
				if n > 0 { // an empty source sends nothing
					o.Answer(http.StatusOK)
				}
				return n, err
			}
		},
		Flush: func(next httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() { o.Answer(http.StatusOK); next() }
		},
		FlushError: func(next httpsnoop.FlushErrorFunc) httpsnoop.FlushErrorFunc {
			return func() error { o.Answer(http.StatusOK); return next() }
		},
		Hijack: func(next httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, rw, err := next()
				if err == nil {
					o.Answer(http.StatusSwitchingProtocols)
				}
				return conn, rw, err
			}
		},
	})
}
