package grpclimit_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/keyfunc"
)

// keyOf returns a function that calls key, and keeps its results.
func keyOf(key keyfunc.Func, got *string) keyfunc.Func {
	return func(ctx context.Context, r *http.Request) (string, error) {
		k, err := key(ctx, r)
		if *got = k; err != nil {
			*got = err.Error()
		}
		return k, err
	}
}

// A call has the key of an HTTP request with the same address and header.
func TestKeys(t *testing.T) {
	secret := []byte(strings.Repeat("secret", 8))
	token := must[string](t)(jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "ann", "exp": time.Now().Add(time.Hour).Unix()}).SignedString(secret))
	bearer := keyfunc.JWTSubject(func(*jwt.Token) (any, error) { return secret, nil }, []string{"HS256"})
	trusted := keyfunc.XForwardedFor(keyfunc.Proxies("127.0.0.1"))
	for _, c := range []struct {
		name string
		key  keyfunc.Func
		kv   []string
		want string
		code codes.Code
	}{
		{"RemoteIP", keyfunc.RemoteIP(), nil, "127.0.0.1", 0},
		{"XForwardedFor", trusted, []string{"x-forwarded-for", "203.0.113.1, 203.0.113.9"}, "203.0.113.9", 0},
		{"XForwardedFor, repeated", trusted, []string{"x-forwarded-for", "203.0.113.1", "X-Forwarded-For", "2001:db8::7"}, "2001:db8::/64", 0},
		{"XForwardedFor, not trusted", keyfunc.XForwardedFor(keyfunc.Proxies("10.0.0.1")), []string{"x-forwarded-for", "203.0.113.9"}, "127.0.0.1", 0},
		{"Forwarded", keyfunc.Forwarded(keyfunc.Proxies("127.0.0.1")), []string{"forwarded", "for=203.0.113.9"}, "203.0.113.9", 0},
		{"HeaderIP", keyfunc.HeaderIP("CF-Connecting-IP", keyfunc.Proxies("127.0.0.1")), []string{"cf-connecting-ip", "203.0.113.9"}, "203.0.113.9", 0},
		{"Header", keyfunc.Header("X-API-Key"), []string{"x-api-key", "k1"}, "header:x-api-key:k1", 0},
		{"Header, another name", keyfunc.Header("Tenant"), []string{"tenant", "acme"}, "header:tenant:acme", 0},
		{"Header, binary", keyfunc.Header("x-id-bin"), []string{"x-id-bin", "\x00\xff,"}, "header:x-id-bin:\x00\xff,", 0},
		{"Header, repeated", keyfunc.Header("X-API-Key"), []string{"x-api-key", "k1", "x-api-key", "k2"}, "", codes.InvalidArgument},
		{"Header, absent", keyfunc.Header("X-API-Key"), nil, "", codes.InvalidArgument},
		{"HeaderFrom", keyfunc.HeaderFrom("X-Org", keyfunc.Proxies("127.0.0.0/8")), []string{"x-org", "7"}, "header:x-org:7", 0},
		{"Cookie", keyfunc.Cookie("session"), []string{"cookie", "session=s1"}, "cookie:session:s1", 0},
		{"BasicAuthUser", keyfunc.BasicAuthUser(), []string{"authorization", "Basic YW5uOng="}, "basic:ann", 0},
		{"BasicAuthUser, absent", keyfunc.BasicAuthUser(), nil, "", codes.Unauthenticated},
		{"JWT", bearer, []string{"authorization", "Bearer " + token}, "user:ann", 0},
		{"JWT, absent", bearer, nil, "", codes.Unauthenticated},
		{"JWT, invalid", bearer, []string{"authorization", "Bearer " + token + "x"}, "", codes.Unauthenticated},
		{"FirstOf", keyfunc.FirstOf(bearer, keyfunc.RemoteIP()), nil, "127.0.0.1", 0},
		{"Constant", keyfunc.Constant("all"), nil, "constant:all", 0},
		{"PathValue", keyfunc.PathValue("tenant"), nil, "", codes.InvalidArgument},
		{"FormValue", keyfunc.FormValue("user"), nil, "", codes.InvalidArgument},
		{"JSONField", keyfunc.JSONField("user"), nil, "", codes.InvalidArgument},
		{"a body", func(_ context.Context, r *http.Request) (string, error) {
			b, err := io.ReadAll(r.Body)
			return string(b), err
		}, nil, "", codes.InvalidArgument},
		{"a request", func(_ context.Context, r *http.Request) (string, error) {
			if !strings.HasPrefix(r.Host, "127.0.0.1:") || r.TLS != nil || r.Header["Content-Type"][0] != "application/grpc" || r.Header[":authority"] != nil {
				return "", fmt.Errorf("got %q, %v, %v", r.Host, r.TLS, r.Header)
			}
			return r.Method + " " + r.URL.Path + " " + r.Proto, nil
		}, nil, "POST METHOD HTTP/2.0", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			for verb, call := range verbs {
				var got string
				conn := setup{limiter: limits(core.SlidingLog("calls", core.PerHour(1))), key: keyOf(c.key, &got)}.start(t)
				log := logged(t, func() {
					if r := call(t.Context(), conn, c.kv...); r.code() != c.code {
						t.Errorf("%s: got %v, want %v", verb, r.err, c.code)
					}
				})
				if want := strings.ReplaceAll(c.want, "METHOD", map[string]string{"unary": unaryMethod, "stream": streamMethod}[verb]); want != "" && got != want {
					t.Errorf("%s: got the key %q, want %q", verb, got, want)
				}
				if strings.Contains(log, "a call has no key") != (c.code == codes.InvalidArgument) {
					t.Errorf("%s: got the log %q", verb, log)
				}
			}
		})
	}
}

// Calls over a Unix socket have no address, whatever the name of the client's socket is. A proxy there can be trusted.
func TestKeys_UnixSocket(t *testing.T) {
	each(t, func(t *testing.T, call caller) {
		var got string
		conn := setup{network: "unix", limiter: limits(core.SlidingLog("calls", core.PerHour(9))), key: keyOf(keyfunc.RemoteIP(), &got)}.start(t)
		if r := call(t.Context(), conn); r.code() != codes.InvalidArgument {
			t.Errorf("got %v and the key %q, want INVALID_ARGUMENT", r.err, got)
		}
		key := keyOf(keyfunc.XForwardedFor(keyfunc.Proxies("unix")), &got)
		conn = setup{network: "unix", limiter: limits(core.SlidingLog("calls", core.PerHour(9))), key: key}.start(t)
		if r := call(t.Context(), conn, "x-forwarded-for", "203.0.113.9"); r.err != nil || got != "203.0.113.9" {
			t.Errorf("got %v and the key %q", r.err, got)
		}
	})
}

// A key function gets the state of TLS.
func TestKeys_TLS(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	each(t, func(t *testing.T, call caller) {
		var got string
		key := keyOf(func(_ context.Context, r *http.Request) (string, error) {
			return fmt.Sprint(r.TLS.HandshakeComplete, r.TLS.NegotiatedProtocol), nil
		}, &got)
		conn := setup{tls: &tls.Config{Certificates: server.TLS.Certificates}, limiter: limits(core.SlidingLog("calls", core.PerHour(9))), key: key}.start(t)
		if r := call(t.Context(), conn); r.err != nil || got != "trueh2" {
			t.Errorf("got %v and the state %q", r.err, got)
		}
	})
}

// An interceptor before that of the package can store values and replace the metadata.
func TestKeys_EarlierInterceptor(t *testing.T) {
	each(t, func(t *testing.T, call caller) {
		var got string
		type userKey struct{}
		key := keyOf(func(ctx context.Context, r *http.Request) (string, error) {
			return fmt.Sprint(ctx.Value(userKey{}), r.Context().Value(userKey{}), r.Header["X-User"], r.Header["X-Own"]), nil
		}, &got)
		conn := setup{
			limiter: limits(core.SlidingLog("calls", core.PerHour(9))), key: key,
			before: func(ctx context.Context) context.Context {
				md, _ := metadata.FromIncomingContext(ctx)
				md["X-User"], md["x-own"] = []string{"bob"}, []string{} // a key that is not in lower case
				return context.WithValue(metadata.NewIncomingContext(ctx, md), userKey{}, "ann")
			},
		}.start(t)
		r := call(t.Context(), conn, "x-user", "ann")
		if r.err != nil || got != "annann[bob ann] []" && got != "annann[ann bob] []" {
			t.Errorf("got %v and the key %q", r.err, got)
		}
	})
}

// The key functions do not change the metadata that the handler gets.
func TestKeys_MetadataOfHandler(t *testing.T) {
	key := func(_ context.Context, r *http.Request) (string, error) {
		r.Header.Add("X-User", "eve")
		r.Header.Del("X-Other")
		return "k", nil
	}
	var got []string
	conn := setup{limiter: limits(core.SlidingLog("calls", core.PerHour(9))), key: key, ofUnary: func(ctx context.Context) error {
		got = append(metadata.ValueFromIncomingContext(ctx, "x-user"), metadata.ValueFromIncomingContext(ctx, "x-other")...)
		return nil
	}}.start(t)
	if r := verbs["unary"](t.Context(), conn, "x-user", "ann", "x-other", "1"); r.err != nil || !slices.Equal(got, []string{"ann", "1"}) {
		t.Errorf("got %v and %q", r.err, got)
	}
}

// A policy has a route for one method, and a limiter of all routes.
type policy struct{ route, all *core.Limiter }

func (p policy) ForAll() *core.Limiter { return p.all }

func (p policy) ForRequest(r *http.Request) *core.Limiter {
	if r.Pattern == streamMethod || r.Pattern == unaryMethod {
		return p.route
	}
	return nil
}

// A method has its route, and an unknown method that of all routes, also with a path of 1 MB.
func TestRoutes(t *testing.T) {
	each(t, func(t *testing.T, call caller) {
		s := memory(t)
		p := policy{route: s(core.SlidingLog("route", core.PerHour(1))), all: s(core.SlidingLog("all", core.PerHour(4)))}
		var patterns []string
		conn := setup{
			limiter: s(core.SlidingLog("own", core.PerHour(100))),
			opts: []gate.Option{gate.Routes(p), gate.OnDecision(func(_ context.Context, e gate.Event) {
				patterns = append(patterns, e.Pattern)
			})},
			server: []grpc.ServerOption{grpc.UnknownServiceHandler(func(_ any, ss grpc.ServerStream) error { return echo(ss) })},
		}.start(t)
		if r := call(t.Context(), conn); r.err != nil || len(r.fields("ratelimit")) != 1 || !strings.Contains(r.fields("ratelimit")[0], `"route";r=0`) {
			t.Errorf("got %v", r)
		}
		if r := call(t.Context(), conn); r.code() != codes.ResourceExhausted {
			t.Errorf("got %v, want RESOURCE_EXHAUSTED by the route", r.err)
		}
		long := "/unknown.Service/" + strings.Repeat("x", 1<<20)
		for i, method := range []string{long, "/test.Service/Other", "/unknown/../test.Service/Call"} {
			r := openStream(t.Context(), conn, method, 1)
			if got := r.fields("ratelimit"); r.err != nil || len(got) != 1 || !strings.Contains(got[0], fmt.Sprintf(`"all";r=%d`, 2-i)) || strings.Contains(got[0], `"route"`) {
				t.Errorf("%.30s: got %v and %q", method, r.err, got)
			}
		}
		if r := openStream(t.Context(), conn, long, 1); r.code() != codes.ResourceExhausted {
			t.Errorf("got %v, want RESOURCE_EXHAUSTED by all routes", r.err)
		}
		if want := slices.Repeat([]string{"/_OTHER"}, 4); len(patterns) != 6 || !slices.Equal(patterns[2:], want) || !strings.HasPrefix(patterns[0], "/test.Service/") {
			t.Errorf("got the patterns %.60q", patterns)
		}
	})
}

// A call with much metadata is decided, and repeated values stay in order.
func TestMetadata_Much(t *testing.T) {
	var kv []string
	for i := range 500 {
		kv = append(kv, fmt.Sprintf("x-%d-bin", i%50), string(bytes.Repeat([]byte{byte(i)}, 100)))
	}
	each(t, func(t *testing.T, call caller) {
		var got string
		conn := setup{limiter: limits(core.SlidingLog("calls", core.PerHour(9))), key: keyOf(func(_ context.Context, r *http.Request) (string, error) {
			for i, v := range r.Header["X-7-Bin"] {
				if v[0] != byte(7+50*i) {
					return "", fmt.Errorf("the value %d is %q", i, v)
				}
			}
			return fmt.Sprint(len(r.Header["X-7-Bin"])), nil
		}, &got)}.start(t)
		if r := call(t.Context(), conn, kv...); r.err != nil || got != "10" {
			t.Errorf("got %v and %q values", r.err, got)
		}
	})
}

// An address has the key of the HTTP middlewares, however the transport writes it. A client cannot choose it by the name
// of its Unix socket.
func TestKeys_Peer(t *testing.T) {
	unix := func(name string) net.Addr { return &net.UnixAddr{Name: name, Net: "unix"} }
	for _, c := range []struct {
		peer peer.Peer
		want string
	}{
		{peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP("203.0.113.9"), Port: 1}}, "203.0.113.9"},
		{peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 1}}, "2001:db8::/64"},
		{peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP("fe80::1"), Port: 1, Zone: "lo"}}, "fe80::/64"},
		{peer.Peer{Addr: textAddr("[::ffff:203.0.113.9]:2")}, "203.0.113.9"},
		{peer.Peer{Addr: textAddr("203.0.113.9:2"), LocalAddr: &net.TCPAddr{}}, "203.0.113.9"},
		{peer.Peer{Addr: &net.TCPAddr{}}, ""},
		{peer.Peer{}, ""},
		{peer.Peer{Addr: unix("")}, ""},
		{peer.Peer{Addr: unix("10.0.0.1")}, ""},
		{peer.Peer{Addr: unix("10.0.0.1:80")}, ""},
		{peer.Peer{Addr: unix("10.0.0.1:80"), LocalAddr: unix("@")}, ""},
		{peer.Peer{Addr: textAddr("10.0.0.1:80"), LocalAddr: unix("")}, ""}, // of Server.ServeHTTP
	} {
		var got string
		i := grpclimit.Unary(limits(core.SlidingLog("calls", core.PerHour(9))), keyOf(keyfunc.RemoteIP(), &got), gate.OnError(func(*http.Request, error, int) int { return 0 }))
		_, _ = i(peer.NewContext(t.Context(), &c.peer), nil, &grpc.UnaryServerInfo{FullMethod: unaryMethod}, func(context.Context, any) (any, error) { return nil, nil })
		if got != c.want && (c.want != "" || !strings.HasPrefix(got, "keyfunc: no key")) {
			t.Errorf("%v: got %q, want %q", &c.peer, got, c.want)
		}
	}
}

// A textAddr is the address of a call that has come through an http.Server.
type textAddr string

func (textAddr) Network() string  { return "tcp" }
func (a textAddr) String() string { return string(a) }
