package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A fault happens at a time.
type fault struct {
	at      time.Duration
	kind    string
	process int // -1: all
	server  int
	lasts   time.Duration
}

func (f fault) String() string {
	return fmt.Sprintf("%v %s p%d n%d %v", f.at.Round(time.Millisecond), f.kind, f.process, f.server, f.lasts.Round(time.Millisecond))
}

// schedule returns the faults of a scenario. There are none in the last 15 s.
func schedule(p scenario, seed uint64) (faults []fault) {
	if len(p.faults) == 0 {
		return nil
	}
	r := rand.New(rand.NewPCG(seed, 1))
	gap := func() time.Duration { return time.Duration(r.ExpFloat64() * float64(p.every)) }
	for at := gap(); at < p.length-15*time.Second; at += time.Second + gap() {
		f := fault{at: at, kind: p.faults[r.IntN(len(p.faults))], process: r.IntN(p.processes+1) - 1, server: r.IntN(p.servers)}
		f.lasts = time.Duration(float64(10*time.Millisecond) * float64(int(1)<<r.IntN(10)) * (1 + r.Float64())) // 10 ms to 10 s
		if p.lasts > 0 {
			f.lasts = p.lasts
		}
		switch f.kind {
		case "blip":
			f.lasts = 5 * time.Millisecond
		case "freezeLong", "crashLong":
			f.lasts = 3 * p.hold
		case "pause":
			f.lasts = 150*time.Millisecond + time.Duration(r.Int64N(int64(850*time.Millisecond)))
		case "reset", "die", "forget", "flush", "kill", "killFirst", "cut", "fade":
			f.lasts = 0
		}
		faults = append(faults, f)
	}
	return faults
}

// grace is the time after a fault in which calls under way may still fail.
const grace = 500 * time.Millisecond

// afflicted is a fault that happens now.
type afflicted struct {
	*simulation
	fault
	node       *server
	now, until time.Time
}

// happen makes a fault happen.
func (s *simulation) happen(f fault) {
	s.crowd.fault(f)
	a := &afflicted{s, f, s.servers[f.server], time.Now(), time.Now().Add(f.lasts)}
	kinds[f.kind](a)
}

// links changes the links of the processes to the server, which are not healthy until then.
func (a *afflicted) links(change func(l *link)) {
	for _, l := range a.affected() {
		l.mu.Lock()
		l.bad(a.until.Add(grace))
		change(l)
		l.mu.Unlock()
	}
}

func (a *afflicted) affected() (links []*link) {
	for _, p := range a.processes {
		if a.process < 0 || a.process == p.index {
			links = append(links, p.links[a.node.addr])
		}
	}
	return links
}

// server changes the server, which is not healthy until then.
func (a *afflicted) server(change func(s *server)) {
	a.node.mu.Lock()
	defer a.node.mu.Unlock()
	a.node.bad(a.until.Add(grace))
	change(a.node)
}

// later ends the fault of the server.
func (a *afflicted) later(change func(s *server)) {
	time.AfterFunc(a.lasts, func() {
		a.node.mu.Lock()
		defer a.node.mu.Unlock()
		change(a.node)
	})
}

func (a *afflicted) resetAll() {
	for _, p := range a.processes {
		p.links[a.node.addr].each((*conn).reset)
	}
}

func (a *afflicted) fails(text string) {
	a.server(func(s *server) { s.failure = text })
	a.later(func(s *server) { s.failure = "" })
}

func (a *afflicted) steps(d time.Duration) {
	a.server(func(s *server) { s.clock += d })
	a.lost(span{a.now, a.now.Add(a.lasts)})
	a.refunds.stepped(d)
}

// kinds has the faults by their names.
var kinds = map[string]func(a *afflicted){
	"reset": func(a *afflicted) {
		a.links(func(*link) {})
		for _, l := range a.affected() {
			l.each((*conn).reset)
		}
	},
	"flaky":    func(a *afflicted) { a.links(func(l *link) { l.flaky = a.until }) },
	"stall":    func(a *afflicted) { a.links(func(l *link) { l.stalled = a.until }) },
	"dropOut":  func(a *afflicted) { a.links(func(l *link) { l.dropsOut = a.until }) },
	"dropBack": func(a *afflicted) { a.links(func(l *link) { l.dropsBk = a.until }) },
	"partition": func(a *afflicted) {
		a.links(func(l *link) { l.dropsOut, l.dropsBk, l.silent = a.until, a.until, a.until })
	},
	// The connections of a process stall in both directions, to all servers.
	"stopped": func(a *afflicted) {
		for _, p := range a.processes {
			if a.process < 0 || a.process == p.index {
				for _, l := range p.links {
					l.mu.Lock()
					l.bad(a.until.Add(grace))
					l.stalled = a.until
					l.mu.Unlock()
				}
			}
		}
	},
	// Packets get slower, and then the network is gone for longer than the hold: places lapse soon after a
	// renewal whose reply was slow.
	"fade": func(a *afflicted) {
		slow := 600 * time.Millisecond
		a.until = a.now.Add(slow + 3*a.scenario.hold/2)
		a.links(func(l *link) { l.faint, l.slowness = a.now.Add(slow), 90*time.Millisecond })
		time.AfterFunc(slow, func() {
			a.links(func(l *link) { l.dropsOut, l.dropsBk, l.silent = a.until, a.until, a.until })
		})
	},
	// Most replies come after the timeout.
	"late": func(a *afflicted) {
		a.links(func(l *link) { l.faint, l.slowness = a.until, 200*time.Millisecond })
	},
	// A firewall forgets all connections; new ones work.
	"die": func(a *afflicted) {
		a.links(func(*link) {})
		for _, l := range a.affected() {
			l.each((*conn).die)
		}
	},
	"freeze":     func(a *afflicted) { a.server(func(s *server) { s.frozen = a.until }) },
	"freezeLong": func(a *afflicted) { a.server(func(s *server) { s.frozen = a.until }) },
	"pause":      func(a *afflicted) { a.server(func(s *server) { s.frozen = a.until }) },
	"slow": func(a *afflicted) {
		d := time.Duration(a.rand(int64(60*time.Millisecond), "slow", a.at))
		a.server(func(s *server) { s.scriptTime = d })
		a.later(func(s *server) { s.scriptTime = scriptTime })
	},
	"crash":     crash,
	"crashLong": crash,
	"forget":    func(a *afflicted) { a.server(func(s *server) { clear(s.scripts) }) },
	"loading":   func(a *afflicted) { a.fails("LOADING Redis is loading the dataset in memory") },
	// For so short a time, requests that did not run are sent again, and no call fails.
	"blip": func(a *afflicted) {
		a.node.mu.Lock()
		defer a.node.mu.Unlock()
		if a.node.failure == "" {
			a.node.failure = "LOADING Redis is loading the dataset in memory"
			a.later(func(s *server) { s.failure = "" })
		}
	},
	"readonly": func(a *afflicted) { a.fails("READONLY You can't write against a read only replica.") },
	"memory": func(a *afflicted) {
		a.server(func(s *server) { s.noMemory = true })
		a.later(func(s *server) { s.noMemory = false })
	},
	"flush": func(a *afflicted) {
		a.server((*server).flush)
		a.lost(span{a.now, a.now})
	},
	// A replica that lacks the latest writes takes over.
	"failover": func(a *afflicted) {
		a.server(func(s *server) {
			s.down, s.queue = a.until, nil
			clear(s.scripts)
			s.loseWrites()
		})
		a.resetAll()
		a.lost(span{a.now, a.until})
	},
	"stepOn":   func(a *afflicted) { a.steps(a.lasts) },
	"stepBack": func(a *afflicted) { a.steps(-a.lasts) },
	"migrate":  func(a *afflicted) { time.AfterFunc(a.lasts, a.migrate(a.node)) },
	// A process dies. Another one starts in its place only at the end.
	"kill": func(a *afflicted) {
		alive := slices.DeleteFunc(slices.Clone(a.processes), func(p *process) bool { return p.dead.Load() })
		if len(alive) > 2 {
			a.kill(alive[0])
		}
	},
	// The process of the first caller who waits dies.
	"killFirst": func(a *afflicted) {
		if p := a.crowd.first(a.rand(2, "first", a.at)); p != nil && !p.dead.Load() {
			a.kill(p)
		}
	},
	// The connections with subscriptions end.
	"cut": func(a *afflicted) {
		for _, l := range a.affected() {
			a.messages.cut(l)
		}
	},
	// Messages to subscribers are lost.
	"mute": func(a *afflicted) {
		for _, l := range a.affected() {
			l.mu.Lock()
			l.muted = a.until
			l.mu.Unlock()
		}
	},
}

// kill ends a process.
func (a *afflicted) kill(p *process) {
	p.dead.Store(true)
	a.places.unknownUntil(a.now.Add(2 * a.scenario.hold))
	for _, l := range p.links {
		l.mu.Lock()
		l.gone = true
		l.bad(a.now.Add(1000 * time.Hour))
		l.mu.Unlock()
		l.each((*conn).reset)
	}
}

// crash ends a server, which starts again with all states.
func crash(a *afflicted) {
	a.server(func(s *server) {
		s.down, s.queue = a.until, nil
		clear(s.scripts)
	})
	a.resetAll()
}

func names(faults []fault) string {
	texts := make([]string, len(faults))
	for i, f := range faults {
		texts[i] = f.String()
	}
	return strings.Join(texts, "; ")
}
