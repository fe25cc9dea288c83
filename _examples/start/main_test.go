package main

import (
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// start starts the example without a Redis, and returns it with the tokens that it prints, as header fields.
func start(t *testing.T) (p *demotest.Process, free, pro string) {
	t.Helper()
	p = demotest.Start(t, "PASSWORD=secret", "REDIS_ADDR=127.0.0.1:1", "LIMITS=limits.yaml")
	tokens := regexp.MustCompile(`export \w+=(\S+)`).FindAllStringSubmatch(p.Output(), -1)
	if len(tokens) != 2 {
		t.Fatalf("got %d tokens, want 2: %s", len(tokens), p.Output())
	}
	return p, "Authorization: Bearer " + tokens[0][1], "Authorization: Bearer " + tokens[1][1]
}

func TestLimitsOfUsersAndPlans(t *testing.T) {
	p, free, pro := start(t)
	for plan, fields := range map[core.Limit]string{core.PerMinute(10): free, core.PerMinute(100): pro} {
		denied := demotest.Exhaust(t, plan, func() *demotest.Answer { return p.Do(t, "GET", "/notes", fields) })
		denied.WantDenied(t, "user")
	}
	for name, fields := range map[string][]string{"none": nil, "changed": {free + "x"}, "no bearer": {"Authorization: Basic YTpi"}} {
		t.Run("token: "+name, func(t *testing.T) { p.Do(t, "GET", "/notes", fields...).WantStatus(t, 401) })
	}
}

func TestAddressBehindProxy(t *testing.T) {
	p, free, _ := start(t)
	for range 100 {
		p.Do(t, "GET", "/notes", "X-Forwarded-For: 192.0.2.1, 203.0.113.9").WantStatus(t, 401)
	}
	for client, same := range map[string]bool{"192.0.2.2, 203.0.113.9": true, "203.0.113.10": false} {
		if got := p.Do(t, "GET", "/notes", free, "X-Forwarded-For: "+client).Remaining(t, "ip"); (got < 290) != same {
			t.Errorf("%s: got %d left of 300 after 100 requests of 203.0.113.9", client, got)
		}
	}
}

func TestGuessesOfPasswords(t *testing.T) {
	p, _, _ := start(t)
	guess := func(user, password string) int {
		return p.Post(t, "/login", "user="+user+"&password="+password, "Content-Type: application/x-www-form-urlencoded").Status
	}
	for i := range 9 {
		if got := guess("ann", strconv.Itoa(i)); got != 401 {
			t.Fatalf("guess %d: got status %d, want 401", i, got)
		}
	}
	if got := guess("ann", "correct+horse"); got != 200 {
		t.Fatalf("the password: got status %d, want 200", got)
	}
	var all []int
	for i := range 12 {
		all = append(all, guess([]string{"bob", "Bob", "+bob"}[i%3], strconv.Itoa(i)))
	}
	if want := slices.Concat(slices.Repeat([]int{401}, 10), []int{429, 429}); !slices.Equal(all, want) {
		t.Errorf("got the statuses %v, want %v", all, want)
	}
}

func TestHints(t *testing.T) {
	p, _, _ := start(t)
	demotest.RunHints(t, p, strings.Repeat("200 ", 10)+"429 429 \n", strings.Repeat("200 ", 12)+"\n", strings.Repeat("401 ", 10)+"429 429 \n",
		`weir_requests_total{plan="",result="denied",rule="notes.user"} 2`)
	p.Do(t, "GET", "/debug/limits").WantStatus(t, 401)
	p.Do(t, "GET", "/debug/limits", "Authorization: Basic OnNlY3JldA==").WantStatus(t, 200)
}

// The statements of the steps in docs/start.md are those of the program, or a later step or the program gives the same
// variable another value.
func TestStepsOfTheDocumentation(t *testing.T) {
	program, err := os.ReadFile("main.go")
	demotest.Must(t, err)
	page, err := os.ReadFile("../../docs/start.md")
	demotest.Must(t, err)
	known, names := statements(t, string(program)), map[string]bool{}
	for _, s := range known {
		names[variable(s)] = true
	}
	steps := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	count := 0
	for _, step := range steps {
		if strings.Contains(step[1], "guest :=") {
			continue // another choice
		}
		for _, s := range statements(t, step[1]) {
			if count++; !slices.Contains(known, s) && !names[variable(s)] && !strings.HasPrefix(s, "if err != nil") && !strings.HasPrefix(s, "log.Fatal") {
				t.Errorf("the program has no statement %s", s)
			}
		}
	}
	if count < 30 {
		t.Errorf("got %d statements, want those of all steps", count)
	}
}

// statements returns the statements of the functions in a file, or of a list of statements, without comments.
func statements(t *testing.T, src string) (all []string) {
	t.Helper()
	if !strings.Contains(src, "package main") {
		src = "package main\nfunc _() {\n" + src + "}"
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", src, 0)
	demotest.Must(t, err)
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		for _, s := range f.Body.List {
			var text strings.Builder
			demotest.Must(t, format.Node(&text, set, s))
			all = append(all, strings.Join(strings.Fields(text.String()), " "))
		}
	}
	return all
}

// variable returns the variable that a statement defines first.
func variable(statement string) string {
	return regexp.MustCompile(`^\w+(, \w+)* := `).FindString(statement)
}
