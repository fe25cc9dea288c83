package page

import (
	"encoding/json"
	"net/http"
	"runtime"

	"github.com/weir-go/weir/cmd/weir/internal/playground"
)

// Handler returns a handler of the page, at /, and of the runs that it asks for, at /run. As many runs as there
// are processors are done at a time. The Host of a request is not checked: the handler knows no secret, and a
// run changes nothing.
func Handler() http.Handler {
	text := content.text()
	running := make(chan struct{}, runtime.GOMAXPROCS(0))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(text)
	})
	mux.HandleFunc("GET /run", func(w http.ResponseWriter, r *http.Request) {
		select {
		case running <- struct{}{}:
			defer func() { <-running }()
			writeRun(w, r)
		case <-r.Context().Done():
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", rules+"; frame-ancestors 'none'")
		mux.ServeHTTP(w, r)
	})
}

// writeRun writes the Result for the query, or an error of it. The run ends early with the context of r.
func writeRun(w http.ResponseWriter, r *http.Request) {
	status, document := http.StatusOK, any(nil)
	p, err := playground.Parse(r.URL.RawQuery)
	if err != nil {
		status = http.StatusBadRequest
	} else if document, err = playground.Run(r.Context(), p); err != nil {
		status = http.StatusInternalServerError
	}
	if err != nil {
		document = map[string]string{"error": err.Error()}
	}
	text, err := json.Marshal(document)
	if err != nil {
		http.Error(w, "The run cannot be written as JSON.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}
