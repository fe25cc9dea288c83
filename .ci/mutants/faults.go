package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A fault was mended once. It comes back if old is replaced by with, and test, a package and a pattern of
// tests, then fails.
type fault struct {
	name, file, old, with, test string
}

// mutant returns the change that puts f back.
func (f fault) mutant(root string) (m mutant, err error) {
	m.file, m.name, m.with = filepath.Join(root, f.file), f.file, f.with
	text, err := os.ReadFile(m.file)
	if err != nil {
		return m, err
	}
	m.text = string(text)
	if n := strings.Count(m.text, f.old); n != 1 {
		return m, fmt.Errorf("the fault %q: its text is in %s %d times: write down how the fault comes back now", f.name, f.file, n)
	}
	m.from = strings.Index(m.text, f.old)
	m.to = m.from + len(f.old)
	m.line = 1 + strings.Count(m.text[:m.from], "\n")
	return m, nil
}

var faults = []fault{
	{
		"the files of uploads stay on disk", "core/gate/adapter/copyback.go",
		"original.MultipartForm = r.MultipartForm", "_ = r", "nethttplimit ^TestContract$/^uploads$",
	},
	{
		"metrics around a gate lose the route", "core/gate/adapter/copyback.go",
		"original.Pattern = r.Pattern", "_ = r", "ginlimit ^TestContract$/^outer_readers$",
	},
	{
		"X-RateLimit-* describe places beside a rate", "core/gate/headers.go",
		"return o.policy.places", "_ = o", "core/gate ^TestInFlight_Fields$",
	},
	{
		"an inner gate adds RateLimit to X-RateLimit-*", "core/gate/headers.go",
		"return around.versions()", "return around.versions() | rec.gate.versions", "core/gate ^TestNested$",
	},
	{
		"Check cannot be settled", "core/gate/record.go",
		"return rec.reservation.Decision().Allowed", "return !rec.gate.check && rec.reservation.Decision().Allowed", "core/gate ^TestCheck",
	},
	{
		"Check removes the Content-Encoding of a middleware", "core/gate/check.go",
		`"Content-Length", "Etag"`, `"Content-Length", "Content-Encoding", "Etag"`, "echolimit ^TestContract$/^Check$/^compressed$",
	},
	{
		"CONNECT avoids a strict route", "core/internal/routes/table.go",
		"others = append(others, clean)", "_ = clean", "core/internal/frameworks ^TestSet_ForRequest_CatchAll$",
	},
	{
		"FirstOf goes on although a handler reads the body", "keyfunc/combine.go",
		"unread != nil && !used()", "unread != nil && used == nil", "core/internal/frameworks ^TestFirstOf_",
	},
	{
		"a body that was read before has no key", "internal/requestbody/requestbody.go",
		"len(data) == 0 && r.ContentLength > 0", "len(data) < 0", "keyfunc ^TestFirstOf_Bodies$",
	},
	{
		"each spelling of a cookie has a limit", "keyfunc/header.go",
		"decoded(cookies[0].Value, url.QueryUnescape)", "cookies[0].Value", "core/internal/frameworks ^TestValues_Spellings$",
	},
	{
		"a key server that fails is silent", "keyfunc/jwt_verify.go",
		"!errors.Is(err, ErrNoKey)", "false", "keyfunc ^TestJWTSubject_Log$",
	},
	{
		"a word before the address is the key of a log", "cmd/weir/internal/trace/log.go",
		"!second && p.kind(words[0]) == anAddress", "!second", "cmd/weir/internal/trace ^TestLog_Client$",
	},
	{
		"a page of another origin reads the limits", "core/inspect/handler.go",
		"return protection.Check(&post) != nil", "return false", "core/inspect ^TestHandler_Origin$",
	},
	{
		"bidirectional characters reach the terminal", "cmd/weir/names.go",
		"unicode.Cc, unicode.Cf,", "unicode.Cc,", "cmd/weir ^TestR",
	},
	{
		"the place of a request that is not served stays taken", "core/gate/in_flight.go",
		"if end := places(rec); end != nil {\n\t\tend()", "if end := places(rec); end != nil {\n\t\t_ = end", "core/gate ^TestInFlight",
	},
	{
		"a second ask about a pause says that its limit is Unlimited", "core/event.go",
		"case !v.Allowed && rule.isPause():", "case !v.Allowed && rule.isPause() && v.Rule == rule.d.compiled:", "core/storetest ^TestRun_",
	},
	{
		"a denial by a pause in memory is that of one cost", "core/denycache/entry.go",
		"d.cost = 1 // denies all costs alike", "_ = d", "core/denycache ^TestStore_Take_Pause$",
	},
}
