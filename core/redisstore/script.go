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

// shadow marks an op of a shape whose rule is a shadow: it does not count for the decision,
// and is done if it fits.
const shadow = 1 << 7

// opByte is the op of c in a shape.
func opByte(c *driver.Charge) byte {
	if c.Rule.Shadow() && c.Op.Asks() {
		return byte(c.Op) | shadow
	}
	return byte(c.Op)
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
		a, op, isShadow := algorithmAt(shape, i), driver.Op(shape[i+1]&^shadow), shape[i+1]&shadow != 0
		section := a.sections(i/2+1, first)
		reads.WriteString(section("read"))
		reports = append(reports, section("report"))
		switch op {
		case driver.Spend, driver.Peek:
			fit, take := "("+section("fits")+")", ""
			if a.queue {
				fit = "(" + fit + " and " + section("wait") + ")"
			}
			if op == driver.Spend {
				take = section("spend")
			}
			if isShadow {
				fmt.Fprintf(&spend, "if %s then\n%selse\n%send\n", fit, take, section("touch"))
			} else {
				fits = append(fits, fit)
				spend.WriteString(take)
			}
			touch.WriteString(section("touch"))
		case driver.Reset:
			fmt.Fprintf(&spend, "call('DEL', KEYS[%d])\n", i/2+1)
		case driver.Debit:
			spend.WriteString(section("debit"))
		case driver.Credit:
			spend.WriteString(section("credit"))
		case driver.Undo:
			spend.WriteString(section("undo"))
			first += receiptArguments
		default:
			panic(fmt.Sprintf("redisstore: no op has the number %d", op))
		}
		if op == driver.Spend || op == driver.Debit {
			corrupt = append(corrupt, section("corrupt"))
		}
		first += a.arguments
	}
	if isTimed {
		reports = append(reports, "now")
	}
	brief := ""
	if len(shape) == 2 && shape[1] == byte(driver.Spend) && !isTimed {
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
		if op := driver.Op(shape[i+1]); op == driver.Credit || op == driver.Undo {
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
