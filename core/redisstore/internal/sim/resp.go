package sim

import (
	"strconv"
	"strings"
)

// takeCommands takes the complete commands from in, which has the format of RESP.
func takeCommands(in []byte) (commands [][]string, rest []byte) {
	for {
		args, n := takeCommand(in)
		if args == nil {
			return commands, in
		}
		commands, in = append(commands, args), in[n:]
	}
}

// takeCommand returns the first command and its length, or nil if it is not complete.
func takeCommand(in []byte) ([]string, int) {
	at := 0
	number := func() int {
		n := 0
		for i := at + 1; i+1 < len(in); i++ {
			if in[i] == '\r' {
				at = i + 2
				return n
			}
			n = 10*n + int(in[i]-'0')
		}
		return -1
	}
	count := number()
	if count <= 0 {
		return nil, 0
	}
	args := make([]string, 0, count)
	for range count {
		if at >= len(in) {
			return nil, 0
		}
		size := number()
		if size < 0 || at+size+2 > len(in) {
			return nil, 0
		}
		args = append(args, string(in[at:at+size]))
		at += size + 2
	}
	return args, at
}

// An errorReply is the text of an error.
type errorReply string

// A status is a simple string.
type status string

// encode returns a reply in the format of RESP.
func encode(reply any) string {
	var b strings.Builder
	appendReply(&b, reply)
	return b.String()
}

func appendReply(b *strings.Builder, reply any) {
	head := func(kind byte, n int64) {
		b.WriteByte(kind)
		b.WriteString(strconv.FormatInt(n, 10))
		b.WriteString("\r\n")
	}
	switch r := reply.(type) {
	case nil:
		head('$', -1)
	case errorReply:
		b.WriteString("-" + string(r) + "\r\n")
	case status:
		b.WriteString("+" + string(r) + "\r\n")
	case string:
		head('$', int64(len(r)))
		b.WriteString(r + "\r\n")
	case int:
		head(':', int64(r))
	case int64:
		head(':', r)
	case []string:
		head('*', int64(len(r)))
		for _, s := range r {
			appendReply(b, s)
		}
	case []any:
		head('*', int64(len(r)))
		for _, v := range r {
			appendReply(b, v)
		}
	default:
		panic("sim: a reply of an unknown type")
	}
}
