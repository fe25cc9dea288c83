package redisstore

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/internal/waiters"
)

// A listener receives the messages of lua/queues.lua about the callers of this process who wait for places. It has a
// subscription while there are any, and for a minute afterwards.
type listener struct {
	rdb     redis.UniversalClient
	channel string
	faults  faultLog

	mu      sync.Mutex
	asked   time.Time // when a caller asked for a place in vain
	running bool
}

const (
	// listenTime is the time without callers who wait after which a listener ends.
	listenTime = time.Minute
	// silence is the time without a message, while callers wait, after which a listener subscribes again: each time they
	// ask in vain, at least once a second, Redis publishes a message.
	silence = 4 * time.Second
	// The pauses between subscriptions that fail.
	minListenPause, maxListenPause = 250 * time.Millisecond, 5 * time.Second
)

func newListener(rdb redis.UniversalClient, prefix string, faults faultLog) *listener {
	return &listener{rdb: rdb, channel: prefix + "wake:" + strconv.FormatInt(waiters.Process, 10), faults: faults}
}

// listen notes that a caller has asked for a place in vain, about which Redis publishes a message, and begins to listen.
func (l *listener) listen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = time.Now()
	if !l.running {
		l.running = true
		go l.run()
	}
}

// idle returns the time since a caller has asked in vain.
func (l *listener) idle() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.asked)
}

// ends notes that l ends, if its client is closed or no caller has waited for long, and reports whether it does.
func (l *listener) ends(closed bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = !closed && time.Since(l.asked) < listenTime
	return !l.running
}

func (l *listener) run() {
	ctx := context.Background()
	for pause := minListenPause; ; {
		heard, err := l.receive(ctx)
		if l.ends(errors.Is(err, redis.ErrClosed)) {
			return
		}
		switch {
		case err == nil || heard:
			pause = minListenPause
		case configurationFault(err) != "": // such as a missing permission: callers ask more often
			l.faults.log(ctx, err)
			pause = listenTime
		default:
			pause = min(2*pause, maxListenPause)
		}
		if err != nil {
			time.Sleep(pause)
		}
	}
}

// receive receives messages until no caller waits any more, or the subscription fails. heard says whether there were
// any.
func (l *listener) receive(ctx context.Context) (heard bool, err error) {
	defer func() {
		if recover() != nil { // of a redis.Ring that is closed, or without shards
			err = redis.ErrClosed
		}
	}()
	subscription, ids := l.rdb.Subscribe(ctx, l.channel), new(heardQueues)
	defer func() {
		_ = subscription.Close()
		ids.end()
	}()
	for {
		m, err := subscription.ReceiveTimeout(ctx, silence)
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout():
			if idle := l.idle(); idle < silence/2 {
				return heard, err
			} else if idle >= listenTime {
				return heard, nil
			}
		case err != nil:
			return heard, err
		}
		if m, ok := m.(*redis.Message); ok {
			heard = true
			text, shows := strings.CutPrefix(m.Payload, "?")
			id, _ := strconv.ParseInt(text, 10, 64)
			ids.add(id)
			if waiters.Hear(id); !shows {
				waiters.Wake(id)
			}
		}
	}
}
