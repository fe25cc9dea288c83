package adapter

import (
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
// cost can never be admitted. With r=0, t is at least 1: otherwise a client that follows t would
// send its next request at once.
func appendMember(b []byte, p *policy, s *core.State) []byte {
	if len(b) > 0 {
		b = append(b, ", "...)
	}
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

// stricter reports whether m must be listed instead of o, which has the same name.
func (m *member) stricter(o *member) bool {
	if m.state.Remaining != o.state.Remaining {
		return m.state.Remaining < o.state.Remaining
	}
	return m.state.Window > o.state.Window
}

// nearer reports whether m is nearer to exhaustion than o.
func (m *member) nearer(o *member) bool {
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

// members appends the members of the gate of rc and of all gates around it, the outermost gate
// first. It skips gates that do not send version v, and lists each name once.
func (rc *requestContext) members(list []member, v gate.HeaderVersion) []member {
	if rc.nested {
		list = requestContextOf(rc.Context).members(list, v)
	}
	if !rc.versions.has(v) {
		return list
	}
	for i, s := range rc.Decision().States() {
		p := rc.gate.policies.of(i, s.Rule)
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

// writeFields sets the header fields of every version of rc, whose decision is d.
func (rc *requestContext) writeFields(h http.Header, d *core.Decision) {
	if rc.versions.has(gate.IETFDraft) {
		rc.writeDraft(h, d)
	}
	if rc.versions.has(gate.XRateLimit) {
		rc.writeLegacy(h)
	}
}

// writeDraft sets RateLimit-Policy and RateLimit.
func (rc *requestContext) writeDraft(h http.Header, d *core.Decision) {
	if limits, known := rc.knownLimits(d); known {
		rc.values = [2]string{rc.gate.policyField, limits}
	} else {
		rc.values = rc.fields()
	}
	if rc.values[1] == "" {
		return // no rule has a State to show: shadows, Unlimited or unknown ones only
	}
	// The capacity of each slice is 1, so that Header.Add does not overwrite the next value.
	h[fieldPolicy] = rc.values[0:1:1]
	h[fieldRateLimit] = rc.values[1:2:2]
}

// fields returns the values of RateLimit-Policy and RateLimit.
func (rc *requestContext) fields() [2]string {
	var few [8]member
	var buffers [2][128]byte
	policies, limits := buffers[0][:0], buffers[1][:0]
	for i, m := range rc.members(few[:0], gate.IETFDraft) {
		if i > 0 {
			policies = append(policies, ", "...)
		}
		policies = append(policies, m.policy.member...)
		limits = appendMember(limits, m.policy, &m.state)
	}
	return [2]string{string(policies), string(limits)}
}

// knownLimits returns the value of RateLimit if policyField is the right RateLimit-Policy for it.
// If several gates have decided, or a rule in force is not the rule that the limiter had first,
// knownLimits returns false.
func (rc *requestContext) knownLimits(d *core.Decision) (limits string, ok bool) {
	g := rc.gate
	first := g.policies.first
	if rc.nested || !g.distinct || d.Len() != len(first) {
		return "", false
	}
	var buffer [128]byte
	b := buffer[:0]
	for i, p := range first {
		s := d.State(i)
		if s.Unknown || p.rule != s.Rule {
			return "", false
		}
		switch {
		case !p.visible:
		case len(first) == 1 && !s.Allowed && s.Remaining == 0 && s.RetryAfter != core.Never:
			return p.denial(max(seconds(s.Window), 1), 0).limits, true
		default:
			b = appendMember(b, p, &s)
		}
	}
	return string(b), true
}

func (rc *requestContext) writeLegacy(h http.Header) {
	var few [8]member
	list := rc.members(few[:0], gate.XRateLimit)
	if len(list) == 0 {
		return // as in writeDraft
	}
	m := &list[0]
	for i := range list {
		if list[i].nearer(m) {
			m = &list[i]
		}
	}
	reset := time.Now().Add(m.state.ResetAfter).Add(time.Second - 1) // rounded up; Unix rounds down
	h[fieldLegacyLimit] = []string{integer(int64(m.policy.rule.Capacity()))}
	h[fieldLegacyRemaining] = []string{integer(int64(m.state.Remaining))}
	if m.policy.rule.Limit() == core.Blocked && m.state.RetryAfter == core.Never {
		h.Del(fieldLegacyReset) // an outer gate may have set it
	} else {
		h[fieldLegacyReset] = []string{integer(reset.Unix())}
	}
}

func integer(n int64) string { return string(appendInteger(nil, n)) }

// exposedFields lists the header fields that a gate can send.
func exposedFields(v versions) []string {
	var names []string
	if v.has(gate.IETFDraft) {
		names = append(names, "RateLimit", "RateLimit-Policy")
	}
	names = append(names, "Retry-After")
	if v.has(gate.XRateLimit) {
		names = append(names, "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
	}
	return names
}

// expose adds names to Access-Control-Expose-Headers, unless they are there.
func expose(h http.Header, names []string) {
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
