package adapter

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/unexported"
)

// WriteProblem responds to r with the status of p and the problem document, or with a line of text
// if text/plain or text/html is first in Accept. The response to HEAD has no body. WriteProblem
// sets Content-Type, and X-Content-Type-Options to nosniff.
func WriteProblem(w http.ResponseWriter, r *http.Request, p *gate.Problem) {
	buffer := buffers.Get().(*[1 << 10]byte)
	defer buffers.Put(buffer)
	values := &[2]string{gate.ProblemMediaType, "nosniff"} // the path of the request is in the document
	body := buffer[:0]
	if accept := r.Header["Accept"]; len(accept) > 0 && wantsText(accept[0]) {
		values[0], body = "text/plain; charset=utf-8", append(body, p.String()...)
	} else {
		body = AppendProblem(body, p)
	}
	h := w.Header()
	h["Content-Type"], h["X-Content-Type-Options"] = values[0:1:1], values[1:2:2]
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(append(body, '\n')) // an error means that the client has gone
	}
}

// buffers holds the arrays of documents for reuse: a Writer must not keep the bytes of Write.
// Longer documents have an array of their own.
var buffers = sync.Pool{New: func() any { return new([1 << 10]byte) }}

// wantsText reports whether the first media range of accept is text/plain or text/html. Browsers
// name text/html first, and clients that read problem documents name another type first.
func wantsText(accept string) bool {
	first, _, _ := strings.Cut(accept, ",")
	first, _, _ = strings.Cut(first, ";")
	first = strings.Trim(first, " \t")
	return strings.EqualFold(first, "text/plain") || strings.EqualFold(first, "text/html")
}

// AppendProblem appends the problem document p to b, in JSON, byte for byte as encoding/json writes it. It
// takes a tenth of the time: under abuse, nearly every response is such a document.
func AppendProblem(b []byte, p *gate.Problem) []byte {
	if p.Type == unexported.TypeQuotaExceeded && p.Title == unexported.TitleOfQuota {
		b = append(b, `{"type":"`+unexported.TypeQuotaExceeded+`","title":"`+unexported.TitleOfQuota+`"`...)
	} else {
		b = appendQuoted(append(b, `{"type":`...), p.Type)
		b = appendMemberOf(b, `,"title":`, p.Title)
	}
	b = strconv.AppendInt(append(b, `,"status":`...), int64(p.Status), 10)
	b = appendMemberOf(b, `,"detail":`, p.Detail)
	b = appendMemberOf(b, `,"instance":`, p.Instance)
	for i, name := range p.Violated {
		separator := `,`
		if i == 0 {
			separator = `,"violated-policies":[`
		}
		b = appendQuoted(append(b, separator...), name)
	}
	if len(p.Violated) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

// appendMemberOf appends a member of an object, unless its value is empty.
func appendMemberOf(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return appendQuoted(append(b, name...), value)
}

// appendQuoted appends s as a string in JSON. It escapes quotes and backslashes, and leaves a text
// with other characters that encoding/json may escape to encoding/json.
func appendQuoted(b []byte, s string) []byte {
	n, begin := len(b), 0
	b = append(b, '"')
	for i := range len(s) {
		if !special[s[i]] {
			continue
		}
		if s[i] != '"' && s[i] != '\\' {
			quoted, _ := json.Marshal(s) // a string is never an error
			return append(b[:n], quoted...)
		}
		b = append(append(b, s[begin:i]...), '\\')
		begin = i
	}
	return append(append(b, s[begin:]...), '"')
}

// special contains the bytes that encoding/json does not always copy.
var special = func() (set [256]bool) {
	for c := range set {
		set[c] = c < ' ' || c > '~' || strings.IndexByte(`"\<>&`, byte(c)) >= 0
	}
	return set
}()
