package inspect

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// The commands of a key depend on why it is denied.
func TestHandler_Commands(t *testing.T) {
	config, err := rules.Parse("Redis", []byte(`{policies: {api: {rules: [{name: stop, algorithm: pause}, {name: s, algorithm: sliding_log, limit: 1/d, plans: {gold: 5/d, banned: blocked}}], keys: {"in file": {blocked: true}}},
		gate: {rules: [{name: closed, algorithm: pause}]}}}`))
	testkit.Must(t, err)
	store := observe.New(memstore.New())
	set, err := rules.New(store, config, rules.Overrides(rules.Redis(redistest.Shared(t).Client(), "test", rules.Prefix("inspect:"))))
	testkit.Must(t, err)
	api, err := set.Limiter("api")
	testkit.Must(t, err)
	h := newHandler(t, everybody, store, Rules(set))
	testkit.Allow(t, api, "used up")
	testkit.Must(t, set.Block(t.Context(), "api", "blocked", time.Now().Add(time.Hour)))
	testkit.Must(t, set.Override(t.Context(), "api", "slow", rules.Override{Limits: map[string]core.Limit{"s": core.PerDay(1)}}))
	testkit.Must(t, set.Override(t.Context(), "api", "lawless", rules.Override{Plan: "gold"}))
	testkit.Allow(t, api, "slow")
	testkit.Must(t, api.Pause(t.Context(), "paused", time.Hour))
	gate, err := set.Limiter("gate")
	testkit.Must(t, err)
	testkit.Must(t, gate.Pause(t.Context(), "elsewhere", time.Hour))
	for _, c := range []struct{ key, plan, decision, override, commands string }{
		{"new", "", "Admitted", "", "override api new block api new 24h"},
		{"used up", "", "Denied: the next event", "", "reset api 'used up' override api 'used up' block api 'used up' 24h"},
		{"blocked", "", "Blocked: every event is denied for ", "{blocked: true, until", "unblock api blocked"},
		{"slow", "", "Denied: the next event", "{limits: {s: 1/d}}", "remove api slow reset api slow override api slow"},
		{"lawless", "", "Admitted", "{plan: gold}", "remove api lawless override api lawless"},
		{"in file", "", "Blocked: every event is denied.", "{blocked: true}", "override api 'in file'"},
		{"paused", "", "Paused by the rule api.stop: every event is denied for ", "", "reset -rule stop api paused override api paused block api paused 24h"},
		{"elsewhere", "", "Paused by the rule gate.closed", "", "reset -rule closed gate elsewhere block gate elsewhere 24h"},
		{"new", "banned", "Blocked: every event is denied.", "", "override api new block api new 24h"},
		{"\x1b[2J", "", "Admitted", "", ""},
	} {
		l := reportOf(t, h, url.Values{"key": {c.key}, "plan": {c.plan}}).Key.Limits[0]
		var got []string
		for _, command := range l.Commands {
			_, args, _ := strings.Cut(command.Line, "-prefix inspect: ")
			args, _, _ = strings.Cut(args, " '{")
			got = append(got, args)
		}
		if !strings.HasPrefix(l.Decision, c.decision) || !strings.HasPrefix(l.Override, c.override) || strings.Join(got, " ") != c.commands {
			t.Errorf("%s %s: got %q, %q and %q", c.key, c.plan, l.Decision, l.Override, got)
		}
	}
}

// The number of blocked keys is that of the keys that the page shows as blocked.
func TestHandler_BlockedKeys(t *testing.T) {
	config, err := rules.Parse("Redis", []byte(`{policies: {api: {rules: [{name: s, algorithm: sliding_log, limit: 1/d, plans: {gold: 5/d}}],
		keys: {"in file": {blocked: true}, freed: {blocked: true}, "old in file": {blocked: true, until: 2020-01-01T00:00:00Z}}}}}`))
	testkit.Must(t, err)
	store, source := observe.New(memstore.New()), rules.Redis(redistest.Shared(t).Client(), "test", rules.Prefix("counts:"))
	set, err := rules.New(store, config, rules.Overrides(source))
	testkit.Must(t, err)
	store.Add(set)
	h := newHandler(t, everybody, store, Rules(set))
	testkit.Must(t, set.Block(t.Context(), "api", "blocked", time.Time{}))
	ended := time.Now().Add(-time.Second).UnixMilli()
	testkit.Must(t, redistest.Shared(t).Client().Do(t.Context(), "ZADD", "counts:test:{rules:test}blocks", ended, keyhash.New(nil).Tag("ended")+":api").Err())
	testkit.Must(t, set.Override(t.Context(), "api", "by override", rules.Override{Blocked: true}))
	testkit.Must(t, set.Override(t.Context(), "api", "freed", rules.Override{Plan: "gold"}))
	go func() { _ = set.Watch(t.Context(), source) }()
	for deadline := time.Now().Add(time.Minute); source.Stats().Age < 0 && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
	shown := 0
	for _, key := range []string{"in file", "freed", "old in file", "blocked", "ended", "by override"} {
		if strings.HasPrefix(reportOf(t, h, url.Values{"key": {key}}).Key.Limits[0].Decision, "Blocked") {
			shown++
		}
	}
	cards := view{h.report(t.Context(), question{})}.Cards()
	for _, c := range cards {
		if c.ID == "blocks" && c.Value == fmt.Sprint(shown) && shown == 3 {
			return
		}
	}
	t.Errorf("got the cards %v, and %d keys are shown as blocked, want 3", cards, shown)
}

// An operator finds a key by the address of a client, and by a name with another word.
func TestHandler_Similar(t *testing.T) {
	store := observe.New(memstore.New())
	api := testkit.Limiter(t, store, core.SlidingLog("api", core.PerDay(9)))
	testkit.Allow(t, api, "2001:db8::/64")
	testkit.Allow(t, api, "user:ann")
	h := newHandler(t, everybody, store, Limiters(api))
	for key, want := range map[string]string{"2001:db8::7": "[2001:db8::/64]", "ann": "[user:ann]", "basic:ann": "[user:ann]", "user:bob": "[]"} {
		if got := fmt.Sprint(reportOf(t, h, url.Values{"key": {key}}).Key.Similar); got != want {
			t.Errorf("%s: got %s, want %s", key, got, want)
		}
	}
}

// A line contains nothing that any shell executes: neither the shells that it is for, nor PowerShell or cmd.exe.
func TestHandler_CommandCharacters(t *testing.T) {
	config, err := rules.Parse("Redis", []byte(`{policies: {api: {rules: [{name: s, algorithm: sliding_log, limit: 1/d, plans: {gold: 2/d, "a & b": 3/d, "1": 4/d}}]}}}`))
	testkit.Must(t, err)
	page := func(config *rules.Config) (*Handler, *rules.Set) {
		store := observe.New(memstore.New())
		set, err := rules.New(store, config, rules.Overrides(rules.Redis(redistest.Shared(t).Client(), "test", rules.Prefix("characters:"))))
		testkit.Must(t, err)
		return newHandler(t, everybody, store, Rules(set)), set
	}
	h, set := page(config)
	const end = "which can have a meaning in a shell."
	const other = "The configuration has a name with a character that can have a meaning in a shell."
	look := func(h *Handler, key string, lines int, reason string) {
		t.Helper()
		l := reportOf(t, h, url.Values{"key": {key}}).Key.Limits[0]
		if len(l.Commands) != lines || l.NoCommand != reason {
			t.Errorf("%q: got %q and the reason %q, want %d lines and %q", key, l.Commands, l.NoCommand, lines, reason)
		}
		for _, c := range l.Commands {
			if words := strings.Split(c.Line, "'"); len(words)%2 == 0 || strings.ContainsAny(c.Line, "\\\"&|<>^%!`$;()#\r\n") {
				t.Errorf("%q: got %s", key, c.Line)
			}
		}
		body := ask(h, "POST", "/", url.Values{"key": {key}}).Body.String()
		if (reason != "") != strings.Contains(body, "There is no command to copy: ") || !strings.Contains(body, "bash, zsh, fish and sh, not for PowerShell and cmd.exe") {
			t.Errorf("%q: the page does not name the shells, or the reason", key)
		}
		if strings.Contains(body, `class="copy"`) != (lines > 0) {
			t.Errorf("%q: the page has another number of lines than %d", key, lines)
		}
	}
	for _, key := range []string{
		"user:ann", "ip:2001:db8::/64", "203.0.113.0/24", "body:user:ann@example.com", "used up", "ключ", "用户ー", "é", "e\u0301", "user@1:b:a", "@ann", "join:1:a3:b:c",
		"join?-1:a", "a,b", "=x", "~x", "{a}", "[a]*", "a+b", "x--y", "key=value",
	} {
		look(h, key, 2, "")
	}
	for _, c := range "'\"&|<>^%!$;()#\\`\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\uff02\uff06\uff07\uff5c\u2013\u2026\u00b4\u00a0\u200b\u202e\u2028\u0085\x00\x1b\n\r\t\ufffd" {
		look(h, "x"+string(c)+"calc", 0, fmt.Sprintf("The key contains %#U, %s", c, end))
	}
	look(h, "x\xffy", 0, fmt.Sprintf("The key contains %#U, %s", '\ufffd', end))
	look(h, "x' ; calc ; '", 0, fmt.Sprintf("The key contains %#U, %s", '\'', end))
	// A plan, or the file of the configuration, may have such a name.
	testkit.Must(t, set.Override(t.Context(), "api", "planned", rules.Override{Plan: "a & b"}))
	look(h, "planned", 1, other)
	testkit.Must(t, set.Override(t.Context(), "api", "one", rules.Override{Plan: "1", Until: time.Now().Add(time.Hour)}))
	look(h, "one", 1, other) // the quotes of the plan are necessary
	testkit.Must(t, set.Override(t.Context(), "api", "golden", rules.Override{Plan: "gold", Until: time.Now().Add(time.Hour)}))
	look(h, "golden", 2, "")
	windows := *config
	windows.Name = `C:\limits.yaml`
	h, _ = page(&windows)
	look(h, "k", 0, other)
}

// A Reset of an in-flight rule takes the places of running events away.
func TestHandler_ResetInFlight(t *testing.T) {
	config, err := rules.Parse("Redis", []byte(`{policies: {api: {rules: [{name: running, algorithm: in_flight, limit: 1}]}}}`))
	testkit.Must(t, err)
	store := observe.New(memstore.New())
	set, err := rules.New(store, config, rules.Overrides(rules.Redis(redistest.Shared(t).Client(), "test", rules.Prefix("places:"))))
	testkit.Must(t, err)
	api, err := set.Limiter("api")
	testkit.Must(t, err)
	r, err := api.Reserve(t.Context(), "k", 1)
	testkit.Must(t, err)
	commands := reportOf(t, newHandler(t, everybody, store, Rules(set)), url.Values{"key": {"k"}}).Key.Limits[0].Commands
	testkit.Must(t, r.Release(t.Context()))
	if got := commands[0]; got.Effect != "Let the key in: forget its events; those that run lose their places" || !strings.HasSuffix(got.Line, " reset api k") {
		t.Errorf("got %+v", got)
	}
	if got := commands[1]; got.Effect != "Give the key another limit until the time in the line: change 1 there" || !strings.Contains(got.Line, "{limits: {running: 1}, until: ") {
		t.Errorf("got %+v", got)
	}
}

// During an outage the page says that overrides cannot be read, and still answers in time.
func TestHandler_Outage(t *testing.T) {
	server := redistest.NewServer(t)
	config, err := rules.Parse("Redis", []byte(`{policies: {api: {rules: [{name: s, algorithm: sliding_log, limit: 1/d}]}}}`))
	testkit.Must(t, err)
	store := observe.New(memstore.New())
	set, err := rules.New(store, config, rules.Overrides(rules.Redis(server.Client(), "test")), rules.OnError(func(error) {}))
	testkit.Must(t, err)
	h := newHandler(t, everybody, store, Rules(set))
	testkit.Must(t, server.Pause())
	defer func() { testkit.Must(t, server.Resume()) }()
	begun := time.Now()
	l := reportOf(t, h, url.Values{"key": {"k"}}).Key.Limits[0]
	if l.Unread == "" || l.Override != "" || l.Used || l.Decision != "Admitted." || time.Since(begun) > 5*time.Second {
		t.Errorf("got %+v after %v", l, time.Since(begun))
	}
}
