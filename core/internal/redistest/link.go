package redistest

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// A link is one connection through a Proxy.
type link struct {
	p              *Proxy
	client, server net.Conn
	replies        chan reply
	once           sync.Once
	ended          chan struct{}

	lost    bool        // guarded by p.mu: a reply is lost, so no other may follow
	closing *time.Timer // guarded by p.mu
}

// A reply is some bytes from the server and when they are due at the client.
type reply struct {
	data []byte
	due  time.Time
}

// close ends both sides, and with them the goroutines.
func (k *link) close() {
	k.once.Do(func() {
		close(k.ended)
		_ = k.client.Close()
		_ = k.server.Close()
	})
}

// forward carries requests to the server.
func (k *link) forward() {
	defer k.close()
	buf := make([]byte, 32<<10)
	var seen []byte // the end of what went before: a mark may span two reads
	for {
		n, err := k.client.Read(buf)
		if n > 0 {
			seen = append(seen, buf[:n]...)
			k.inspect(seen, n) // before the server can answer
			seen = bytes.Clone(seen[max(0, len(seen)-maxMark):])
			if _, err := k.server.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// inspect marks the link as lost if the last n bytes of seen complete a command
// whose replies are to be swallowed.
func (k *link) inspect(seen []byte, n int) {
	k.p.mu.Lock()
	defer k.p.mu.Unlock()
	for _, m := range k.p.mode.marks {
		if m.in(seen, n) {
			k.lose()
		}
	}
}

// collect reads replies from the server and decides about each as it comes. When
// the server has closed, what it said before is still delivered.
func (k *link) collect() {
	defer close(k.replies)
	buf := make([]byte, 32<<10)
	for {
		n, err := k.server.Read(buf)
		if n > 0 {
			if due, ok := k.judge(); ok {
				select {
				case k.replies <- reply{bytes.Clone(buf[:n]), due}:
				case <-k.ended:
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}

// judge says whether a reply that has just come is delivered, and when.
func (k *link) judge() (due time.Time, ok bool) {
	k.p.mu.Lock()
	defer k.p.mu.Unlock()
	if k.p.mode.swallow && len(k.p.mode.marks) == 0 {
		k.lose()
	}
	if k.lost {
		return time.Time{}, false
	}
	return time.Now().Add(k.p.mode.delay), true
}

// lose silences the link for good. The caller holds p.mu.
func (k *link) lose() {
	if k.lost {
		return
	}
	k.lost = true
	if after := k.p.mode.close; after > 0 {
		k.closing = time.AfterFunc(after, k.close)
	}
}

// deliver hands replies to the client when they are due.
func (k *link) deliver() {
	defer k.close()
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case r, ok := <-k.replies:
			if !ok {
				return
			}
			wait.Reset(time.Until(r.due))
			select {
			case <-wait.C:
			case <-k.ended:
				return
			}
			if _, err := k.client.Write(r.data); err != nil {
				return
			}
		case <-k.ended:
			return
		}
	}
}

// A mark is how a command's name looks on the wire, in lower case.
type mark []byte

// maxMark is more than the longest mark of any command has.
const maxMark = 64

func commandMark(name string) mark {
	return mark(fmt.Sprintf("$%d\r\n%s\r\n", len(name), strings.ToLower(name)))
}

// in reports whether the mark ends within the last n bytes of seen. An argument
// that equals the name counts as the command.
func (m mark) in(seen []byte, n int) bool {
	from := max(0, len(seen)-n-len(m)+1)
	return bytes.Contains(bytes.ToLower(seen[from:]), m)
}
