package sim

import (
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A conn is a connection, seen from its client. A packet is a timer, so the server has no goroutine.
type conn struct {
	l  *link
	id string

	mu       sync.Mutex
	in       []byte   // that the client has not read
	under    []string // packets under way to the server; timers of one moment may run in any order
	request  []byte   // that the server has read of an incomplete command
	session  session
	err      error // after in
	closed   bool
	dead     bool // every packet is lost, and neither side learns it
	sent     int
	outAt    time.Time // when the last packet arrived, in each direction
	backAt   time.Time
	deadline time.Time
	wake     chan struct{}
}

func (c *conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	if c.err != nil {
		return 0, c.err
	}
	c.sent++
	if c.breaks(out) {
		return len(b), nil
	}
	at, arrives := c.l.arrival(c, out, &c.outAt)
	if !arrives || c.dead {
		c.dead = true // a packet that follows a lost one does not arrive either
		return len(b), nil
	}
	c.under = append(c.under, string(b))
	time.AfterFunc(time.Until(at), func() { c.l.server.receive(c) })
	return len(b), nil
}

// breaks reports whether a flaky connection ends with this packet. It is called with mu.
func (c *conn) breaks(dir way) bool {
	c.l.mu.Lock()
	ends := time.Now().Before(c.l.flaky) && c.l.w.rand(10, "flaky", string(dir), c.id, c.sent) == 0
	c.l.mu.Unlock()
	if ends && c.err == nil {
		c.err = errReset
		c.signal()
	}
	return ends
}

// reply sends text to the client.
func (c *conn) reply(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.breaks(back) {
		return
	}
	at, arrives := c.l.arrival(c, back, &c.backAt)
	if !arrives || c.dead {
		c.dead = true
		return
	}
	time.AfterFunc(time.Until(at), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.err == nil && !c.closed && !c.dead {
			c.in = append(c.in, text...)
			c.signal()
		}
	})
}

// reset ends the connection, and the client sees it. A packet under way may still arrive at the server.
func (c *conn) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = errReset
		c.signal()
	}
}

// die ends the connection, and neither side sees it.
func (c *conn) die() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
}

func (c *conn) Read(b []byte) (int, error) {
	for {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return 0, net.ErrClosed
		}
		if len(c.in) > 0 {
			n := copy(b, c.in)
			c.in = c.in[n:]
			c.mu.Unlock()
			return n, nil
		}
		if c.err != nil {
			c.mu.Unlock()
			return 0, c.err
		}
		deadline := c.deadline
		c.mu.Unlock()
		if deadline.IsZero() {
			<-c.wake
			continue
		}
		left := time.Until(deadline)
		if left <= 0 {
			return 0, os.ErrDeadlineExceeded
		}
		timer := time.NewTimer(left)
		select {
		case <-c.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.signal()
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	delete(c.l.conns, c)
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return addr("client") }
func (c *conn) RemoteAddr() net.Addr { return addr(c.l.server.addr) }

func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	c.signal() // a Read under way has to see it
	return nil
}
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

type addr string

func (addr) Network() string  { return "sim" }
func (a addr) String() string { return string(a) }

// SyscallConn returns the socket that has the state of c.
func (c *conn) SyscallConn() (syscall.RawConn, error) { return rawConn{c}, nil }

type rawConn struct{ c *conn }

func (r rawConn) Read(f func(fd uintptr) bool) error {
	r.c.mu.Lock()
	ended := r.c.err != nil
	r.c.mu.Unlock()
	fd := sockets()[0]
	if ended {
		fd = sockets()[1]
	}
	f(uintptr(fd))
	return nil
}
func (rawConn) Write(func(uintptr) bool) error { return nil }
func (rawConn) Control(func(uintptr)) error    { return nil }
