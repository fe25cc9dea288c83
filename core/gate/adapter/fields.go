package adapter

import (
	"math/bits"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
)

// versions is a set of HeaderVersions: bit v stands for version v.
type versions uint8

func (s versions) has(v gate.HeaderVersion) bool { return s>>v&1 != 0 }

// Names in the form that http.Header uses; HTTP does not mind the case.
const (
	fieldPolicy          = "Ratelimit-Policy"
	fieldRateLimit       = "Ratelimit"
	fieldLegacyLimit     = "X-Ratelimit-Limit"
	fieldLegacyRemaining = "X-Ratelimit-Remaining"
	fieldLegacyReset     = "X-Ratelimit-Reset"
	fieldSoft            = "X-Ratelimit-Soft"
	fieldExpose          = "Access-Control-Expose-Headers"
)

// maxInteger is the largest Integer of RFC 9651 section 3.3.1: 15 digits.
const maxInteger = 999_999_999_999_999

// A policy is a rule as clients see it, with all that never changes worked out.
type policy struct {
	rule   core.Rule
	name   string // as a String of RFC 9651
	member string // of RateLimit-Policy
}

func newPolicy(rule core.Rule) policy {
	name := appendString(nil, rule.Name())
	member := append(name, ";q="...)
	member = appendInteger(member, int64(rule.Capacity()))
	if w := fillTime(rule); w >= time.Second {
		member = append(member, ";w="...)
		member = appendInteger(member, seconds(w))
	}
	return policy{rule: rule, name: string(name), member: string(member)}
}

// tells says whether p is what clients are told about rule.
func (p *policy) tells(rule core.Rule) bool {
	return p.rule.Limit() == rule.Limit() && p.rule.Name() == rule.Name() &&
		p.rule.IsShadow() == rule.IsShadow() && p.rule.SoftPercent() == rule.SoftPercent()
}

// policy is about the rule that was in force for the i-th State, which is not
// always the one that the limiter was made with: that of an elastic one has another
// limit.
func (g *Gate) policy(i int, rule core.Rule) *policy {
	if i < len(g.policies) && g.policies[i].tells(rule) {
		return &g.policies[i]
	}
	p := newPolicy(rule)
	return &p
}

// fillTime is how long the capacity of a rule takes to come back, rounded up.
// Of a log it is the period. core.New has refused what takes more than 100 years.
func fillTime(rule core.Rule) time.Duration {
	l := rule.Limit()
	hi, lo := bits.Mul64(uint64(rule.Capacity()), uint64(l.Per))
	d, rem := bits.Div64(hi, lo, uint64(l.Events))
	if rem > 0 {
		d++
	}
	return time.Duration(d)
}

// seconds rounds up.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// appendInteger writes an Integer of RFC 9651. No field has room for a negative
// one.
func appendInteger(b []byte, n int64) []byte {
	return strconv.AppendInt(b, min(max(n, 0), maxInteger), 10)
}

// appendString writes a String of RFC 9651. core.New has made sure that s is
// printable ASCII.
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

// A member is what the fields say about one rule.
type member struct {
	policy *policy
	state  core.State
}

// appendMember writes a member of RateLimit. A cost that can never be admitted has no t.
// With nothing left, t is at least 1: a client that paces itself by the field would come
// back at once otherwise.
func appendMember(b []byte, p *policy, s *core.State) []byte {
	b = append(b, p.name...)
	b = append(b, ";r="...)
	b = appendInteger(b, int64(s.Remaining))
	if !s.Allowed && s.RetryAfter == core.Never {
		return b
	}
	t := seconds(s.Window)
	if s.Remaining <= 0 {
		t = max(t, 1)
	}
	b = append(b, ";t="...)
	return appendInteger(b, t)
}

// stricter says which of two states of one name is told.
func (m *member) stricter(o *member) bool {
	if m.state.Remaining != o.state.Remaining {
		return m.state.Remaining < o.state.Remaining
	}
	return m.state.Window > o.state.Window
}

// nearer says which of two rules is nearer to exhaustion.
func (m *member) nearer(o *member) bool {
	mine := float64(m.state.Remaining) * float64(o.policy.rule.Capacity())
	others := float64(o.state.Remaining) * float64(m.policy.rule.Capacity())
	if mine != others {
		return mine < others
	}
	return m.state.ResetAfter > o.state.ResetAfter
}

// members collects what all gates up to r have to say in version v, the
// outermost gate first and every name once.
func (r *record) members(list []member, v gate.HeaderVersion) []member {
	if r.outer != nil {
		list = r.outer.members(list, v)
	}
	if !r.versions.has(v) {
		return list
	}
next:
	for i, s := range r.decision.States() {
		if s.Rule.IsShadow() || s.Unknown {
			continue
		}
		m := member{r.gate.policy(i, s.Rule), s}
		for j := range list {
			if list[j].policy.name == m.policy.name {
				if m.stricter(&list[j]) {
					list[j] = m
				}
				continue next
			}
		}
		list = append(list, m)
	}
	return list
}

// write sets the fields of every version of r.
func (r *record) write(h http.Header) {
	known := false
	if r.versions.has(gate.IETFDraft) {
		known = r.writeDraft(h)
	}
	if r.versions.has(gate.XRateLimit) {
		r.writeLegacy(h)
	}
	if r.versions != 0 && (r.gate.soft || !known) {
		r.writeSoft(h)
	}
}

// writeDraft says whether the rules are known to be as they were made.
func (r *record) writeDraft(h http.Header) (known bool) {
	var room [128]byte
	b, known := r.appendKnown(room[:0])
	if known {
		r.values[0] = r.gate.policyField
	} else {
		var few [8]member
		list := r.members(few[:0], gate.IETFDraft)
		for i := range list {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(b, list[i].policy.member...)
		}
		r.values[0] = string(b)
		b = b[:0]
		for i := range list {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendMember(b, list[i].policy, &list[i].state)
		}
	}
	if len(b) == 0 {
		return known // shadows only
	}
	r.values[1] = string(b)
	// The capacity ends at the value, so that an Add elsewhere does not reach the next.
	h[fieldPolicy] = r.values[0:1:1]
	h[fieldRateLimit] = r.values[1:2:2]
	return known
}

// appendKnown writes RateLimit if policyField is the RateLimit-Policy that goes with
// it, as it is but for several gates on a request and rules that are not as they
// were made. Otherwise it returns false and nothing written.
func (r *record) appendKnown(b []byte) (known []byte, ok bool) {
	g := r.gate
	if r.outer != nil || !g.distinct || r.decision.Len() != len(g.policies) {
		return b, false
	}
	known = b
	for i := range g.policies {
		s, p := r.decision.State(i), &g.policies[i]
		if s.Unknown || !p.tells(s.Rule) {
			return b, false
		}
		if s.Rule.IsShadow() {
			continue
		}
		if len(known) > 0 {
			known = append(known, ", "...)
		}
		known = appendMember(known, p, &s)
	}
	return known, true
}

func (r *record) writeLegacy(h http.Header) {
	var few [8]member
	list := r.members(few[:0], gate.XRateLimit)
	if len(list) == 0 {
		return // shadows only
	}
	m := &list[0]
	for i := range list[1:] {
		if o := &list[i+1]; o.nearer(m) {
			m = o
		}
	}
	reset := time.Now().Add(m.state.ResetAfter)
	unix := reset.Unix()
	if reset.Nanosecond() > 0 {
		unix++
	}
	h[fieldLegacyLimit] = []string{integer(int64(m.policy.rule.Capacity()))}
	h[fieldLegacyRemaining] = []string{integer(int64(m.state.Remaining))}
	h[fieldLegacyReset] = []string{integer(unix)}
}

func integer(n int64) string { return string(appendInteger(nil, n)) }

// writeSoft names the rules beyond whose limit the request was let through. If it is
// none of this gate's, what the gates around it have written stays.
func (r *record) writeSoft(h http.Header) {
	if !r.decision.Soft() {
		return
	}
	var list []byte
	for i, name := range r.softNames(nil) {
		if i > 0 {
			list = append(list, ", "...)
		}
		list = appendString(list, name)
	}
	h[fieldSoft] = []string{string(list)}
}

// softNames collects from all gates up to r that send fields, the outermost first and
// every name once.
func (r *record) softNames(names []string) []string {
	if r.outer != nil {
		names = r.outer.softNames(names)
	}
	if r.versions == 0 || !r.decision.Allowed {
		return names
	}
	for _, s := range r.decision.States() {
		if name := s.Rule.Name(); s.Soft && !s.Rule.IsShadow() && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// exposedFields lists the fields that this gate can send.
func (g *Gate) exposedFields() []string {
	visible := g.policyField != "" // or there are shadows only
	var names []string
	if visible && g.versions.has(gate.IETFDraft) {
		names = append(names, "RateLimit", "RateLimit-Policy")
	}
	names = append(names, "Retry-After")
	if visible && g.versions.has(gate.XRateLimit) {
		names = append(names, "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
	}
	if g.soft && g.versions != 0 {
		names = append(names, "X-RateLimit-Soft")
	}
	return names
}

// exposeFields adds the names that are not there yet.
func (g *Gate) exposeFields(h http.Header) {
	have := strings.Join(h[fieldExpose], ", ")
	list := have
	for _, name := range g.exposed {
		if !listed(have, name) {
			if list != "" {
				list += ", "
			}
			list += name
		}
	}
	h.Set(fieldExpose, list)
}

// listed says whether a comma-separated list of field names has name.
func listed(list, name string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.Trim(item, " \t"), name) {
			return true
		}
	}
	return false
}
