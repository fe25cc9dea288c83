package redisstore

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/internal/waiters"
	"github.com/weir-go/weir/core/redisstore/internal/pipe"
)

// The listeners receive the messages of lua/queues.lua about the callers of this process who wait for places. There is
// one for each server of a Cluster or Ring where callers wait: from the other servers of a Cluster, messages come over its
// bus, some 40 ms later. A Ring has no such bus.
type listeners struct {
	rdb     redis.UniversalClient
	channel string
	faults  pipe.FaultLog

	mu    sync.Mutex
	of    map[*redis.Client]*listener // nil is rdb itself, if it does not show its servers
	homes map[int64]*listener         // where a queue has asked in vain
	most  int                         // the number of homes after which those of queues without callers are removed
}

// listenTime is the time without callers who wait after which a listener ends.
const listenTime = time.Minute

func newListeners(rdb redis.UniversalClient, prefix string, faults pipe.FaultLog) *listeners {
	return &listeners{
		rdb: rdb, channel: prefix + "wake:" + strconv.FormatInt(waiters.Process, 10), faults: faults,
		of: make(map[*redis.Client]*listener), homes: make(map[int64]*listener), most: 1000,
	}
}

// listen notes that a queue has asked in vain for a place of key, about which Redis publishes a message, and begins to
// listen to the server of key.
func (l *listeners) listen(key string, queue int64) {
	server := pipe.ServerOf(context.Background(), l.rdb, key)
	l.mu.Lock()
	defer l.mu.Unlock()
	home := l.of[server]
	if home == nil {
		home = &listener{listeners: l, server: server}
		l.of[server] = home
		go home.run()
	}
	home.asked = time.Now()
	if l.homes[queue] = home; len(l.homes) > l.most {
		maps.DeleteFunc(l.homes, func(queue int64, _ *listener) bool { return !waiters.Open(queue) })
		l.most = max(1000, 2*len(l.homes))
	}
}

// hear notes a message about a queue, which has come to the listener from. wake says whether a place is free. A message that
// comes again from another server has no effect.
func (l *listeners) hear(from *listener, queue int64, wake bool) {
	l.mu.Lock()
	home := l.homes[queue]
	l.mu.Unlock()
	if home != nil && home != from {
		return
	}
	if waiters.Hear(queue); wake {
		waiters.Wake(queue)
	}
}

// deaf lets the queues of a listener ask again, because its subscription has ended.
func (l *listeners) deaf(home *listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for queue, h := range l.homes {
		if h == home {
			waiters.Deaf(queue)
		}
	}
}
