package main

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echo is a server that says what it hears.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().String()
}

func newTestProxy(t *testing.T) *proxy {
	t.Helper()
	p, err := newProxy(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.up(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

func dial(t *testing.T, p *proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", loopback(p.port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// say sends a word and waits for it.
func say(conn net.Conn, wait time.Duration) error {
	_ = conn.SetDeadline(time.Now().Add(wait))
	if _, err := conn.Write([]byte("word")); err != nil {
		return err
	}
	var word [4]byte
	_, err := io.ReadFull(conn, word[:])
	return err
}

func TestProxySlow(t *testing.T) {
	p := newTestProxy(t)
	conn := dial(t, p)
	const d = 60 * time.Millisecond
	p.slow(d)
	begun := time.Now()
	if err := say(conn, patience); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < d {
		t.Errorf("an answer came after %v, want at least %v", took, d)
	}
	p.slow(0)
	if err := say(conn, patience); err != nil {
		t.Error(err)
	}
}

func TestProxyDrop(t *testing.T) {
	p := newTestProxy(t)
	used, unused := dial(t, p), dial(t, p)
	if err := errors.Join(say(used, patience), say(unused, patience)); err != nil {
		t.Fatal(err)
	}
	p.drop(true)
	if err := say(used, 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a silent network says %v", err)
	}
	p.drop(false)
	if err := say(used, 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection that has lost something says %v", err)
	}
	if err := errors.Join(say(unused, patience), say(dial(t, p), patience)); err != nil {
		t.Error(err)
	}
}

func TestProxyCut(t *testing.T) {
	p := newTestProxy(t)
	conn := dial(t, p)
	if err := say(conn, patience); err != nil {
		t.Fatal(err)
	}
	p.cut()
	if err := say(conn, patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection that was cut says %v", err)
	}
	if err := say(dial(t, p), patience); err != nil {
		t.Error(err)
	}
}

func TestProxyDown(t *testing.T) {
	p := newTestProxy(t)
	conn := dial(t, p)
	if err := say(conn, patience); err != nil {
		t.Fatal(err)
	}
	p.down()
	if err := say(conn, patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("an open connection says %v", err)
	}
	if conn, err := net.Dial("tcp", loopback(p.port)); err == nil {
		conn.Close()
		t.Error("a connection was accepted")
	}
	if err := errors.Join(p.up(), p.up()); err != nil {
		t.Fatal(err)
	}
	if err := say(dial(t, p), patience); err != nil {
		t.Error(err)
	}
}
