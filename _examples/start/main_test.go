package main

import (
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
	p = demotest.Start(t, "PASSWORD=secret", "REDIS_ADDR=127.0.0.1:1")
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
	first := p.Do(t, "GET", "/notes", free, "X-Forwarded-For: 192.0.2.1, 203.0.113.9").Remaining(t, "ip")
	for client, same := range map[string]bool{"192.0.2.2, 203.0.113.9": true, "203.0.113.10": false} {
		if got := p.Do(t, "GET", "/notes", free, "X-Forwarded-For: "+client).Remaining(t, "ip"); (got < first) != same {
			t.Errorf("%s: got %d left after %d, want less: %t", client, got, first, same)
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
		`weir_requests_total{plan="",result="denied",rule="user"} 2`)
	p.Do(t, "GET", "/debug/limits").WantStatus(t, 401)
	p.Do(t, "GET", "/debug/limits", "Authorization: Basic OnNlY3JldA==").WantStatus(t, 200)
}

// The steps of docs/start.md are lines of the program, or lines that a later step replaces by another value of the same
// variable or field.
func TestStepsOfTheDocumentation(t *testing.T) {
	program, err := os.ReadFile("main.go")
	demotest.Must(t, err)
	page, err := os.ReadFile("../../docs/start.md")
	demotest.Must(t, err)
	known := map[string]bool{}
	assigned := regexp.MustCompile(`^([\w, ]+ :=|[\w.]+\()`)
	for line := range strings.Lines(string(program)) {
		line = strings.TrimSpace(line)
		known[line] = true
		if name := assigned.FindString(line); name != "" {
			known[name] = true
		}
	}
	steps := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	lines := 0
	for _, step := range steps {
		if strings.Contains(step[1], "guest :=") || strings.Contains(step[1], "package main") {
			continue // another choice; the first step
		}
		for line := range strings.Lines(step[1]) {
			line = strings.TrimSpace(line)
			if lines++; !known[line] && !known[assigned.FindString(line)] {
				t.Errorf("the program has no line %q", line)
			}
		}
	}
	if lines < 40 {
		t.Errorf("got %d lines, want those of all steps", lines)
	}
}
