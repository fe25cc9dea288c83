package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/weir-go/weir/internal/testkit"
)

// build builds the program weir of this tree.
func build(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir")
	c := exec.Command("go", "build", "-o", file, "github.com/weir-go/weir/cmd/weir")
	c.Dir = filepath.Join(module, "..", "..", "cmd", "weir")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

// playground runs weir playground until the end of the test, and returns the address of the page.
func playground(t *testing.T) string {
	t.Helper()
	c := exec.Command(build(t), "playground", "-addr", "127.0.0.1:0")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, c.Start())
	t.Cleanup(func() {
		testkit.Must(t, c.Process.Signal(os.Interrupt))
		if err := c.Wait(); err != nil {
			t.Errorf("after SIGINT: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	testkit.Must(t, err)
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`).FindString(line)
	if address == "" {
		t.Fatalf("weir playground prints %q", line)
	}
	return address
}

// files serves the files of make playground.
func files(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.FileServer(http.Dir(staticFiles(t))))
	t.Cleanup(server.Close)
	return server.URL + "/"
}

// staticFiles returns the directory with the files of make playground.
func staticFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	c := exec.Command("go", "run", "github.com/weir-go/weir/cmd/weir/internal/playground/static", dir)
	c.Dir = filepath.Join(module, "..", "..", "cmd", "weir")
	out, err := c.CombinedOutput()
	t.Logf("%s", out)
	testkit.Must(t, err)
	return dir
}

// A simulation is the part of a run that is in the table.
type simulation struct {
	Limit, Requests int
	Lanes           []struct {
		Algorithm, Response, Code                        string
		Admitted, Denied, Delay, Queue, Retry, Retry_max int
		Worst                                            struct{ Admitted int }
	}
}

func runOf(t *testing.T, address, query string) (s simulation) {
	t.Helper()
	response, err := http.Get(address + "run?" + query)
	testkit.Must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	testkit.Must(t, err)
	testkit.Must(t, json.Unmarshal(text, &s))
	if len(s.Lanes) != 6 {
		t.Fatalf("run?%s: %s", query, text)
	}
	return s
}

// rows returns the table as the page has to show it.
func (s simulation) rows() (rows []string) {
	seconds := func(n int, unit string) string {
		if n == 0 {
			return "–"
		}
		return fmt.Sprint(n) + unit
	}
	for _, algorithm := range []string{"fixed_window", "fixed_window_from_first", "token_bucket", "leaky_bucket", "sliding_log", "sliding_window"} {
		for _, l := range s.Lanes {
			if l.Algorithm != algorithm {
				continue
			}
			delay := "–"
			if l.Delay > 0 {
				delay = fmt.Sprint(float64(l.Delay)/1000, " s")
			}
			rows = append(rows, fmt.Sprint(l.Worst.Admitted, "|", l.Admitted, "|", l.Denied, "|", delay, "|", seconds(l.Retry, " s"), "|", seconds(l.Retry_max, " s"), "|", seconds(l.Queue, "")))
		}
	}
	return rows
}

const table = `[...document.querySelectorAll('#figures tbody tr')].map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent.replaceAll('\u202f', '')).join('|'))`

// waitTable waits until the table and the figures of the lanes are those of a run.
func (b *Tab) waitTable(s simulation) {
	b.t.Helper()
	want := s.rows()
	b.Until(func() (string, bool) {
		got := Eval[[]string](b, table)
		return fmt.Sprintf("the table has\n%q, want\n%q", got, want), slices.Equal(got, want)
	})
	const lanes = `[...document.querySelectorAll('.lane .most')].map(part => part.textContent.replaceAll('\u202f', ''))`
	for i, got := range Eval[[]string](b, lanes) {
		if worst, _, _ := strings.Cut(want[i], "|"); got != worst {
			b.t.Errorf("lane %d shows %s, want %s", i, got, worst)
		}
	}
}

func (b *Tab) waitQuery(want string) {
	b.t.Helper()
	b.Until(func() (string, bool) {
		got := Eval[string](b, "location.search")
		return fmt.Sprintf("the URL has %q, want %q", got, want), got == want
	})
}

// The first view shows that two algorithms admit twice the limit, in both themes and on a phone.
func TestPlayground_FirstView(t *testing.T) {
	address, b := playground(t), Open(t)
	b.Show(1200, 900, "light")
	b.Go(address)
	b.waitTable(runOf(t, address, ""))
	if got := runOf(t, address, "").rows(); !strings.HasPrefix(got[0], "200|") || !strings.HasPrefix(got[1], "100|") || !strings.HasPrefix(got[2], "199|") || !strings.HasPrefix(got[5], "100|") {
		t.Errorf("the run has %q", got)
	}
	b.Wait("#verdict", "Within one minute, the fixed window admits 200 and the token bucket 199. The others admit at most 100.")
	const most = `[...document.querySelectorAll('.lane .most, .lane .ratio')].map(part => part.textContent).join(', ')`
	if got := Eval[string](b, most); got != "200, twice the limit, 100, ✓ within the limit, 199, almost twice the limit, by its burst, 100, ✓ within the limit, 100, ✓ within the limit, 100, ✓ within the limit" {
		t.Errorf("the lanes show %s", got)
	}
	if got := Eval[int](b, "document.querySelectorAll('#fixed_window rect.admitted').length"); got != 4 {
		t.Errorf("the fixed window admits in %d bars, want two beside each of two edges", got)
	}
	t.Logf("drawn %.0f ms after the navigation", Eval[float64](b, "performance.getEntriesByName('drawn')[0].startTime"))
	b.checkLayout()
	b.Picture("playground-light", 1330)
	b.Show(1200, 900, "dark")
	if color := Eval[string](b, "getComputedStyle(document.body).backgroundColor"); color != "rgb(13, 17, 23)" {
		t.Errorf("the background of the dark theme is %s", color)
	}
	b.Picture("playground-dark", 1330)
	b.Show(768, 900, "light")
	b.checkLayout()
	b.Show(390, 844, "light")
	b.Go(address)
	b.waitTable(runOf(t, address, ""))
	b.checkLayout()
	if bottom := Eval[float64](b, "document.querySelector('#fixed_window .figure').getBoundingClientRect().bottom"); bottom > 844 {
		t.Errorf("the first figure ends at %v, below the first view of a phone", bottom)
	}
	b.Picture("playground-phone", 1700)
	b.Go(address + "?clients=10&traffic=steady&limit=500&burst=1000&per=h")
	b.waitTable(runOf(t, address, "clients=10&traffic=steady&limit=500&burst=1000&per=h"))
	b.Fits()
}

// checkLayout checks that the meters of all lanes have one width and one scale, and that nothing is cut off.
func (b *Tab) checkLayout() {
	b.t.Helper()
	b.Fits()
	const meters = `[...new Set([...document.querySelectorAll('.meter')].map(meter => { const r = meter.getBoundingClientRect(); return [r.left, r.width, meter.querySelector('.limit').getBoundingClientRect().left].map(Math.round).join(' '); }))]`
	if got := Eval[[]string](b, meters); len(got) != 1 {
		b.t.Errorf("the meters have the left ends, widths and limits %q", got)
	}
	const cut = `[...document.querySelectorAll('pre, .slider, .slider span, .choices label, .figure p')].filter(part => part.scrollWidth > part.clientWidth + 1 && part.clientWidth > 0).map(part => part.outerHTML.slice(0, 80))`
	if got := Eval[[]string](b, cut); len(got) > 0 {
		b.t.Errorf("cut off: %q", got)
	}
}

// The texts that depend on the run.
func TestPlayground_Texts(t *testing.T) {
	address, b := playground(t), Open(t)
	b.Show(1200, 900, "light")
	for query, texts := range map[string]map[string]string{
		"traffic=burst": {
			"#about": "Each client sends every 18.75 s, 46 or 47 requests at once.",
			"#sent":  "of one client. A bar is 5\u00a0s; the tallest has 47 requests.",
			"#when":  "It was sent 38 s after the beginning.",
		},
		"traffic=burst&per=h&rate=1&clients=2": {
			"#about":    "Each client sends every 18.75 min, 1 request at once.",
			"#sent":     "of 2 clients. The limit is for each of them; together, they may get 2 times as much. A bar is 5\u00a0min; the tallest has 1 request.",
			"#when":     "Nothing was denied. After 100 requests at once, it would be:",
			"#response": "Retry-After: 3615",
		},
		"algorithm=token_bucket&burst=280":                 {"#token_bucket .ratio": "3.8 times the limit, by its burst", "#which": "You promise “never more than 100 requests a minute”: the sliding window. It counts a request for up to 1 s longer than a minute"},
		"algorithm=token_bucket&traffic=steady&burst=1000": {"#when": "Nothing was denied. After 1000 requests at once, it would be:"},
		"traffic=steady&per=s&limit=1&rate=16":             {"#about": "Each client sends at equal intervals.", "#sent": "A bar is 83\u00a0ms; the tallest has 2 requests.", "#when": "It was sent 62 ms after the beginning."},
	} {
		b.Go(address + "?" + query)
		b.waitTable(runOf(t, address, query))
		for selector, want := range texts {
			if got := b.Text(selector); !strings.Contains(got, want) {
				t.Errorf("%s: %s is %q, want %q in it", query, selector, got, want)
			}
		}
	}
	const color = "getComputedStyle(document.querySelector('#token_bucket .ratio')).color"
	for query, want := range map[string]string{"burst=280": "rgb(154, 103, 0)", "burst=100": "rgb(154, 103, 0)", "traffic=steady&rate=80&burst=280": "rgb(26, 127, 55)"} {
		b.Go(address + "?" + query)
		b.waitTable(runOf(t, address, query))
		if got := Eval[string](b, color); got != want {
			t.Errorf("%s: the token bucket has the color %s, want %s", query, got, want)
		}
	}
}

// The page is used without a mouse, and its state is in the URL.
func TestPlayground_Keyboard(t *testing.T) {
	address, b := playground(t), Open(t)
	b.Show(1200, 900, "light")
	b.Go(address)
	b.waitTable(runOf(t, address, ""))
	b.Tab("input[name=traffic]")
	b.Press(kb.ArrowLeft)
	b.waitQuery("?traffic=burst")
	b.waitTable(runOf(t, address, "traffic=burst"))
	b.Tab("[data-of=limit]")
	b.Press("20")
	b.waitQuery("?traffic=burst&limit=20")
	b.waitTable(runOf(t, address, "traffic=burst&limit=20"))
	b.Press("00") // too many
	b.waitQuery("?traffic=burst&limit=500")
	b.Tab("#limit")
	b.Press(kb.Home + kb.ArrowRight)
	b.waitQuery("?traffic=burst&limit=2")
	if got := Eval[string](b, "document.querySelector('[data-of=burst]').value"); got != "2" {
		t.Errorf("the burst is %s, want the limit", got)
	}
	b.Tab("#per")
	b.Press("s")
	b.Tab("#burst")
	b.Press(kb.ArrowRight + kb.ArrowRight)
	b.Tab("#clients")
	b.Press(kb.ArrowRight)
	b.Tab("input[name=algorithm]")
	b.Press(kb.ArrowLeft)
	const state = "traffic=burst&algorithm=sliding_log&per=s&limit=2&burst=4&clients=2"
	b.waitQuery("?" + state)
	want := runOf(t, address, state)
	b.waitTable(want)
	b.Wait("h1", "limit a client to 2 requests a second")
	answer := func() {
		t.Helper()
		for _, l := range want.Lanes {
			if l.Algorithm != "sliding_log" {
				continue
			}
			if got := Eval[string](b, "document.getElementById('response').textContent"); got != l.Response || !strings.HasPrefix(got, "HTTP/1.1 429 ") {
				t.Errorf("the answer is %q, want %q", got, l.Response)
			}
			if got := Eval[string](b, "document.getElementById('code').textContent"); got != l.Code || !strings.Contains(got, "core.SlidingLog(") {
				t.Errorf("the program is %q, want %q", got, l.Code)
			}
		}
	}
	answer()
	b.allowClipboard()
	b.Tab("#copy")
	b.Press("\r")
	b.Wait("#copy", "Copied")
	copied, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("navigator.clipboard.readText()", chromedp.EvalAwaitPromise))
	if testkit.Must(t, err); copied != Eval[string](b, "document.getElementById('code').textContent") {
		t.Errorf("the clipboard has %q", copied)
	}

	b.Go(address + "?" + state)
	b.waitTable(want)
	answer()
	const controls = `[...document.querySelectorAll('#all :checked, [name=algorithm]:checked, #per, input[type=range]')].map(input => input.value).join(' ')`
	if got := Eval[string](b, controls); got != "burst 2 s s 4 150 2 sliding_log" {
		t.Errorf("the controls have %s", got)
	}
	b.Tab("#restore")
	b.Press("\r")
	b.waitQuery("?algorithm=sliding_log")
	b.waitTable(runOf(t, address, ""))
}

// allowClipboard gives the page the permission to read the clipboard.
func (b *Tab) allowClipboard() {
	b.check(chromedp.Do(b.ctx, chromedp.Func(func(ctx context.Context, to *chromedp.Target) error {
		_, err := cdp.Call(ctx, to, browser.SetPermission, browser.SetPermissionParams{
			Permission: &browser.PermissionDescriptor{Name: "clipboard-read"}, Setting: browser.PermissionSettingGranted,
		})
		return err
	})))
}

// A URL with a wrong value shows the reason, and the first state.
func TestPlayground_InvalidURL(t *testing.T) {
	address, b := playground(t), Open(t)
	b.Show(390, 844, "light")
	for query, want := range map[string]string{"limit=0": `limit is "0", and not a number from 1 to 500`, "algorithm=x": `algorithm is "x", and not one of fixed_window,`} {
		b.Go(address + "?" + query)
		b.Wait("#problem", want)
		b.waitTable(runOf(t, address, ""))
		b.waitQuery("")
		b.Wait("#problem", want)
		if top := Eval[float64](b, "document.getElementById('problem').getBoundingClientRect().top"); top < 0 || top > 50 {
			t.Errorf("the problem begins at %v, want it above all else", top)
		}
	}
	if p := b.Problems(); len(p) > 1 || len(p) == 1 && !strings.Contains(p[0], "400") {
		t.Errorf("the console shows %q, want the status of one answer", p)
	}
}

// A reply that comes after a newer one is not drawn.
func TestPlayground_LateReply(t *testing.T) {
	address, b := playground(t), Open(t)
	target, err := url.Parse(address)
	testkit.Must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorLog = log.New(io.Discard, "", 0) // the page has left
	asked, late := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "limit=20" {
			close(asked)
			<-late
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b.Show(1200, 900, "light")
	b.Go(server.URL)
	b.waitTable(runOf(t, address, ""))
	b.Tab("[data-of=limit]")
	b.Press("20")
	<-asked
	b.Press(kb.ArrowUp)
	b.waitTable(runOf(t, address, "limit=21"))
	close(late)
	b.Press(kb.ArrowUp)
	b.waitTable(runOf(t, address, "limit=22"))
}

// A slider that moves all the time is drawn, although each run takes longer than the page waits at first.
func TestPlayground_MovingSlider(t *testing.T) {
	b := Open(t)
	target, err := url.Parse(playground(t))
	testkit.Must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorLog = log.New(io.Discard, "", 0) // the page cancels requests
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/run" {
			select {
			case <-r.Context().Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b.Go(server.URL)
	b.Wait("#verdict", "Within one minute, the fixed window admits 200")
	Eval[bool](b, `(() => { let n = 0; const limit = document.getElementById('limit');
		setInterval(() => { limit.value = 200 + ++n % 100; limit.dispatchEvent(new Event('input', {bubbles: true})); }, 10); return true; })()`)
	b.Until(func() (string, bool) {
		text := b.Text("#verdict")
		return text, strings.HasPrefix(text, "Within one minute, the fixed window admits ") && !strings.Contains(text, "admits 200")
	})
}

// The page without a server shows the same figures.
func TestPlayground_Static(t *testing.T) {
	address, static, b := playground(t), files(t), Open(t)
	response, err := http.Head(static + "playground.wasm")
	testkit.Must(t, err)
	if kind := response.Header.Get("Content-Type"); kind != "application/wasm" {
		t.Errorf("the program is %s", kind)
	}
	b.Show(1200, 900, "light")
	for _, query := range []string{"", "traffic=poisson&limit=50&clients=3", "algorithm=leaky_bucket&traffic=steady&per=s&limit=20&burst=60&rate=40"} {
		b.Go(static + "?" + query)
		b.waitTable(runOf(t, address, query))
		t.Logf("%q: drawn %.0f ms after the navigation", query, Eval[float64](b, "performance.getEntriesByName('drawn')[0].startTime"))
	}
	b.Tab("#clients")
	b.Press(kb.ArrowRight)
	b.waitTable(runOf(t, address, "traffic=steady&per=s&limit=20&burst=60&rate=40&clients=2"))
	b.Go(static + "?per=x")
	b.Wait("#problem", `per is "x", and not one of s, m, h`)
	b.waitTable(runOf(t, address, ""))
}

// A page whose program cannot be loaded says it.
func TestPlayground_NoProgram(t *testing.T) {
	b := Open(t)
	dir := http.FileServer(http.Dir(staticFiles(t)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".wasm") {
			http.NotFound(w, r)
			return
		}
		dir.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b.Go(server.URL)
	b.Wait("#problem", "playground.wasm could not be loaded: the server answered with 404.")
	if p := b.Problems(); len(p) != 1 || !strings.Contains(p[0], "404") {
		t.Errorf("the console shows %q, want the status of one answer", p)
	}
}
