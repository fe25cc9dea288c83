package redisstore

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/redisstore/internal/pipe"
)

// A listener has a subscription on one server while callers wait for its places, and for a minute afterwards.
type listener struct {
	*listeners
	server *redis.Client // nil if it is not known: then rdb subscribes

	asked time.Time // when a queue asked in vain; guarded by the mutex of the listeners
}

const (
	// silence is the time without a message, while callers wait, after which a listener subscribes again: each time they
	// ask in vain, at least once a second, Redis publishes a message.
	silence = 4 * time.Second
	// The times between subscriptions that fail.
	minListenInterval, maxListenInterval = 250 * time.Millisecond, 5 * time.Second
)

// idle returns the time since a queue has asked in vain.
func (l *listener) idle() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.asked)
}

// ends removes l from the listeners if its client is closed, or no caller has waited for long, and reports whether it does.
func (l *listener) ends(closed bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !closed && time.Since(l.asked) < listenTime {
		return false
	}
	delete(l.of, l.server)
	return true
}

func (l *listener) run() {
	ctx := context.Background()
	for interval := minListenInterval; ; {
		heard, err := l.receive(ctx)
		if heard {
			l.deaf(l)
		}
		if l.ends(errors.Is(err, redis.ErrClosed)) {
			return
		}
		switch {
		case err == nil || heard:
			interval = minListenInterval
		case pipe.ConfigurationFault(err) != "": // such as a missing permission: callers ask more often
			l.faults.Log(ctx, err)
			interval = listenTime
		default:
			interval = min(2*interval, maxListenInterval)
		}
		if err != nil {
			time.Sleep(interval)
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
	rdb := l.rdb
	if l.server != nil {
		rdb = l.server
	}
	subscription := rdb.Subscribe(ctx, l.channel)
	defer subscription.Close()
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
			queue, _ := strconv.ParseInt(text, 10, 64)
			l.hear(l, queue, !shows)
		}
	}
}
