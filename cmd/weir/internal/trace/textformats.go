package trace

import (
	"fmt"
	"slices"
	"strings"
)

// A textFormat is a format whose lines have the same texts between the values of fields. line is in the syntax of the
// directive log_format of nginx: a name after "$" is a field. A line may end after the last field that is needed. has is
// a text that every line has and few other lines have, so that those are recognized without a parser.
type textFormat struct{ name, line, has string }

// textFormats are the formats that are recognized, the first of them first.
var textFormats = []textFormat{
	{"the common or combined log format", clientFirst + `$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for"`, `] "`},
	{"the log of Gin", `[GIN] $date - $time |$status|$latency|$client_ip|$method "$path"`, "[GIN] "},
	{"the log of chi", `$date $time "$request" from $remote_addr - $status $bytes`, `" from `},
	{"the log of chi with request IDs", `$date $time [$request_id] "$request" from $remote_addr - $status $bytes`, `" from `},
	{"the httplog of HAProxy", `$remote_addr [$time_local] $frontend $backend $timers $status $bytes $captured "$request"`, " ["},
	{"the log of Elastic Load Balancing", `$time $elb $remote_addr $target $request_time $target_time $response_time $status $target_status $received $sent "$request"`, ` "`},
	{"the log of Envoy", `[$start_time] "$request" $status $response_flags $bytes_received $bytes_sent $duration $upstream_time "$http_x_forwarded_for"`, `] "`},
}

// clientFirst is the beginning of a format whose first fields are read by [textParser.client].
const clientFirst = "$remote_addr - $remote_user ["

// A segment is a field of a textFormat.
type segment struct {
	name   string
	end    string // the text after the value; empty for the rest of the line
	quoted bool   // the value is in quotation marks, the last of which is the first byte of end
	reason string // if a line has no such segment
}

// segmentsOf returns the text before the first field, and the fields of f.
func segmentsOf(f textFormat) (begin string, segments []segment, err error) {
	begin, rest, more := strings.Cut(f.line, "$")
	before, reason := begin, "not a line of "+f.name
	for more {
		name := rest
		if inner, after, ok := strings.Cut(rest, "}"); ok && strings.HasPrefix(rest, "{") {
			name, rest = inner[1:], after
		} else {
			end := strings.IndexFunc(rest, func(r rune) bool { return !isVariable(r) })
			if end >= 0 {
				name = rest[:end]
			}
			rest = rest[len(name):]
		}
		s := segment{name: name, reason: reason}
		s.end, rest, more = strings.Cut(rest, "$")
		s.quoted = strings.HasSuffix(before, `"`) && strings.HasPrefix(s.end, `"`)
		switch {
		case name == "" || strings.ContainsFunc(name, func(r rune) bool { return !isVariable(r) }):
			return "", nil, fmt.Errorf("%q has a $ without the name of a field", f.line)
		case s.end == "" && more:
			return "", nil, fmt.Errorf("%q has no text after $%s", f.line, name)
		case name == "request":
			s.reason, reason = "the request has no end", ""
		case name == "status" && reason == "":
			s.reason = "no status after the request"
		case reason == "":
			s.reason = "no " + name + " in the line"
		}
		before = s.end
		segments = append(segments, s)
	}
	return begin, segments, nil
}

func isVariable(r rune) bool {
	return r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// list returns the names of segments.
func list(segments []segment) string {
	var names []string
	for _, s := range segments {
		if !slices.Contains(names, s.name) {
			names = append(names, s.name)
		}
	}
	return strings.Join(names, ", ")
}
