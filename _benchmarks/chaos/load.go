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

// The users. A few busy ones ask for more than their limits, and the others for less.
const (
	busyUsers = 4
	calmUsers = 4000

	busyRate  = busyUsers * 45 // requests a second
	loginRate = 20
)

// workers bounds the requests that are under way.
const workers = 400

// A kind is what a request is about.
type kind int

const (
	calm  kind = iota // the default route, by a user who keeps the limit
	busy              // the default route, by one who does not
	login             // the route that fails closed, by a user who does not keep its limit
)

// A store is who has decided.
type store int

const (
	nobody store = iota
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
	refusals   int // instances that did not answer
}

func (r *record) admitted() bool { return r.status == http.StatusOK }

// failed says whether the user of a default route has noticed more than a limit: an
// error, or a request that nobody has decided.
func (r *record) failed() bool {
	if r.kind == login {
		return r.status != http.StatusOK && r.status != http.StatusTooManyRequests && r.status != http.StatusServiceUnavailable
	}
	return r.store == nobody || r.status != http.StatusOK && r.status != http.StatusTooManyRequests
}

// A load is requests at a steady rate, however long the answers take.
type load struct {
	fleet  *fleet
	name   string // of the trial: its users are no others'
	client *http.Client
	cancel context.CancelFunc
	pacer  sync.WaitGroup
	crew   sync.WaitGroup

	total, memory atomic.Int64 // decisions of the default route, and those of memory

	mu      sync.Mutex
	records []record
}

// drive sends rate requests a second until it is stopped.
func drive(f *fleet, name string, rate int) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{fleet: f, name: name, client: newClient(workers, 5*time.Second), cancel: cancel}
	shots := make(chan record, 100*workers)
	for range workers {
		l.crew.Go(func() { l.work(shots) })
	}
	l.pacer.Go(func() {
		defer close(shots)
		l.aim(ctx, rate, shots)
	})
	return l
}

// aim says what is sent when. What the busy users and the logins do not need is for
// those that keep their limits.
func (l *load) aim(ctx context.Context, rate int, shots chan<- record) {
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
		case turn(n, loginRate, rate):
			r.kind, r.user = login, 0
		case turn(n, busyRate, rate):
			r.kind, r.user = busy, rand.IntN(busyUsers)
		}
		select {
		case shots <- r:
		default: // nobody is there to send it
			r.begun, r.end = due, time.Now()
			l.keep(r)
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// turn says whether the n-th of all requests is one of part in whole.
func turn(n, part, whole int) bool { return (n+1)*part/whole > n*part/whole }

func (l *load) work(shots <-chan record) {
	for r := range shots {
		first := rand.IntN(instances)
		r.begun = time.Now()
		for n := range instances { // a balancer goes on to the next
			if l.send(&r, l.fleet.all[(first+n)%instances].at()) == nil {
				break
			}
			r.refusals++
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

// storeOf reads from the limit in the header fields who has decided. What fails closed
// is decided by Redis or by nobody.
func storeOf(policy string) store {
	switch {
	case strings.Contains(policy, redisPolicy), strings.Contains(policy, `"login"`):
		return byRedis
	case strings.Contains(policy, memoryPolicy):
		return byMemory
	}
	return nobody
}

// stop ends the load when what was sent is answered, and returns it.
func (l *load) stop() []record {
	l.cancel()
	l.pacer.Wait()
	l.crew.Wait()
	l.client.CloseIdleConnections()
	return l.records
}
