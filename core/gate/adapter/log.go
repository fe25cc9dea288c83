package adapter

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"
)

// A failureLog logs failures, at most one a second: during an outage every request
// has one.
type failureLog struct {
	begin      time.Time
	next       atomic.Int64 // since begin, when the next line may be written
	suppressed atomic.Int64
}

// start sets the begin of the seconds.
func (l *failureLog) start() { l.begin = time.Now() }

// warn logs err and the status of the answer, unless a line was logged less than a second ago.
func (l *failureLog) warn(ctx context.Context, msg string, err error, status int) {
	now := int64(time.Since(l.begin))
	next := l.next.Load()
	if now < next || !l.next.CompareAndSwap(next, now+int64(time.Second)) {
		l.suppressed.Add(1)
		return
	}
	slog.Default().LogAttrs(ctx, slog.LevelWarn, msg,
		slog.String("error", err.Error()),
		slog.String("answer", answerText(status)),
		slog.Int64("suppressed", l.suppressed.Swap(0)))
}

// answerText names the answer with status for the log.
func answerText(status int) string {
	if status == 0 {
		return "let through without a limit"
	}
	return strconv.Itoa(status)
}
