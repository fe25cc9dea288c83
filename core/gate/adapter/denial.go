package adapter

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
)

// A denial is the Rejection of a denied request. One allocation holds it and all that it refers to.
type denial struct {
	rejection gate.Rejection
	problem   gate.Problem
	violated  [1]string // the array of problem.Violated, unless there are more
	values    [2]string // of the header fields
}

// deny returns the Rejection of a request that d denies and sets its header fields.
func (g *Gate) deny(h http.Header, r *http.Request, d core.Decision) *gate.Rejection {
	n := &denial{values: [2]string{1: "no-store"}}
	h["Cache-Control"] = n.values[1:2:2]
	status := http.StatusTooManyRequests
	if g.options.DeniedStatus != nil {
		if s := g.options.DeniedStatus(d); s >= 400 && s <= 599 {
			status = s
		}
	}
	if status == http.StatusUnauthorized {
		challenge(h)
	}
	p := &n.problem
	if *p = newProblem(r, status); status == http.StatusTooManyRequests {
		p.Type, p.Title = gate.TypeQuotaExceeded, quotaTitle
	}
	violated := n.violated[:0]
	named, wait := -1, time.Duration(-1) // the rule with the longest RetryAfter, which the text describes
	for i, s := range d.States() {
		if s.Allowed || s.Rule.IsShadow() {
			continue
		}
		if s.RetryAfter > wait {
			named, wait = i, s.RetryAfter
		}
		if name := s.Rule.ClientName(); !slices.Contains(violated, name) {
			violated = append(violated, name)
		}
	}
	retry, later := gate.RetryAfter(d)
	if named >= 0 {
		s := d.State(named)
		texts := g.policies.of(named, s.Rule).denial(retry, blockEnd(&s))
		n.values[0], p.Detail, p.Violated = texts.retryAfter, texts.detail, violated
	} else { // the Store denies without a reason
		n.values[0] = strconv.FormatInt(retry, 10)
	}
	if later {
		h["Retry-After"] = n.values[0:1:1]
	} else {
		h.Del("Retry-After")
	}
	n.rejection = gate.Rejection{Problem: p, Decision: d, Err: gate.ErrDenied}
	return &n.rejection
}
