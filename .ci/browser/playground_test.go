package browser

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// build builds the program weir of this tree.
func build(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir")
	c := exec.Command("go", "build", "-o", file, "github.com/weir-go/weir/cmd/weir")
	c.Dir = module
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
	must(t, err)
	must(t, c.Start())
	t.Cleanup(func() {
		must(t, c.Process.Signal(os.Interrupt))
		if err := c.Wait(); err != nil {
			t.Errorf("after SIGINT: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`).FindString(line)
	if address == "" {
		t.Fatalf("weir playground prints %q", line)
	}
	return address
}

// files serves the page of make playground as files.
func files(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	c := exec.Command("go", "run", "github.com/weir-go/weir/cmd/weir/internal/playground/static", dir)
	c.Dir = filepath.Join(module, "..", "..")
	out, err := c.CombinedOutput()
	t.Logf("%s", out)
	must(t, err)
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	return server.URL + "/"
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
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	must(t, json.Unmarshal(text, &s))
	if len(s.Lanes) != 5 {
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
	for _, algorithm := range []string{"fixed_window", "token_bucket", "leaky_bucket", "sliding_log", "sliding_window"} {
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

// A stranger sees that two algorithms admit twice the limit, and uses the page without a mouse.
func TestPlayground(t *testing.T) {
	address, b := playground(t), Open(t)
	b.Show(1200, 900, "light")
	b.Go(address)
	b.waitTable(runOf(t, address, ""))
	b.Wait("#verdict", "Within one minute, the fixed window admits 200 and the token bucket 199. The others never admit more than 100.")
	const most = `[...document.querySelectorAll('.lane .most, .lane .ratio')].map(part => part.textContent).join(', ')`
	if got := Eval[string](b, most); got != "200, twice the limit, 199, almost twice the limit, 100, ✓ within the limit; waits up to 59 s, 100, ✓ within the limit, 100, ✓ within the limit" {
		t.Errorf("the lanes show %s", got)
	}
	t.Logf("drawn %.0f ms after the navigation", Eval[float64](b, "performance.getEntriesByType('measure')[0]?.duration ?? 0"))
	b.Fits()
	b.Picture("playground-light", 1500)
	b.Show(1200, 900, "dark")
	if color := Eval[string](b, "getComputedStyle(document.body).backgroundColor"); color != "rgb(13, 17, 23)" {
		t.Errorf("the background of the dark theme is %s", color)
	}
	b.Picture("playground-dark", 1500)
	b.Show(390, 844, "light")
	b.Go(address)
	b.waitTable(runOf(t, address, ""))
	b.Fits()
	b.Picture("playground-phone", 1500)
	b.Show(1200, 900, "light")
	b.Go(address)
}
