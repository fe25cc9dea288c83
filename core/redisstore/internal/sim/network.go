package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A link is the network between a process and a server. Times are those until which a fault lasts.
type link struct {
	w       *world
	process int
	server  *server
	base    time.Duration // the shortest time of a packet

	mu       sync.Mutex
	stalled  time.Time // packets arrive afterwards: an interruption that TCP bridges
	dropsOut time.Time // requests are lost, and the connection with them
	dropsBk  time.Time // replies are lost, and the connection with them
	flaky    time.Time // one packet of ten ends its connection
	faint    time.Time // packets take up to slowness longer
	slowness time.Duration
	silent   time.Time // dials have no reply
	gone     bool      // the process has died
	conns    map[*conn]struct{}
	muted    time.Time // messages to subscribers are lost
	dials    int

	health // of the network and the process
}

// A health says since when nothing is wrong. It is guarded by the mutex of its owner.
type health struct{ badUntil time.Time }

// bad notes that something is wrong until a time.
func (h *health) bad(until time.Time) {
	if until.After(h.badUntil) {
		h.badUntil = until
	}
}

// healthySince returns since when nothing was wrong with the link and its server, which may be in the future.
func (l *link) healthySince() time.Time {
	l.mu.Lock()
	at := l.badUntil
	l.mu.Unlock()
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	if l.server.badUntil.After(at) {
		at = l.server.badUntil
	}
	return at
}

var errReset error = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

// attempts are the times at which a dial sends a packet, as TCP does. go-redis waits for 5 s.
var attempts = []time.Duration{0, time.Second, 3 * time.Second, 5 * time.Second}

func (l *link) dial(ctx context.Context) (net.Conn, error) {
	l.mu.Lock()
	l.dials++
	number := l.dials
	d := l.base
	if l.base > 0 {
		d += time.Duration(l.w.rand(int64(l.base), "dial", l.process, l.server.addr, number))
	}
	l.mu.Unlock()
	begun := time.Now()
	for _, at := range attempts {
		if !sleep(ctx, time.Until(begun.Add(at))) {
			return nil, ctx.Err()
		}
		l.mu.Lock()
		now := time.Now()
		lost := now.Before(l.silent) || now.Before(l.stalled) || l.gone
		l.mu.Unlock()
		if lost {
			continue
		}
		if !sleep(ctx, d) {
			return nil, ctx.Err()
		}
		if l.server.isDown() {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
		}
		c := &conn{l: l, id: fmt.Sprintf("p%d-n%d-%d", l.process, l.server.index, number), wake: make(chan struct{}, 1)}
		l.mu.Lock()
		l.conns[c] = struct{}{}
		l.mu.Unlock()
		return c, nil
	}
	return nil, fmt.Errorf("dial: %w", os.ErrDeadlineExceeded)
}

// sleep reports whether d has passed before ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// each calls f for all connections of l.
func (l *link) each(f func(*conn)) {
	l.mu.Lock()
	conns := make([]*conn, 0, len(l.conns))
	for c := range l.conns {
		conns = append(conns, c)
	}
	l.mu.Unlock()
	for _, c := range conns {
		f(c)
	}
}

// A way is the direction of a packet.
type way string

const (
	out  way = "out"
	back way = "back"
)

// arrival returns when a packet of c that is sent now arrives, or false if it is lost. last is the arrival of
// the packet before.
func (l *link) arrival(c *conn, dir way, last *time.Time) (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, until := time.Now(), l.dropsOut
	if dir == back {
		until = l.dropsBk
	}
	if now.Before(until) || l.gone {
		return now, false
	}
	jitter := l.w.rand(int64(l.base/4)+1, string(dir), c.id, c.sent)
	if l.base > 0 && l.w.rand(200, "slow", string(dir), c.id, c.sent) == 0 {
		jitter += l.w.rand(int64(20*time.Millisecond), "slowness", string(dir), c.id, c.sent)
	}
	if now.Before(l.faint) {
		jitter += l.w.rand(int64(l.slowness), "faint", string(dir), c.id, c.sent)
	}
	at := now.Add(l.base + time.Duration(jitter))
	if at.Before(l.stalled) {
		at = l.stalled.Add(time.Duration(jitter))
	}
	if !at.After(*last) && l.base > 0 {
		at = last.Add(time.Nanosecond) // packets stay in order
	}
	*last = at
	return at, true
}
