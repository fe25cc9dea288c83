package pgtests

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/pgstore"
	"github.com/weir-go/weir/core/pgstore/internal/pgtests/pgtest"
	"github.com/weir-go/weir/internal/testkit"
)

// A cutter is a TCP proxy that closes a connection in place of a reply.
type cutter struct {
	net.Listener
	server  string
	replies atomic.Int64 // until the one that is lost; 0 if none is
}

func newCutter(t *testing.T, server string) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	c := &cutter{Listener: l, server: server}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go c.serve(client)
		}
	}()
	return c
}

func (c *cutter) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.server)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		defer client.Close()
		buf := make([]byte, 1<<16)
		for {
			n, err := server.Read(buf)
			if err != nil || c.replies.Add(-1) == 0 {
				return
			}
			if _, err = client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 1<<16)
	for {
		n, err := client.Read(buf)
		if err == nil {
			_, err = server.Write(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// throughCutter calls f for each driver, with a Store behind a cutter.
func throughCutter(t *testing.T, f func(d database, c *cutter, s *pgstore.Store)) {
	for driver, parameters := range map[string]string{"pgx": "default_query_exec_mode=exec", "postgres": ""} {
		t.Run(driver, func(t *testing.T) {
			d := newDatabase(t, pgtest.Shared(t))
			c := newCutter(t, d.Addr())
			host, port, err := net.SplitHostPort(c.Addr().String())
			testkit.Must(t, err)
			db := pgtest.Open(t, driver, d.DSN(d.name, parameters, "host="+host, "port="+port), 4)
			f(d, c, pgstore.New(db, "test", pgstore.Timeout(unhurried)))
		})
	}
}

// A statement whose reply is lost is not executed again, by the Store or by package database/sql: each of its decisions is
// charged once at most, and fails.
func TestReplies_lost(t *testing.T) {
	throughCutter(t, func(d database, c *cutter, s *pgstore.Store) {
		one := testkit.Limiter(d, s, bucket(5000))
		two := testkit.Limiter(d, s, core.FixedWindow("window", core.Per(5000, period)), bucket(5000))
		admitted, failed := 0, 0
		for i := range 300 {
			c.replies.Store(int64(1 + i%11))
			switch d, err := []*core.Limiter{one, two}[i%2].Allow(d.Context(), "k"); {
			case err != nil:
				failed++
			case d.Allowed:
				admitted++
			}
		}
		c.replies.Store(0)
		used := testkit.Used(d, testkit.Limiter(d, d.store(unhurried), bucket(5000)), "k")[0]
		d.Logf("admitted %d, failed %d, charged %d", admitted, failed, used)
		if used < admitted || used > admitted+failed {
			d.Errorf("%d events were charged, want %d, and at most %d more", used, admitted, failed)
		}
		if admitted == 0 || failed == 0 {
			d.Error("no reply was lost, or all")
		}
	})
}

// Places that are taken or released by statements whose replies are lost become free before they lapse.
func TestReplies_lostPlaces(t *testing.T) {
	long(t)
	throughCutter(t, func(d database, c *cutter, s *pgstore.Store) {
		places := core.InFlight("places", 1000)
		l, failed := testkit.Limiter(d, s, places), 0
		for i := range 200 {
			c.replies.Store(int64(1 + i%11))
			r, err := l.Reserve(d.Context(), "k", 1)
			if err != nil {
				failed++
				continue
			}
			c.replies.Store(int64(1 + i%7))
			_ = r.Refund(d.Context()) // which is repeated
		}
		c.replies.Store(0)
		if failed == 0 {
			d.Error("no reply was lost")
		}
		direct, begun := testkit.Limiter(d, d.store(unhurried), places), time.Now()
		testkit.Must(d, pgtest.Poll(func() error {
			if n := testkit.Used(d, direct, "k")[0]; n > 0 {
				return fmt.Errorf("%d places are taken", n)
			}
			return nil
		}))
		if took := time.Since(begun); took > 20*time.Second {
			d.Errorf("the places are free after %v, want less than their lease", took)
		}
	})
}
