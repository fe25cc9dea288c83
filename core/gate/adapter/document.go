package adapter

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/unexported"
)

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
