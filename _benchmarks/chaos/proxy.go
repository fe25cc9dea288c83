package main

import (
	"net"
	"sync"
	"time"
)

// A proxy is a network in front of a server, which misbehaves on demand. It is safe
// for concurrent use.
type proxy struct {
	port     int
	upstream string

	mu       sync.Mutex
	listener net.Listener // nil while nobody listens
	links    map[*link]bool
	delay    time.Duration
	drops    bool
	wg       sync.WaitGroup
}

// newProxy finds a port, on which nobody listens yet.
func newProxy(upstream string) (*proxy, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	return &proxy{port: port, upstream: upstream, links: make(map[*link]bool)}, nil
}

// up begins to listen. What down has closed stays closed.
func (p *proxy) up() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", loopback(p.port))
	if err != nil {
		return err
	}
	p.listener = l
	p.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(conn) })
		}
	})
	return nil
}

// down has connections refused, as where no process listens, and closes those that
// are open.
func (p *proxy) down() {
	p.mu.Lock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	p.mu.Unlock()
	p.cut()
}

// cut closes every open connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.links {
		k.close()
	}
}

// slow holds every reply for d.
func (p *proxy) slow(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// drop loses every byte, or no more. A connection that has lost some stays silent
// for good, as with a firewall that has forgotten it: nobody tells the client.
func (p *proxy) drop(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drops = on
}

// close ends the proxy and waits for its goroutines.
func (p *proxy) close() {
	p.down()
	p.wg.Wait()
}

// A link is one connection through a proxy.
type link struct {
	client, server net.Conn
	lost           bool // guarded by the mutex of the proxy
}

func (k *link) close() {
	k.client.Close()
	k.server.Close()
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.upstream, time.Second)
	if err != nil {
		client.Close()
		return
	}
	k := &link{client: client, server: server}
	p.mu.Lock()
	open := p.listener != nil
	if open {
		p.links[k] = true
	}
	p.mu.Unlock()
	if open {
		var wg sync.WaitGroup
		wg.Go(func() { p.carry(k, server, client, func() time.Duration { return 0 }) })
		wg.Go(func() { p.carry(k, client, server, p.hold) })
		wg.Wait()
	}
	k.close()
	p.mu.Lock()
	delete(p.links, k)
	p.mu.Unlock()
}

func (p *proxy) hold() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}

// A parcel is bytes and when they are due.
type parcel struct {
	data []byte
	due  time.Time
}

// carry takes bytes from src to dst, each of them after as long as hold says when they
// come, until one of the two is closed.
func (p *proxy) carry(k *link, dst, src net.Conn, hold func() time.Duration) {
	parcels := make(chan parcel, 1024)
	var wg sync.WaitGroup
	wg.Go(func() {
		for c := range parcels {
			time.Sleep(time.Until(c.due)) // nothing to wait for but time
			if _, err := dst.Write(c.data); err != nil {
				k.close()
			}
		}
	})
	for {
		buf := make([]byte, 4096)
		n, err := src.Read(buf)
		if n > 0 && !p.loses(k) {
			parcels <- parcel{buf[:n], time.Now().Add(hold())}
		}
		if err != nil {
			break
		}
	}
	close(parcels)
	wg.Wait() // what was said before the end is still delivered
	k.close()
}

// loses says whether what comes on k now is lost.
func (p *proxy) loses(k *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	k.lost = k.lost || p.drops
	return k.lost
}
