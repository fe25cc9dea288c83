package redisstore

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/weir-go/weir/core"
)

// A script decides charges of one shape: a sequence of algorithms and ops.
type script struct {
	source string
	sha    any // a string, boxed once
}

// The ops as a shape spells them.
const (
	opSpend  = 's'
	opPeek   = 'p'
	opReset  = 'x'
	opGive   = 'g' // core.Refund: some number of events
	opRefund = 'r' // what one decision took, and nothing else
)

// A shape that begins with this is a part of a decision and may have to be
// refunded, so its script reports the time.
const partial = '+'

var opOf = [...]byte{core.Spend: opSpend, core.Peek: opPeek, core.Reset: opReset, core.Refund: opGive}

// MaxCharges is how many charges of one slot can be decided together: Lua has
// 200 local variables, and a charge needs nine.
const MaxCharges = 16

// compose writes the script of a shape, two bytes for every charge: the
// algorithm and the op. See take.lua.
func compose(shape string) *script {
	shape, isPart := strings.CutPrefix(shape, string(partial))
	var (
		b         strings.Builder
		fits      = []string{"true"}
		spend     strings.Builder
		touch     strings.Builder
		corrupt   = []string{"0"}
		reports   []string
		first     = 2 // of the charge's arguments in ARGV
		functions = make(map[string]bool)
	)
	b.WriteString(prelude)
	for i := 0; i < len(shape); i += 2 {
		if text := programOf(shape[i]).source["functions"]; !functions[text] {
			functions[text] = true
			b.WriteString(text)
		}
	}
	for i := 0; i < len(shape); i += 2 {
		p, op := programOf(shape[i]), shape[i+1]
		section := p.sections(i/2+1, first)
		if op == opReset {
			fmt.Fprintf(&b, "call('DEL', KEYS[%d])\n", i/2+1)
		}
		b.WriteString(section("read"))
		reports = append(reports, section("report"))
		switch op {
		case opSpend:
			fits = append(fits, "("+section("fits")+")")
			spend.WriteString(section("spend"))
			touch.WriteString(section("touch"))
			corrupt = append(corrupt, section("corrupt"))
		case opPeek:
			fits = append(fits, "("+section("fits")+")")
		case opGive:
			spend.WriteString(section("give"))
		case opRefund:
			spend.WriteString(section("refund"))
			first += 1 + p.readings
		}
		first += p.arguments
	}
	if isPart {
		reports = append(reports, "now")
	}
	brief := ""
	if len(shape) == 2 && shape[1] == opSpend && !isPart {
		brief = programOf(shape[0]).sections(1, 2)("brief")
	}
	report := strings.Join(reports, ", ")
	fmt.Fprintf(&b, "if %s then\n%s%sreturn { 1, %s, %s }\nend\n", strings.Join(fits, " and "), spend.String(),
		briefly(brief, "brief"), strings.Join(corrupt, " + "), report)
	fmt.Fprintf(&b, "%s%sreturn { 2, 0, %s }\n", touch.String(), briefly(brief, "-1 - brief"), report)
	sum := sha1.Sum([]byte(b.String())) // the name by which EVALSHA knows it
	return &script{source: b.String(), sha: hex.EncodeToString(sum[:])}
}

func briefly(brief, result string) string {
	if brief == "" {
		return ""
	}
	return "local brief = " + brief + "\nif brief then\n  return " + result + "\nend\n"
}

// sections returns the sections of the program for the n-th charge, whose
// arguments begin at ARGV[first].
func (p *program) sections(n, first int) func(name string) string {
	r := strings.NewReplacer("I_N", fmt.Sprint(n), "A_N", fmt.Sprint(first-1), "_N", fmt.Sprintf("_%d", n),
		"QUEUE", fmt.Sprint(p.queue))
	return func(name string) string { return r.Replace(p.source[name]) }
}
