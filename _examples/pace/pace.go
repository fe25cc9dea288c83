// Package pace limits the bytes a second of a user, in all uploads, downloads and processes together.
//
//	go -C _examples test ./pace
//
// The limit is core.TokenBucket("bytes", core.PerSecond(1_000_000)).Unit("bytes"). An upload is io.Copy(p, body), where p
// writes to a file and body is an http.MaxBytesReader; a download is io.Copy(p, file), where p writes to the
// http.ResponseWriter. TCP slows down a client that sends faster.
package pace

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/weir-go/weir/core"
)

// block is the number of bytes that are taken at once, so that many small writes need one call of the store. A burst
// below it ends each transfer with core.ErrNeverAdmitted.
const block = 64 << 10

// longest replaces the timeouts of the server, which would end slow transfers.
const longest = time.Hour

// A Writer writes to an io.Writer when the limit admits it. The rest of its last block stays charged.
// core.Limiter.Credit frees it.
type Writer struct {
	to   io.Writer
	take func() error // takes a block from the limit
	left int          // of the block
}

// New returns a Writer for a transfer of the request r, which charges key. During an outage of the store, transfers are
// not limited.
func New(w http.ResponseWriter, r *http.Request, to io.Writer, bytes *core.Limiter, key string) (*Writer, error) {
	take := func() error {
		err := bytes.WaitN(r.Context(), key, block)
		if errors.Is(err, core.ErrUnavailable) && !errors.Is(err, core.ErrFailClosed) { // an outage: admit
			return nil
		}
		return err // the client has gone, or a fault of the program
	}
	end, client := time.Now().Add(longest), http.NewResponseController(w)
	return &Writer{to: to, take: take}, errors.Join(client.SetReadDeadline(end), client.SetWriteDeadline(end))
}

// Left returns the number of bytes of the last block that were not written.
func (p *Writer) Left() int { return p.left }

// Write implements io.Writer. Flush the response after small writes: net/http holds up to 4 KB back while Write waits.
func (p *Writer) Write(b []byte) (written int, err error) {
	for n := 0; err == nil && written < len(b); written += n {
		if p.left == 0 {
			if err := p.take(); err != nil {
				return written, err
			}
			p.left = block
		}
		n, err = p.to.Write(b[written:min(len(b), written+p.left)])
		p.left -= n
	}
	return written, err
}
