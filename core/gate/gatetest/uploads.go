package gatetest

import (
	"bytes"
	"errors"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
	"github.com/weir-go/weir/internal/testkit"
)

// uploads is the number of uploads of each case.
const uploads = 3

// testUploads checks that the temporary files of multipart forms are removed as without a gate. net/http
// removes the files of the request that it has made, and a gate passes a copy on.
func (s *suite) testUploads(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			ways := map[string]http.HandlerFunc{
				"returns": says("ok\n"),
				"panics":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			}
			if !http2 {
				ways["hijacks"] = func(w http.ResponseWriter, r *http.Request) { _ = takeOver(w, r) }
			}
			for way, then := range ways {
				h := func(w http.ResponseWriter, r *http.Request) { parseUpload(t, r); then(w, r) }
				want := 0
				if !http2 && way != "returns" { // net/http does not remove the files then
					want = uploads
				}
				if got := filesOf(t, http2, http.HandlerFunc(h), want); got != want {
					t.Fatalf("without a gate, %d uploads of a handler that %s leave %d files, want %d", uploads, way, got, want)
				}
				for name, app := range s.uploadApplications(t, h) {
					t.Run(name+", "+way, func(t *testing.T) {
						if got := filesOf(t, http2, app, want); got != want {
							t.Errorf("%d uploads leave %d files, and without a gate %d", uploads, got, want)
						}
						if way != "panics" {
							return
						}
						if got := filesOf(t, http2, recovering(app), 0); got != 0 {
							t.Errorf("%d uploads leave %d files behind a middleware that recovers, want 0", uploads, got)
						}
					})
				}
			}
		})
	}
}

// uploadApplications returns applications in which h parses the form of a request that a gate has let
// through, denied or rejected.
func (s *suite) uploadApplications(t *testing.T, h http.HandlerFunc) map[string]http.Handler {
	hundred := func() *core.Limiter { return core.Must(core.New(memory(), apptest.Hundred)) }
	one := place(t, false)
	one.Handler = h
	apps := map[string]http.Handler{
		"admitted":    s.start(setup{Handler: h}),
		"RefundIf":    s.start(setup{Handler: h, Refund: true}),
		"a place":     s.start(one),
		"skipped":     s.start(setup{Handler: h, Opts: []gate.Option{skipped}}),
		"undecided":   s.start(setup{Handler: h, Err: errSecret, Opts: []gate.Option{quiet}}),
		"two gates":   s.stack([]Gate{outerGate(), outerGate(refundAll)}, h),
		"inner skips": s.stack([]Gate{outerGate(), outerGate(skipped)}, h),
	}
	if s.nest != nil {
		apps["two gates in one application"] = s.nest([]Gate{outerGate(), {hundred(), constant("k"), []gate.Option{refundAll}}}, h)
	}
	if s.onDenied != nil {
		with := s.onDenied(func(w http.ResponseWriter, r *http.Request, _ core.Decision) { h(w, r) })
		apps["OnDenied"] = s.start(setup{States: states{"hundred": denied(time.Minute)}, Opts: []gate.Option{with}})
	}
	if s.onRejected != nil {
		with := s.onRejected(func(w http.ResponseWriter, r *http.Request, _ *gate.Rejection) { h(w, r) })
		apps["OnRejected"] = s.start(setup{Err: errSecret, Opts: []gate.Option{with, quiet, gate.FailClosed()}})
	}
	if s.buildCalls == nil {
		return apps
	}
	for name, gates := range map[string][]Gate{"Check": nil, "Check behind a gate": {outerGate()}} {
		apps[name] = s.buildCalls(gates, func(w http.ResponseWriter, call Call) error {
			if err := call.Check(hundred(), "ann"); err != nil {
				return err
			}
			h(w, call.Request())
			return nil
		})
	}
	apps["a middleware inside replaces the request"] = s.buildCalls([]Gate{outerGate()}, func(w http.ResponseWriter, call Call) error {
		if r := call.Request(); call.Replace != nil {
			call.Replace(r.WithContext(r.Context()))
		}
		h(w, call.Request())
		return nil
	})
	return apps
}

// parseUpload parses the form of r, whose file does not fit in the memory for it.
func parseUpload(t *testing.T, r *http.Request) {
	if err := r.ParseMultipartForm(1 << 10); err != nil {
		t.Errorf("the form cannot be parsed: %v", err)
	} else if r.PostFormValue("user") != "ann" {
		t.Errorf("the form is %v", r.PostForm)
	}
}

// upload returns the body of a multipart form with a field and a file of 64 KiB, and its Content-Type.
func upload(t *testing.T) (body *bytes.Buffer, contentType string) {
	t.Helper()
	body = new(bytes.Buffer)
	form := multipart.NewWriter(body)
	file, err := form.CreateFormFile("file", "numbers")
	_, err2 := file.Write(make([]byte, 64<<10))
	testkit.Must(t, errors.Join(err, err2, form.WriteField("user", "ann"), form.Close()))
	return body, form.FormDataContentType()
}

// filesOf uploads to a server of h, and returns the number of temporary files that are left when it has
// ended. want is the number that is expected.
func filesOf(t *testing.T, http2 bool, h http.Handler, want int) int {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	served := make(chan struct{}, uploads)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { served <- struct{}{} }()
		h.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = http2
	if http2 {
		server.StartTLS()
	} else {
		server.Start()
	}
	client := server.Client()
	client.Transport.(*http.Transport).DisableKeepAlives = true // a handler may have closed the last connection
	for range uploads {
		body, contentType := upload(t)
		if resp, err := client.Post(server.URL, contentType, body); err == nil { // there is no response to a panic
			resp.Body.Close()
		}
		<-served
	}
	server.Close()
	files := func() int {
		list, err := os.ReadDir(dir)
		testkit.Must(t, err)
		return len(list)
	}
	// With HTTP/2, the server may remove the files of the last request after Close.
	for deadline := time.Now().Add(time.Second); files() != want && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	return files()
}

// recovering returns a handler that recovers the panics of h, as middlewares do.
func recovering(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { _ = recover() }()
		h.ServeHTTP(w, r)
	})
}

// testOuterReaders checks that code around the gate finds in its request the forms and the pattern that
// code inside the gate has set.
func (s *suite) testOuterReaders(t *testing.T) {
	const pattern = "POST /orders/{id}"
	h := func(w http.ResponseWriter, r *http.Request) {
		parseUpload(t, r)
		r.Pattern = pattern
		says("ok\n")(w, r)
	}
	for name, app := range s.uploadApplications(t, h) {
		t.Run(name, func(t *testing.T) {
			body, contentType := upload(t)
			r := httptest.NewRequest("POST", "/", body)
			r.Header.Set("Content-Type", contentType)
			r.RemoteAddr = "192.0.2.1:1234"
			before := r.Context()
			app.ServeHTTP(httptest.NewRecorder(), r)
			if r.MultipartForm == nil || len(r.MultipartForm.File["file"]) != 1 {
				t.Fatalf("MultipartForm is %v", r.MultipartForm)
			}
			testkit.Must(t, r.MultipartForm.RemoveAll())
			if got := []string{r.Form.Get("user"), r.PostForm.Get("user"), r.Pattern}; !slices.Equal(got, []string{"ann", "ann", pattern}) {
				t.Errorf("Form, PostForm and Pattern are %q", got)
			}
			if r.Context() != before && name != "Check" {
				t.Error("the request of code around the gate has another context")
			}
		})
	}
}
