package main

import (
	"errors"
	"time"
)

// A fault is something that goes wrong for a while.
type fault struct {
	name     string
	begin    func(*fleet) error
	repeat   func(*fleet) error // every 100 ms while it lasts, if set
	end      func(*fleet) error
	forgets  bool // a Redis ends, and what it knew is lost
	partial  bool // it is about one master of several
	restarts bool // an instance ends, and what it knew is lost
	forms    form
}

// A form is where a fault belongs.
type form int

const (
	short   form = 1 << iota // one Redis, and little time
	long                     // one Redis
	cluster                  // a Cluster
)

// faults come one after the other, and the fleet stays.
var faults = []fault{
	{name: "Redis killed, started again", begin: all(kill), end: startAll, forgets: true, forms: short | long | cluster},
	{name: "one master killed, started again", begin: first(kill), end: startFirst, forgets: true, partial: true, forms: cluster},
	{name: "Redis frozen", begin: all((*server).freeze), end: all((*server).thaw), forms: short | long | cluster},
	{name: "one master frozen", begin: first((*server).freeze), end: first((*server).thaw), partial: true, forms: cluster},
	{name: "network 50 ms slower", begin: slow(50 * time.Millisecond), end: slow(0), forms: short | long | cluster},
	{name: "network 500 ms slower", begin: slow(500 * time.Millisecond), end: slow(0), forms: short | long | cluster},
	{name: "network silent", begin: drop(true), end: drop(false), forms: short | long | cluster},
	{name: "connections cut, 10 times a second", begin: all(cut), repeat: all(cut), end: nothing, forms: short | long | cluster},
	{name: "connections refused", begin: all(refuse), end: all(allow), forms: long},
	{name: "an instance killed, started again", begin: killInstance, end: startInstance, restarts: true, forms: short | long | cluster},
	{name: "`SCRIPT FLUSH`, 10 times a second", begin: all(flush), repeat: all(flush), end: nothing, forms: short | long | cluster},
	{name: "Redis out of memory", begin: all(starve), end: all(feed), forms: short | long | cluster},
}

func nothing(*fleet) error { return nil }

// all does f to every server at once, and first to one.
func all(f func(*server) error) func(*fleet) error {
	return func(fl *fleet) error { return each(fl.servers, f) }
}

func first(f func(*server) error) func(*fleet) error {
	return func(fl *fleet) error { return f(fl.servers[0]) }
}

func kill(s *server) error {
	s.stop()
	return nil
}

func startAll(f *fleet) error {
	if err := all((*server).start)(f); err != nil {
		return err
	}
	return f.serves()
}

func startFirst(f *fleet) error {
	if err := first((*server).start)(f); err != nil {
		return err
	}
	return f.serves()
}

// serves waits until a Cluster says that it serves all slots.
func (f *fleet) serves() error {
	if !f.config.Cluster {
		return nil
	}
	return each(f.servers, complete)
}

func slow(d time.Duration) func(*fleet) error {
	return all(func(s *server) error {
		s.proxy.slow(d)
		return nil
	})
}

func drop(on bool) func(*fleet) error {
	return all(func(s *server) error {
		s.proxy.drop(on)
		return nil
	})
}

func cut(s *server) error {
	s.proxy.cut()
	return nil
}

func refuse(s *server) error {
	s.proxy.down()
	return nil
}

func allow(s *server) error { return s.proxy.up() }

func flush(s *server) error { return s.do("script", "flush") }

// starve leaves no memory to write anything, and feed as much as there is.
func starve(s *server) error {
	return errors.Join(s.do("config", "set", "maxmemory-policy", "noeviction"), s.do("config", "set", "maxmemory", "1"))
}

func feed(s *server) error { return s.do("config", "set", "maxmemory", "0") }

func killInstance(f *fleet) error {
	f.all[0].child.kill()
	return nil
}

func startInstance(f *fleet) error { return f.all[0].start(f.config) }
