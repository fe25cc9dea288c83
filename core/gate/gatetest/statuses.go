package gatetest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
)

// testStatuses compares what RefundIf is asked with what the client gets.
func (s *suite) testStatuses(t *testing.T) {
	for _, c := range []struct {
		name    string
		method  string
		handler http.HandlerFunc
	}{
		{"nothing", "GET", func(http.ResponseWriter, *http.Request) {}},
		{"no content", "GET", fails(204)},
		{"not modified", "GET", fails(304)},
		{"not found", "GET", fails(404)},
		{"broken", "POST", fails(500)},
		{"odd", "GET", fails(599)},
		{"HEAD", "HEAD", fails(403)},
		{"Write", "GET", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) }},
		{"empty Write", "GET", func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(nil)
			fails(500)(w, r) // too late
		}},
		{"WriteString", "GET", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "x")
			fails(500)(w, r)
		}},
		{"Flush", "GET", func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			fails(500)(w, r)
		}},
		{"controller", "GET", func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			fails(500)(w, r)
		}},
		{"ReadFrom", "GET", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, io.LimitReader(strings.NewReader("body"), 4))
			fails(500)(w, r)
		}},
		{"ReadFrom nothing", "GET", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, io.LimitReader(strings.NewReader(""), 0))
			fails(404)(w, r) // not too late
		}},
		{"long ReadFrom", "GET", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, strings.NewReader(strings.Repeat("x", 1<<20)))
		}},
		{"two statuses", "GET", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(202)
			_, _ = w.Write([]byte("x"))
			fails(500)(w, r)
		}},
		{"early hints", "GET", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(103)
			fails(422)(w, r)
		}},
		{"early hints only", "GET", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103) }},
		{"redirect", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(303) // without a Location, which a client would follow
		}},
		{"range", "GET", func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Range", "bytes=1-2")
			http.ServeContent(w, r, "f.txt", time.Time{}, strings.NewReader("body"))
		}},
		{"recovered", "GET", func(w http.ResponseWriter, r *http.Request) {
			defer func() { _ = recover(); fails(400)(w, r) }()
			panic("inside")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, j := hundred(memstore.New()), new(judge)
			got := exchange(t, s.build(l, constant("k"), []gate.Option{j.option()}, c.handler), request(c.method, "/"))
			if want := fmt.Sprintf("[%d]", got.status); j.asked() != want {
				t.Errorf("asked about %s, want %s, which is what the client got, once", j.asked(), want)
			}
			if n := taken(t, l, "k"); n != 0 {
				t.Errorf("%d are taken, want all back", n)
			}
		})
	}
}

// testRefundPanics checks that a panic counts as 500 and goes on as it is.
func (s *suite) testRefundPanics(t *testing.T) {
	boom := errors.New("boom")
	for name, before := range map[string]http.HandlerFunc{
		"at once": func(http.ResponseWriter, *http.Request) {}, "after an answer": fails(204),
	} {
		t.Run(name, func(t *testing.T) {
			l, j := hundred(memstore.New()), new(judge)
			h := s.build(l, constant("k"), []gate.Option{j.option()}, func(w http.ResponseWriter, r *http.Request) {
				before(w, r)
				panic(boom)
			})
			if got := caught(func() { h.ServeHTTP(httptest.NewRecorder(), request("GET", "/")) }); got != boom {
				t.Errorf("panicked with %v, want %v to pass", got, boom)
			}
			if j.asked() != "[500]" || taken(t, l, "k") != 0 {
				t.Errorf("asked about %s, and %d are taken; want [500] and 0", j.asked(), taken(t, l, "k"))
			}
		})
	}
	t.Run("in RefundIf", func(t *testing.T) {
		asked := 0
		opt := gate.RefundIf(func(int) bool { asked++; panic(boom) })
		h := s.build(hundred(memstore.New()), constant("k"), []gate.Option{opt}, new(probe).ServeHTTP)
		for i := range 2 {
			if got := caught(func() { h.ServeHTTP(httptest.NewRecorder(), request("GET", "/")) }); got != boom || asked != i+1 {
				t.Errorf("panicked with %v after %d calls, want %v to pass after %d", got, asked, boom, i+1)
			}
		}
	})
}
