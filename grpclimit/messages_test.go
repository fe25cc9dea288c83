package grpclimit_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/keyfunc"
)

// A stream costs 1, whatever the number of its messages is, and its fields are sent once.
func TestStream_TenThousandMessages(t *testing.T) {
	calls, messages := limits(core.SlidingLog("calls", core.PerHour(5))), limits(core.TokenBucket("messages", core.PerHour(10_000)))
	for i, opts := range [][]gate.Option{nil, {grpclimit.Messages(messages)}} {
		conn, want := setup{limiter: calls, ofStreams: opts, chat: echo}.start(t), 10_000*i
		r := openStream(t.Context(), conn, streamMethod, 10_000)
		if r.err != nil || len(r.fields("ratelimit")) != 1 {
			t.Fatalf("got %v and the fields %q", r.err, r.fields("ratelimit"))
		}
		d := must[core.Decision](t)(messages.Peek(t.Context(), "constant:k"))
		if used := d.State(0).Used(); used > want || used < want-100 { // the bucket refills
			t.Errorf("got %d messages used, want %d", used, want)
		}
	}
	if d := must[core.Decision](t)(calls.Peek(t.Context(), "constant:k")); d.State(0).Used() != 2 {
		t.Errorf("two streams cost %d", d.State(0).Used())
	}
}

// A message over the limit waits, for the key of its stream.
func TestMessages_Wait(t *testing.T) {
	callers := gate.Caller(func(_ context.Context, r *http.Request) (key, plan string, err error) {
		return "user:" + r.Header.Get("X-User"), "", nil
	})
	for name, key := range map[string]keyfunc.Func{"Header": keyfunc.Header("x-user"), "Caller": callers} {
		t.Run(name, func(t *testing.T) {
			conn := setup{
				limiter:   limits(core.SlidingLog("calls", core.PerHour(50))),
				key:       key,
				ofStreams: []gate.Option{gate.Options(grpclimit.Messages(limits(core.TokenBucket("messages", core.PerSecond(20).WithBurst(2)))))},
			}.start(t)
			for _, user := range []string{"ann", "bob"} {
				begun := time.Now()
				r := openStream(t.Context(), conn, streamMethod, 4, "x-user", user)
				if took := time.Since(begun); r.err != nil || took < 90*time.Millisecond {
					t.Errorf("%s: got %v after %v, want no error after at least 90 ms", user, r.err, took)
				}
			}
		})
	}
}

// The errors of messages, and the streams whose messages are not limited.
func TestMessages_Errors(t *testing.T) {
	fails := func(err error) *core.Limiter {
		return core.Must(core.New(new(storetest.Fake).Set(storetest.Fail(err)), core.SlidingLog("messages", core.PerHour(5))))
	}
	blocked := limits(core.SlidingLog("messages", core.Blocked))
	outage := errors.Join(core.ErrUnavailable, errors.New("secret"))
	for _, c := range []struct {
		name string
		l    *core.Limiter
		opts []gate.Option
		key  keyfunc.Func
		want codes.Code
		log  bool
	}{
		{"blocked", blocked, nil, nil, codes.ResourceExhausted, false},
		{"later than the deadline", limits(core.SlidingLog("messages", core.PerHour(1))), nil, nil, codes.ResourceExhausted, false},
		{"outage", fails(outage), nil, nil, codes.OK, true},
		{"fail-closed rule", fails(errors.Join(outage, core.ErrFailClosed)), nil, nil, codes.Unavailable, true},
		{"another error", fails(errors.New("secret")), nil, nil, codes.Internal, true},
		{"skipped", blocked, []gate.Option{gate.Skip(func(context.Context, *http.Request) bool { return true })}, nil, codes.OK, false},
		{"not limited", blocked, nil, func(context.Context, *http.Request) (string, error) { return "", keyfunc.ErrNotLimited }, codes.OK, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := setup{limiter: limits(core.SlidingLog("calls", core.PerHour(50))), key: c.key, ofStreams: append(c.opts, grpclimit.Messages(c.l))}.start(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			log := logged(t, func() {
				r := openStream(ctx, conn, streamMethod, 3)
				if r.code() != c.want || r.err != nil && strings.Contains(r.err.Error(), "secret") {
					t.Errorf("got %v, want %v", r.err, c.want)
				}
			})
			if (strings.Count(log, "could not decide about a message") == 1) != c.log {
				t.Errorf("got the log %q", log)
			}
		})
	}
}

// A stream that ends while a message waits gets the error of its end.
func TestMessages_Canceled(t *testing.T) {
	ended := make(chan error, 1)
	conn := setup{
		limiter:   limits(core.SlidingLog("calls", core.PerHour(50))),
		ofStreams: []gate.Option{grpclimit.Messages(limits(core.SlidingLog("messages", core.PerHour(1))))},
		chat: func(s grpc.ServerStream) error {
			_ = s.RecvMsg(new(emptypb.Empty))
			_ = s.SendMsg(new(emptypb.Empty))
			err := s.RecvMsg(new(emptypb.Empty))
			ended <- err
			return err
		},
	}.start(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := must[grpc.ClientStream](t)(conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, streamMethod))
	for range 2 {
		if err := s.SendMsg(new(emptypb.Empty)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.RecvMsg(new(emptypb.Empty)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if r := (result{err: <-ended}); r.code() != codes.Canceled {
		t.Errorf("got %v, want CANCELED", r.err)
	}
}
