package adapter

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"
)

// A journal logs faults, at most one a second: during an outage every request
// has one.
type journal struct {
	begin      time.Time
	next       atomic.Int64 // since begin, when the next line may be written
	suppressed atomic.Int64
}

func (j *journal) start() { j.begin = time.Now() }

func (j *journal) warn(ctx context.Context, msg string, err error, status int) {
	now := int64(time.Since(j.begin))
	next := j.next.Load()
	if now < next || !j.next.CompareAndSwap(next, now+int64(time.Second)) {
		j.suppressed.Add(1)
		return
	}
	slog.Default().LogAttrs(ctx, slog.LevelWarn, msg,
		slog.String("error", err.Error()),
		slog.String("answer", answer(status)),
		slog.Int64("suppressed", j.suppressed.Swap(0)))
}

func answer(status int) string {
	if status == 0 {
		return "let through without a limit"
	}
	return strconv.Itoa(status)
}
