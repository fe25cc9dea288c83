package nethttplimit

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A function of OnRejected that chooses no status sends that of the problem.
func TestResponding(t *testing.T) {
	for name, c := range map[string]struct {
		f    func(http.ResponseWriter)
		want int
	}{
		"nothing":       {func(http.ResponseWriter) {}, 503},
		"a status":      {func(w http.ResponseWriter) { w.WriteHeader(418) }, 418},
		"Early Hints":   {func(w http.ResponseWriter) { w.WriteHeader(103) }, 503},
		"a body":        {func(w http.ResponseWriter) { _, _ = w.Write([]byte("x")) }, 503},
		"an empty body": {func(w http.ResponseWriter) { _, _ = w.Write(nil) }, 503},
		"a text":        {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "x") }, 503},
		"a copy":        {func(w http.ResponseWriter) { _, _ = io.Copy(w, strings.NewReader("x")) }, 503},
		"a flush":       {func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }, 503},
		"a deadline": {func(w http.ResponseWriter) {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute))
		}, 503},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			own := &responding{ResponseWriter: w, status: 503}
			c.f(own)
			own.begin()
		}))
		resp, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		server.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s: the status is %d, want %d", name, resp.StatusCode, c.want)
		}
	}
}
