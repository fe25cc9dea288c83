package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/argument"
)

// A Handler responds with the page, or with JSON. Use [New] to make one. It is safe for concurrent use.
type Handler struct {
	authorize func(*http.Request) bool
	store     *observe.Store
	process   string
	begun     time.Time
	history   history
	off       func(rule string) bool // see driver.Description
	fleet     *rules.Fleet           // nil if the store has no states in Redis
	figures   figures
	config

	closing sync.Once
	closed  chan struct{}
	ended   chan struct{}
}

type config struct {
	limiters []*core.Limiter
	set      *rules.Set // nil without Rules
}

// An Option configures a [Handler].
type Option interface{ argument.Option[config] }

type option = argument.OptionFunc[config]

// Limiters adds limiters of the application to the rules in force and to the answers about keys.
// Limiters panics if one of them is nil.
func Limiters(all ...*core.Limiter) Option {
	for i, l := range all {
		argument.NotNil("inspect: Limiters", fmt.Sprint("limiter ", i), l)
	}
	return option(func(c *config) { c.limiters = append(c.limiters, all...) })
}

// Rules adds the limiters of a Set, with the commands of weir rules that change the limits of a key. The
// figures of the Set are on the page if it was added to the observe.Store, too. Rules panics if set is
// nil.
func Rules(set *rules.Set) Option {
	argument.NotNil("inspect: Rules", "set", set)
	return option(func(c *config) { c.set = set })
}

// New returns a Handler for the decisions that store counts; the Store of package resilient has it as
// Observer. The Handler calls authorize, concurrently, for every request that [Handler.ServeHTTP] does not
// reject, and answers 401 with a challenge for a user and a password (RFC 7617) if the result is false.
// authorize must authenticate the person, as the package comment describes. An application with sessions
// puts the Handler behind its own middleware, which can redirect to a login page.
//
// New panics if authorize, store or an option is nil. The Handler has a goroutine until [Handler.Close].
func New(authorize func(*http.Request) bool, store *observe.Store, opts ...Option) *Handler {
	argument.NotNil("inspect: New", "authorize", authorize)
	argument.NotNil("inspect: New", "store", store)
	h := &Handler{authorize: authorize, store: store, begun: time.Now(), closed: make(chan struct{}), ended: make(chan struct{})}
	argument.Apply("inspect: New", &h.config, opts)
	h.off, h.fleet = driver.Describe(store).Off, rules.FleetOf(store)
	host, _ := os.Hostname()
	h.process = fmt.Sprintf("%s, process %d", host, os.Getpid())
	h.history.start(store.Snapshot())
	go h.run()
	return h
}

// run completes a minute of the history after each minute.
func (h *Handler) run() {
	defer close(h.ended)
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-h.closed:
			return
		case <-ticker.C:
			h.history.next(h.store.Snapshot())
		}
	}
}

// Close ends the goroutine of h, which then completes no further minute of its charts. It may be called
// more than once, and returns nil.
func (h *Handler) Close() error {
	h.closing.Do(func() { close(h.closed) })
	<-h.ended
	return nil
}

const (
	maxBody = 16 << 10        // bytes of a question about a key
	timeout = 2 * time.Second // for all calls of stores about a key
)

// protection has no trusted origins.
var protection http.CrossOriginProtection

// isForeign reports whether a page of another origin has caused r, in a browser. A link to the page is
// not foreign: the other page cannot read the response, which has no answer about a key.
func isForeign(r *http.Request) bool {
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	if read && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
		return false
	}
	post := *r
	post.Method = http.MethodPost // Check would allow a GET
	return protection.Check(&post) != nil
}

// ServeHTTP implements [http.Handler]. The methods are GET, HEAD and POST; a POST has the form fields key,
// without the spaces around it, and plan.
//
// The response to a request that a page of another origin has caused is 403: one with Sec-Fetch-Site
// cross-site or same-site (a sibling domain), or without Sec-Fetch-Site and with an Origin of another host
// than the Host field. Links to the page, and requests without these fields, such as those of curl, are
// not concerned.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if isForeign(r) {
		http.Error(w, "A page of another origin has sent this request.", http.StatusForbidden)
		return
	}
	if !h.authorize(r) {
		header.Set("WWW-Authenticate", `Basic realm="limits", charset="UTF-8"`)
		http.Error(w, "This page is for operators.", http.StatusUnauthorized)
		return
	}
	var asked question
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPost:
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if err := r.ParseForm(); err != nil {
			http.Error(w, "The form cannot be read.", http.StatusBadRequest)
			return
		}
		if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" {
			http.Error(w, "The body is not application/x-www-form-urlencoded.", http.StatusUnsupportedMediaType)
			return
		}
		asked = question{strings.TrimSpace(r.PostForm.Get("key")), r.PostForm.Get("plan")}
	default:
		header.Set("Allow", "GET, HEAD, POST")
		http.Error(w, "The method is not GET, HEAD or POST.", http.StatusMethodNotAllowed)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	all := h.report(ctx, asked)
	if r.URL.Query().Get("format") == "json" {
		text, err := json.Marshal(all)
		if err != nil { // a measure of the application is no number
			http.Error(w, "The report cannot be written as JSON.", http.StatusInternalServerError)
			return
		}
		header.Set("Content-Type", "application/json")
		_, _ = w.Write(text)
		return
	}
	writePage(w, all)
}
