package pgtests

import (
	"net"
	"sync/atomic"
	"testing"

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

// A statement whose reply is lost is not executed again, by the Store or by package database/sql: each of its decisions is
// charged once at most, and fails.
func TestReplies_lost(t *testing.T) {
	for driver, parameters := range map[string]string{"pgx": "default_query_exec_mode=exec", "postgres": ""} {
		t.Run(driver, func(t *testing.T) {
			d := newDatabase(t, pgtest.Shared(t))
			c := newCutter(t, d.Addr())
			host, port, err := net.SplitHostPort(c.Addr().String())
			testkit.Must(t, err)
			db := pgtest.Open(t, driver, d.DSN(d.name, parameters, "host="+host, "port="+port), 4)
			s := pgstore.New(db, "test", pgstore.Timeout(unhurried))
			l := testkit.Limiter(t, s, core.FixedWindow("window", core.Per(5000, period)), bucket(5000))
			one := testkit.Limiter(t, s, bucket(5000))
			admitted, failed := 0, 0
			for i := range 300 {
				c.replies.Store(int64(1 + i%11))
				of := l
				if i%2 == 0 {
					of = one
				}
				switch d, err := of.Allow(t.Context(), "k"); {
				case err != nil:
					failed++
				case d.Allowed:
					admitted++
				}
			}
			c.replies.Store(0)
			used := testkit.Used(t, testkit.Limiter(t, d.store(unhurried), bucket(5000)), "k")[0]
			t.Logf("admitted %d, failed %d, charged %d", admitted, failed, used)
			if used < admitted || used > admitted+failed {
				t.Errorf("%d events were charged, want %d, and at most %d more", used, admitted, failed)
			}
			if admitted == 0 || failed == 0 {
				t.Error("no reply was lost, or all")
			}
		})
	}
}
