package frameworks_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/keyfunc"
)

const (
	formType = "application/x-www-form-urlencoded"
	jsonType = "application/json"
)

// withBody gives r a body, and a method that has one.
func withBody(r *http.Request, body string) *http.Request {
	r.Method = http.MethodPost
	r.URL = &url.URL{Path: "/login"}
	r.ContentLength = int64(len(body))
	r.Body = io.NopCloser(strings.NewReader(body))
	return r
}

// post returns a request with a body. contentType may be "".
func post(contentType, body string) *http.Request {
	r := withBody(request(""), body)
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	return r
}

// multi returns a multipart form and its Content-Type. A field whose name ends with "@" is a file.
func multi(t *testing.T, fields ...string) (contentType, body string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		part, err := w.CreateFormField(fields[i])
		if name, ok := strings.CutSuffix(fields[i], "@"); ok {
			part, err = w.CreateFormFile(name, "file.txt")
		}
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(part, fields[i+1])
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), b.String()
}

// request returns a request from peer with header lines of the form "Name: value".
func request(peer string, lines ...string) *http.Request {
	r := &http.Request{Method: http.MethodGet, RemoteAddr: peer, Header: http.Header{}}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func ask(f keyfunc.Func, r *http.Request) (string, error) { return f(r.Context(), r) }

func wantKey(t *testing.T, f keyfunc.Func, r *http.Request, want string) {
	t.Helper()
	got, err := ask(f, r)
	if err != nil || got != want {
		t.Errorf("key = %q, %v; want %q", got, err, want)
	}
}

// withSecret is a Keyfunc that returns a secret.
func withSecret(*jwt.Token) (any, error) { return []byte("0123456789abcdef0123456789abcdef"), nil }

// must returns a key.
func must[K any](key K, err error) K {
	if err != nil {
		panic(err)
	}
	return key
}
