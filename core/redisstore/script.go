package redisstore

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/weir-go/weir/core/driver"
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
	opCredit = 'g'
	opDebit  = 'd'
	opUndo   = 'r'

	// What a rule that is not enforced makes of the first two: it does not count for
	// the decision, and is taken if it fits.
	opShadowSpend = 'h'
	opShadowPeek  = 'o'
)

var opOf = [...]byte{
	driver.Spend: opSpend, driver.Peek: opPeek, driver.Reset: opReset,
	driver.Credit: opCredit, driver.Debit: opDebit, driver.Undo: opUndo,
}

func opFor(c *driver.Charge) byte {
	if c.Rule.Shadow() {
		switch c.Op {
		case driver.Spend:
			return opShadowSpend
		case driver.Peek:
			return opShadowPeek
		}
	}
	return opOf[c.Op]
}

// timed begins a shape whose script reports the time, too. No algorithm has this number.
const timed = '\x00'

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
		a, op := algorithmAt(shape, i), shape[i+1]
		section := a.sections(i/2+1, first)
		reads.WriteString(section("read"))
		reports = append(reports, section("report"))
		fit := "(" + section("fits") + ")"
		if a.queue {
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
		case opReset:
			fmt.Fprintf(&spend, "call('DEL', KEYS[%d])\n", i/2+1)
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
		first += a.arguments
	}
	if isTimed {
		reports = append(reports, "now")
	}
	brief := ""
	if len(shape) == 2 && shape[1] == opSpend && !isTimed {
		brief = algorithmAt(shape, 0).sections(1, 2)("brief")
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
		add(algorithmAt(shape, i).source["functions"])
	}
	for i := 0; i < len(shape); i += 2 {
		if op := shape[i+1]; op == opCredit || op == opUndo {
			add(algorithmAt(shape, i).source["adjust"])
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

// algorithmAt returns the algorithm that a shape names at i.
func algorithmAt(shape string, i int) *algorithm { return algorithmOf(driver.Algorithm(shape[i])) }

// sections returns the sections of the algorithm for the n-th charge, whose
// arguments begin at ARGV[first].
func (a *algorithm) sections(n, first int) func(name string) string {
	r := strings.NewReplacer("I_N", fmt.Sprint(n), "A_N", fmt.Sprint(first-1), "M_N", fmt.Sprint(first-1+a.arguments),
		"_N", fmt.Sprintf("_%d", n), "QUEUE", fmt.Sprint(a.queue))
	return func(name string) string { return r.Replace(a.source[name]) }
}
