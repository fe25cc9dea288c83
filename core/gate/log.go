package gate

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/weir-go/weir/internal/sampler"
)

// A failureLog logs at most one failure a second, because every request fails during an outage.
type failureLog struct{ *sampler.Sampler }

func newFailureLog() failureLog { return failureLog{sampler.New(1, time.Second)} }

// sent is the status of warn for a response that err does not change.
const sent = -1

// warn logs err and the status of the response, unless a line was logged less than a second ago.
func (l *failureLog) warn(ctx context.Context, msg string, err error, status int) {
	suppressed, ok := l.Pass()
	if !ok {
		return
	}
	response := strconv.Itoa(status)
	switch status {
	case 0:
		response = "let through without a limit"
	case sent:
		response = "not changed"
	}
	slog.Default().LogAttrs(ctx, slog.LevelWarn, msg,
		slog.String("error", err.Error()),
		slog.String("answer", response),
		slog.Int("suppressed", suppressed))
}
