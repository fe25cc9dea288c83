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

	lost    bool        // guarded by p.mu: Drop has lost bytes, so all later bytes are lost
	muted   bool        // guarded by p.mu: DropReplies has lost a reply, so all later replies are lost
	closing *time.Timer // guarded by p.mu
}

// A reply holds bytes from the server and the time of their delivery.
type reply struct {
	data []byte
	due  time.Time
}

// close closes both sides, which ends the goroutines.
func (k *link) close() {
	k.once.Do(func() {
		close(k.ended)
		_ = k.client.Close()
		_ = k.server.Close()
	})
}

func (k *link) forward() {
	defer k.close()
	buf := make([]byte, 32<<10)
	var seen []byte // ends with the last bytes read: a mark may span two reads
	for {
		n, err := k.client.Read(buf)
		if n > 0 {
			seen = append(seen, buf[:n]...)
			if k.passes(seen, n) { // before the server can reply
				if _, err := k.server.Write(buf[:n]); err != nil {
					return
				}
			}
			seen = bytes.Clone(seen[max(0, len(seen)-maxMark):])
		}
		if err != nil {
			return
		}
	}
}

// passes reports whether the last n bytes of seen are forwarded to the server. If these bytes
// complete a command whose replies are dropped, passes mutes the link.
func (k *link) passes(seen []byte, n int) bool {
	k.p.mu.Lock()
	defer k.p.mu.Unlock()
	for _, m := range k.p.fault.marks {
		if m.in(seen, n) {
			k.mute()
		}
	}
	k.lost = k.lost || k.p.fault.drop
	return !k.lost
}

// collect reads replies from the server and applies the fault to each reply when it arrives.
// Replies that the server sent before it closed the connection are delivered.
func (k *link) collect() {
	defer close(k.replies)
	buf := make([]byte, 32<<10)
	for {
		n, err := k.server.Read(buf)
		if n > 0 {
			if due, ok := k.due(); ok {
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

// due returns the time at which a reply that arrives now is delivered, and false if it is lost.
func (k *link) due() (due time.Time, ok bool) {
	k.p.mu.Lock()
	defer k.p.mu.Unlock()
	if k.p.fault.dropReplies && len(k.p.fault.marks) == 0 {
		k.mute()
	}
	k.lost = k.lost || k.p.fault.drop
	return time.Now().Add(k.p.fault.delay), !k.lost && !k.muted
}

// mute makes the link lose all replies from now on. The caller must hold p.mu.
func (k *link) mute() {
	if k.muted {
		return
	}
	k.muted = true
	if after := k.p.fault.closeAfter; after > 0 {
		k.closing = time.AfterFunc(after, k.close)
	}
}

// deliver writes replies to the client when they are due.
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

// A mark is the encoding of a command's name in a request, in lower case.
type mark []byte

// maxMark is more than the length of any mark.
const maxMark = 64

func commandMark(name string) mark {
	return mark(fmt.Sprintf("$%d\r\n%s\r\n", len(name), strings.ToLower(name)))
}

// in reports whether the mark ends within the last n bytes of seen. An argument that equals the
// name counts as the command.
func (m mark) in(seen []byte, n int) bool {
	from := max(0, len(seen)-n-len(m)+1)
	return bytes.Contains(bytes.ToLower(seen[from:]), m)
}
