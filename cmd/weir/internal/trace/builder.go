package trace

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/keyfunc"
)

const (
	maxInterned     = 1 << 16 // number of texts
	maxInternedText = 256     // length of a text in bytes
	// maxText is the length of a key, a plan or a request, in bytes. Longer ones, which clients can choose, would take
	// much memory while their events wait.
	maxText = 1024
)

const notAlone = "the key contains an address and other text"

// A builder makes the events of a file.
type builder struct {
	times timeParser
	noKey string            // the reason for a line without a key
	keys  map[string]string // keys by their texts, because keys are repeated
	texts map[string]string // plans and requests
	text  []byte            // the latest request
	date  []byte            // the latest time that follows a date
}

// newBuilder returns a builder of events whose keys are in the field name, or in one of several if it is empty.
func newBuilder(name string) *builder {
	noKey := "no key"
	if name != "" {
		noKey = fmt.Sprintf("no key: the field %q is absent or has no text", name)
	}
	return &builder{noKey: noKey, keys: map[string]string{}, texts: map[string]string{}}
}

// event sets e to the event of rec. It returns the reason if the line is broken, or "".
func (b *builder) event(rec *record, e *simulate.Event) (reason string) {
	*e = simulate.Event{Cost: 1, Limited: string(rec[fieldStatus]) == "429"}
	at := rec[fieldTime]
	if present(rec[fieldDate]) && !isTime(at) {
		b.date = append(append(append(b.date[:0], rec[fieldDate]...), ' '), at...)
		at = b.date
	}
	if e.At, reason = b.times.parse(at); reason != "" {
		return reason
	}
	if !present(rec[fieldKey]) {
		return b.noKey
	}
	if e.Key = intern(b.keys, rec[fieldKey], key); e.Key == "" {
		return notAlone
	}
	if cost := rec[fieldCost]; present(cost) {
		n, err := strconv.ParseUint(string(cost), 10, strconv.IntSize-1)
		if err != nil {
			return "the cost is not a whole number from 1 on"
		}
		if n == 0 {
			return "the cost is 0, which only asks for the state"
		}
		e.Cost = int(n)
	}
	if plan := rec[fieldPlan]; present(plan) {
		e.Plan = intern(b.texts, plan, unchanged)
	}
	if b.request(rec); present(b.text) {
		e.Request = intern(b.texts, b.text, unchanged)
	}
	return ""
}

// request sets b.text to the method and path of the request of rec, or to the name of its route.
func (b *builder) request(rec *record) {
	b.text = b.text[:0]
	switch {
	case present(rec[fieldRequest]):
		if method, target, ok := splitRequest(rec[fieldRequest]); ok {
			b.join(method, target)
			return
		}
		text := rec[fieldRequest]
		if text[0] == '/' || bytes.Contains(text, []byte("://")) {
			text = pathOf(text)
		}
		b.text = append(b.text, text...)
	case present(rec[fieldTarget]):
		if method := rec[fieldMethod]; present(method) {
			b.join(method, rec[fieldTarget])
			return
		}
		b.text = append(b.text, pathOf(rec[fieldTarget])...)
	default:
		b.text = append(b.text, rec[fieldRoute]...)
	}
}

func (b *builder) join(method, target []byte) {
	b.text = append(b.text, method...)
	b.text = append(b.text, ' ')
	b.text = append(b.text, pathOf(target)...)
}

// splitRequest returns the parts of a request line, with or without a version of HTTP at its end. ok
// is false if text is another text.
func splitRequest(text []byte) (method, target []byte, ok bool) {
	method, target, ok = bytes.Cut(text, []byte(" "))
	for _, c := range method {
		ok = ok && (c >= 'A' && c <= 'Z' || c == '-')
	}
	if i := bytes.LastIndex(target, []byte(" HTTP/")); i >= 0 {
		target = target[:i]
	}
	return method, target, ok && present(method) && len(target) > 0
}

// pathOf returns the path of the target of a request (RFC 9112 section 3.2), which may be a URL.
func pathOf(target []byte) []byte {
	if i := bytes.IndexAny(target, "?#"); i >= 0 {
		target = target[:i]
	}
	if target = bytes.TrimSpace(target); len(target) == 0 || target[0] == '/' {
		return target
	}
	if i := bytes.Index(target, []byte("://")); i >= 0 {
		host := target[i+len("://"):]
		if i := bytes.IndexByte(host, '/'); i >= 0 {
			return host[i:]
		}
		return []byte("/")
	}
	return target
}

// private has the addresses of proxies: private, loopback and link-local ones.
var private = keyfunc.Proxies("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "169.254.0.0/16", "::/64", "fc00::/7", "fe80::/10")

// IsPrivate reports whether key is that of a private, loopback or link-local address, such as that of a proxy.
func IsPrivate(key string) bool { return private.ContainsKey(key) }

// key returns the key of a client with this address or name, or "" if text contains an address and other text.
func key(text string) string {
	if address, err := keyfunc.CanonicalIP(text); err == nil {
		return address
	}
	if hasAddress(text) {
		return clientOfList(text)
	}
	return text
}

// clientOfList returns the key of the client of a list of addresses as in X-Forwarded-For or Forwarded: the last one
// that is not private, or else the first one. It returns "" if text is not such a list.
func clientOfList(text string) (client string) {
	for element := range strings.SplitSeq(text, ",") {
		address, err := keyfunc.CanonicalIP(forwardedFor(element))
		if err != nil {
			return ""
		}
		if client == "" || !IsPrivate(address) {
			client = address
		}
	}
	return client
}

// forwardedFor returns the parameter "for" of an element of Forwarded. Any other text is unchanged.
func forwardedFor(element string) string {
	for parameter := range strings.SplitSeq(element, ";") {
		if name, value, _ := strings.Cut(parameter, "="); strings.EqualFold(strings.TrimSpace(name), "for") {
			return strings.Trim(value, `"`)
		}
	}
	return element
}

func isAddress(text string) bool {
	_, err := keyfunc.CanonicalIP(text)
	return err == nil
}

// hasAddress reports whether a part of text is an address, as in a list or in the fields X-Forwarded-For and Forwarded.
func hasAddress(text string) bool {
	separates := func(r rune) bool {
		return !unicode.IsGraphic(r) || unicode.IsSpace(r) || strings.ContainsRune(",;=\"'[]", r)
	}
	return slices.ContainsFunc(strings.FieldsFunc(text, separates), isAddress)
}

func unchanged(text string) string { return text }

// intern returns value(text), the same string for the same text as long as there are not too many.
func intern(texts map[string]string, text []byte, value func(string) string) string {
	if s, ok := texts[string(text)]; ok {
		return s
	}
	name := string(text)
	s := value(name)
	if len(s) > maxText {
		return shorten(s)
	}
	if len(text) <= maxInternedText {
		if len(texts) >= maxInterned {
			clear(texts)
		}
		texts[name] = s
	}
	return s
}

// shorten returns the beginning of a text and the hash of the whole, so that other texts stay others.
func shorten(text string) string {
	begin := strings.ToValidUTF8(text[:maxText-2*sha256.Size], "")
	return fmt.Sprintf("%s%x", begin, sha256.Sum256([]byte(text)))
}
