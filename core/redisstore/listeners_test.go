package redisstore

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/internal/waiters"
	"github.com/weir-go/weir/core/redisstore/internal/pipe"
)

// A message of one server of a Cluster comes to the subscriptions on all of them. It wakes a queue once: where that has
// asked, or at all if the message is faster than the reply to its first ask.
func TestListeners_hear(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0"})
	defer rdb.Close()
	var list waiters.List[int]
	w := list.Join("k", 1, 0, 1)
	defer list.Leave("k", w, false)
	l := newListeners(rdb, "test:", pipe.FaultLog{})
	home, other := &listener{listeners: l, asked: time.Now()}, &listener{listeners: l}
	for _, c := range []struct {
		name string
		home *listener
		want []bool // whether messages of home and of other wake the queue
	}{
		{"before its first ask", nil, []bool{true, true}},
		{"later", home, []bool{true, false}},
		{"after its slot has moved", other, []bool{false, true}},
	} {
		if c.home != nil {
			l.homes[w.Queue.ID] = c.home
		}
		var got []bool
		for _, from := range []*listener{home, other} {
			l.hear(from, w.Queue.ID, true)
			select {
			case <-w.Freed():
				got = append(got, true)
			default:
				got = append(got, false)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// The homes of queues without callers are removed.
func TestListeners_homes(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0"})
	defer rdb.Close()
	var list waiters.List[int]
	w := list.Join("k", 1, 0, 1)
	defer list.Leave("k", w, false)
	l := newListeners(rdb, "test:", pipe.FaultLog{})
	l.listen("k", w.Queue.ID)
	for i := range int64(5000) {
		l.listen("k", -i)
	}
	if n := len(l.homes); n > 1001 {
		t.Errorf("there are %d homes", n)
	}
	if l.homes[w.Queue.ID] == nil {
		t.Error("the home of a queue with a caller was removed")
	}
}
