package adapter

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"
)

// A failureLog logs at most one failure a second, because every request fails during an outage.
type failureLog struct {
	begin      time.Time    // of the gate
	next       atomic.Int64 // the time since begin at which the next line may be written
	suppressed atomic.Int64
}

// warn logs err and the status of the response, unless a line was logged less than a second ago.
func (l *failureLog) warn(ctx context.Context, msg string, err error, status int) {
	now := int64(time.Since(l.begin))
	next := l.next.Load()
	if now < next || !l.next.CompareAndSwap(next, now+int64(time.Second)) {
		l.suppressed.Add(1)
		return
	}
	answer := strconv.Itoa(status)
	if status == 0 {
		answer = "let through without a limit"
	}
	slog.Default().LogAttrs(ctx, slog.LevelWarn, msg,
		slog.String("error", err.Error()),
		slog.String("answer", answer),
		slog.Int64("suppressed", l.suppressed.Swap(0)))
}
