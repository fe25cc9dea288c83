package redistest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// A Proxy is a loopback TCP proxy in front of a server, a network that
// misbehaves on demand. It begins by passing everything on; the methods that
// change that take effect at once, on open connections and on new ones, each
// ending what the one before had asked for. It is safe for concurrent use.
type Proxy struct {
	// Addr is where clients connect.
	Addr string

	upstream string
	l        *listener

	mu    sync.Mutex // guards the rest, and the lost flag of every link
	mode  mode
	links map[*link]bool
}

// A mode is what happens to connections now. The zero mode passes them on.
type mode struct {
	refuse  bool
	delay   time.Duration
	swallow bool
	close   time.Duration // after the first lost reply; 0 is never
	marks   []mark        // swallow only behind one of these; none is always
}

// DropReplies starts a Proxy in front of addr. It ends with the test.
func DropReplies(t testing.TB, addr string) *Proxy {
	t.Helper()
	p := &Proxy{upstream: addr, links: map[*link]bool{}}
	p.l = listen(t, p.serve)
	p.Addr = p.l.addr()
	return p
}

// Pass lets everything through.
func (p *Proxy) Pass() { p.set(mode{}) }

// Delay lets everything through and holds every reply for d, without holding up
// the replies behind it any longer: latency, not bandwidth.
func (p *Proxy) Delay(d time.Duration) { p.set(mode{delay: d}) }

// Swallow lets requests through to the server and loses the replies. With
// commands given, a connection loses its replies from the first request on that
// names one of them ("evalsha"), so that new connections get through their
// greetings and a client that tries again does reach the server.
//
// A connection that has lost a reply never delivers another one, as with TCP. It
// is closed closeAfter later, or with 0 left hanging until the client gives up;
// the next change of mode closes it in any case.
func (p *Proxy) Swallow(closeAfter time.Duration, commands ...string) {
	m := mode{swallow: true, close: closeAfter}
	for _, name := range commands {
		m.marks = append(m.marks, commandMark(name))
	}
	p.set(m)
}

// Refuse closes every open connection, and every new one as soon as it is
// accepted.
func (p *Proxy) Refuse() {
	p.set(mode{refuse: true})
	p.Cut()
}

// Cut closes every open connection, once, and leaves the mode as it is.
func (p *Proxy) Cut() { p.l.cut() }

// Conns is the number of connections accepted so far.
func (p *Proxy) Conns() int { return p.l.accepted() }

func (p *Proxy) set(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
	for k := range p.links {
		if k.lost {
			k.close()
		}
	}
}

// serve carries one connection until either side closes it.
func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	refuse := p.mode.refuse
	p.mu.Unlock()
	if refuse {
		return
	}
	server, err := net.DialTimeout("tcp", p.upstream, startTimeout)
	if err != nil {
		return // the client sees what it would see without a proxy, a little later
	}
	k := &link{p: p, client: client, server: server, replies: make(chan reply, 1024), ended: make(chan struct{})}
	p.mu.Lock()
	p.links[k] = true
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
