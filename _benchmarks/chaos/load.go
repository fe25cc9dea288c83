package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The users. A few busy users send more requests than their limits allow, and the others
// fewer.
const (
	busyUsers = 4
	calmUsers = 4000

	mostBusy  = busyUsers * 45 // requests a second
	mostLogin = 20
)

// workers bounds the number of concurrent requests.
const workers = 400

// A kind is a kind of request.
type kind int

const (
	calm  kind = iota // the default route, by a user below the limit
	busy              // the default route, by a user above the limit
	login             // the route that fails closed, by a user above its limit
)

// A store is the store that has made a decision.
type store int

const (
	undecided store = iota
	byRedis
	byMemory
)

// A record is one request and its answer.
type record struct {
	kind       kind
	user       int
	due        time.Time // when it should have been sent
	begun, end time.Time
	status     int // 0 if no instance has answered
	store      store
	unanswered int // the number of instances that did not answer
}

func (r *record) admitted() bool { return r.status == http.StatusOK }

// failed reports whether the user received an answer other than an admission or a denial,
// or, on the default route, an answer without a decision. A 503 of the login is no failure.
func (r *record) failed() bool {
	if r.kind == login {
		return r.status != http.StatusOK && r.status != http.StatusTooManyRequests && r.status != http.StatusServiceUnavailable
	}
	return r.store == undecided || r.status != http.StatusOK && r.status != http.StatusTooManyRequests
}

// A load sends requests at a constant rate, independent of the time that answers take.
type load struct {
	fleet  *fleet
	name   string // the name of the trial, which is part of the names of its users
	client *http.Client
	cancel context.CancelFunc
	pacer  sync.WaitGroup
	crew   sync.WaitGroup

	total, memory atomic.Int64 // decisions of the default route: all, and those of memory

	mu      sync.Mutex
	records []record
}

// drive sends rate requests a second until stop is called.
func drive(f *fleet, name string, rate int) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{fleet: f, name: name, client: newClient(workers, 5*time.Second), cancel: cancel}
	requests := make(chan record, 100*workers)
	for range workers {
		l.crew.Go(func() { l.work(requests) })
	}
	l.pacer.Go(func() {
		defer close(requests)
		l.schedule(ctx, rate, requests)
	})
	return l
}

// schedule sends the next request to the workers when it is due. Requests that are neither
// logins nor by busy users are by calm users.
func (l *load) schedule(ctx context.Context, rate int, requests chan<- record) {
	start := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		due := start.Add(time.Duration(n) * time.Second / time.Duration(rate))
		for time.Now().Before(due) {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
		r := record{kind: calm, user: n % calmUsers, due: due}
		switch {
		case turn(n, min(mostLogin, rate/30), rate):
			r.kind, r.user = login, 0
		case turn(n, min(mostBusy, 3*rate/10), rate):
			r.kind, r.user = busy, rand.IntN(busyUsers)
		}
		select {
		case requests <- r:
		default: // the queue of the workers is full
			r.begun, r.end = due, time.Now()
			l.keep(r)
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// turn reports whether the n-th of whole requests is one of part evenly spread requests.
func turn(n, part, whole int) bool { return (n+1)*part/whole > n*part/whole }

func (l *load) work(requests <-chan record) {
	for r := range requests {
		first := rand.IntN(instances)
		r.begun = time.Now()
		for n := range instances { // like a load balancer, tries the next instance after a failure
			if l.send(&r, l.fleet.all[(first+n)%instances].at()) == nil {
				break
			}
			r.unanswered++
		}
		r.end = time.Now()
		l.keep(r)
	}
}

func (l *load) keep(r record) {
	if r.kind != login && !r.failed() {
		l.total.Add(1)
		if r.store == byMemory {
			l.memory.Add(1)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r)
}

func (l *load) send(r *record, url string) error {
	method := http.MethodGet
	if r.kind == login {
		method, url = http.MethodPost, url+"/login"
	}
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("X-User", fmt.Sprintf("%s %d %d", l.name, r.kind, r.user))
	resp, err := l.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	r.status, r.store = resp.StatusCode, storeOf(resp.Header.Get("RateLimit-Policy"))
	return nil
}

// storeOf returns the store that has decided, which is visible in the limit in the
// RateLimit-Policy field. Only Redis decides for the route that fails closed.
func storeOf(policy string) store {
	switch {
	case strings.Contains(policy, redisPolicy), strings.Contains(policy, `"login"`):
		return byRedis
	case strings.Contains(policy, memoryPolicy):
		return byMemory
	}
	return undecided
}

// stop ends the load, waits for the answers, and returns all requests.
func (l *load) stop() []record {
	l.cancel()
	l.pacer.Wait()
	l.crew.Wait()
	l.client.CloseIdleConnections()
	return l.records
}
