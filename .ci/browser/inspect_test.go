package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/inspect"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

// module is the directory of this module, in which the go command finds weir.
var module string

func TestMain(m *testing.M) {
	module, _ = os.Getwd()
	redistest.Main(m)
}

const limits = `policies:
  api:
    rules:
      - name: second
        algorithm: token_bucket
        limit: 5/s burst 20
        plans: {gold: 1000/s}
      - name: hour
        algorithm: sliding_log
        limit: 200/h
        soft: 50
        candidate: {algorithm: sliding_window, limit: 100/h}
`

// A service has limits in a file, overrides in Redis, a limiter in its code, and the page.
type service struct {
	redis *redistest.Server
	store *resilient.Store
	set   *rules.Set
	page  string // its address, with the password
}

func start(t *testing.T) *service {
	t.Helper()
	s := &service{redis: redistest.NewServer(t)}
	t.Chdir(t.TempDir())
	testkit.Must(t, os.WriteFile("limits.yaml", []byte(limits), 0o600))
	file := rules.File("limits.yaml")
	config, err := rules.Load(t.Context(), file)
	testkit.Must(t, err)
	rdb := s.redis.Client()
	s.store = resilient.New(rdb, "shop", resilient.Instances(1), resilient.Observe(observe.TopKeys(5)))
	t.Cleanup(func() { _ = s.store.Close() })
	s.set, err = rules.New(s.store, config, rules.Overrides(rules.RedisOf(s.store)))
	testkit.Must(t, err)
	s.store.Observer().Add(s.set)
	go func() { _ = s.set.Watch(t.Context(), file) }()

	api, err := s.set.Limiter("api")
	testkit.Must(t, err)
	byAddress := core.Must(core.New(s.store, core.SlidingWindow("address", core.PerMinute(150))))
	operator := func(r *http.Request) bool { _, password, _ := r.BasicAuth(); return password == "secret" }
	page := inspect.New(operator, s.store.Observer(), inspect.Limiters(byAddress), inspect.Rules(s.set))
	t.Cleanup(func() { _ = page.Close() })
	for user := range 40 {
		for range 4 + user {
			_, err := core.AllowTogether(t.Context(), core.Ask{Limiter: byAddress, Key: fmt.Sprint("203.0.113.", user%3)}, core.Ask{Limiter: api, Key: fmt.Sprint("user:", user)})
			testkit.Must(t, err)
		}
	}
	for range 320 {
		_, err := api.Plan("gold").Allow(t.Context(), "user:gold")
		testkit.Must(t, err)
	}
	server := httptest.NewServer(page)
	t.Cleanup(server.Close)
	s.page = strings.Replace(server.URL, "http://", "http://operator:secret@", 1) + "/debug/limits"
	return s
}

// An operator looks at the page, and finds why a customer is blocked.
func TestInspect(t *testing.T) {
	s, b := start(t), Open(t)
	testkit.Must(t, s.set.Block(t.Context(), "api", "user:7", time.Time{}))
	b.Show(1200, 900, "light")
	b.Go(s.page)
	b.Fits()
	b.figures(s.store.Observer().Snapshot())

	b.Tab("input[name=key]")
	b.Press("7\r") // without the word before the name
	b.Wait("#key .notice", "Nothing is known about this key")
	b.Tab("#key .notice button")
	b.Press("\r")
	b.Wait("#key", "Blocked: every event is denied.")
	b.Wait("#card-blocks strong", "1")
	b.Picture("inspect-light", 1345)
	b.Show(1200, 900, "dark")
	if color := Eval[string](b, "getComputedStyle(document.body).backgroundColor"); color != "rgb(13, 17, 23)" {
		t.Errorf("the background of the dark theme is %s", color)
	}
	b.Picture("inspect-dark", 1345)
	b.Show(390, 844, "light")
	b.Fits()
	b.Picture("inspect-phone", 2600)
	b.Show(1200, 900, "light")

	b.Tab("#key .copy")
	b.Press("\r")
	b.Wait("#key .copy", "Copied")
	command := b.Text("#key .commands code")
	if !strings.Contains(command, "unblock api user:7") {
		t.Fatalf("the first command is %q, want that which ends the block", command)
	}
	run(t, command)
	b.Wait("#key", "Admitted.") // without a click
	b.Tab("select[name=plan]")
	b.Press("g") // the plan gold
	b.Press("\r")
	b.Tab("button")
	b.Press("\r")
	b.Wait("#key h2", "with the plan gold")
	b.Wait("#key", "1000/s")
}

// The page shows an outage of Redis, and its end.
func TestInspect_Outage(t *testing.T) {
	s, b := start(t), Open(t)
	b.Show(1200, 900, "light")
	b.Go(s.page)
	b.Wait("#card-failover", "primary")
	testkit.Must(t, s.redis.Stop())
	api, err := s.set.Limiter("api")
	testkit.Must(t, err)
	b.Until(func() (string, bool) {
		_, _ = api.Allow(t.Context(), "user:1")
		got := b.Text("#card-failover")
		return got + b.Text("#problem"), strings.Contains(got, "backup")
	})
	b.Wait("#chart-results figcaption", "a backup decided")
	b.Picture("inspect-outage", 560)
	testkit.Must(t, s.redis.Start())
	b.Wait("#card-failover", "the primary store decides")
}

// The page without a password is not shown.
func TestInspect_Unauthorized(t *testing.T) {
	s := start(t)
	response, err := http.Get(strings.Replace(s.page, "operator:secret", "operator:wrong", 1))
	testkit.Must(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("got %s", response.Status)
	}
}

// figures compares the table of decisions with a snapshot.
func (b *Tab) figures(n *observe.Snapshot) {
	b.t.Helper()
	const all = `[...document.querySelectorAll('#decisions tbody tr')].map(row => [...row.cells].slice(0, 11).map(cell => cell.textContent.replace(/\u202f/g, '')).join(' '))`
	got := Eval[[]string](b, all)
	if len(got) != len(n.Series) || len(got) < 5 {
		b.t.Fatalf("got %d rows %q, want %d", len(got), got, len(n.Series))
	}
	for i, s := range n.Series {
		d := s.Decisions
		want := fmt.Sprint(s.Rule, " ", s.Plan, " ", d[driver.Allowed], " ", d[driver.Soft], " ", d[driver.Denied]+d[driver.NeverAllowed], " ", d[driver.Blocked], " ", d[driver.Banned], " ", d[driver.ShadowDenied], " ", d.Unknown(), " ", d[driver.Failed]+d[driver.Canceled], " ", s.Requests.Denied())
		if got[i] != want {
			b.t.Errorf("row %d is %q, want %q", i, got[i], want)
		}
	}
	total := n.Total()
	for card, want := range map[string]uint64{"decisions": total.Total(), "denied": total.Denied()} {
		if got := strings.ReplaceAll(b.Text("#card-"+card+" strong"), "\u202f", ""); got != fmt.Sprint(want) {
			b.t.Errorf("the card of %s shows %s, want %d", card, got, want)
		}
	}
	for selector, want := range map[string]uint64{"#chart-results .allowed + b": total[driver.Allowed], "#chart-results .denied + b": total.Denied(), "#chart-results .soft + b": total[driver.Soft], "#chart-binding .rule1 + b": n.Series[0].Requests.Denied()} {
		if got := strings.ReplaceAll(b.Text(selector), "\u202f", ""); got != fmt.Sprint(want) || want == 0 {
			b.t.Errorf("%s is %s, want %d", selector, got, want)
		}
	}
}

// run runs a command of the page in a shell, with the program weir of this tree.
func run(t *testing.T, command string) {
	t.Helper()
	shell := exec.Command("sh", "-c", command)
	shell.Env = append(os.Environ(), "PATH="+filepath.Dir(build(t))+":"+os.Getenv("PATH"))
	if out, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}
