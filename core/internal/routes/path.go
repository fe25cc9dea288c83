package routes

import (
	"net/url"
	"path"
	"strings"
)

// routed returns the path of the pattern of a router, up to a part that stands for any number of
// segments. exact reports whether there is no such part.
func routed(pattern string) (path string, exact bool) {
	i := strings.IndexByte(pattern, '/')
	if i < 0 {
		return "", false
	}
	pattern = withoutNames(pattern[i:])
	if path, exact = strings.CutSuffix(pattern, "{$}"); exact {
		return path, true
	}
	if i := strings.LastIndex(pattern, "/{"); i >= 0 && strings.HasSuffix(pattern, "...}") {
		return pattern[:i+1], false
	}
	path, _, found := strings.Cut(pattern, "*")
	return path, !found && path[len(path)-1] != '/'
}

// withoutNames returns pattern with "{}", escaped, in place of each {name} or {name:expression}. It
// keeps {$} and {name...}.
func withoutNames(pattern string) string {
	var b strings.Builder
	depth, begin := 0, 0
	for i, c := range []byte(pattern) {
		switch {
		case c == '{' && depth == 0:
			depth, begin = 1, i
		case c == '{':
			depth++
		case c == '}' && depth == 1:
			depth = 0
			if name := pattern[begin+1 : i]; name == "$" || strings.HasSuffix(name, "...") {
				b.WriteString(pattern[begin : i+1])
			} else {
				b.WriteString("%7B%7D")
			}
		case c == '}' && depth > 1:
			depth--
		case depth == 0:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// within reports whether path begins with prefix, in which a segment with : or { stands for any
// segment.
func within(path, prefix string) bool {
	for {
		want, prefixes, more := strings.Cut(prefix, "/")
		segment, rest, ok := strings.Cut(path, "/")
		if segment = unescape(segment); !more {
			return strings.HasPrefix(segment, want)
		}
		if want = unescape(want); !ok || segment != want && !strings.ContainsAny(want, ":{") {
			return false
		}
		path, prefix = rest, prefixes
	}
}

// cleanPath returns p as [http.ServeMux] cleans it.
func cleanPath(p string) string {
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	clean := path.Clean(p)
	if p[len(p)-1] != '/' || clean == "/" {
		return clean
	}
	if len(p) == len(clean)+1 && p[:len(clean)] == clean {
		return p
	}
	return clean + "/"
}

func unescape(segment string) string {
	if s, err := url.PathUnescape(segment); err == nil {
		return s
	}
	return segment
}

// formsOf returns the escaped path of u, and the same with decoded slashes. others are the forms in which
// some handlers read it: with slashes for backslashes, as file systems of Windows, and decoded twice, as
// Static of Echo 4.
func formsOf(u *url.URL) (forms, others []string) {
	forms = append(forms, u.EscapedPath())
	if strings.Contains(forms[0], "%") {
		if once := escape(u.Path); once != forms[0] {
			forms = append(forms, once)
		}
		if strings.Contains(u.Path, `\`) {
			others = append(others, escape(strings.ReplaceAll(u.Path, `\`, "/")))
		}
		if twice, err := url.PathUnescape(u.Path); err == nil && twice != u.Path {
			others = append(others, escape(strings.ReplaceAll(twice, `\`, "/")))
		}
	}
	return forms, others
}

func escape(path string) string { return (&url.URL{Path: path}).EscapedPath() }

// maxLooked is the length of a path above which only its head is looked up.
const maxLooked = 4 << 10

// head returns the first n segments of an escaped path, and the beginning of each that is longer than size
// bytes when it is decoded.
func head(path string, n, size int) string {
	segments := strings.SplitN(path, "/", n+2) // the first one is empty, the last one the rest
	segments = segments[:min(n+1, len(segments))]
	size = 3 * (size + 1)
	for i, s := range segments {
		if len(s) <= size {
			continue
		}
		if s = s[:size]; strings.Contains(s[size-2:], "%") { // an escape that is cut
			s = s[:strings.LastIndexByte(s, '%')]
		}
		segments[i] = s
	}
	return strings.Join(segments, "/")
}

// moreSpecific reports whether p has more literal segments than q, or as many, and more segments.
func moreSpecific(p, q route) bool {
	literals, segments := segmentsOf(p)
	others, all := segmentsOf(q)
	return literals > others || literals == others && segments > all
}

// segmentsOf returns the number of segments of a pattern. {$} is literal: nothing may follow.
func segmentsOf(p route) (literals, segments int) {
	_, path, _ := strings.Cut(string(p), "/")
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" || strings.HasSuffix(segment, "...}") {
			break
		}
		if segments++; segment[0] != '{' || segment == "{$}" {
			literals++
		}
	}
	return literals, segments
}
