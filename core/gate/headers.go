package gate

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
)

// A HeaderVersion selects a set of header fields that describe the limits of a request. These
// fields describe neither a [core.Rule.Shadow] nor a rule whose [core.State] is unknown.
type HeaderVersion uint8

const (
	// IETFDraft selects RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers-11),
	// with one member for every rule. Draft 11 expired on 2026-11-24, and there was no draft 12 then. A later
	// draft may change the fields, and a minor release then follows it.
	//
	// The parameters of RateLimit-Policy and RateLimit have times in seconds, rounded up:
	//
	//	q   the capacity of the rule under the limit in force
	//	w   the time in which that capacity is restored, if it is a second or more
	//	qu  the unit, if the draft defines it and it is not requests (see [core.Rule.Unit])
	//	r   the remaining number of events
	//	t   if r is above 0: the period that r refers to (core.State.Window)
	//	    if r is 0: the time until the next event is available
	//	    if the rule denied the request: the time until it admits the same cost, if it ever does
	//
	// The fields are set before the handler runs, so a redirect has them, too. The draft advises care there, because
	// a client that reads a small r may not follow the redirect: a handler can delete the fields.
	//
	// For a [core.InFlight], qu is concurrent-requests, and there is neither w nor t. With [core.Rule.ByCost] and a
	// unit other than requests, qu is that of the unit.
	IETFDraft HeaderVersion = iota + 1
	// XRateLimit selects X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, for one rule: that of
	// [XRateLimitRule], or else the one that has the smallest part of its capacity left, and a
	// [core.InFlight] only if there is no other rule. Reset is the time at which the whole capacity is
	// restored, in Unix seconds, rounded up. A [core.InFlight] has no Reset.
	XRateLimit

	endOfVersions
)

// Headers makes the gate send the header fields of the versions v, or none if v is empty. The
// default is that of the gate around it, or [IETFDraft] if there is none: an inner gate updates the fields of
// the outer one. Retry-After does not depend on Headers. Headers panics if a version is unknown.
func Headers(v ...HeaderVersion) Option {
	var set versions
	for _, v := range v {
		if v == 0 || v >= endOfVersions {
			panic(fmt.Sprintf("gate: Headers: unknown version %d", v))
		}
		set |= 1 << v
	}
	return option(func(o *options) { o.headers = &set })
}

// XRateLimitRule makes the fields of [XRateLimit] describe the rule called name ([core.Spec.Name] or
// [core.Spec.Label]), of this gate or one around it, so that a client sees one limit in each response:
//
//	nethttplimit.New(hourly, user, gate.And(concurrent, user), gate.Headers(gate.XRateLimit), gate.XRateLimitRule("hourly"))
//
// If the fields have no rule of that name, as on a route of [Routes] with another policy, for an unlimited
// caller or a shadow rule, the usual rule is described. The default is the name that the gate around this one
// has. Without [XRateLimit], the option has no effect. XRateLimitRule panics if name is empty.
func XRateLimitRule(name string) Option {
	if name == "" {
		panic("gate: XRateLimitRule: the name is empty")
	}
	return option(func(o *options) { o.xRateLimitRule = name })
}

// ExposeHeaders lets scripts of other origins read the header fields of the gate. The gate then
// adds their names to Access-Control-Expose-Headers (Fetch standard), after the names that are
// there already. A CORS middleware that replaces that field must run before the gate.
func ExposeHeaders() Option {
	return option(func(o *options) { o.exposeHeaders = true })
}

// versions is a set of HeaderVersions: bit v stands for version v.
type versions uint8

const (
	draft  versions = 1 << IETFDraft
	legacy versions = 1 << XRateLimit
)

func (s versions) has(v HeaderVersion) bool { return s>>v&1 != 0 }

// Names in the canonical form of http.Header. HTTP ignores the case.
const (
	fieldPolicy          = "Ratelimit-Policy"
	fieldRateLimit       = "Ratelimit"
	fieldLegacyLimit     = "X-Ratelimit-Limit"
	fieldLegacyRemaining = "X-Ratelimit-Remaining"
	fieldLegacyReset     = "X-Ratelimit-Reset"
	fieldExpose          = "Access-Control-Expose-Headers"
)

// maxInteger is the largest Integer of RFC 9651 section 3.3.1: 15 digits.
const maxInteger = 999_999_999_999_999

// seconds returns d in seconds, rounded up.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// appendInteger writes n as an Integer of RFC 9651. The header fields contain no negative Integers.
func appendInteger(b []byte, n int64) []byte {
	return strconv.AppendInt(b, min(max(n, 0), maxInteger), 10)
}

// appendString writes s as a String of RFC 9651. core.New has checked that s is printable ASCII.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}

// A member is the part of the header fields that describes one rule.
type member struct {
	policy *policy
	state  core.State
}

// appendMember appends a member of RateLimit, after a comma unless b is empty. t is absent if the
// cost can never be admitted, and for places, which end by an event. With r=0, t is at least 1:
// otherwise a client that follows t would send its next request at once.
func appendMember(b []byte, p *policy, s *core.State) []byte {
	if len(b) > 0 {
		b = append(b, ", "...)
	}
	b = append(b, p.limit...)
	b = appendInteger(b, int64(s.Remaining))
	if p.places || !s.Allowed && s.RetryAfter == core.Never {
		return b
	}
	t := seconds(s.Window)
	if s.Remaining <= 0 {
		t = max(t, 1)
	}
	b = append(b, ";t="...)
	return appendInteger(b, t)
}

// appendPolicy appends a member of RateLimit-Policy.
func appendPolicy(b []byte, p *policy, s *core.State) []byte {
	b = append(b, p.member...)
	if w := s.Period(); w > 0 {
		b = appendInteger(append(b, ";w="...), seconds(w))
	}
	return b
}

// stricter reports whether m must be listed instead of o, which has the same name.
func (m *member) stricter(o *member) bool {
	if m.state.Remaining != o.state.Remaining {
		return m.state.Remaining < o.state.Remaining
	}
	return m.state.Window > o.state.Window
}

// nearer reports whether m is nearer to exhaustion than o. Places come last: they end by an event, and
// of few places, one is always a large part.
func (m *member) nearer(o *member) bool {
	if m.policy.places != o.policy.places {
		return o.policy.places
	}
	if blocked := m.policy.rule.Capacity() == 0; blocked || o.policy.rule.Capacity() == 0 {
		return blocked
	}
	mine := float64(m.state.Remaining) * float64(o.policy.rule.Capacity())
	others := float64(o.state.Remaining) * float64(m.policy.rule.Capacity())
	if mine != others {
		return mine < others
	}
	return m.state.ResetAfter > o.state.ResetAfter
}

// ownVersions returns the versions that a gate with this option Headers sends without outer gates.
func ownVersions(option *versions) versions {
	if option != nil {
		return *option
	}
	return draft
}

// versions returns the versions that describe the decision of rec.
func (rec *record) versions() versions {
	around := rec.outer
	for around != nil && around.gate.check { // its choice is about itself
		around = around.outer
	}
	if around != nil && rec.gate.headers == nil {
		return around.versions()
	}
	return rec.gate.versions
}

// members appends the members of all gates around rec, the outermost first, and then those of d, its own
// decision. It skips gates that do not send version v, and lists each name once.
func (rec *record) members(list []member, v HeaderVersion, d *core.Decision) []member {
	if rec.outer != nil {
		d := rec.outer.reservation.Decision()
		list = rec.outer.members(list, v, &d)
	}
	if !rec.versions().has(v) {
		return list
	}
	for i, s := range d.States() {
		p := rec.gate.policies.of(i, s.Rule)
		if !p.visible || s.Unknown {
			continue
		}
		m := member{p, s}
		j := slices.IndexFunc(list, func(o member) bool { return o.policy.name == m.policy.name })
		if j < 0 {
			list = append(list, m)
		} else if m.stricter(&list[j]) {
			list[j] = m
		}
	}
	return list
}

// writeFields sets the header fields of every version of rec, whose decision is d. There are none if no rule has a
// State to show: shadows, Unlimited or unknown ones only.
func (rec *record) writeFields(h http.Header, d *core.Decision) {
	v := rec.gate.versions
	if rec.outer != nil {
		v = rec.versions()
	}
	if v&draft != 0 {
		if limits, known := rec.knownLimits(d); known {
			rec.values = [2]string{rec.gate.policyField, limits}
			rec.placeless = !rec.gate.policies.places
		} else {
			rec.values = rec.fields(d)
		}
		if rec.values[1] != "" {
			// The capacity of each slice is 1, so that Header.Add does not overwrite the next value.
			h[fieldPolicy] = rec.values[0:1:1]
			h[fieldRateLimit] = rec.values[1:2:2]
		}
	}
	if v&legacy != 0 {
		rec.writeLegacy(h, d)
	}
}

// fields returns the values of RateLimit-Policy and RateLimit.
func (rec *record) fields(d *core.Decision) [2]string {
	var few [8]member
	var buffers [2][128]byte
	policies, limits := buffers[0][:0], buffers[1][:0]
	for i, m := range rec.members(few[:0], IETFDraft, d) {
		if i > 0 {
			policies = append(policies, ", "...)
		}
		policies = appendPolicy(policies, m.policy, &m.state)
		limits = appendMember(limits, m.policy, &m.state)
	}
	return [2]string{string(policies), string(limits)}
}

// knownLimits returns the value of RateLimit if policyField is the right RateLimit-Policy for it.
// If several gates have decided, or a rule in force is not the rule that the limiter had first, or is a
// quota, knownLimits returns false.
func (rec *record) knownLimits(d *core.Decision) (limits string, ok bool) {
	g := rec.gate
	first := g.policies.first
	if rec.outer != nil || !g.distinct || d.Len() != len(first) {
		return "", false
	}
	var buffer [128]byte
	b := buffer[:0]
	for i, p := range first {
		s := d.State(i)
		if s.Unknown || p.rule != s.Rule || p.quota {
			return "", false
		}
		switch {
		case !p.visible:
		case len(first) == 1 && !p.places && !s.Allowed && s.Remaining == 0 && s.RetryAfter != core.Never:
			return p.denial(max(seconds(s.Window), 1), 0, false).limits, true
		default:
			b = appendMember(b, p, &s)
		}
	}
	return string(b), true
}

func (rec *record) writeLegacy(h http.Header, d *core.Decision) {
	var few [8]member
	list := rec.members(few[:0], XRateLimit, d)
	if len(list) == 0 {
		return // as in writeFields
	}
	m, name := &list[0], rec.xRateLimitRule()
	for i := range list {
		if p := list[i].policy; name != "" && (p.client == name || p.rule.Name() == name) {
			m = &list[i]
			break
		}
		if list[i].nearer(m) {
			m = &list[i]
		}
	}
	reset := clockOf(&m.state, rec.gate.now)().Add(m.state.ResetAfter).Add(time.Second - 1) // rounded up; Unix rounds down
	h[fieldLegacyLimit] = []string{integer(int64(m.policy.rule.Capacity()))}
	h[fieldLegacyRemaining] = []string{integer(int64(m.state.Remaining))}
	if m.policy.places || m.policy.rule.Limit() == core.Blocked && m.state.RetryAfter == core.Never {
		h.Del(fieldLegacyReset) // an outer gate may have set it
	} else {
		h[fieldLegacyReset] = []string{integer(reset.Unix())}
	}
}

// xRateLimitRule returns the name of XRateLimitRule of the innermost gate that has one.
func (rec *record) xRateLimitRule() string {
	for ; rec != nil; rec = rec.outer {
		if name := rec.gate.xRateLimitRule; name != "" {
			return name
		}
	}
	return ""
}

func integer(n int64) string { return string(appendInteger(nil, n)) }

// exposedFields lists the header fields that a gate can send.
func exposedFields(v versions) []string {
	var names []string
	if v.has(IETFDraft) {
		names = append(names, "RateLimit", "RateLimit-Policy")
	}
	names = append(names, "Retry-After")
	if v.has(XRateLimit) {
		names = append(names, "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
	}
	return names
}

// expose adds the names of the header fields to Access-Control-Expose-Headers, unless they are there.
func (rec *record) expose(h http.Header) {
	names := rec.gate.exposed
	if rec.outer != nil { // which may have chosen the versions
		names = exposedFields(rec.versions())
	}
	list := strings.Join(h[fieldExpose], ", ")
	for _, name := range names {
		if !listed(list, name) {
			if list != "" {
				list += ", "
			}
			list += name
		}
	}
	h.Set(fieldExpose, list)
}

// listed reports whether a comma-separated list of field names contains name.
func listed(list, name string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.Trim(item, " \t"), name) {
			return true
		}
	}
	return false
}
