package redisstore_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// century is a period that does not end during a test, not even one of windows
// that are counted from 1970 on.
const century = 100 * 365 * 24 * time.Hour

// modes are the ways in which a Store sends its commands.
var modes = []struct {
	name string
	opts []redisstore.Option
}{
	{"direct", nil},
	{"pipelined", []redisstore.Option{redisstore.Pipelined()}},
}

// unavailable fails the test unless err says that the store could not decide.
func unavailable(t testing.TB, d core.Decision, err error) {
	t.Helper()
	if !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("the error is %v, want core.ErrUnavailable", err)
	}
	if d.Allowed {
		t.Errorf("a decision that failed says yes: %+v", d)
	}
}

// eventually waits until check returns nil.
func eventually(t testing.TB, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still after %v: %v", patience, err)
		}
		<-tick.C
	}
}

// underLoad calls f from so many goroutines, again and again, until it is told to
// stop or the test ends; then it waits for the calls that are under way.
func underLoad(t testing.TB, goroutines int, f func()) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					f()
				}
			}
		})
	}
	stop = sync.OnceFunc(func() {
		close(done)
		wg.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// silentServer returns the address of a server that accepts connections and never
// answers.
func silentServer(t testing.TB) string {
	t.Helper()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr)
	proxy.Drop()
	return proxy.Addr
}

// through dials the proxy of an address that has one.
func through(proxies map[string]*redistest.Proxy) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if p := proxies[addr]; p != nil {
			addr = p.Addr
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
}
