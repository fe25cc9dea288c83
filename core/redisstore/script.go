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
	opCredit = 'g' // core.Credit
	opDebit  = 'd' // into debt, if need be
	opUndo   = 'r'

	// What a rule that is not enforced makes of the first two: it does not count for
	// the decision, and is taken if it fits.
	opShadowSpend = 'h'
	opShadowPeek  = 'o'
)

var opOf = [...]byte{
	core.Spend: opSpend, core.Peek: opPeek, core.Reset: opReset,
	core.Credit: opCredit, core.Debit: opDebit, core.Undo: opUndo,
}

func opFor(c *core.Charge) byte {
	if c.Rule.IsShadow() {
		switch c.Op {
		case core.Spend:
			return opShadowSpend
		case core.Peek:
			return opShadowPeek
		}
	}
	return opOf[c.Op]
}

// A shape that begins with this may have to be undone, so its script reports the
// time.
const timed = '+'

// receiptArguments is how many arguments the receipt of an undo has.
const receiptArguments = 4

// MaxCharges is how many charges of one slot can be decided together: Lua has
// 200 local variables, and a charge needs nine.
const MaxCharges = 16

// compose writes the script of a shape, two bytes for every charge: the
// algorithm and the op. See take.lua.
func compose(shape string) *script {
	shape, isTimed := strings.CutPrefix(shape, string(timed))
	var (
		reads, spend, touch strings.Builder
		fits                = []string{"true"}
		corrupt             = []string{"0"}
		reports             []string
		first               = 2 // of the charge's arguments in ARGV
	)
	for i := 0; i < len(shape); i += 2 {
		p, op := programOf(shape[i]), shape[i+1]
		section := p.sections(i/2+1, first)
		if op == opReset {
			fmt.Fprintf(&reads, "call('DEL', KEYS[%d])\n", i/2+1)
		}
		reads.WriteString(section("read"))
		reports = append(reports, section("report"))
		fit := "(" + section("fits") + ")"
		if p.queue {
			fit = "(" + fit + " and " + section("wait") + ")"
		}
		switch op {
		case opSpend:
			fits = append(fits, fit)
			spend.WriteString(section("spend"))
			touch.WriteString(section("touch"))
		case opShadowSpend:
			fmt.Fprintf(&spend, "if %s then\n%selse\n%send\n", fit, section("spend"), section("touch"))
			touch.WriteString(section("touch"))
		case opPeek:
			fits = append(fits, fit)
			touch.WriteString(section("touch"))
		case opShadowPeek:
			fmt.Fprintf(&spend, "if not %s then\n%send\n", fit, section("touch"))
			touch.WriteString(section("touch"))
		case opDebit:
			spend.WriteString(section("debit"))
		case opCredit:
			spend.WriteString(section("credit"))
		case opUndo:
			spend.WriteString(section("undo"))
			first += receiptArguments
		}
		if op == opSpend || op == opShadowSpend || op == opDebit {
			corrupt = append(corrupt, section("corrupt"))
		}
		first += p.arguments
	}
	if isTimed {
		reports = append(reports, "now")
	}
	brief := ""
	if len(shape) == 2 && shape[1] == opSpend && !isTimed {
		brief = programOf(shape[0]).sections(1, 2)("brief")
	}
	report := strings.Join(reports, ", ")
	var b strings.Builder
	b.WriteString(prelude + functions(shape) + reads.String())
	fmt.Fprintf(&b, "if %s then\n%s%sreturn { 1, %s, %s }\nend\n", strings.Join(fits, " and "), spend.String(),
		briefly(brief, "brief"), strings.Join(corrupt, " + "), report)
	fmt.Fprintf(&b, "%s%sreturn { 2, 0, %s }\n", touch.String(), briefly(brief, "-1 - brief"), report)
	sum := sha1.Sum([]byte(b.String())) // the name by which EVALSHA knows it
	return &script{source: b.String(), sha: hex.EncodeToString(sum[:])}
}

// functions are those that the shape needs, each once.
func functions(shape string) string {
	var b strings.Builder
	known := make(map[string]bool)
	add := func(text string) {
		if !known[text] {
			known[text] = true
			b.WriteString(text)
		}
	}
	for i := 0; i < len(shape); i += 2 {
		add(programOf(shape[i]).source["functions"])
	}
	for i := 0; i < len(shape); i += 2 {
		if op := shape[i+1]; op == opCredit || op == opUndo {
			add(programOf(shape[i]).source["telling"])
		}
	}
	return b.String()
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
	r := strings.NewReplacer("I_N", fmt.Sprint(n), "A_N", fmt.Sprint(first-1), "M_N", fmt.Sprint(first-1+p.arguments),
		"_N", fmt.Sprintf("_%d", n), "QUEUE", fmt.Sprint(p.queue))
	return func(name string) string { return r.Replace(p.source[name]) }
}
