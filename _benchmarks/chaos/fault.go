package main

import (
	"errors"
	"time"
)

// A fault is a failure that begins and ends.
type fault struct {
	name     string
	begin    func(*fleet) error
	repeat   func(*fleet) error // if set, called every 100 ms during the fault
	end      func(*fleet) error
	forgets  bool          // a Redis process ends and loses its states
	partial  bool          // the fault affects one master of several
	brief    time.Duration // if set, how long the fault lasts; requests for places are watched after it
	rate     int           // if set, the requests a second, in place of those of the run
	restarts bool          // an instance ends and loses its states
	forms    form
}

// A form is a kind of run. Each fault belongs to one or more forms.
type form int

const (
	short   form = 1 << iota // one Redis, with short trials
	long                     // one Redis, with long trials
	cluster                  // a Cluster, with long trials
)

// faults happen one after the other, on the same fleet.
var faults = []fault{
	{name: "Redis killed, started again", begin: all(kill), end: startAll, forgets: true, forms: short | long | cluster},
	{name: "one master killed, started again", begin: first(kill), end: startFirst, forgets: true, partial: true, forms: cluster},
	{name: "one master killed, 100 requests a second", begin: first(kill), end: startFirst, forgets: true, partial: true, rate: 100, forms: cluster},
	{name: "Redis frozen for 0.3 s", begin: all(freeze), end: all(thaw), brief: 300 * time.Millisecond, forms: short | long | cluster},
	{name: "Redis frozen", begin: all(freeze), end: all(thaw), forms: short | long | cluster},
	{name: "one master frozen", begin: first(freeze), end: first(thaw), partial: true, forms: cluster},
	{name: "network 50 ms slower", begin: slow(50 * time.Millisecond), end: all(pass), forms: short | long | cluster},
	{name: "network 500 ms slower", begin: slow(500 * time.Millisecond), end: all(pass), forms: short | long | cluster},
	{name: "160 idle connections forgotten", begin: all(forget), end: nothing, brief: time.Millisecond, forms: short | long | cluster},
	{name: "500 clients a second hang up", begin: hangUp, repeat: hangUp, end: nothing, brief: 2 * time.Second, forms: short | long | cluster},
	{name: "network silent", begin: all(drop), end: all(pass), forms: short | long | cluster},
	{name: "connections cut, 10 times a second", begin: all(cut), repeat: all(cut), end: nothing, forms: short | long | cluster},
	{name: "connections refused", begin: all(refuse), end: all(allow), forms: long},
	{name: "an instance killed, started again", begin: killInstance, end: startInstance, restarts: true, forms: short | long | cluster},
	{name: "`SCRIPT FLUSH`, 10 times a second", begin: all(flush), repeat: all(flush), end: nothing, forms: short | long | cluster},
	{name: "Redis out of memory", begin: all(starve), end: all(feed), forms: short | long | cluster},
}

func nothing(*fleet) error { return nil }

// all applies f to all servers concurrently, and first to one server.
func all(f func(*server) error) func(*fleet) error {
	return func(fl *fleet) error { return each(fl.servers, f) }
}

func first(f func(*server) error) func(*fleet) error {
	return func(fl *fleet) error { return f(fl.servers[0]) }
}

func kill(s *server) error {
	err := s.Stop()
	s.proxy.Refuse()
	return err
}

func start(s *server) error {
	if err := s.Start(); err != nil {
		return err
	}
	return s.proxy.Listen()
}

func startAll(f *fleet) error {
	if err := all(start)(f); err != nil {
		return err
	}
	return f.serves()
}

func startFirst(f *fleet) error {
	if err := first(start)(f); err != nil {
		return err
	}
	return f.serves()
}

// serves waits until a Cluster serves all hash slots.
func (f *fleet) serves() error {
	if f.cluster == nil {
		return nil
	}
	return f.cluster.WaitReady()
}

func freeze(s *server) error { return s.Pause() }
func thaw(s *server) error   { return s.Resume() }

func slow(d time.Duration) func(*fleet) error {
	return all(func(s *server) error {
		s.proxy.Delay(d)
		return nil
	})
}

func drop(s *server) error {
	s.proxy.Drop()
	return nil
}

func pass(s *server) error {
	s.proxy.Pass()
	return nil
}

func forget(s *server) error {
	s.proxy.Forget()
	return nil
}

func cut(s *server) error {
	s.proxy.Cut()
	return nil
}

func refuse(s *server) error {
	s.proxy.Refuse()
	return nil
}

func allow(s *server) error { return s.proxy.Listen() }

func flush(s *server) error { return s.do("script", "flush") }

// starve makes Redis reject writes for lack of memory, and feed removes the limit.
func starve(s *server) error {
	return errors.Join(s.do("config", "set", "maxmemory-policy", "noeviction"), s.do("config", "set", "maxmemory", "1"))
}

func feed(s *server) error { return s.do("config", "set", "maxmemory", "0") }

func killInstance(f *fleet) error {
	f.all[0].child.kill()
	return nil
}

func startInstance(f *fleet) error { return f.all[0].start(f.config) }
