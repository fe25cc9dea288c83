package redistest

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// A Proxy is a loopback TCP proxy that simulates network faults in front of a server. A new Proxy
// forwards everything. Each call of Pass, Delay, Drop or DropReplies replaces the present fault, on
// open and on new connections. A Proxy is safe for concurrent use.
type Proxy struct {
	// Addr is the host:port where the proxy listens.
	Addr string

	server string // the address of the server
	port   int
	wg     sync.WaitGroup

	mu       sync.Mutex   // guards the fields below, and lost, muted and closing of every link
	listener net.Listener // nil while connections are refused
	closed   bool
	fault    fault
	links    map[*link]bool
	count    int
}

// A fault describes the treatment of bytes on all connections. The zero fault forwards all bytes.
type fault struct {
	delay       time.Duration
	drop        bool
	dropReplies bool
	closeAfter  time.Duration // after the first lost reply; 0 means never
	marks       []mark        // dropReplies applies after one of these commands; if empty, always
}

// StartProxy starts a Proxy in front of the server at addr. The caller must close the Proxy. Tests
// should use [NewProxy].
func StartProxy(addr string) (*Proxy, error) {
	const tries = 10
	var err error
	for range tries {
		p := &Proxy{server: addr, links: make(map[*link]bool)}
		if p.port, err = reservePort(); err != nil {
			break
		}
		p.Addr = loopback(p.port)
		if err = p.Listen(); err == nil {
			return p, nil
		}
		releasePort(p.port)
	}
	return nil, fmt.Errorf("redistest: StartProxy: %w", err)
}

// Pass makes the proxy forward everything.
func (p *Proxy) Pass() { p.set(fault{}) }

// Delay makes the proxy forward everything, and deliver every reply d after its arrival. The delays
// of replies overlap: Delay simulates latency, not bandwidth.
func (p *Proxy) Delay(d time.Duration) { p.set(fault{delay: d}) }

// Drop makes the proxy discard all bytes in both directions. A connection that has lost bytes never
// delivers bytes again, as behind a firewall that has forgotten the connection.
func (p *Proxy) Drop() { p.set(fault{drop: true}) }

// Forget makes the open connections discard all bytes for ever, without closing them, as a firewall or a NAT does with
// connections that were idle for too long. New connections are not affected.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.links {
		k.lost = true
	}
}

// DropReplies makes the proxy forward requests and discard replies. If commands are given
// ("evalsha"), a connection discards replies from the first request on that names one of the
// commands, so that clients can set up new connections and retry.
//
// A connection that has lost a reply delivers no later reply, as with TCP. The proxy closes the
// connection at the next change of the fault or, if closeAfter is not 0, after closeAfter at the
// latest.
func (p *Proxy) DropReplies(closeAfter time.Duration, commands ...string) {
	f := fault{dropReplies: true, closeAfter: closeAfter}
	for _, name := range commands {
		f.marks = append(f.marks, commandMark(name))
	}
	p.set(f)
}

func (p *Proxy) set(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	for k := range p.links {
		if k.muted {
			k.close()
		}
	}
}

// Refuse closes every open connection and refuses new connections until Listen is called, as if no
// process listened.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	p.mu.Unlock()
	p.Cut()
}

// Listen accepts connections again after Refuse. It returns an error if another process has taken
// the port, or if the proxy is closed.
func (p *Proxy) Listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("redistest: Listen: the proxy is closed")
	}
	if p.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", p.Addr)
	if err != nil {
		return fmt.Errorf("redistest: Listen: %w", err)
	}
	p.listener = l
	p.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed by Refuse
			}
			p.wg.Go(func() { p.serve(l, conn) })
		}
	})
	return nil
}

// Cut closes every open connection.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.links {
		k.close()
	}
}

// Conns returns the number of connections that the proxy has accepted.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// Close ends the proxy and closes its connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Refuse()
	p.wg.Wait()
	releasePort(p.port)
}

// serve forwards the bytes of a connection that l has accepted, until either side closes it.
func (p *Proxy) serve(l net.Listener, client net.Conn) {
	p.mu.Lock()
	p.count++
	p.mu.Unlock()
	server, err := net.DialTimeout("tcp", p.server, startTimeout)
	if err != nil {
		_ = client.Close()
		return
	}
	k := &link{p: p, client: client, server: server, replies: make(chan reply, 1024), ended: make(chan struct{})}
	p.mu.Lock()
	p.links[k] = true
	if p.listener != l { // refused while it was connecting
		k.close()
	}
	p.mu.Unlock()

	var wg sync.WaitGroup
	wg.Go(k.forward)
	wg.Go(k.collect)
	wg.Go(k.deliver)
	wg.Wait()

	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, k)
	if k.closing != nil {
		k.closing.Stop()
	}
}
