package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// A server forgets its scripts while 64 goroutines use them.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	const goroutines, calls, limit = 64, 40, 1000
	server := redistest.NewServer(t)
	admin := server.Client()
	for _, mode := range modes {
		for _, rules := range [][]core.Rule{
			{core.TokenBucket("bucket", core.PerDay(limit))},
			{core.SlidingLog("log", core.PerDay(limit))},
			{core.TokenBucket("both bucket", core.PerDay(limit)), core.SlidingLog("both log", core.PerDay(2*limit))},
		} {
			t.Run(mode.name+"/"+rules[0].Name(), func(t *testing.T) {
				rdb := server.Client()
				s := redisstore.New(rdb, append([]redisstore.Option{prefix(), redisstore.Timeout(patience)}, mode.opts...)...)
				l := limiter(t, s, rules...)
				var made, admitted atomic.Int64
				var wg sync.WaitGroup
				for range goroutines {
					wg.Go(func() {
						for range calls {
							if made.Add(1)%100 == 1 {
								if err := admin.ScriptFlush(context.Background()).Err(); err != nil {
									t.Error(err)
								}
							}
							d, err := l.Allow(t.Context(), "k")
							if err != nil {
								t.Error(err)
							}
							if d.Allowed {
								admitted.Add(1)
							}
						}
					})
				}
				wg.Wait()
				if n := admitted.Load(); n != limit {
					t.Errorf("%d of %d were admitted, want %d", n, goroutines*calls, limit)
				}
				for i, n := range used(t, l, "k") {
					if n != limit {
						t.Errorf("rule %d has used %d, want %d", i, n, limit)
					}
				}
				if s.Stats().Retried == 0 {
					t.Error("no script was ever missing, so nothing was tested")
				}
			})
		}
	}
}

// A server that comes back with an empty memory has neither scripts nor state.
func TestScriptRestart(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			s := redisstore.New(server.Client(), append([]redisstore.Option{prefix(), redisstore.Timeout(patience)}, mode.opts...)...)
			l := limiter(t, s, dailyRules()...)
			spend(t, l, "k", 700)
			must(t, server.Stop())
			must(t, server.Start())
			eventually(t, func() error {
				_, err := l.Peek(t.Context(), "k")
				return err
			})
			if got := used(t, l, "k"); !slices.Equal(got, []int{0, 0}) {
				t.Errorf("an empty server says that %v are used", got)
			}
			spend(t, l, "k", 1000)
		})
	}
}

// lua reads the files of the scripts.
func lua(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("lua/*.lua")
	if err != nil || len(names) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	files := make(map[string]string, len(names))
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(filepath.Base(name), ".lua")] = string(text)
	}
	return files
}

// Every file says first what it is given, what it gives back and in what units.
func TestScriptHeaders(t *testing.T) {
	t.Parallel()
	for name, text := range lua(t) {
		header, _, _ := strings.Cut(text, "\n\n")
		want := []string{"-- " + name + ": ", "State", "Arguments", "Reading", "TTL", "us"}
		if name == "take" {
			want = []string{"-- take: ", "KEYS", "ARGV", "Returns", "microseconds", "milliseconds"}
			header, _, _ = strings.Cut(text, "\nlocal ")
		}
		for _, word := range want {
			if !strings.Contains(header, word) {
				t.Errorf("the header of %s.lua does not say %q", name, word)
			}
		}
	}
}

var (
	luaComment = regexp.MustCompile(`--[^\n]*`)
	luaLiteral = regexp.MustCompile(`'[^'\n]*'`)
	luaText    = regexp.MustCompile(`(struct\.pack|(string\.)?format|string\.sub|table\.concat|log_header|unpack)\([^()]*\)`)
	luaNumber  = regexp.MustCompile(`math\.\w+\([^()]*\)`)
	luaInner   = regexp.MustCompile(`([-+*/(,] ?)\([^()]*\)`)
	luaCall    = regexp.MustCompile(`\bp?call\(([^()]*)\)`)
	luaAny     = regexp.MustCompile(`\bp?call\(`)
	luaLeft    = regexp.MustCompile(`[\w.']+\s*$`)
	luaRight   = regexp.MustCompile(`^\s*[\w.']+`)
	luaKnown   = regexp.MustCompile(`^('text'|KEYS\[\w+\]|[\w.]+\.bytes|-?\d{1,5})$`)
)

// luaTexts are the variables that hold text, and the numbers that stay so small
// that every version of Redis writes them out.
var luaTexts = []string{
	"key", "value", "member", "extended", "name", "score",
	"chunk.width", "width", // bytes, 4 to 7
	"rank", "newest", // ranks in a sorted set
}

func isLuaText(operand string) bool {
	operand = strings.TrimSpace(operand)
	return slices.Contains(luaTexts, operand) || luaKnown.MatchString(operand)
}

// A Lua number becomes text with 14 digits, which is not enough for a time, and
// as an argument of a command 1e+8 on some servers. So numbers must be formatted
// by string.format.
func TestScriptNumbers(t *testing.T) {
	t.Parallel()
	commands := 0
	for name, source := range lua(t) {
		source = luaComment.ReplaceAllString(source, "")
		source = luaLiteral.ReplaceAllString(source, "'text'")
		source = strings.ReplaceAll(source, "(...)", "('text')") // arguments are checked at the caller
		for before := ""; before != source; {
			before = source
			source = luaText.ReplaceAllString(source, "'text'")
			source = luaNumber.ReplaceAllString(source, "number")
			source = luaInner.ReplaceAllString(source, "${1}number")
		}
		if strings.Contains(source, "tostring") {
			t.Errorf("%s: tostring", name)
		}
		pieces := strings.Split(source, "..")
		for i := range len(pieces) - 1 {
			for _, operand := range []string{luaLeft.FindString(pieces[i]), luaRight.FindString(pieces[i+1])} {
				if !isLuaText(operand) {
					t.Errorf("%s: %q is joined to a text", name, operand)
				}
			}
		}
		calls := luaCall.FindAllStringSubmatch(source, -1)
		if all := luaAny.FindAllString(source, -1); len(all) != len(calls) {
			t.Errorf("%s: %d of %d commands have arguments that this test cannot read", name, len(all)-len(calls), len(all))
		}
		for _, m := range calls {
			commands++
			for _, arg := range strings.Split(m[1], ",") {
				if !isLuaText(arg) {
					t.Errorf("%s: %q in %q", name, arg, m[0])
				}
			}
		}
	}
	if commands < 10 {
		t.Errorf("only %d commands were found", commands)
	}
}

// A script is made of what its rules need, and no more: all of it costs time on
// every call.
func TestScriptSize(t *testing.T) {
	t.Parallel()
	bucket, log := core.TokenBucket("b", core.PerSecond(1)), core.SlidingLog("l", core.PerSecond(1))
	one, other, both := redisstore.Script(bucket), redisstore.Script(log), redisstore.Script(log, bucket)
	if one == other || len(both) <= max(len(one), len(other)) || len(both) >= len(one)+len(other) {
		t.Errorf("scripts of %d, %d and together %d bytes", len(one), len(other), len(both))
	}
	rdb := redistest.Shared(t).Client()
	for _, source := range []string{one, other, both} {
		if err := rdb.ScriptLoad(t.Context(), source).Err(); err != nil {
			t.Errorf("a script does not compile: %v", err)
		}
	}
}

// Lua allows 200 local variables; as many rules as are allowed have room.
func TestScriptMost(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	choices := map[string]func(int) int{"all": func(i int) int { return i % len(algorithms) }}
	for n, a := range algorithms {
		choices[a.name] = func(int) int { return n }
	}
	for name, algorithm := range choices {
		t.Run(name, func(t *testing.T) {
			s := redisstore.New(rdb, prefix(), redisstore.Timeout(patience))
			var rules []core.Rule
			for i := range redisstore.MaxCharges + 1 {
				rules = append(rules, algorithms[algorithm(i)].rule(fmt.Sprint("rule ", i), core.Per(10+i, century)))
			}
			most := limiter(t, s, rules[:redisstore.MaxCharges]...)
			spend(t, most, "k", 3)
			for i, n := range used(t, most, "k") {
				if n != 3 {
					t.Errorf("rule %d has used %d, want 3", i, n)
				}
			}
			if d := ask(t, most, "k", 8); d.Allowed || d.State(0).Allowed || !d.State(redisstore.MaxCharges-1).Allowed {
				t.Errorf("%+v", d)
			}
			if _, err := most.Reset(t.Context(), "k"); err != nil {
				t.Error(err)
			}
			spend(t, most, "k", 10)
			if _, err := core.New(s, rules...); !errors.Is(err, core.ErrInvalidRule) {
				t.Errorf("a rule more than the most: %v", err)
			}
			d, err := core.AllowTogether(t.Context(),
				core.Ask{Limiter: most, Key: "k", Cost: 1}, core.Ask{Limiter: limiter(t, s, rules[redisstore.MaxCharges:]...), Key: "k", Cost: 1})
			if !errors.Is(err, driver.ErrInvalidCharge) || d.Allowed {
				t.Errorf("a charge more than the most: %+v, %v", d, err)
			}
		})
	}
}
